//! What a file refers to outside of itself.

use std::collections::HashSet;

use url::Url;

use super::super::document::{Library, Node, Place, Tree};
use super::location::name;

/// A reference to another file.
#[derive(Debug, Clone)]
pub(super) struct Outward {
    /// As it is written.
    pub(super) reference: String,
    /// The file that says it.
    pub(super) from: String,
    /// The address that it means, without a fragment.
    pub(super) meant: Url,
    /// Where to look for it: a file that says it is elsewhere still has its neighbors beside it.
    pub(super) place: Url,
}

/// Examples and fixed values are data, whatever they look like.
const DATA: [&str; 4] = ["example", "examples", "enum", "const"];

/// The members of these are named by whoever wrote the document.
const NAMED: [&str; 16] = [
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
pub(super) fn references(library: &Library, root: Place) -> Vec<Outward> {
    if !leads_outward(&library.file(root).tree) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut known = HashSet::new();
    let mut seen = HashSet::new();
    let mut ahead = vec![(library.node(root), "")];
    while let Some((node, name)) = ahead.pop() {
        if node.is_composite() && !seen.insert(node.cell()) {
            continue;
        }
        for reference in spoken(node, name) {
            let outward = outward(library, library.beside(root, node), reference);
            found.extend(outward.filter(|outward| known.insert(outward.meant.clone())));
        }
        let is_named = NAMED.contains(&name);
        let members = node.members().filter(|(name, _)| is_named || !DATA.contains(name));
        let start = ahead.len();
        ahead.extend(members.map(|(name, value)| (value, name)));
        ahead.extend(node.items().map(|item| (item, "")));
        ahead[start..].reverse();
    }
    found
}

/// Whether it is worth looking closer; most documents are one file.
fn leads_outward(tree: &Tree) -> bool {
    let references = tree.all_named("$ref").chain(tree.all_named("$dynamicRef"));
    let mappings = tree.all_named("mapping").flat_map(Node::members).map(|(_, to)| to);
    references.filter_map(Node::as_str).any(|reference| !reference.starts_with('#'))
        || mappings.filter_map(Node::as_str).any(is_file)
}

/// What an object refers to itself.
fn spoken<'t>(node: Node<'t>, name: &str) -> impl Iterator<Item = &'t str> {
    let references = ["$ref", "$dynamicRef"].into_iter();
    let references = references.filter_map(move |name| node.get(name)?.as_str());
    let mapped = (name == "mapping").then(|| node.members().filter_map(|(_, to)| to.as_str()));
    let mapped = mapped.into_iter().flatten().filter(|to| is_file(to));
    references.filter(|reference| !reference.starts_with('#')).chain(mapped)
}

/// Whether what a discriminator names is a file and not a schema.
fn is_file(mapped: &str) -> bool {
    let (place, _) = mapped.split_once('#').unwrap_or((mapped, ""));
    place.contains('/') || [".json", ".yaml", ".yml"].iter().any(|end| place.ends_with(end))
}

fn outward(library: &Library, from: Place, reference: &str) -> Option<Outward> {
    let file = &library.file(from).address;
    let mut meant = library.address(from, reference)?;
    let is_relative = Url::parse(reference) == Err(url::ParseError::RelativeUrlWithoutBase);
    let mut place = if is_relative { file.join(reference).ok()? } else { meant.clone() };
    meant.set_fragment(None);
    place.set_fragment(None);
    let from = name(file);
    Some(Outward { reference: reference.to_owned(), from, meant, place })
}
