//! What a file refers to outside of itself.

use std::collections::HashSet;

use url::Url;

use super::super::document::{DocumentSet, NodeRef, Tree, TreeNode};
use super::location::display_url;

/// A reference to another file.
#[derive(Debug, Clone)]
pub(super) struct ExternalRef {
    /// As it is written.
    pub(super) reference: String,
    /// The file that says it.
    pub(super) referrer: String,
    /// The address that it means, without a fragment.
    pub(super) target: Url,
    /// Where to look for it: a file that says it is elsewhere still has its neighbors beside it.
    pub(super) fetch_url: Url,
}

/// Examples and fixed values are data, whatever they look like.
const LITERAL_KEYWORDS: [&str; 4] = ["example", "examples", "enum", "const"];

/// The members of these are named by whoever wrote the document.
const MAP_KEYWORDS: [&str; 16] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "definitions",
    "$defs",
    "schemas",
    "responses",
    "parameters",
    "requestBodies",
    "headers",
    "links",
    "callbacks",
    "pathItems",
    "paths",
    "webhooks",
    "mapping",
];

/// All references of a file to others, each once, in the order of the document.
pub(super) fn external_refs(documents: &DocumentSet, root: NodeRef) -> Vec<ExternalRef> {
    if !has_external_refs(&documents.file(root).tree) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut targets = HashSet::new();
    let mut visited = HashSet::new();
    let mut stack = vec![(documents.node(root), "")];
    while let Some((node, name)) = stack.pop() {
        if node.is_container() && !visited.insert(node.compact_value()) {
            continue;
        }
        for reference in references_in(node, name) {
            let external = external_ref(documents, documents.node_ref(root, node), reference);
            found.extend(external.filter(|external| targets.insert(external.target.clone())));
        }
        let is_map_keyword = MAP_KEYWORDS.contains(&name);
        let members =
            node.members().filter(|(name, _)| is_map_keyword || !LITERAL_KEYWORDS.contains(name));
        let start = stack.len();
        stack.extend(members.map(|(name, value)| (value, name)));
        stack.extend(node.items().map(|item| (item, "")));
        stack[start..].reverse();
    }
    found
}

/// Whether it is worth looking closer; most documents are one file.
fn has_external_refs(tree: &Tree) -> bool {
    let references = tree.members_named("$ref").chain(tree.members_named("$dynamicRef"));
    let mappings = tree.members_named("mapping").flat_map(TreeNode::members).map(|(_, to)| to);
    references.filter_map(TreeNode::as_str).any(|reference| !reference.starts_with('#'))
        || mappings.filter_map(TreeNode::as_str).any(is_file_reference)
}

/// What an object refers to itself.
fn references_in<'t>(node: TreeNode<'t>, name: &str) -> impl Iterator<Item = &'t str> {
    let references = ["$ref", "$dynamicRef"].into_iter();
    let references = references.filter_map(move |name| node.get(name)?.as_str());
    let mapped = (name == "mapping").then(|| node.members().filter_map(|(_, to)| to.as_str()));
    let mapped = mapped.into_iter().flatten().filter(|to| is_file_reference(to));
    references.filter(|reference| !reference.starts_with('#')).chain(mapped)
}

/// Whether what a discriminator names is a file and not a schema.
fn is_file_reference(mapped: &str) -> bool {
    let (url, _) = mapped.split_once('#').unwrap_or((mapped, ""));
    url.contains('/') || [".json", ".yaml", ".yml"].iter().any(|end| url.ends_with(end))
}

fn external_ref(documents: &DocumentSet, from: NodeRef, reference: &str) -> Option<ExternalRef> {
    let file = &documents.file(from).url;
    let mut target = documents.resolve_url(from, reference)?;
    let is_relative = Url::parse(reference) == Err(url::ParseError::RelativeUrlWithoutBase);
    let mut url = if is_relative { file.join(reference).ok()? } else { target.clone() };
    target.set_fragment(None);
    url.set_fragment(None);
    let from = display_url(file);
    Some(ExternalRef { reference: reference.to_owned(), referrer: from, target, fetch_url: url })
}
