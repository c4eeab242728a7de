//! Rewrites notations of OpenAPI 3.0 and older drafts before compilation.

use referencing::Draft;
use serde_json::Value;

use super::SchemaError;
use super::program::MAX_DEPTH;
use super::subschemas::KeywordValue;
use crate::json::{JsonObject, escape_token};

/// Rewrites older notations for both engines. Returns `None` if nothing needs rewriting.
///
/// `nullable: true` next to a `type` becomes the type `null`. A boolean `exclusiveMinimum` or
/// `exclusiveMaximum` becomes the number it modifies, except in draft 4, where it is valid. A list
/// of schemas under `items` becomes `prefixItems` if the document has no `$schema`.
pub(super) fn rewrite(document: &Value) -> Result<Option<Value>, SchemaError> {
    if nests_too_deeply(document) {
        let message = format!("schema nests deeper than {MAX_SCHEMA_DEPTH} levels");
        return Err(SchemaError::at_root(message));
    }
    let draft = Draft::default().detect(document);
    let notation = LegacyNotation {
        boolean_limits: draft != Draft::Draft4,
        tuple_items: document.get("$schema").is_none(),
    };
    if !notation.occurs_in(document) {
        return Ok(None);
    }
    let mut rewritten = document.clone();
    notation.rewrite(&mut rewritten);
    Ok(Some(rewritten))
}

/// Maximum nesting depth of a schema, which is lower than that of values.
const MAX_SCHEMA_DEPTH: u32 = 256;

/// Whether a schema nests too deeply to be compiled.
pub(super) fn nests_too_deeply(document: &Value) -> bool {
    nests_deeper(document, MAX_SCHEMA_DEPTH)
}

/// Whether the value nests deeper than `levels`. The walk stops at that depth.
pub(super) fn nests_deeper(value: &Value, levels: u32) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return true;
    };
    match value {
        Value::Array(items) => items.iter().any(|item| nests_deeper(item, below)),
        Value::Object(members) => members.values().any(|member| nests_deeper(member, below)),
        _ => false,
    }
}

/// Returns the JSON Pointer to the first value nested deeper than [`MAX_DEPTH`] levels, if any.
pub(super) fn first_path_too_deep(value: &Value) -> Option<String> {
    let mut node = value;
    let mut path = String::new();
    if !nests_deeper(node, MAX_DEPTH) {
        return None;
    }
    for level in (0..MAX_DEPTH).rev() {
        let (token, child) = deep_child(node, level)?;
        path.push('/');
        path.push_str(&escape_token(&token));
        node = child;
    }
    Some(path)
}

fn deep_child(value: &Value, levels: u32) -> Option<(String, &Value)> {
    match value {
        Value::Array(items) => {
            let at = items.iter().position(|item| nests_deeper(item, levels))?;
            Some((at.to_string(), &items[at]))
        }
        Value::Object(members) => members
            .iter()
            .find(|(_, member)| nests_deeper(member, levels))
            .map(|(name, member)| (name.clone(), member)),
        _ => None,
    }
}

/// Notations, besides `nullable`, that the document's own draft does not support.
#[derive(Clone, Copy)]
struct LegacyNotation {
    boolean_limits: bool,
    tuple_items: bool,
}

