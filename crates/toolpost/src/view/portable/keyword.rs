//! Keywords whose value is data. They are kept if all clients interpret them the same way.

use serde_json::Value;

use super::pattern::{self, PatternPortability};
use crate::json::JsonObject;

/// How a keyword is written in portable form.
#[derive(Debug, PartialEq)]
pub(super) enum KeywordMapping {
    /// Written with this value; the meaning is the same.
    Exact(Value),
    /// Written with this value; the meaning is weaker.
    Weaker(Value),
    /// No constraint; omitted.
    Ignored,
    /// A constraint that is not portable.
    Unsupported,
}

/// Maps a keyword whose value is not a schema. Returns `None` for any other keyword.
pub(super) fn map_keyword(
    keyword: &str,
    value: &Value,
    siblings: &JsonObject,
) -> Option<KeywordMapping> {
    let exact_if = |fits: bool| {
        if fits { KeywordMapping::Exact(value.clone()) } else { KeywordMapping::Unsupported }
    };
    Some(match keyword {
        "title" | "description" | "$comment" => annotation(value, value.is_string()),
        "examples" => annotation(value, value.is_array()),
        "deprecated" | "readOnly" | "writeOnly" => annotation(value, value.is_boolean()),
        "default" | "const" => KeywordMapping::Exact(value.clone()),
        "type" => types(value, siblings),
        "enum" => exact_if(value.as_array().is_some_and(|values| !values.is_empty())),
        "minimum" => limit(value, siblings, "exclusiveMinimum"),
        "maximum" => limit(value, siblings, "exclusiveMaximum"),
        "exclusiveMinimum" => exclusive(value, siblings, "minimum"),
        "exclusiveMaximum" => exclusive(value, siblings, "maximum"),
        // Validators disagree on fractional divisors, for example whether 0.3 is a multiple of 0.1.
        "multipleOf" => exact_if(value.as_u64().is_some_and(|divisor| divisor > 0)),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            count(value)
                .map_or(KeywordMapping::Unsupported, |count| KeywordMapping::Exact(count.into()))
        }
        "uniqueItems" => exact_if(value.is_boolean()),
        "required" => required(value),
        "pattern" => match value.as_str().map(pattern::classify) {
            Some(PatternPortability::Exact) => KeywordMapping::Exact(value.clone()),
            Some(PatternPortability::Lenient) => KeywordMapping::Weaker(value.clone()),
            _ => KeywordMapping::Unsupported,
        },
        _ => return None,
    })
}

