//! A schema in words that every reader of documents takes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::super::portable::portable;
use super::super::spell::spell_out;
use crate::schema::{self, Schema};

/// The schema as it can stand in a document, its references still leading into itself. `None` if it
/// says nothing that can be repeated.
///
/// Whatever means the same everywhere stays as it is. Another draft, and parts that name themselves,
/// are said in portable words, which never ask for more than the original does.
pub(super) fn published(original: &Value) -> Option<Value> {
    let modern = modernised(original);
    let moved = schema::is_movable(&modern).then(|| tidied(&modern)).flatten();
    moved.or_else(|| tidied(&said_portably(original)?))
}

/// A schema of an older draft in the words of 2020-12; what older notations mean besides is for
/// [`tidied`].
fn modernised(original: &Value) -> Cow<'_, Value> {
    let draft = original.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let is_old = ["draft-04", "draft-06", "draft-07"].iter().any(|old| draft.contains(old));
    if !is_old {
        return Cow::Borrowed(original);
    }
    let mut modern = original.clone();
    if let Some(members) = modern.as_object_mut() {
        members.shift_remove("$schema");
    }
    schema::each(&mut modern, &mut |members| {
        // Nothing counts beside a reference, but something may lead there.
        if members.contains_key("$ref") {
            members
                .retain(|keyword, _| matches!(keyword.as_str(), "$ref" | "$defs" | "definitions"));
        }
        split_dependencies(members);
    });
    Cow::Owned(modern)
}

fn split_dependencies(members: &mut Map<String, Value>) {
    let Some(Value::Object(dependencies)) = members.shift_remove("dependencies") else { return };
    let (names, schemas): (Map<_, _>, Map<_, _>) =
        dependencies.into_iter().partition(|(_, dependency)| dependency.is_array());
    for (keyword, parts) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
        if !parts.is_empty() {
            members.insert(keyword.to_owned(), parts.into());
        }
    }
}

fn said_portably(original: &Value) -> Option<Value> {
    let said = portable(original, "#").ok()?;
    let mut document = said.root;
    if !said.definitions.is_empty() {
        document.insert("$defs".to_owned(), said.definitions.into());
    }
    Some(document.into())
}

/// Notations of other drafts are rewritten, booleans spelt out, and what is meant as an example and is
/// none is left out: readers refuse the whole document for it.
fn tidied(document: &Value) -> Option<Value> {
    let mut tidy = schema::rewritten(document)?.into_owned();
    if let Some(members) = tidy.as_object_mut() {
        members.shift_remove("$schema");
    }
    spell_out(&mut tidy);
    let definitions = schema::definitions(&tidy).next().map(|_| tidy.clone());
    schema::each(&mut tidy, &mut |members| leave_out_misfits(members, definitions.as_ref()));
    let is_sound = jsonschema::draft202012::meta::is_valid(&tidy) && leads_somewhere(&tidy);
    is_sound.then_some(tidy)
}

fn leads_somewhere(document: &Value) -> bool {
    let is_there = |reference: &String| {
        let pointer = reference.strip_prefix('#');
        pointer.and_then(|pointer| document.pointer(pointer)).is_some_and(is_schema)
    };
    schema::references(document).iter().all(is_there)
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

fn leave_out_misfits(members: &mut Map<String, Value>, root: Option<&Value>) {
    const EXAMPLES: [&str; 3] = ["default", "example", "examples"];
    if EXAMPLES.iter().all(|keyword| !members.contains_key(*keyword)) {
        return;
    }
    let schema = alone(members, root);
    let fits = |value: &Value| schema.as_ref().is_some_and(|it| it.fits(value).unwrap_or(false));
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

/// A part as a schema of its own, with the definitions of the whole.
fn alone(members: &Map<String, Value>, root: Option<&Value>) -> Option<Schema> {
    let mut part = members.clone();
    for (keyword, key, definition) in root.into_iter().flat_map(schema::definitions) {
        let parts = part.entry(keyword).or_insert_with(|| Map::new().into());
        parts.as_object_mut()?.entry(key).or_insert_with(|| definition.clone());
    }
    Schema::new(part.into()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_readers_choke_on_is_said_otherwise() {
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
            (json!({"items": {"$ref": "#/$defs/none"}}), Some(json!({"items": {}}))),
        ] {
            assert_eq!(published(&original), expected, "{original}");
        }
    }
}
