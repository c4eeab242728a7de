//! Which operations a document has: every path with every method.

use super::super::document::{NodeRef, TreeNode};
use super::super::schema::DocumentPath;
use super::Importer;
use super::version::SpecVersion;

/// The members of a path that are operations in every version.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The members of a path that are something else.
const NON_OPERATION_KEYS: [&str; 5] = ["$ref", "summary", "description", "servers", "parameters"];

/// One path with one method.
#[derive(Debug, Clone)]
pub(super) struct PathOperation<'l> {
    /// As it is sent.
    pub(super) method: String,
    /// The member of the path that holds it.
    pub(super) method_key: &'l str,
    pub(super) path: &'l str,
    /// What stands around it: the parameters and servers of its path.
    pub(super) path_item: NodeRef,
    pub(super) operation: NodeRef,
}

impl<'l> Importer<'l> {
    /// Every operation, in the order of the document.
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

    /// The operations of a path: its own, and those that it refers to.
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