/// Members that every JavaScript object inherits. A widely used validator finds them in objects that
/// do not have them.
pub(super) const INHERITED_MEMBERS: [&str; 12] = [
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// Whether all clients can test whether an object has a property with this name.
pub(super) fn is_testable(name: &str) -> bool {
    !name.is_empty() && !INHERITED_MEMBERS.contains(&name)
}

/// Maps `required`. A widely used validator never reports some properties as missing.
fn required(value: &Value) -> KeywordMapping {
    match value.as_array() {
        Some(names) if !names.iter().all(Value::is_string) => KeywordMapping::Unsupported,
        Some(names) if !names.iter().filter_map(Value::as_str).all(is_testable) => {
            KeywordMapping::Weaker(value.clone())
        }
        Some(_) => KeywordMapping::Exact(value.clone()),
        None => KeywordMapping::Unsupported,
    }
}

/// Returns a non-negative integer, which can be written as a float such as `2.0`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is checked before")]
pub(super) fn count(value: &Value) -> Option<u64> {
    let integer = |number: f64| {
        (number.fract() == 0.0 && (0.0..=9e15).contains(&number)).then_some(number as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(integer))
}

fn annotation(value: &Value, is_valid: bool) -> KeywordMapping {
    if is_valid { KeywordMapping::Exact(value.clone()) } else { KeywordMapping::Ignored }
}

/// Maps `type`, and adds `null` if the schema is `nullable`.
fn types(value: &Value, siblings: &JsonObject) -> KeywordMapping {
    let names = match value {
        Value::String(_) => std::slice::from_ref(value),
        Value::Array(names) => names,
        _ => return KeywordMapping::Unsupported,
    };
    let is_name = |name: &Value| {
        let names = ["null", "object", "array", "string", "boolean", "number", "integer"];
        name.as_str().is_some_and(|name| names.contains(&name))
    };
    if names.is_empty() || !names.iter().all(is_name) {
        return KeywordMapping::Unsupported;
    }
    let mut list: Vec<Value> = Vec::new();
    let null = (siblings.get("nullable") == Some(&Value::Bool(true))).then(|| Value::from("null"));
    for name in names.iter().cloned().chain(null) {
        if !list.contains(&name) {
            list.push(name);
        }
    }
    KeywordMapping::Exact(if list.len() == 1 { list.swap_remove(0) } else { Value::Array(list) })
}

/// Maps `minimum` or `maximum`, which a boolean sibling can make exclusive.
fn limit(value: &Value, siblings: &JsonObject, exclusive: &str) -> KeywordMapping {
    match siblings.get(exclusive) {
        Some(Value::Bool(true)) => KeywordMapping::Ignored,
        _ if value.is_number() => KeywordMapping::Exact(value.clone()),
        _ => KeywordMapping::Unsupported,
    }
}

fn exclusive(value: &Value, siblings: &JsonObject, limit: &str) -> KeywordMapping {
    match (value, siblings.get(limit)) {
        (Value::Bool(true), Some(limit)) if limit.is_number() => {
            KeywordMapping::Exact(limit.clone())
        }
        (Value::Bool(_), _) => KeywordMapping::Ignored,
        (Value::Number(_), _) => KeywordMapping::Exact(value.clone()),
        _ => KeywordMapping::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_keywords_map_to_portable_form() {
        for (keyword, schema, expected) in [
            ("type", json!({"type": "string"}), KeywordMapping::Exact(json!("string"))),
            ("type", json!({"type": ["string"]}), KeywordMapping::Exact(json!("string"))),
            (
                "type",
                json!({"type": "string", "nullable": true}),
                KeywordMapping::Exact(json!(["string", "null"])),
            ),
            ("type", json!({"type": "objekt"}), KeywordMapping::Unsupported),
            ("type", json!({"type": []}), KeywordMapping::Unsupported),
            ("enum", json!({"enum": []}), KeywordMapping::Unsupported),
            ("enum", json!({"enum": [null]}), KeywordMapping::Exact(json!([null]))),
            ("multipleOf", json!({"multipleOf": 0.1}), KeywordMapping::Unsupported),
            ("multipleOf", json!({"multipleOf": 3}), KeywordMapping::Exact(json!(3))),
            ("minLength", json!({"minLength": 2.0}), KeywordMapping::Exact(json!(2))),
            ("minLength", json!({"minLength": -1}), KeywordMapping::Unsupported),
            ("minimum", json!({"minimum": 1, "exclusiveMinimum": true}), KeywordMapping::Ignored),
            (
                "exclusiveMinimum",
                json!({"minimum": 1, "exclusiveMinimum": true}),
                KeywordMapping::Exact(json!(1)),
            ),
            ("exclusiveMaximum", json!({"exclusiveMaximum": false}), KeywordMapping::Ignored),
            ("required", json!({"required": true}), KeywordMapping::Unsupported),
            ("required", json!({"required": ["a", 1]}), KeywordMapping::Unsupported),
            ("required", json!({"required": ["a"]}), KeywordMapping::Exact(json!(["a"]))),
            ("required", json!({"required": [""]}), KeywordMapping::Weaker(json!([""]))),
            ("title", json!({"title": 5}), KeywordMapping::Ignored),
            ("pattern", json!({"pattern": "^a"}), KeywordMapping::Exact(json!("^a"))),
            ("pattern", json!({"pattern": "^a$"}), KeywordMapping::Weaker(json!("^a$"))),
            ("pattern", json!({"pattern": "("}), KeywordMapping::Unsupported),
        ] {
            let siblings = schema.as_object().unwrap();
            assert_eq!(
                map_keyword(keyword, &schema[keyword], siblings),
                Some(expected),
                "{schema}"
            );
        }
        assert_eq!(map_keyword("format", &json!("date"), &JsonObject::new()), None);
    }
}
