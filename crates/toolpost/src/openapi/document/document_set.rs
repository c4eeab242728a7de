//! Files that refer to each other. All of them are loaded before the import, so resolving a
//! reference does no I/O.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use url::Url;

use super::reference::{ReferenceError, redact_reference};
use super::reference_index::ReferenceIndex;
use super::tree::{CompactValue, Tree, TreeNode};

/// Maximum number of `$ref` hops in a chain of references.
const MAX_HOPS: usize = 64;

/// A document and the files it refers to. The first file is the requested document.
#[derive(Debug)]
pub(crate) struct DocumentSet {
    files: Vec<DocumentFile>,
    indexes: Vec<ReferenceIndex>,
    /// Targets by URL: whole files, and schemas with their own URL.
    targets_by_url: HashMap<Url, ReferenceTarget>,
}

/// A parsed file and its URL.
#[derive(Debug)]
pub(crate) struct DocumentFile {
    pub(crate) url: Url,
    pub(crate) tree: Tree,
}

/// Reference to a value in one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeRef {
    file: u32,
    value: CompactValue,
}

/// The target of a URL: a file, or a schema resource in its index.
#[derive(Debug, Clone, Copy)]
struct ReferenceTarget {
    file: u32,
    resource: Option<u32>,
}

impl DocumentSet {
    pub(crate) fn new(files: Vec<DocumentFile>) -> Self {
        let mut documents =
            Self { files: Vec::new(), indexes: Vec::new(), targets_by_url: HashMap::new() };
        for file in files {
            documents.add(file);
        }
        documents
    }

    /// Adds a file and returns its root.
    pub(crate) fn add(&mut self, file: DocumentFile) -> NodeRef {
        let number = u32::try_from(self.files.len()).expect("files are counted by the loader");
        let index = ReferenceIndex::new(&file.url, &file.tree);
        self.register_url(file.url.clone(), ReferenceTarget { file: number, resource: None });
        if let Some(base) = &index.base {
            self.register_url(base.clone(), ReferenceTarget { file: number, resource: None });
        }
        for (resource, at) in index.resources.iter().zip(0..) {
            self.register_url(
                resource.url.clone(),
                ReferenceTarget { file: number, resource: Some(at) },
            );
        }
        let node_ref = NodeRef { file: number, value: file.tree.root().compact_value() };
        self.files.push(file);
        self.indexes.push(index);
        node_ref
    }

    /// Registers a URL. The first registration of a URL takes precedence.
    fn register_url(&mut self, url: Url, target: ReferenceTarget) {
        self.targets_by_url.entry(url).or_insert(target);
    }

    /// Registers another URL of a file.
    pub(crate) fn add_alias(&mut self, url: Url, root: NodeRef) {
        self.register_url(url, ReferenceTarget { file: root.file, resource: None });
    }

    /// Registers another URL for the target of an existing one.
    pub(crate) fn alias_existing_url(&mut self, url: Url, existing: &Url) {
        if let Some(target) = self.targets_by_url.get(existing).copied() {
            self.register_url(url, target);
        }
    }

    /// Whether a URL (without fragment) is registered.
    pub(crate) fn contains(&self, url: &Url) -> bool {
        self.targets_by_url.contains_key(url)
    }

    /// Returns the root of the requested document.
    pub(crate) fn root(&self) -> NodeRef {
        NodeRef { file: 0, value: self.files[0].tree.root().compact_value() }
    }

