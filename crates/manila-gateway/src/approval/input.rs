//! The input of a proposal: its hash, and what of it is hidden from whoever decides.

use data_encoding::HEXLOWER;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// How many schemas that apply to one value are looked at; more are a loop.
const MOST_APPLIED: usize = 256;

/// The SHA-256 of a value, the same whatever the order of its keys.
pub(super) fn sha256(value: &Value) -> String {
    let text = sorted(value).to_string();
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_unstable();
            keys.into_iter().map(|key| (key.clone(), sorted(&members[key]))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// The value with `***` wherever a schema that applies there says `writeOnly` or `format: password`.
/// In doubt, as between the branches of an `anyOf`, a value is hidden.
pub(super) fn shown(schema: &Value, value: &Value) -> Value {
    Mask { root: schema }.apply(&[schema], value)
}

struct Mask<'s> {
    root: &'s Value,
}

impl<'s> Mask<'s> {
    fn apply(&self, schemas: &[&'s Value], value: &Value) -> Value {
        let mut applied = Vec::new();
        for schema in schemas {
            self.gather(schema, &mut applied);
        }
        if applied.iter().any(|schema| is_secret(schema)) {
            return HIDDEN.into();
        }
        match value {
            Value::Object(members) => {
                let shown = members.iter().map(|(name, value)| {
                    let below: Vec<_> =
                        applied.iter().flat_map(|schema| of_member(schema, name)).collect();
                    (name.clone(), self.apply(&below, value))
                });
                Value::Object(shown.collect::<Map<_, _>>())
            }
            Value::Array(items) => {
                let shown = items.iter().enumerate().map(|(at, item)| {
                    let below: Vec<_> =
                        applied.iter().flat_map(|schema| of_item(schema, at)).collect();
                    self.apply(&below, item)
                });
                shown.collect()
            }
            plain => plain.clone(),
        }
    }

    /// The schema and all that apply to the same value because of it.
    fn gather(&self, schema: &'s Value, applied: &mut Vec<&'s Value>) {
        let is_known = applied.iter().any(|known| std::ptr::eq(*known, schema));
        if is_known || applied.len() >= MOST_APPLIED || !schema.is_object() {
            return;
        }
        applied.push(schema);
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|text| self.target(text));
        let branches = ["allOf", "anyOf", "oneOf"].into_iter();
        let branches = branches.filter_map(|key| schema.get(key)?.as_array()).flatten();
        let conditions = ["if", "then", "else"].into_iter().filter_map(|key| schema.get(key));
        for other in target.into_iter().chain(branches).chain(conditions) {
            self.gather(other, applied);
        }
    }

    /// What a reference inside the document leads to.
    fn target(&self, reference: &str) -> Option<&'s Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }
}

fn is_secret(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
        || schema.get("format").is_some_and(|format| format == "password")
}

fn of_member<'s>(schema: &'s Value, name: &str) -> Vec<&'s Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    let by_pattern = schema.get("patternProperties").and_then(Value::as_object);
    // Which patterns fit is not looked at: one that hides too much hides no mistake of a caller.
    let by_pattern = by_pattern.into_iter().flat_map(Map::values);
    let others = schema.get("additionalProperties").filter(|_| named.is_none());
    named.into_iter().chain(by_pattern).chain(others).collect()
}

fn of_item(schema: &Value, at: usize) -> Vec<&Value> {
    let listed = |key: &str| schema.get(key).and_then(Value::as_array)?.get(at);
    let every = schema.get("items").filter(|items| items.is_object());
    let others = schema.get("additionalItems");
    [listed("prefixItems"), listed("items"), every, others].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_of_the_value_and_not_of_its_text() {
        let same = [
            json!({"a": 1, "b": {"c": [1, 2], "d": null}}),
            json!({"b": {"d": null, "c": [1, 2]}, "a": 1}),
        ];
        assert_eq!(sha256(&same[0]), sha256(&same[1]));
        for other in [
            json!({"a": 1, "b": {"c": [2, 1], "d": null}}),
            json!({"a": "1", "b": {"c": [1, 2], "d": null}}),
            json!({"a": 1, "b": {"c": [1, 2]}}),
        ] {
            assert_ne!(sha256(&same[0]), sha256(&other), "{other}");
        }
        // The digest of `{}`.
        let empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(sha256(&json!({})), empty);
    }

    #[test]
    fn what_a_schema_marks_as_secret_is_hidden() {
        let secret = json!({"type": "string", "writeOnly": true});
        let password = json!({"type": "string", "format": "password"});
        for (schema, value, expected) in [
            (json!(true), json!({"a": 1}), json!({"a": 1})),
            (
                json!({"properties": {"a": secret}}),
                json!({"a": 1, "b": 2}),
                json!({"a": "***", "b": 2}),
            ),
            (
                json!({"properties": {"a": password}}),
                json!({"a": {"deep": 1}}),
                json!({"a": "***"}),
            ),
            (password.clone(), json!("x"), json!("***")),
            (json!({"items": password}), json!(["x", "y"]), json!(["***", "***"])),
            (json!({"prefixItems": [{}, password]}), json!(["x", "y"]), json!(["x", "***"])),
            (
                json!({"$defs": {"s": secret}, "properties": {"a": {"$ref": "#/$defs/s"}}}),
                json!({"a": "x"}),
                json!({"a": "***"}),
            ),
            (
                json!({"anyOf": [{"properties": {"a": {}}}, {"properties": {"a": secret}}]}),
                json!({"a": "x"}),
                json!({"a": "***"}),
            ),
            (
                json!({"additionalProperties": secret, "properties": {"a": {}}}),
                json!({"a": "x", "b": "y"}),
                json!({"a": "x", "b": "***"}),
            ),
            (
                json!({"patternProperties": {"^x-": secret}}),
                json!({"x-a": "x"}),
                json!({"x-a": "***"}),
            ),
            (
                json!({"properties": {"next": {"$ref": "#"}, "pin": secret}}),
                json!({"pin": 1, "next": {"pin": 2, "next": {"pin": 3, "n": 4}}}),
                json!({"pin": "***", "next": {"pin": "***", "next": {"pin": "***", "n": 4}}}),
            ),
            (json!({"$ref": "#", "allOf": [{"$ref": "#"}]}), json!({"a": 1}), json!({"a": 1})),
            (json!({"$ref": "https://x.example/s"}), json!({"a": 1}), json!({"a": 1})),
        ] {
            assert_eq!(shown(&schema, &value), expected, "{schema}");
        }
    }
}
