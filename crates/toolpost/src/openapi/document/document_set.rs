//! Files that refer to each other. All of them are loaded, so resolving references needs no I/O.

use std::collections::HashMap;
use std::ops::Deref;

use percent_encoding::percent_decode_str;
use url::Url;

use super::reference::{ReferenceError, redact_reference};
use super::reference_index::ReferenceIndex;
use super::tree::{CompactValue, Tree, TreeNode};

/// Maximum number of `$ref` hops in a chain of references.
const MAX_HOPS: usize = 64;

/// A document and the files it refers to. The first file is the requested document.
#[derive(Debug, Default)]
pub(crate) struct DocumentSet {
    files: Vec<(DocumentFile, ReferenceIndex)>,
    /// Targets by URL: whole files, and schemas with their own URL.
    targets_by_url: HashMap<Url, ReferenceTarget>,
}

/// A parsed file and its URL.
#[derive(Debug)]
pub(crate) struct DocumentFile {
    pub(crate) url: Url,
    pub(crate) tree: Tree,
}

/// Identifies a value in one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeRef {
    file: u32,
    value: CompactValue,
}

/// A value in one of the files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'d> {
    documents: &'d DocumentSet,
    file: u32,
    node: TreeNode<'d>,
}

/// The target of a URL: a file, or a schema resource in its index.
#[derive(Debug, Clone, Copy)]
struct ReferenceTarget {
    file: u32,
    resource: Option<u32>,
}

impl DocumentSet {
    /// Adds a file and returns its root.
    pub(crate) fn add(&mut self, file: DocumentFile) -> NodeRef {
        let number =
            u32::try_from(self.files.len()).expect("the loader limits the number of files");
        let index = ReferenceIndex::new(&file.url, &file.tree);
        let root = NodeRef { file: number, value: file.tree.root().compact_value() };
        self.add_alias(file.url.clone(), root);
        if let Some(base) = &index.base {
            self.add_alias(base.clone(), root);
        }
        for (resource, at) in index.resources.iter().zip(0..) {
            let target = ReferenceTarget { file: number, resource: Some(at) };
            self.targets_by_url.entry(resource.url.clone()).or_insert(target);
        }
        self.files.push((file, index));
        root
    }

    /// Registers another URL of a file. The first registration of a URL takes precedence.
    pub(crate) fn add_alias(&mut self, url: Url, root: NodeRef) {
        let target = ReferenceTarget { file: root.file, resource: None };
        self.targets_by_url.entry(url).or_insert(target);
    }

    /// Registers another URL for the target of an existing one.
    pub(crate) fn alias_existing_url(&mut self, url: Url, existing: &Url) {
        if let Some(target) = self.targets_by_url.get(existing).copied() {
            self.targets_by_url.entry(url).or_insert(target);
        }
    }

    /// Whether a URL (without fragment) is registered.
    pub(crate) fn contains(&self, url: &Url) -> bool {
        self.targets_by_url.contains_key(url)
    }

    /// Returns the root of the requested document.
    pub(crate) fn root(&self) -> Node<'_> {
        Node { documents: self, file: 0, node: self.tree(0).root() }
    }

    fn tree(&self, file: u32) -> &Tree {
        &self.files[file as usize].0.tree
    }

    fn index(&self, file: u32) -> &ReferenceIndex {
        &self.files[file as usize].1
    }

    pub(crate) fn node(&self, NodeRef { file, value }: NodeRef) -> Node<'_> {
        Node { documents: self, file, node: self.tree(file).node(value) }
    }

    /// Returns the values of all members with this name, in all files.
    pub(crate) fn members_named<'l>(&'l self, name: &'l str) -> impl Iterator<Item = TreeNode<'l>> {
        self.files.iter().flat_map(move |(file, _)| file.tree.members_named(name))
    }

    /// Resolves a JSON Pointer. In a schema with an `$id`, a pointer is relative to that schema.
    /// API documents often mean the file root instead, so that is the fallback.
    fn resolve_pointer(&self, target: ReferenceTarget, pointer: &str) -> Option<TreeNode<'_>> {
        let tree = self.tree(target.file);
        let resources = &self.index(target.file).resources;
        let found = target
            .resource
            .and_then(|resource| tree.node(resources[resource as usize].value).pointer(pointer));
        found.or_else(|| tree.root().pointer(pointer))
    }

    /// Resolves a fragment in a file or resource. A fragment is a JSON Pointer or an anchor name.
    fn resolve_fragment(
        &self,
        target: ReferenceTarget,
        fragment: &str,
        reference: &str,
    ) -> Result<Node<'_>, ReferenceError> {
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        let file = target.file;
        let reference = || redact_reference(reference);
        let node = if fragment.is_empty() || fragment.starts_with('/') {
            self.resolve_pointer(target, &fragment)
                .ok_or_else(|| ReferenceError::TargetNotFound(reference()))?
        } else {
            let anchors = &self.index(file).anchors;
            let anchor = anchors.get(&(target.resource, fragment.into_owned()));
            let anchor = anchor.ok_or_else(|| ReferenceError::AnchorNotFound(reference()))?;
            self.tree(file).node(*anchor)
        };
        Ok(Node { documents: self, file, node })
    }
}

