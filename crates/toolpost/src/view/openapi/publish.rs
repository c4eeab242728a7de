//! A schema in words that every reader of documents takes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::super::portable::portable;
use super::super::spell::spell_out;
use crate::schema::{self, ORIGIN, Schema};

/// Finds a definition by its keyword and its key.
pub(super) type Find<'f, 'd> = &'f dyn Fn(&str, &str) -> Option<&'d Value>;

/// Finds the definitions of a document.
pub(super) fn inside<'d>(document: &'d Value) -> impl Fn(&str, &str) -> Option<&'d Value> {
    move |keyword, key| document.get(keyword)?.get(key)
}

/// A small schema as it can stand in a document, if nothing in it leads anywhere.
pub(super) fn published(original: &Value) -> Option<Value> {
    let modern = modernized(original);
    let modern = schema::is_movable(&modern).then_some(modern);
    let said = modern.or_else(|| Some(Cow::Owned(said_portably(original)?)))?;
    tidied(&said, &inside(&said)).filter(|tidy| schema::references(tidy).is_empty())
}

/// A schema of an older draft in the words of 2020-12; what older notations mean besides is for
/// [`tidied`].
pub(super) fn modernized(original: &Value) -> Cow<'_, Value> {
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

/// A schema in words that mean the same to every reader, and never ask for more than the original.
pub(super) fn said_portably(original: &Value) -> Option<Value> {
    let said = portable(original, "#").ok()?;
    let mut document = said.root;
    if !said.definitions.is_empty() {
        document.insert("$defs".to_owned(), said.definitions.into());
    }
    Some(document.into())
}

/// A part of a document as every reader takes it. Notations of other drafts are rewritten, booleans
/// spelt out, and what is meant as an example and is none is left out: readers refuse the whole
/// document for it. `None` if it is no schema.
pub(super) fn tidied(part: &Value, find: Find<'_, '_>) -> Option<Value> {
    let mut tidy = match schema::rewritten(part)? {
        Cow::Borrowed(part) => part.clone(),
        Cow::Owned(tidy) => tidy,
    };
    if let Some(members) = tidy.as_object_mut() {
        members.shift_remove("$schema");
        members.shift_remove(ORIGIN);
    }
    spell_out(&mut tidy);
    schema::each(&mut tidy, &mut |members| leave_out_misfits(members, find));
    jsonschema::draft202012::meta::is_valid(&tidy).then_some(tidy)
}

fn leave_out_misfits(members: &mut Map<String, Value>, find: Find<'_, '_>) {
    const EXAMPLES: [&str; 3] = ["default", "example", "examples"];
    if EXAMPLES.iter().all(|keyword| !members.contains_key(*keyword)) {
        return;
    }
    let schema = alone(members, find);
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

/// How many definitions are taken along to look whether an example fits.
const MOST_TAKEN: usize = 64;

/// A part as a schema of its own, with the definitions that it leads to.
fn alone(members: &Map<String, Value>, find: Find<'_, '_>) -> Option<Schema> {
    let mut part = members.clone();
    for keyword in ["default", "example", "examples"] {
        part.shift_remove(keyword);
    }
    let mut part = Value::Object(part);
    let mut waiting = schema::references(&part);
    let mut taken = 0;
    while let Some(reference) = waiting.pop() {
        let (keyword, key, _) = schema::definition(reference.strip_prefix('#')?)?;
        if part.get(keyword).is_some_and(|parts| parts.get(&key).is_some()) {
            continue;
        }
        let definition = find(keyword, &key)?;
        waiting.extend(schema::references(definition));
        part[keyword][&key] = definition.clone();
        taken += 1;
        if taken > MOST_TAKEN {
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
        ] {
            let modern = modernized(&original);
            let said = match schema::is_movable(&modern) {
                true => modern.into_owned(),
                false => said_portably(&original).unwrap(),
            };
            assert_eq!(tidied(&said, &inside(&said)), expected, "{original}");
        }
    }
}
