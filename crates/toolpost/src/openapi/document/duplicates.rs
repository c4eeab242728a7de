//! Names that an object says more than once, and where that is.

use std::collections::{HashMap, HashSet};

use super::builder::Grown;
use super::tree::{Cell, Node, Span};

/// One sentence for each of the first, and one for how many there are besides.
pub(super) fn warnings(grown: &Grown) -> Vec<String> {
    if grown.duplicates.is_empty() {
        return Vec::new();
    }
    let wanted = grown.duplicates.iter().map(|duplicate| duplicate.object).collect();
    let places = places(grown.tree.root(), wanted);
    let mut warnings: Vec<_> = grown
        .duplicates
        .iter()
        .map(|duplicate| {
            let name = grown.tree.texts.get(duplicate.name);
            let place = places.get(&duplicate.object).map_or("?", String::as_str);
            format!("`{name}` is said twice at `{place}`; the last one counts")
        })
        .collect();
    let rest = grown.duplicate_count - grown.duplicates.len();
    if rest > 0 {
        warnings.push(format!("{rest} more names are said twice"));
    }
    warnings
}

/// Where in the document objects are, as pointers. What aliases share is looked at once.
fn places(root: Node<'_>, mut wanted: HashSet<Span>) -> HashMap<Span, String> {
    let mut found = HashMap::new();
    let mut seen = HashSet::new();
    let mut ahead = vec![(root, 0, String::new())];
    let mut path = vec![String::from("#")];
    while let Some((node, depth, token)) = ahead.pop() {
        path.truncate(depth + 1);
        path.push(token);
        let (Cell::Array(span) | Cell::Object(span)) = node.cell() else { continue };
        if span.length == 0 || !seen.insert(node.cell()) {
            continue;
        }
        if node.is_object() && wanted.remove(&span) {
            found.insert(span, path.concat());
        }
        if wanted.is_empty() {
            break;
        }
        let items = node.items().enumerate().map(|(index, item)| (item, index.to_string()));
        let members = node.members().map(|(name, value)| (value, escaped(name)));
        ahead.extend(
            items.chain(members).map(|(node, token)| (node, depth + 1, format!("/{token}"))),
        );
    }
    found
}

/// A name as it is written in a pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
