//! Servers of a document.

use std::sync::Arc;

use url::Url;

use super::super::document::{NodeRef, TreeNode};
use super::super::plan::{ServerTemplate, ServerVariable};
use super::super::schema::DocumentPath;
use super::Importer;
use super::version::SpecVersion;

impl Importer<'_> {
    /// Returns the servers that a document, a path or an operation declares, or `None` if it
    /// declares none.
    pub(super) fn servers(
        &mut self,
        owner: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Option<Arc<[ServerTemplate]>> {
        let documents = self.documents;
        let node = documents.node(owner);
        if self.version == SpecVersion::V2 {
            return self.swagger_servers(owner, node);
        }
        let listed = node.get("servers").filter(|listed| listed.items().len() > 0)?;
        let doc_path = doc_path.member("servers");
        let mut servers = Vec::new();
        for (index, server) in listed.items().enumerate() {
            servers.extend(self.parse_server(owner, server, &doc_path.item(index)));
        }
        (!servers.is_empty()).then(|| servers.into())
    }

    /// Returns the server that is used if none is declared: the root of the URL that the document
    /// was loaded from.
    pub(super) fn document_server(&self) -> Arc<[ServerTemplate]> {
        let base = self.document_base(self.documents.root());
        [ServerTemplate { url: "/".to_owned(), base, variables: Vec::new() }].into()
    }

    fn document_base(&self, node_ref: NodeRef) -> Option<Url> {
        let url = &self.documents.file(node_ref).url;
        matches!(url.scheme(), "http" | "https").then(|| url.clone())
    }

    fn parse_server(
        &mut self,
        owner: NodeRef,
        server: TreeNode<'_>,
        doc_path: &DocumentPath<'_>,
    ) -> Option<ServerTemplate> {
        let Some(url) = server.get("url").and_then(TreeNode::as_str) else {
            self.warn(doc_path, "a server has no `url`; it is left out");
            return None;
        };
        let mut variables = Vec::new();
        let doc_path = doc_path.member("variables");
        for (name, variable) in server.get("variables").into_iter().flat_map(TreeNode::members) {
            variables.push(self.parse_variable(name, variable, &doc_path.member(name)));
        }
        let url = url.trim();
        for name in template_names(url) {
            if !variables.iter().any(|variable| variable.name == name) {
                self.warn(
                    &doc_path,
                    format!("`{{{name}}}` of the address is no variable of the server"),
                );
            }
        }
        Some(ServerTemplate { url: url.to_owned(), base: self.document_base(owner), variables })
    }

    fn parse_variable(
        &mut self,
        name: &str,
        variable: TreeNode<'_>,
        doc_path: &DocumentPath<'_>,
    ) -> ServerVariable {
        let allowed: Vec<String> = variable
            .get("enum")
            .into_iter()
            .flat_map(TreeNode::items)
            .filter_map(scalar_text)
            .collect();
        let default = variable.get("default").and_then(scalar_text);
        if default.is_none() {
            self.warn(doc_path, "a variable of a server has no default");
        }
        let default = default.or_else(|| allowed.first().cloned()).unwrap_or_default();
        ServerVariable { name: name.to_owned(), default, allowed }
    }

    /// Returns the servers of Swagger 2.0 from `schemes`, `host` and `basePath`. An operation can
    /// override only `schemes`.
    fn swagger_servers(
        &mut self,
        owner: NodeRef,
        node: TreeNode<'_>,
    ) -> Option<Arc<[ServerTemplate]>> {
        let root = self.documents.root();
        let listed = node.get("schemes").filter(|listed| listed.is_array());
        if listed.is_none() && owner != root {
            return None;
        }
        let document = self.documents.node(root);
        let path = document.get("basePath").and_then(TreeNode::as_str).unwrap_or("/");
        let base = self.document_base(root);
        let Some(host) =
            document.get("host").and_then(TreeNode::as_str).filter(|host| !host.is_empty())
        else {
            return Some(
                [ServerTemplate { url: path.to_owned(), base, variables: Vec::new() }].into(),
            );
        };
        let mut schemes: Vec<&str> =
            listed.into_iter().flat_map(TreeNode::items).filter_map(TreeNode::as_str).collect();
        schemes.retain(|scheme| matches!(*scheme, "http" | "https"));
        if schemes.is_empty() {
            schemes.push(base.as_ref().map_or("https", Url::scheme));
        }
        // HTTPS is preferred.
        schemes.sort_unstable_by_key(|scheme| *scheme != "https");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let server = |scheme: &str| ServerTemplate {
            url: format!("{scheme}://{host}{slash}{path}"),
            base: base.clone(),
            variables: Vec::new(),
        };
        Some(schemes.into_iter().map(server).collect())
    }
}

/// Returns a string, number or boolean as text.
fn scalar_text(node: TreeNode<'_>) -> Option<String> {
    let text = node.as_str().map(str::to_owned);
    let number = || node.as_number().map(ToString::to_string);
    text.or_else(number).or_else(|| node.as_bool().map(|is| is.to_string()))
}

/// Returns the names in braces.
pub(super) fn template_names(template: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = template;
    while let Some((_, behind)) = rest.split_once('{') {
        let Some((name, after)) = behind.split_once('}') else { break };
        names.push(name);
        rest = after;
    }
    names
}