impl FromIterator<DocumentFile> for DocumentSet {
    fn from_iter<I: IntoIterator<Item = DocumentFile>>(files: I) -> Self {
        let mut documents = Self::default();
        for file in files {
            documents.add(file);
        }
        documents
    }
}

impl<'d> Node<'d> {
    pub(crate) fn node_ref(self) -> NodeRef {
        NodeRef { file: self.file, value: self.compact_value() }
    }

    /// Returns the URL of the file that contains the node.
    pub(crate) fn file_url(self) -> &'d Url {
        &self.documents.files[self.file as usize].0.url
    }

    /// Returns another node of the same file.
    pub(crate) fn sibling(self, node: TreeNode<'d>) -> Self {
        Self { node, ..self }
    }

    /// Returns the member with this name. References are not followed.
    pub(crate) fn get(self, name: &str) -> Option<Self> {
        self.node.get(name).map(|node| self.sibling(node))
    }

    /// Returns the members in document order. Empty if this is not an object.
    pub(crate) fn members(self) -> impl ExactSizeIterator<Item = (&'d str, Self)> {
        self.node.members().map(move |(name, node)| (name, self.sibling(node)))
    }

    /// Returns the items in document order. Empty if this is not an array.
    pub(crate) fn items(self) -> impl ExactSizeIterator<Item = Self> {
        self.node.items().map(move |node| self.sibling(node))
    }

    /// Returns the members of a member.
    pub(crate) fn members_of(self, name: &str) -> impl Iterator<Item = (&'d str, Self)> {
        self.get(name).into_iter().flat_map(Self::members)
    }

    /// Returns the items of a member.
    pub(crate) fn items_of(self, name: &str) -> impl Iterator<Item = Self> {
        self.get(name).into_iter().flat_map(Self::items)
    }

    /// Returns the strings in a member that is a list.
    pub(crate) fn texts_of(self, name: &str) -> impl Iterator<Item = &'d str> {
        self.items_of(name).filter_map(|item| item.as_str())
    }

    /// Follows `$ref` until a node without one is reached.
    pub(crate) fn target(self) -> Result<Self, ReferenceError> {
        let mut at = self;
        for _ in 0..MAX_HOPS {
            match at.text("$ref") {
                Some(reference) => at = at.resolve(reference)?,
                None => return Ok(at),
            }
        }
        let reference = self.text("$ref").unwrap_or_default();
        Err(ReferenceError::Circular(redact_reference(reference)))
    }

    /// Resolves a reference in this node.
    pub(crate) fn resolve(self, reference: &str) -> Result<Self, ReferenceError> {
        let documents = self.documents;
        if let Some(fragment) = reference.strip_prefix('#') {
            let target = ReferenceTarget { file: self.file, resource: self.resource() };
            return documents.resolve_fragment(target, fragment, reference);
        }
        let mut url = self
            .resolve_url(reference)
            .ok_or_else(|| ReferenceError::InvalidUrl(redact_reference(reference)))?;
        let fragment = url.fragment().unwrap_or_default().to_owned();
        url.set_fragment(None);
        let unknown = || ReferenceError::FileNotLoaded(redact_reference(reference));
        let target = documents.targets_by_url.get(&url).ok_or_else(unknown)?;
        documents.resolve_fragment(*target, &fragment, reference)
    }

    /// Returns the absolute URL of a reference in this node.
    pub(crate) fn resolve_url(self, reference: &str) -> Option<Url> {
        let index = self.documents.index(self.file);
        let base = match self.resource() {
            Some(resource) => &index.resources[resource as usize].url,
            None => index.base.as_ref().unwrap_or(self.file_url()),
        };
        base.join(reference).ok()
    }

    /// Returns the schema resource that contains the node, if any.
    fn resource(self) -> Option<u32> {
        match self.compact_value() {
            CompactValue::Array(span) | CompactValue::Object(span) => {
                self.documents.index(self.file).scopes.get(&span).copied()
            }
            _ => None,
        }
    }
}

impl<'d> Deref for Node<'d> {
    type Target = TreeNode<'d>;

    fn deref(&self) -> &TreeNode<'d> {
        &self.node
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
        files.iter().map(file).collect()
    }

    /// Each row: the pointer of the referring node in the first file, the reference, and its target
    /// or error.
    fn check_references(documents: &DocumentSet, rows: &[(&str, &str, Result<Value, &str>)]) {
        for (at, reference, expected) in rows {
            let from = documents.root().resolve(at).unwrap();
            let found = from.resolve(reference).and_then(Node::target);
            let actual = found.map(|node| node.to_value()).map_err(|error| error.to_string());
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
            ("#/nothing", Err("`#/nothing` does not exist")),
            ("#unknown", Err("no anchor `#unknown` in the file")),
            ("d.json?key=secret#/a", Err("`d.json#/a` is in a file that was not read")),
            ("http://[", Err("`http://[` is not a valid URL")),
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
