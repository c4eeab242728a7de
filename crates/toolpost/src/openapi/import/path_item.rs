//! Lists the operations of a document: each path with each method.

use super::super::document::{NodeRef, TreeNode};
use super::super::schema::DocumentPath;
use super::Importer;
use super::version::SpecVersion;

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
    pub(super) path_item: NodeRef,
    pub(super) operation: NodeRef,
}

impl<'l> Importer<'l> {
    /// Returns all operations in document order.
    pub(super) fn path_operations(&mut self) -> Vec<PathOperation<'l>> {
        let root = self.documents.root();
        let document = self.documents.node(root);
        let mut operations = Vec::new();
        let Some(paths) = document.get("paths") else {
            if self.version <= SpecVersion::V30 {
                self.warn(&DocumentPath::Root, "there are no `paths`, so there is nothing to call");
            }
            return operations;
        };
        let doc_path = DocumentPath::Root.member("paths");
        if !paths.is_object() {
            let message = format!("`paths` must be an object, found {}", paths.type_name());
            self.warn(&doc_path, message);
        }
        for (path, item) in paths.members().filter(|(path, _)| !path.starts_with("x-")) {
            let item = self.documents.node_ref(root, item);
            self.collect_path_operations(path, item, &doc_path.member(path), &mut operations);
        }
        operations
    }

    /// Collects the operations of a path item, including those behind its `$ref`.
    fn collect_path_operations(
        &mut self,
        path: &'l str,
        item: NodeRef,
        doc_path: &DocumentPath<'_>,
        operations: &mut Vec<PathOperation<'l>>,
    ) {
        let mut known: Vec<&str> = Vec::new();
        let mut items = vec![item];
        match self.documents.resolve_chain(item) {
            Ok(target) if target != item => items.push(target),
            Ok(_) => {}
            Err(error) => {
                self.warn(doc_path, format!("{error}; the operations behind it are unknown"));
            }
        }
        for item in items {
            for (key, method, node_ref) in self.declared_operations(item, doc_path) {
                if !known.contains(&key) {
                    known.push(key);
                    operations.push(PathOperation {
                        method,
                        method_key: key,
                        path,
                        path_item: item,
                        operation: node_ref,
                    });
                }
            }
        }
    }

    fn declared_operations(
        &mut self,
        item: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Vec<(&'l str, String, NodeRef)> {
        let documents = self.documents;
        let node = documents.node(item);
        if !node.is_object() {
            let message = format!("a path must be an object, found {}", node.type_name());
            self.warn(doc_path, message);
        }
        let is_method = |key: &str| {
            METHODS.contains(&key) || (key == "query" && self.version >= SpecVersion::V32)
        };
        let is_known = |key: &str| {
            NON_OPERATION_KEYS.contains(&key)
                || key.starts_with("x-")
                || (key == "additionalOperations" && self.version >= SpecVersion::V32)
        };
        let standard = node.members().filter(|(key, _)| is_method(key));
        let odd =
            node.members().map(|(key, _)| key).filter(|key| !is_method(key) && !is_known(key));
        let odd: Vec<String> = odd.map(|key| format!("`{key}`")).collect();
        let other = node.get("additionalOperations").filter(|_| self.version >= SpecVersion::V32);
        let other = other.into_iter().flat_map(TreeNode::members);
        let with_method = |(key, node): (&'l str, TreeNode<'l>)| {
            let name = if is_method(key) { key.to_ascii_uppercase() } else { key.to_owned() };
            (key, name, documents.node_ref(item, node))
        };
        let operations = standard.chain(other).map(with_method).collect();
        if !odd.is_empty() {
            let odd = odd.join(", ");
            let message = format!("{odd}: a path has no such member (methods are in lower case)");
            self.warn(doc_path, message);
        }
        operations
    }
}