    pub(crate) fn node(&self, node_ref: NodeRef) -> TreeNode<'_> {
        self.files[node_ref.file as usize].tree.node(node_ref.value)
    }

    /// Returns the file that contains a node.
    pub(crate) fn file(&self, node_ref: NodeRef) -> &DocumentFile {
        &self.files[node_ref.file as usize]
    }

    /// Returns the reference to a node in the same file as `from`.
    pub(crate) fn node_ref(&self, from: NodeRef, node: TreeNode<'_>) -> NodeRef {
        NodeRef { file: from.file, value: node.compact_value() }
    }

    /// Returns the values of all members with this name, in all files.
    pub(crate) fn members_named<'l>(&'l self, name: &'l str) -> impl Iterator<Item = TreeNode<'l>> {
        self.files.iter().flat_map(move |file| file.tree.members_named(name))
    }

    /// Returns the member of an object. References are not followed.
    pub(crate) fn get(&self, node_ref: NodeRef, name: &str) -> Option<NodeRef> {
        self.node(node_ref).get(name).map(|node| self.node_ref(node_ref, node))
    }

    /// Follows `$ref` until a node without one is reached.
    pub(crate) fn resolve_chain(&self, node_ref: NodeRef) -> Result<NodeRef, ReferenceError> {
        let mut at = node_ref;
        for _ in 0..MAX_HOPS {
            match self.node(at).get("$ref").and_then(TreeNode::as_str) {
                Some(reference) => at = self.resolve(at, reference)?,
                None => return Ok(at),
            }
        }
        let reference =
            self.node(node_ref).get("$ref").and_then(TreeNode::as_str).unwrap_or_default();
        Err(ReferenceError::Circular { reference: redact_reference(reference) })
    }

    /// Resolves a reference in the node `from`.
    pub(crate) fn resolve(
        &self,
        from: NodeRef,
        reference: &str,
    ) -> Result<NodeRef, ReferenceError> {
        if let Some(fragment) = reference.strip_prefix('#') {
            let target = ReferenceTarget { file: from.file, resource: self.resource_of(from) };
            return self.resolve_fragment(target, fragment, reference);
        }
        let mut url = self
            .resolve_url(from, reference)
            .ok_or_else(|| ReferenceError::InvalidUrl { reference: redact_reference(reference) })?;
        let fragment = url.fragment().unwrap_or_default().to_owned();
        url.set_fragment(None);
        let target = self.targets_by_url.get(&url).copied();
        let unknown = || ReferenceError::FileNotLoaded { reference: redact_reference(reference) };
        self.resolve_fragment(target.ok_or_else(unknown)?, &fragment, reference)
    }

    /// Returns the absolute URL of a reference in the node `from`.
    pub(crate) fn resolve_url(&self, from: NodeRef, reference: &str) -> Option<Url> {
        let index = &self.indexes[from.file as usize];
        let base = match self.resource_of(from) {
            Some(resource) => &index.resources[resource as usize].url,
            None => index.base.as_ref().unwrap_or(&self.file(from).url),
        };
        base.join(reference).ok()
    }

    /// Returns the schema resource that contains a node, if any.
    fn resource_of(&self, node_ref: NodeRef) -> Option<u32> {
        match node_ref.value {
            CompactValue::Array(span) | CompactValue::Object(span) => {
                self.indexes[node_ref.file as usize].scopes.get(&span).copied()
            }
            _ => None,
        }
    }

    /// Resolves a fragment in a file or resource. A fragment is a JSON Pointer or an anchor name.
    fn resolve_fragment(
        &self,
        target: ReferenceTarget,
        fragment: &str,
        reference: &str,
    ) -> Result<NodeRef, ReferenceError> {
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        if fragment.is_empty() || fragment.starts_with('/') {
            let target_value = self.resolve_pointer(target, &fragment);
            let nothing =
                || ReferenceError::TargetNotFound { reference: redact_reference(reference) };
            return target_value
                .map(|target_value| NodeRef { file: target.file, value: target_value })
                .ok_or_else(nothing);
        }
        let anchors = &self.indexes[target.file as usize].anchors;
        let anchor = anchors.get(&(target.resource, fragment.into_owned())).copied();
        let unnamed = || ReferenceError::AnchorNotFound { reference: redact_reference(reference) };
        anchor
            .map(|target_value| NodeRef { file: target.file, value: target_value })
            .ok_or_else(unnamed)
    }

    /// Resolves a JSON Pointer. In a schema with an `$id`, a pointer is relative to that schema.
    /// API documents often mean the file root instead, so that is the fallback.
    fn resolve_pointer(&self, target: ReferenceTarget, pointer: &str) -> Option<CompactValue> {
        let tree = &self.files[target.file as usize].tree;
        let resources = &self.indexes[target.file as usize].resources;
        let resource =
            target.resource.map(|resource| tree.node(resources[resource as usize].value));
        let found = resource.and_then(|resource| resource.pointer(pointer));
        found.or_else(|| tree.root().pointer(pointer)).map(TreeNode::compact_value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::json;
    use super::*;

    fn document_set(files: &[(&str, Value)]) -> DocumentSet {
        let file = |(address, value): &(&str, Value)| DocumentFile {
            url: address.parse().unwrap(),
            tree: json::parse(&value.to_string()).unwrap().tree,
        };
        DocumentSet::new(files.iter().map(file).collect())
    }

    /// Each row: the pointer of the referring node in the first file, the reference, and its target
    /// or error.
    fn check_references(documents: &DocumentSet, rows: &[(&str, &str, Result<Value, &str>)]) {
        for (at, reference, expected) in rows {
            let from = documents.resolve(documents.root(), at).unwrap();
            let found = documents.resolve(from, reference);
            let found = found.and_then(|node_ref| documents.resolve_chain(node_ref));
            let actual = found.map(|node_ref| documents.node(node_ref).to_value());
            let actual = actual.map_err(|error| error.to_string());
            assert_eq!(actual, expected.clone().map_err(str::to_owned), "{at} {reference}");
        }
    }

    #[test]
    fn references_resolve_across_files_or_report_an_error() {
        let documents = document_set(&[
            (
                "file:///a/b.json",
                json!({"x": {"/ y": 1}, "1": {"$ref": "#/2"}, "2": {"$ref": "../c%20d.json#/z"},
                       "o": {"$ref": "#/o"}, "l": [0, {"a%b": 2}]}),
            ),
            ("file:///c%20d.json", json!({"z": "there"})),
        ]);
        let rows = [
            ("#/x/~1%20y", Ok(json!(1))),
            ("#/x/~1 y", Ok(json!(1))),
            ("#/l/1/a%25b", Ok(json!(2))),
            ("#/l/1/a%b", Ok(json!(2))),
            ("b.json#/1", Ok(json!("there"))),
            ("../c d.json", Ok(json!({"z": "there"}))),
            ("../c%20d.json#", Ok(json!({"z": "there"}))),
            ("#/nothing", Err("there is nothing at `#/nothing`")),
            ("#nobody", Err("no anchor `#nobody` in the file")),
            ("d.json?key=secret#/a", Err("`d.json#/a` is in a file that was not read")),
            ("http://[", Err("`http://[` is no address")),
            ("#/o", Err("`#/o` is a circular reference")),
        ];
        check_references(&documents, &rows.map(|(reference, expected)| ("#", reference, expected)));
    }

    #[test]
    fn schemas_resolve_by_id_and_anchor() {
        let documents = document_set(&[
            (
                "file:///api.json",
                json!({"openapi": "3.1.0", "top": {"$anchor": "here", "is": "top"}, "s": {
                    "a": {"$id": "https://example.com/a", "p": {"is": "p"}, "in": {"k": 0},
                          "b": {"$id": "b#", "in": {"$ref": "#/p"}, "p": {"is": "bp"}},
                          "c": {"$anchor": "here", "is": "c"},
                          "d": {"$dynamicAnchor": "node", "is": "d"}},
                }}),
            ),
            ("file:///more.json", json!({"e": {"$id": "https://example.com/e", "is": "e"}})),
        ]);
        check_references(
            &documents,
            &[
                ("#", "#here", Ok(json!({"$anchor": "here", "is": "top"}))),
                ("#/s/a/c", "#here", Ok(json!({"$anchor": "here", "is": "c"}))),
                ("#", "https://example.com/a#here", Ok(json!({"$anchor": "here", "is": "c"}))),
                ("#", "https://example.com/a#/p", Ok(json!({"is": "p"}))),
                ("#/s/a/in", "#/p", Ok(json!({"is": "p"}))),
                ("#/s/a/c", "b#/in", Ok(json!({"is": "bp"}))),
                ("#/s/a/c", "#/top", Ok(json!({"$anchor": "here", "is": "top"}))),
                ("#/s/a/c", "e", Ok(json!({"$id": "https://example.com/e", "is": "e"}))),
                ("#/s/a/c", "#node", Ok(json!({"$dynamicAnchor": "node", "is": "d"}))),
                ("#", "#node", Err("no anchor `#node` in the file")),
            ],
        );
    }

    #[test]
    fn self_keyword_sets_the_document_base_url() {
        let documents = document_set(&[
            (
                "file:///here.json",
                json!({"openapi": "3.2.0", "$self": "https://example.com/v1/api.json", "a": 1}),
            ),
            ("https://example.com/v1/more.json", json!("more")),
        ]);
        let rows = [
            ("more.json", Ok(json!("more"))),
            ("api.json#/a", Ok(json!(1))),
            ("file:///here.json#/a", Ok(json!(1))),
        ];
        check_references(&documents, &rows.map(|(reference, expected)| ("#", reference, expected)));
    }

    #[test]
    fn old_versions_ignore_id_and_anchor() {
        let documents = document_set(&[(
            "file:///api.json",
            json!({"openapi": "3.0.3", "a": {"$id": "https://example.com/a", "b": {}}, "c": 1}),
        )]);
        check_references(&documents, &[("#/a/b", "api.json#/c", Ok(json!(1)))]);
    }
}
