//! What has to be there depends on the direction: a service asks for no read-only property and
//! gives no write-only one, although the schema requires both.

use super::super::document::{Node, Place};
use super::context::Context;
use super::shape::View;

/// How far a property is looked for through references and `allOf`.
const MAX_HOPS: u32 = 8;

/// The names that `required` lists at a place, without those that do not count in this view.
pub(super) fn required(
    context: &Context,
    place: Place,
    whole: Option<Place>,
    view: View,
) -> Vec<String> {
    let node = context.library.node(place);
    let mut names: Vec<String> = Vec::new();
    for name in node.get("required").into_iter().flat_map(Node::items).filter_map(Node::as_str) {
        let is_new = !names.iter().any(|known| known == name);
        if is_new && !is_hidden(context, place, whole, name, view) {
            names.push(name.to_owned());
        }
    }
    names
}

fn is_hidden(
    context: &Context,
    place: Place,
    whole: Option<Place>,
    name: &str,
    view: View,
) -> bool {
    let flag = match view {
        View::Request | View::Form => "readOnly",
        View::Response => "writeOnly",
    };
    let property = property(context, place, name, MAX_HOPS)
        .or_else(|| property(context, whole?, name, MAX_HOPS));
    property.is_some_and(|property| has_flag(context, property, flag, MAX_HOPS))
}

/// Where a property of that name is described.
pub(super) fn property(context: &Context, schema: Place, name: &str, hops: u32) -> Option<Place> {
    let library = &context.library;
    let hops = hops.checked_sub(1)?;
    let schema = library.follow(schema).ok()?;
    let properties = library.get(schema, "properties");
    let own = properties.and_then(|properties| library.get(properties, name));
    own.or_else(|| {
        let parts = library.get(schema, "allOf")?;
        let mut parts = library.node(parts).items().map(|part| library.beside(schema, part));
        parts.find_map(|part| property(context, part, name, hops))
    })
}

fn has_flag(context: &Context, schema: Place, flag: &str, hops: u32) -> bool {
    let Some(hops) = hops.checked_sub(1) else { return false };
    let library = &context.library;
    let node = library.node(schema);
    if node.get(flag).and_then(Node::as_bool) == Some(true) {
        return true;
    }
    let behind = node.get("$ref").and_then(Node::as_str);
    let behind = behind.and_then(|reference| library.resolve(schema, reference).ok());
    let mut parts = node.get("allOf").into_iter().flat_map(Node::items);
    behind.is_some_and(|behind| has_flag(context, behind, flag, hops))
        || parts.any(|part| has_flag(context, library.beside(schema, part), flag, hops))
}
