//! Warnings about duplicate member names in objects.

use std::collections::{HashMap, HashSet};

use super::tree::{ChildRange, CompactValue, TreeNode};
use super::tree_builder::BuiltTree;
use crate::json::escape_token;

/// Returns one warning for each of the first duplicates, and one with the number of the others.
pub(super) fn duplicate_warnings(built: &BuiltTree) -> Vec<String> {
    if built.duplicates.is_empty() {
        return Vec::new();
    }
    let objects = built.duplicates.iter().map(|duplicate| duplicate.object).collect();
    let pointers = object_pointers(built.tree.root(), objects);
    let mut warnings: Vec<_> = built
        .duplicates
        .iter()
        .map(|duplicate| {
            let name = built.tree.strings.get(duplicate.key);
            let pointer = pointers.get(&duplicate.object).map_or("?", String::as_str);
            format!("`{name}` is a duplicate key at `{pointer}`; the last value is used")
        })
        .collect();
    let rest = built.duplicate_count - built.duplicates.len();
    if rest > 0 {
        warnings.push(format!("{rest} more keys are duplicates"));
    }
    warnings
}

/// Returns JSON Pointers to the given objects. Containers that YAML aliases share are visited once.
fn object_pointers(
    root: TreeNode<'_>,
    mut remaining: HashSet<ChildRange>,
) -> HashMap<ChildRange, String> {
    let mut found = HashMap::new();
    let mut seen = HashSet::new();
    let mut ahead = vec![(root, 0, String::new())];
    let mut path = vec![String::from("#")];
    while let Some((node, depth, token)) = ahead.pop() {
        path.truncate(depth + 1);
        path.push(token);
        let (CompactValue::Array(span) | CompactValue::Object(span)) = node.compact_value() else {
            continue;
        };
        if span.length == 0 || !seen.insert(node.compact_value()) {
            continue;
        }
        if node.is_object() && remaining.remove(&span) {
            found.insert(span, path.concat());
        }
        if remaining.is_empty() {
            break;
        }
        let items = node.items().enumerate().map(|(index, item)| (item, index.to_string()));
        let members = node.members().map(|(name, value)| (value, escape_token(name)));
        ahead.extend(
            items.chain(members).map(|(node, token)| (node, depth + 1, format!("/{token}"))),
        );
    }
    found
}
