//! Index of reference targets other than JSON Pointers: base URLs, schema URLs and anchors.

use std::collections::HashMap;

use url::Url;

use super::tree::{ChildRange, CompactValue, Tree, TreeNode};

/// Schemas of a file with their own URL, and anchors. For most documents the index is empty.
#[derive(Debug, Default)]
pub(super) struct ReferenceIndex {
    /// Base URL of references from `$self`; the URL of the file if `None`.
    pub(super) base: Option<Url>,
    /// Schemas with an `$id`.
    pub(super) resources: Vec<SchemaResource>,
    /// Anchors by name and containing resource. The resource is `None` for the file itself.
    pub(super) anchors: HashMap<(Option<u32>, String), CompactValue>,
    /// Resource of each container that is inside a resource.
    pub(super) scopes: HashMap<ChildRange, u32>,
}

/// A schema with its own URL.
#[derive(Debug)]
pub(super) struct SchemaResource {
    pub(super) url: Url,
    pub(super) value: CompactValue,
}

impl ReferenceIndex {
    pub(super) fn new(url: &Url, tree: &Tree) -> Self {
        let own = tree.root().text("$self");
        let base = own.and_then(|own| without_fragment(url.join(own).ok()?));
        let mut index = Self { base, ..Self::default() };
        if has_identifiers(tree) {
            let base = index.base.clone().unwrap_or_else(|| url.clone());
            index.index_tree(tree.root(), &base);
        }
        index
    }

    /// Visits each container once, even if YAML aliases share it.
    fn index_tree(&mut self, root: TreeNode<'_>, base: &Url) {
        let mut seen = std::collections::HashSet::new();
        let mut ahead = vec![(root, None)];
        while let Some((node, scope)) = ahead.pop() {
            let (CompactValue::Array(span) | CompactValue::Object(span)) = node.compact_value()
            else {
                continue;
            };
            if span.length == 0 || !seen.insert(node.compact_value()) {
                continue;
            }
            let scope =
                if node.is_object() { self.index_object(node, span, scope, base) } else { scope };
            ahead.extend(node.items().map(|item| (item, scope)));
            ahead.extend(node.members().map(|(_, value)| (value, scope)));
        }
    }

    /// Indexes the identifiers of an object, and returns the resource of its members.
    fn index_object(
        &mut self,
        node: TreeNode<'_>,
        span: ChildRange,
        outer: Option<u32>,
        base: &Url,
    ) -> Option<u32> {
        let enclosing_url = outer.map_or(base, |outer| &self.resources[outer as usize].url);
        let own = node.text("$id").filter(|own| !own.starts_with('#'));
        let own = own.and_then(|own| without_fragment(enclosing_url.join(own).ok()?));
        let scope = match own {
            Some(url) => {
                let number = u32::try_from(self.resources.len()).ok();
                self.resources.push(SchemaResource { url, value: node.compact_value() });
                number
            }
            None => outer,
        };
        if let Some(scope) = scope {
            self.scopes.insert(span, scope);
        }
        for anchor in [node.text("$anchor"), node.text("$dynamicAnchor")].into_iter().flatten() {
            self.anchors.entry((scope, anchor.to_owned())).or_insert_with(|| node.compact_value());
        }
        scope
    }
}

/// Whether the file needs an index: its version supports identifiers, and it contains some.
fn has_identifiers(tree: &Tree) -> bool {
    let root = tree.root();
    let is_v30 = root.text("openapi").is_some_and(|version| version.starts_with("3.0"));
    let is_old = root.get("swagger").is_some() || is_v30;
    !is_old
        && ["$id", "$anchor", "$dynamicAnchor"].iter().any(|name| tree.strings.find(name).is_some())
}

fn without_fragment(mut url: Url) -> Option<Url> {
    url.set_fragment(None);
    Some(url)
}
