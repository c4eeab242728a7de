//! Where a service is.

use std::sync::Arc;

use url::Url;

use super::super::document::{Node, Place};
use super::super::plan::{Server, Variable};
use super::super::schema::Spot;
use super::Importer;
use super::version::Version;

impl Importer<'_> {
    /// The servers that a document, a path or an operation names; `None` if it names none.
    pub(super) fn servers(&mut self, owner: Place, spot: &Spot<'_>) -> Option<Arc<[Server]>> {
        let library = self.library;
        let node = library.node(owner);
        if self.version == Version::V2 {
            return self.schemes(owner, node);
        }
        let listed = node.get("servers").filter(|listed| listed.items().len() > 0)?;
        let spot = spot.member("servers");
        let mut servers = Vec::new();
        for (index, server) in listed.items().enumerate() {
            servers.extend(self.server(owner, server, &spot.item(index)));
        }
        (!servers.is_empty()).then(|| servers.into())
    }

    /// What holds where no server is named: the place that the document came from.
    pub(super) fn own_server(&self) -> Arc<[Server]> {
        let base = self.base(self.library.root());
        [Server { url: "/".to_owned(), base, variables: Vec::new() }].into()
    }

    fn base(&self, place: Place) -> Option<Url> {
        let address = &self.library.file(place).address;
        matches!(address.scheme(), "http" | "https").then(|| address.clone())
    }

    fn server(&mut self, owner: Place, server: Node<'_>, spot: &Spot<'_>) -> Option<Server> {
        let Some(url) = server.get("url").and_then(Node::as_str) else {
            self.warn(spot, "a server has no `url`; it is left out");
            return None;
        };
        let mut variables = Vec::new();
        let spot = spot.member("variables");
        for (name, variable) in server.get("variables").into_iter().flat_map(Node::members) {
            variables.push(self.variable(name, variable, &spot.member(name)));
        }
        let url = url.trim();
        for name in template_names(url) {
            if !variables.iter().any(|variable| variable.name == name) {
                self.warn(
                    &spot,
                    format!("`{{{name}}}` of the address is no variable of the server"),
                );
            }
        }
        Some(Server { url: url.to_owned(), base: self.base(owner), variables })
    }

    fn variable(&mut self, name: &str, variable: Node<'_>, spot: &Spot<'_>) -> Variable {
        let allowed: Vec<String> =
            variable.get("enum").into_iter().flat_map(Node::items).filter_map(scalar).collect();
        let default = variable.get("default").and_then(scalar);
        if default.is_none() {
            self.warn(spot, "a variable of a server has no default");
        }
        let default = default.or_else(|| allowed.first().cloned()).unwrap_or_default();
        Variable { name: name.to_owned(), default, allowed }
    }

    /// Swagger 2.0: `schemes`, `host` and `basePath`, of which an operation may change the first.
    fn schemes(&mut self, owner: Place, node: Node<'_>) -> Option<Arc<[Server]>> {
        let root = self.library.root();
        let listed = node.get("schemes").filter(|listed| listed.is_array());
        if listed.is_none() && owner != root {
            return None;
        }
        let document = self.library.node(root);
        let path = document.get("basePath").and_then(Node::as_str).unwrap_or("/");
        let base = self.base(root);
        let Some(host) =
            document.get("host").and_then(Node::as_str).filter(|host| !host.is_empty())
        else {
            return Some([Server { url: path.to_owned(), base, variables: Vec::new() }].into());
        };
        let mut schemes: Vec<&str> =
            listed.into_iter().flat_map(Node::items).filter_map(Node::as_str).collect();
        schemes.retain(|scheme| matches!(*scheme, "http" | "https"));
        if schemes.is_empty() {
            schemes.push(base.as_ref().map_or("https", Url::scheme));
        }
        // The safer one first.
        schemes.sort_unstable_by_key(|scheme| *scheme != "https");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let server = |scheme: &str| Server {
            url: format!("{scheme}://{host}{slash}{path}"),
            base: base.clone(),
            variables: Vec::new(),
        };
        Some(schemes.into_iter().map(server).collect())
    }
}

/// A text, or what was meant as one.
fn scalar(node: Node<'_>) -> Option<String> {
    let text = node.as_str().map(str::to_owned);
    let number = || node.as_number().map(ToString::to_string);
    text.or_else(number).or_else(|| node.as_bool().map(|is| is.to_string()))
}

/// The names in braces.
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