const LIMITS: [(&str, &str); 2] =
    [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")];

impl LegacyNotation {
    fn occurs_in(self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| self.occurs_in(item)),
            Value::Object(members) => {
                is_nullable(members)
                    || (self.boolean_limits && has_boolean_limit(members))
                    || (self.tuple_items && matches!(members.get("items"), Some(Value::Array(_))))
                    || members.values().any(|member| self.occurs_in(member))
            }
            _ => false,
        }
    }

    /// Rewrites a schema and its subschemas, but not data such as defaults.
    fn rewrite(self, schema: &mut Value) {
        match schema {
            Value::Array(schemas) => schemas.iter_mut().for_each(|schema| self.rewrite(schema)),
            Value::Object(members) => {
                self.rewrite_members(members);
                for (keyword, member) in members.iter_mut() {
                    self.rewrite_keyword(keyword, member);
                }
            }
            _ => {}
        }
    }

    fn rewrite_members(self, members: &mut JsonObject) {
        if is_nullable(members) {
            add_null(members);
        }
        if self.boolean_limits {
            LIMITS.iter().for_each(|names| rewrite_limit(members, *names));
        }
        if self.tuple_items && matches!(members.get("items"), Some(Value::Array(_))) {
            rewrite_items(members);
        }
    }

    fn rewrite_keyword(self, keyword: &str, member: &mut Value) {
        match (KeywordValue::of(keyword), member) {
            (KeywordValue::Literal, _) => {}
            (KeywordValue::SchemaMap, Value::Object(schemas)) => {
                schemas.values_mut().for_each(|schema| self.rewrite(schema));
            }
            (KeywordValue::SchemaMap, _) => {}
            (_, member) => self.rewrite(member),
        }
    }
}

fn is_nullable(schema: &JsonObject) -> bool {
    schema.get("nullable") == Some(&Value::Bool(true))
        && matches!(schema.get("type"), Some(Value::String(_) | Value::Array(_)))
}

fn has_boolean_limit(schema: &JsonObject) -> bool {
    LIMITS.iter().any(|(exclusive, _)| matches!(schema.get(*exclusive), Some(Value::Bool(_))))
}

fn add_null(schema: &mut JsonObject) {
    let Some(types) = schema.get_mut("type") else {
        return;
    };
    let null = Value::from("null");
    match types {
        Value::Array(types) if types.contains(&null) => {}
        Value::Array(types) => types.push(null),
        Value::String(name) if name == "null" => {}
        single => *single = Value::Array(vec![single.take(), null]),
    }
}

fn rewrite_limit(schema: &mut JsonObject, (exclusive, inclusive): (&str, &str)) {
    let Some(Value::Bool(on)) = schema.get(exclusive) else {
        return;
    };
    let on = *on;
    schema.shift_remove(exclusive);
    if on && let Some(limit) = schema.shift_remove(inclusive) {
        schema.insert(exclusive.to_owned(), limit);
    }
}

fn rewrite_items(schema: &mut JsonObject) {
    let tuple = schema.shift_remove("items");
    if let Some(rest) = schema.shift_remove("additionalItems") {
        schema.insert("items".to_owned(), rest);
    }
    if let Some(Value::Array(tuple)) = tuple
        && !tuple.is_empty()
        && !schema.contains_key("prefixItems")
    {
        schema.insert("prefixItems".to_owned(), Value::Array(tuple));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rewrite_converts_openapi_3_0_notation() {
        let cases = [
            (json!({"type": "string"}), None),
            (
                json!({"type": "string", "nullable": true}),
                Some(json!({"type": ["string", "null"], "nullable": true})),
            ),
            (json!({"nullable": true}), None),
            (json!({"minimum": 1, "exclusiveMinimum": true}), Some(json!({"exclusiveMinimum": 1}))),
            (json!({"minimum": 1, "exclusiveMinimum": false}), Some(json!({"minimum": 1}))),
            (
                json!({"properties": {"nullable": true, "type": {"type": "null", "nullable": true}}}),
                Some(
                    json!({"properties": {"nullable": true, "type": {"type": "null", "nullable": true}}}),
                ),
            ),
            (
                json!({"items": [{"type": "null"}], "additionalItems": false}),
                Some(json!({"items": false, "prefixItems": [{"type": "null"}]})),
            ),
            (
                json!({"properties": {"items": {"items": []}}}),
                Some(json!({"properties": {"items": {}}})),
            ),
            (
                json!({"default": {"type": "a", "nullable": true}}),
                Some(json!({"default": {"type": "a", "nullable": true}})),
            ),
            (
                json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true}),
                None,
            ),
        ];
        for (document, expected) in cases {
            assert_eq!(rewrite(&document).unwrap(), expected, "{document}");
        }
    }
}
