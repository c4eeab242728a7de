//! Rewrites schemas to a form that all OpenAPI tools accept.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::super::boolean_schemas::expand_booleans;
use super::super::portable::to_portable;
use crate::json::JsonObject;
use crate::schema::{self, DEFINITION_EXTENSION, Schema, ValueSize};

/// Looks up a definition by keyword and key.
pub(super) type DefinitionLookup<'f, 'd> = &'f dyn Fn(&str, &str) -> Option<&'d Value>;

/// Returns a lookup for the definitions of a document.
pub(super) fn lookup_in<'d>(document: &'d Value) -> impl Fn(&str, &str) -> Option<&'d Value> {
    move |keyword, key| document.get(keyword)?.get(key)
}

/// Returns a small schema for inline use, or `None` if it contains references.
pub(super) fn publish_inline(original: &Value) -> Option<Value> {
    let modern = upgrade_draft(original);
    let modern = schema::is_relocatable(&modern).then_some(modern);
    let portable = modern.or_else(|| Some(Cow::Owned(to_portable_schema(original)?)))?;
    sanitize(&portable, &lookup_in(&portable))
        .filter(|sanitized| schema::collect_refs(sanitized).is_empty())
}

/// Upgrades a schema to 2020-12. Other legacy notations are handled by [`sanitize`].
pub(super) fn upgrade_draft(original: &Value) -> Cow<'_, Value> {
    let draft = original.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let is_old = ["draft-04", "draft-06", "draft-07"].iter().any(|old| draft.contains(old));
    if !is_old {
        return Cow::Borrowed(original);
    }
    let mut modern = original.clone();
    if let Some(members) = modern.as_object_mut() {
        members.shift_remove("$schema");
    }
    schema::visit_schemas_mut(&mut modern, &mut |members| {
        // Siblings of `$ref` are ignored, but references can target definitions among them.
        if members.contains_key("$ref") {
            members
                .retain(|keyword, _| matches!(keyword.as_str(), "$ref" | "$defs" | "definitions"));
        }
        split_dependencies(members);
    });
    Cow::Owned(modern)
}

fn split_dependencies(members: &mut JsonObject) {
    let Some(Value::Object(dependencies)) = members.shift_remove("dependencies") else { return };
    let (names, schemas): (Map<_, _>, Map<_, _>) =
        dependencies.into_iter().partition(|(_, dependency)| dependency.is_array());
    for (keyword, parts) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
        if !parts.is_empty() {
            members.insert(keyword.to_owned(), parts.into());
        }
    }
}

/// Returns the portable form of a schema, which is never stricter than the original.
pub(super) fn to_portable_schema(original: &Value) -> Option<Value> {
    Some(to_portable(original, "#").ok()?.into_document().into())
}

/// Rewrites part of a document so that all tools accept it: rewrites notations of other drafts,
/// converts boolean schemas to objects, and removes invalid examples, for which tools reject the
/// whole document. Returns `None` if it is not a valid schema.
pub(super) fn sanitize(part: &Value, find: DefinitionLookup<'_, '_>) -> Option<Value> {
    let mut sanitized = match schema::rewrite_to_2020_12(part)? {
        Cow::Borrowed(part) => part.clone(),
        Cow::Owned(sanitized) => sanitized,
    };
    if let Some(members) = sanitized.as_object_mut() {
        members.shift_remove("$schema");
        members.shift_remove(DEFINITION_EXTENSION);
    }
    expand_booleans(&mut sanitized);
    let mut nodes_left = MAX_EXAMPLE_NODES;
    schema::visit_schemas_mut(&mut sanitized, &mut |members| {
        remove_invalid_examples(members, find, &mut nodes_left);
    });
    schema::is_well_formed(&sanitized).then_some(sanitized)
}

/// Maximum number of nodes of all schemas that are compiled to validate the examples of a schema.
/// Further examples are removed.
const MAX_EXAMPLE_NODES: usize = 200_000;

