//! Required properties by direction. Read-only properties are optional in requests and write-only
//! properties in responses, even if the schema requires them.

use super::super::document::Node;
use super::shape::SchemaUsage;

/// Maximum depth of references and `allOf` in the search for a property.
const MAX_HOPS: u32 = 8;

/// Returns the `required` names for this usage. `parent` may describe the properties.
pub(super) fn required_names(
    schema: Node<'_>,
    parent: Option<Node<'_>>,
    usage: SchemaUsage,
) -> Vec<String> {
    let flag = match usage {
        SchemaUsage::Response => "writeOnly",
        _ => "readOnly",
    };
    let is_optional = |name: &str| {
        let property = find_property(schema, name, MAX_HOPS)
            .or_else(|| find_property(parent?, name, MAX_HOPS));
        property.is_some_and(|property| has_flag(property, flag, MAX_HOPS))
    };
    let mut names: Vec<String> = Vec::new();
    for name in schema.texts_of("required") {
        if !names.iter().any(|known| known == name) && !is_optional(name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Finds the schema of a property.
fn find_property<'d>(schema: Node<'d>, name: &str, hops: u32) -> Option<Node<'d>> {
    let hops = hops.checked_sub(1)?;
    let schema = schema.target().ok()?;
    let own = schema.get("properties").and_then(|properties| properties.get(name));
    own.or_else(|| schema.items_of("allOf").find_map(|part| find_property(part, name, hops)))
}

fn has_flag(schema: Node<'_>, flag: &str, hops: u32) -> bool {
    let Some(hops) = hops.checked_sub(1) else { return false };
    let target = schema.text("$ref").and_then(|reference| schema.resolve(reference).ok());
    schema.flag(flag)
        || schema.items_of("allOf").chain(target).any(|part| has_flag(part, flag, hops))
}
