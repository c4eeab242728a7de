//! Lists the operations of a document: each path with each method.

use super::super::document::Node;
use super::Importer;
use super::version::SpecVersion;
use crate::json::ValuePath;

/// Members of a path item that are operations in every version.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Members of a path item that are not operations.
const NON_OPERATION_KEYS: [&str; 5] = ["$ref", "summary", "description", "servers", "parameters"];

/// An operation object with its path and method.
#[derive(Debug, Clone)]
pub(super) struct PathOperation<'l> {
    /// HTTP method as it is sent.
    pub(super) method: String,
    /// Name of the path item member that contains the operation.
    pub(super) method_key: &'l str,
    pub(super) path: &'l str,
    /// The path item, with its shared parameters and servers.
    pub(super) path_item: Node<'l>,
    pub(super) operation: Node<'l>,
}

impl<'l> Importer<'l> {
    /// Returns all operations in document order.
    pub(super) fn path_operations(&mut self) -> Vec<PathOperation<'l>> {
        let mut operations = Vec::new();
        let Some(paths) = self.documents.root().get("paths") else {
            if self.version <= SpecVersion::V30 {
                self.warn(
                    &ValuePath::ROOT,
                    "the document has no `paths` and therefore no operations",
                );
            }
            return operations;
        };
        let doc_path = ValuePath::ROOT.member("paths");
        if !paths.is_object() {
            let message = format!("`paths` must be an object, found {}", paths.type_name());
            self.warn(&doc_path, message);
        }
        for (path, item) in paths.members().filter(|(path, _)| !path.starts_with("x-")) {
            self.collect_path_operations(path, item, &doc_path.member(path), &mut operations);
        }
        operations
    }

    /// Collects the operations of a path item, including those behind its `$ref`.
    fn collect_path_operations(
        &mut self,
        path: &'l str,
        item: Node<'l>,
        doc_path: &ValuePath<'_>,
        operations: &mut Vec<PathOperation<'l>>,
    ) {
        let mut items = vec![item];
        match item.target() {
            Ok(target) if target.node_ref() != item.node_ref() => items.push(target),
            Ok(_) => {}
            Err(error) => {
                self.warn(doc_path, format!("{error}; its operations are not imported"));
            }
        }
        let first = operations.len();
        for path_item in items {
            for (method_key, method, operation) in self.declared_operations(path_item, doc_path) {
                if !operations[first..].iter().any(|known| known.method_key == method_key) {
                    let found = PathOperation { method, method_key, path, path_item, operation };
                    operations.push(found);
                }
            }
        }
    }

    fn declared_operations(
        &mut self,
        item: Node<'l>,
        doc_path: &ValuePath<'_>,
    ) -> Vec<(&'l str, String, Node<'l>)> {
        if !item.is_object() {
            let message = format!("a path must be an object, found {}", item.type_name());
            self.warn(doc_path, message);
        }
        let is_v32 = self.version >= SpecVersion::V32;
        let is_method = |key: &str| METHODS.contains(&key) || (key == "query" && is_v32);
        let is_known = |key: &str| {
            NON_OPERATION_KEYS.contains(&key)
                || key.starts_with("x-")
                || (key == "additionalOperations" && is_v32)
        };
        let keys = item.members().map(|(key, _)| key);
        let odd = keys.filter(|key| !is_method(key) && !is_known(key));
        let odd = odd.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        if !odd.is_empty() {
            let message = format!("unknown member of a path item: {odd} (methods are lowercase)");
            self.warn(doc_path, message);
        }
        let standard = item.members().filter(|(key, _)| is_method(key));
        let other = item.members_of("additionalOperations").filter(|_| is_v32);
        let with_method = |(key, node): (&'l str, Node<'l>)| {
            let name = if is_method(key) { key.to_ascii_uppercase() } else { key.to_owned() };
            (key, name, node)
        };
        standard.chain(other).map(with_method).collect()
    }
}