fn remove_invalid_examples(
    members: &mut JsonObject,
    find: DefinitionLookup<'_, '_>,
    nodes_left: &mut usize,
) {
    const EXAMPLES: [&str; 3] = ["default", "example", "examples"];
    if EXAMPLES.iter().all(|keyword| !members.contains_key(*keyword)) {
        return;
    }
    let schema = standalone_schema(members, find, nodes_left);
    let fits =
        |value: &Value| schema.as_ref().is_some_and(|it| it.is_valid(value).unwrap_or(false));
    members.retain(|keyword, value| match (keyword.as_str(), value) {
        ("default" | "example", value) => fits(value),
        ("examples", Value::Array(values)) => {
            values.retain(|value| fits(value));
            !values.is_empty()
        }
        ("examples", _) => false,
        _ => true,
    });
}

/// Maximum number of definitions included to validate an example.
const MAX_DEFINITIONS: usize = 64;

/// Returns part of a document as a standalone schema, with the definitions that it references.
fn standalone_schema(
    members: &JsonObject,
    find: DefinitionLookup<'_, '_>,
    nodes_left: &mut usize,
) -> Option<Schema> {
    let mut part = members.clone();
    for keyword in ["default", "example", "examples"] {
        part.shift_remove(keyword);
    }
    let mut part = Value::Object(part);
    *nodes_left = nodes_left.checked_sub(ValueSize::of(&part).nodes)?;
    let mut pending = schema::collect_refs(&part);
    let mut taken = 0;
    while let Some(reference) = pending.pop() {
        let (keyword, key, _) = schema::parse_definition_pointer(reference.strip_prefix('#')?)?;
        if part.get(keyword).is_some_and(|parts| parts.get(&key).is_some()) {
            continue;
        }
        let definition = find(keyword, &key)?;
        *nodes_left = nodes_left.checked_sub(ValueSize::of(definition).nodes)?;
        pending.extend(schema::collect_refs(definition));
        part[keyword][&key] = definition.clone();
        taken += 1;
        if taken > MAX_DEFINITIONS {
            return None;
        }
    }
    Schema::new(part).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sanitize_rewrites_unsupported_notation() {
        let never = json!({"not": {}});
        for (original, expected) in [
            (json!({"type": "string"}), Some(json!({"type": "string"}))),
            (json!(false), Some(never.clone())),
            (
                json!({"properties": {"a": true, "b": false}}),
                Some(json!({"properties": {"a": {}, "b": never}})),
            ),
            (
                json!({"type": "integer", "default": null, "examples": [1, "x"]}),
                Some(json!({"type": "integer", "examples": [1]})),
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/n", "default": "x"}}, "$defs": {"n": {"type": "integer"}}}),
                Some(
                    json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}),
                ),
            ),
            (
                json!({"type": "string", "nullable": true}),
                Some(json!({"type": ["string", "null"], "nullable": true})),
            ),
            (
                json!({
                    "$schema": "http://json-schema.org/draft-07/schema#",
                    "items": [{"type": "integer"}, {"$ref": "#/definitions/a", "type": "null"}],
                    "additionalItems": false,
                    "dependencies": {"a": ["b"], "c": {"type": "object"}},
                    "definitions": {"a": {"type": "string"}},
                }),
                Some(json!({
                    "prefixItems": [{"type": "integer"}, {"$ref": "#/definitions/a"}],
                    "items": never,
                    "dependentRequired": {"a": ["b"]},
                    "dependentSchemas": {"c": {"type": "object"}},
                    "definitions": {"a": {"type": "string"}},
                })),
            ),
            (
                json!({
                    "$schema": "http://json-schema.org/draft-04/schema#",
                    "minimum": 1, "exclusiveMinimum": true,
                }),
                Some(json!({"exclusiveMinimum": 1})),
            ),
            (
                json!({"$id": "https://example.com/t", "items": {"$ref": "https://example.com/t"}}),
                Some(json!({"items": {"$ref": "#"}})),
            ),
        ] {
            let modern = upgrade_draft(&original);
            let portable = match schema::is_relocatable(&modern) {
                true => modern.into_owned(),
                false => to_portable_schema(&original).unwrap(),
            };
            assert_eq!(sanitize(&portable, &lookup_in(&portable)), expected, "{original}");
        }
    }
}
