//! References of a file to other files.

use std::collections::HashSet;

use url::Url;

use super::super::document::{Node, Tree, TreeNode};
use super::location::display_url;

/// A reference to another file.
#[derive(Debug, Clone)]
pub(super) struct ExternalRef {
    /// The reference as written in the document.
    pub(super) reference: String,
    /// The file that contains the reference.
    pub(super) referrer: String,
    /// URL of the target, without fragment.
    pub(super) target: Url,
    /// URL to fetch the file from, next to the referring file for a relative reference.
    pub(super) fetch_url: Url,
}

/// Keywords whose values are data, even if they look like references.
const LITERAL_KEYWORDS: [&str; 4] = ["example", "examples", "enum", "const"];

/// Keywords whose member names are arbitrary and not keywords.
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

/// Returns the references of a file to other files, without duplicates and in document order.
pub(super) fn external_refs(root: Node<'_>) -> Vec<ExternalRef> {
    if !has_external_refs(root.tree()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut targets = HashSet::new();
    let mut visited = HashSet::new();
    let mut stack = vec![(root, "")];
    while let Some((node, name)) = stack.pop() {
        if node.is_container() && !visited.insert(node.compact_value()) {
            continue;
        }
        for reference in references_in(node, name) {
            let external = external_ref(node, reference);
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

/// Whether a file may refer to other files, as a quick check. Most documents are one file.
fn has_external_refs(tree: &Tree) -> bool {
    let references = tree.members_named("$ref").chain(tree.members_named("$dynamicRef"));
    let mappings = tree.members_named("mapping").flat_map(TreeNode::members).map(|(_, to)| to);
    references.filter_map(TreeNode::as_str).any(|reference| !reference.starts_with('#'))
        || mappings.filter_map(TreeNode::as_str).any(is_file_reference)
}

/// Returns the references of one object to other files, without those of nested objects.
fn references_in<'d>(node: Node<'d>, name: &str) -> impl Iterator<Item = &'d str> {
    let references = ["$ref", "$dynamicRef"].into_iter().filter_map(move |name| node.text(name));
    let mapped = (name == "mapping").then(|| node.members().filter_map(|(_, to)| to.as_str()));
    let mapped = mapped.into_iter().flatten().filter(|to| is_file_reference(to));
    references.filter(|reference| !reference.starts_with('#')).chain(mapped)
}

/// Whether a discriminator mapping value refers to a file instead of a schema name.
fn is_file_reference(mapped: &str) -> bool {
    let (url, _) = mapped.split_once('#').unwrap_or((mapped, ""));
    url.contains('/') || [".json", ".yaml", ".yml"].iter().any(|end| url.ends_with(end))
}

fn external_ref(from: Node<'_>, reference: &str) -> Option<ExternalRef> {
    let file = from.file_url();
    let mut target = from.resolve_url(reference)?;
    let is_relative = Url::parse(reference) == Err(url::ParseError::RelativeUrlWithoutBase);
    let mut fetch_url = if is_relative { file.join(reference).ok()? } else { target.clone() };
    target.set_fragment(None);
    fetch_url.set_fragment(None);
    let (reference, referrer) = (reference.to_owned(), display_url(file));
    Some(ExternalRef { reference, referrer, target, fetch_url })
}
