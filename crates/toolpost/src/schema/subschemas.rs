//! Keywords that contain schemas, and traversal of all subschemas of a document.

use serde_json::{Map, Value};

use crate::json::JsonObject;

/// What the value of a keyword contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeywordValue {
    /// A schema; in older drafts, `items` can also be an array.
    Schema,
    /// An array of schemas.
    SchemaArray,
    /// A map from names to schemas.
    SchemaMap,
    /// Data, even if it looks like a schema.
    Literal,
    /// A constraint, an annotation or an unknown keyword.
    Other,
}

impl KeywordValue {
    pub(crate) fn of(keyword: &str) -> Self {
        match keyword {
            "items"
            | "additionalItems"
            | "unevaluatedItems"
            | "contains"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contentSchema" => Self::Schema,
            "prefixItems" | "allOf" | "anyOf" | "oneOf" => Self::SchemaArray,
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
            | "dependencies" => Self::SchemaMap,
            "const" | "enum" | "default" | "example" | "examples" => Self::Literal,
            _ => Self::Other,
        }
    }
}

/// Returns the schemas in the value of a keyword.
pub(crate) fn subschemas<'a>(
    keyword: &str,
    value: &'a Value,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    use KeywordValue::{Schema, SchemaArray, SchemaMap};
    let (one, list, map) = match (KeywordValue::of(keyword), value) {
        (Schema | SchemaArray, Value::Array(list)) => (None, Some(list), None),
        (Schema, one) => (Some(one), None, None),
        (SchemaMap, Value::Object(map)) => (None, None, Some(map)),
        _ => (None, None, None),
    };
    one.into_iter().chain(list.into_iter().flatten()).chain(map.into_iter().flat_map(Map::values))
}

/// Like [`subschemas`], for mutation.
pub(crate) fn subschemas_mut<'a>(
    keyword: &str,
    value: &'a mut Value,
) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    use KeywordValue::{Schema, SchemaArray, SchemaMap};
    let (one, list, map) = match (KeywordValue::of(keyword), value) {
        (Schema | SchemaArray, Value::Array(list)) => (None, Some(list), None),
        (Schema, one) => (Some(one), None, None),
        (SchemaMap, Value::Object(map)) => (None, None, Some(map)),
        _ => (None, None, None),
    };
    let map = map.into_iter().flat_map(Map::values_mut);
    one.into_iter().chain(list.into_iter().flatten()).chain(map)
}

/// Maximum depth that is visited; deeper schemas do not compile.
const MAX_DEPTH: u32 = 512;

/// Calls `visitor` for every subschema that is an object, but not for data.
pub(crate) fn visit_schemas<'a>(schema: &'a Value, visitor: &mut impl FnMut(&'a JsonObject)) {
    visit(schema, MAX_DEPTH, visitor);
}

fn visit<'a>(schema: &'a Value, depth: u32, visitor: &mut impl FnMut(&'a JsonObject)) {
    let (Some(depth), Some(members)) = (depth.checked_sub(1), schema.as_object()) else { return };
    visitor(members);
    for (keyword, value) in members {
        subschemas(keyword, value).for_each(|schema| visit(schema, depth, visitor));
    }
}

/// Like [`visit_schemas`], for mutation.
pub(crate) fn visit_schemas_mut(schema: &mut Value, visitor: &mut impl FnMut(&mut JsonObject)) {
    visit_mut(schema, MAX_DEPTH, visitor);
}

fn visit_mut(schema: &mut Value, depth: u32, visitor: &mut impl FnMut(&mut JsonObject)) {
    let Some((depth, members)) = depth.checked_sub(1).zip(schema.as_object_mut()) else { return };
    visitor(members);
    for (keyword, value) in members {
        subschemas_mut(keyword, value).for_each(|schema| visit_mut(schema, depth, visitor));
    }
}
