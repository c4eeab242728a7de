//! What a file can be referred to by besides places: addresses of its own and of schemas in it, and
//! names of schemas.

use std::collections::HashMap;

use url::Url;

use super::tree::{Cell, Node, Span, Tree};

/// Schemas of this file that have an address, and names in them. Most documents have none, and
/// cost nothing.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Where relative references begin: what `$self` says, or where the file is.
    pub(super) base: Option<Url>,
    /// Schemas with an `$id`.
    pub(super) resources: Vec<Resource>,
    /// By the resource that they are in, which is `None` for the file itself.
    pub(super) anchors: HashMap<(Option<u32>, String), Cell>,
    /// The objects that are in a resource.
    pub(super) scopes: HashMap<Span, u32>,
}

/// A part of a file that has an address of its own.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) address: Url,
    pub(super) cell: Cell,
}

impl Index {
    pub(super) fn new(address: &Url, tree: &Tree) -> Self {
        let own = tree.root().get("$self").and_then(Node::as_str);
        let base = own.and_then(|own| without_fragment(address.join(own).ok()?));
        let mut index = Self { base, ..Self::default() };
        if has_identifiers(tree) {
            let base = index.base.clone().unwrap_or_else(|| address.clone());
            index.explore(tree.root(), &base);
        }
        index
    }

    /// Goes through the file once, whatever aliases share.
    fn explore(&mut self, root: Node<'_>, base: &Url) {
        let mut seen = std::collections::HashSet::new();
        let mut ahead = vec![(root, None)];
        while let Some((node, scope)) = ahead.pop() {
            let (Cell::Array(span) | Cell::Object(span)) = node.cell() else { continue };
            if span.length == 0 || !seen.insert(node.cell()) {
                continue;
            }
            let scope =
                if node.is_object() { self.identify(node, span, scope, base) } else { scope };
            ahead.extend(node.items().map(|item| (item, scope)));
            ahead.extend(node.members().map(|(_, value)| (value, scope)));
        }
    }

    /// Notes what an object says about itself, and gives the resource that its members are in.
    fn identify(
        &mut self,
        node: Node<'_>,
        span: Span,
        outer: Option<u32>,
        base: &Url,
    ) -> Option<u32> {
        let says = |name| node.get(name).and_then(Node::as_str);
        let around = outer.map_or(base, |outer| &self.resources[outer as usize].address);
        let own = says("$id").filter(|own| !own.starts_with('#'));
        let own = own.and_then(|own| without_fragment(around.join(own).ok()?));
        let scope = match own {
            Some(address) => {
                let number = u32::try_from(self.resources.len()).ok();
                self.resources.push(Resource { address, cell: node.cell() });
                number
            }
            None => outer,
        };
        if let Some(scope) = scope {
            self.scopes.insert(span, scope);
        }
        for anchor in [says("$anchor"), says("$dynamicAnchor")].into_iter().flatten() {
            self.anchors.entry((scope, anchor.to_owned())).or_insert_with(|| node.cell());
        }
        scope
    }
}

/// Whether it is worth looking: the words are there, and the version knows them.
fn has_identifiers(tree: &Tree) -> bool {
    let root = tree.root();
    let version = root.get("openapi").and_then(Node::as_str);
    let is_old = root.get("swagger").is_some() || version.is_some_and(|it| it.starts_with("3.0"));
    !is_old
        && ["$id", "$anchor", "$dynamicAnchor"].iter().any(|name| tree.texts.find(name).is_some())
}

fn without_fragment(mut url: Url) -> Option<Url> {
    url.set_fragment(None);
    Some(url)
}
