//! Which operations a document has: every path with every method.

use super::super::document::{Node, Place};
use super::super::schema::Spot;
use super::Importer;
use super::version::Version;

/// The members of a path that are operations in every version.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The members of a path that are something else.
const OTHERS: [&str; 5] = ["$ref", "summary", "description", "servers", "parameters"];

/// One path with one method.
#[derive(Debug, Clone)]
pub(super) struct Found<'l> {
    /// As it is sent.
    pub(super) method: String,
    /// The member of the path that holds it.
    pub(super) key: &'l str,
    pub(super) path: &'l str,
    /// What stands around it: the parameters and servers of its path.
    pub(super) item: Place,
    pub(super) place: Place,
}

impl<'l> Importer<'l> {
    /// Every operation, in the order of the document.
    pub(super) fn found(&mut self) -> Vec<Found<'l>> {
        let root = self.library.root();
        let document = self.library.node(root);
        let mut found = Vec::new();
        let Some(paths) = document.get("paths") else {
            if self.version <= Version::V30 {
                self.warn(&Spot::Document, "there are no `paths`, so there is nothing to call");
            }
            return found;
        };
        let spot = Spot::Document.member("paths");
        if !paths.is_object() {
            let message = format!("`paths` must be an object, found {}", paths.type_name());
            self.warn(&spot, message);
        }
        for (path, item) in paths.members().filter(|(path, _)| !path.starts_with("x-")) {
            let item = self.library.beside(root, item);
            self.found_in(path, item, &spot.member(path), &mut found);
        }
        found
    }

    /// The operations of a path: its own, and those that it refers to.
    fn found_in(
        &mut self,
        path: &'l str,
        item: Place,
        spot: &Spot<'_>,
        found: &mut Vec<Found<'l>>,
    ) {
        let mut known: Vec<&str> = Vec::new();
        let mut items = vec![item];
        match self.library.follow(item) {
            Ok(target) if target != item => items.push(target),
            Ok(_) => {}
            Err(error) => {
                self.warn(spot, format!("{error}; the operations behind it are unknown"));
            }
        }
        for item in items {
            for (key, method, place) in self.operations_of(item, spot) {
                if !known.contains(&key) {
                    known.push(key);
                    found.push(Found { method, key, path, item, place });
                }
            }
        }
    }

    fn operations_of(&mut self, item: Place, spot: &Spot<'_>) -> Vec<(&'l str, String, Place)> {
        let library = self.library;
        let node = library.node(item);
        if !node.is_object() {
            let message = format!("a path must be an object, found {}", node.type_name());
            self.warn(spot, message);
        }
        let is_method =
            |key: &str| METHODS.contains(&key) || (key == "query" && self.version >= Version::V32);
        let is_known = |key: &str| {
            OTHERS.contains(&key)
                || key.starts_with("x-")
                || (key == "additionalOperations" && self.version >= Version::V32)
        };
        let standard = node.members().filter(|(key, _)| is_method(key));
        let odd =
            node.members().map(|(key, _)| key).filter(|key| !is_method(key) && !is_known(key));
        let odd: Vec<String> = odd.map(|key| format!("`{key}`")).collect();
        let other = node.get("additionalOperations").filter(|_| self.version >= Version::V32);
        let other = other.into_iter().flat_map(Node::members);
        let with_method = |(key, node): (&'l str, Node<'l>)| {
            let name = if is_method(key) { key.to_ascii_uppercase() } else { key.to_owned() };
            (key, name, library.beside(item, node))
        };
        let operations = standard.chain(other).map(with_method).collect();
        if !odd.is_empty() {
            let odd = odd.join(", ");
            let message = format!("{odd}: a path has no such member (methods are in lower case)");
            self.warn(spot, message);
        }
        operations
    }
}
