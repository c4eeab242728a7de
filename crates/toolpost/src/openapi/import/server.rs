//! Servers of a document.

use std::sync::Arc;

use url::Url;

use super::super::document::Node;
use super::super::plan::{ServerTemplate, ServerVariable};
use super::Importer;
use super::version::SpecVersion;
use crate::json::ValuePath;

impl Importer<'_> {
    /// Returns the servers that a document, a path or an operation declares, if any.
    pub(super) fn servers(
        &mut self,
        owner: Node<'_>,
        doc_path: &ValuePath<'_>,
    ) -> Option<Arc<[ServerTemplate]>> {
        if self.version == SpecVersion::V2 {
            return self.swagger_servers(owner);
        }
        let doc_path = doc_path.member("servers");
        let mut servers = Vec::new();
        for (index, server) in owner.items_of("servers").enumerate() {
            servers.extend(self.parse_server(server, &doc_path.item(index)));
        }
        (!servers.is_empty()).then(|| servers.into())
    }

    /// Returns the default server: the root of the URL that the document was loaded from.
    pub(super) fn document_server(&self) -> Arc<[ServerTemplate]> {
        [server_without_variables(self.documents.root(), "/".to_owned())].into()
    }

    fn parse_server(
        &mut self,
        server: Node<'_>,
        doc_path: &ValuePath<'_>,
    ) -> Option<ServerTemplate> {
        let Some(url) = server.text("url") else {
            self.warn(doc_path, "a server has no `url`; it is ignored");
            return None;
        };
        let mut variables = Vec::new();
        let doc_path = doc_path.member("variables");
        for (name, variable) in server.members_of("variables") {
            variables.push(self.parse_variable(name, variable, &doc_path.member(name)));
        }
        let url = url.trim();
        for name in template_names(url) {
            if !variables.iter().any(|variable| variable.name == name) {
                let message = format!("`{{{name}}}` in the URL is not a variable of the server");
                self.warn(&doc_path, message);
            }
        }
        Some(ServerTemplate { variables, ..server_without_variables(server, url.to_owned()) })
    }

    fn parse_variable(
        &mut self,
        name: &str,
        variable: Node<'_>,
        doc_path: &ValuePath<'_>,
    ) -> ServerVariable {
        let allowed: Vec<String> =
            variable.items_of("enum").filter_map(|value| value.scalar_text()).collect();
        let default = variable.get("default").and_then(|value| value.scalar_text());
        if default.is_none() {
            self.warn(doc_path, "a variable of a server has no default");
        }
        let default = default.or_else(|| allowed.first().cloned()).unwrap_or_default();
        ServerVariable { name: name.to_owned(), default, allowed }
    }

    /// Returns the servers of Swagger 2.0. An operation can override only `schemes`.
    fn swagger_servers(&mut self, owner: Node<'_>) -> Option<Arc<[ServerTemplate]>> {
        let root = self.documents.root();
        let has_schemes = owner.get("schemes").is_some_and(|listed| listed.is_array());
        if !has_schemes && owner.node_ref() != root.node_ref() {
            return None;
        }
        let path = root.text("basePath").unwrap_or("/");
        let Some(host) = root.text("host").filter(|host| !host.is_empty()) else {
            return Some([server_without_variables(root, path.to_owned())].into());
        };
        let mut schemes: Vec<&str> = owner.texts_of("schemes").collect();
        schemes.retain(|scheme| matches!(*scheme, "http" | "https"));
        if schemes.is_empty() {
            schemes.push(document_base(root).map_or("https", Url::scheme));
        }
        // HTTPS is preferred.
        schemes.sort_unstable_by_key(|scheme| *scheme != "https");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let servers = schemes.into_iter().map(|scheme| {
            server_without_variables(root, format!("{scheme}://{host}{slash}{path}"))
        });
        Some(servers.collect())
    }
}

fn server_without_variables(declared_in: Node<'_>, url: String) -> ServerTemplate {
    let base = document_base(declared_in).cloned();
    ServerTemplate { url, base, variables: Vec::new() }
}

fn document_base(node: Node<'_>) -> Option<&Url> {
    Some(node.file_url()).filter(|url| matches!(url.scheme(), "http" | "https"))
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
