//! Keywords whose value is data: kept where every client reads them alike.

use serde_json::{Map, Value};

use super::pattern::{self, Reading};

/// What becomes of a keyword.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// It goes out like this and means the same.
    Exactly(Value),
    /// It goes out like this and means less.
    Weaker(Value),
    /// It says nothing about a value.
    Nothing,
    /// It says something that cannot be said to everybody.
    Unsayable,
}

/// Says a keyword that holds no schema, or `None` if it is none of these.
pub(super) fn say(keyword: &str, value: &Value, beside: &Map<String, Value>) -> Option<Said> {
    let kept = |fits: bool| if fits { Said::Exactly(value.clone()) } else { Said::Unsayable };
    Some(match keyword {
        "title" | "description" | "$comment" => annotation(value, value.is_string()),
        "examples" => annotation(value, value.is_array()),
        "deprecated" | "readOnly" | "writeOnly" => annotation(value, value.is_boolean()),
        "default" | "const" => Said::Exactly(value.clone()),
        "type" => types(value, beside),
        "enum" => kept(value.as_array().is_some_and(|values| !values.is_empty())),
        "minimum" => limit(value, beside, "exclusiveMinimum"),
        "maximum" => limit(value, beside, "exclusiveMaximum"),
        "exclusiveMinimum" => exclusive(value, beside, "minimum"),
        "exclusiveMaximum" => exclusive(value, beside, "maximum"),
        // Whether 0.3 is a multiple of 0.1 depends on whom you ask.
        "multipleOf" => kept(value.as_u64().is_some_and(|divisor| divisor > 0)),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            count(value).map_or(Said::Unsayable, |count| Said::Exactly(count.into()))
        }
        "uniqueItems" => kept(value.is_boolean()),
        "required" => required(value),
        "pattern" => match value.as_str().map(pattern::read) {
            Some(Reading::Same) => Said::Exactly(value.clone()),
            Some(Reading::Lenient) => Said::Weaker(value.clone()),
            _ => Said::Unsayable,
        },
        _ => return None,
    })
}

/// A list of names. A well known engine never misses the property whose name is empty.
fn required(value: &Value) -> Said {
    match value.as_array() {
        Some(names) if !names.iter().all(Value::is_string) => Said::Unsayable,
        Some(names) if names.contains(&"".into()) => Said::Weaker(value.clone()),
        Some(_) => Said::Exactly(value.clone()),
        None => Said::Unsayable,
    }
}

/// A number that counts; `2.0` is one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is checked before")]
pub(super) fn count(value: &Value) -> Option<u64> {
    let whole = |number: f64| {
        (number.fract() == 0.0 && (0.0..=9e15).contains(&number)).then_some(number as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn annotation(value: &Value, fits: bool) -> Said {
    if fits { Said::Exactly(value.clone()) } else { Said::Nothing }
}

/// The types, with `null` where `nullable` adds it.
fn types(value: &Value, beside: &Map<String, Value>) -> Said {
    let names = match value {
        Value::String(_) => std::slice::from_ref(value),
        Value::Array(names) => names,
        _ => return Said::Unsayable,
    };
    let is_name = |name: &Value| {
        let names = ["null", "object", "array", "string", "boolean", "number", "integer"];
        name.as_str().is_some_and(|name| names.contains(&name))
    };
    if names.is_empty() || !names.iter().all(is_name) {
        return Said::Unsayable;
    }
    let mut list: Vec<Value> = Vec::new();
    let null = (beside.get("nullable") == Some(&Value::Bool(true))).then(|| Value::from("null"));
    for name in names.iter().cloned().chain(null) {
        if !list.contains(&name) {
            list.push(name);
        }
    }
    Said::Exactly(if list.len() == 1 { list.swap_remove(0) } else { Value::Array(list) })
}

/// In OpenAPI and draft 4 a limit becomes exclusive by a boolean beside it.
fn limit(value: &Value, beside: &Map<String, Value>, exclusive: &str) -> Said {
    match beside.get(exclusive) {
        Some(Value::Bool(true)) => Said::Nothing,
        _ if value.is_number() => Said::Exactly(value.clone()),
        _ => Said::Unsayable,
    }
}

fn exclusive(value: &Value, beside: &Map<String, Value>, limit: &str) -> Said {
    match (value, beside.get(limit)) {
        (Value::Bool(true), Some(limit)) if limit.is_number() => Said::Exactly(limit.clone()),
        (Value::Bool(_), _) => Said::Nothing,
        (Value::Number(_), _) => Said::Exactly(value.clone()),
        _ => Said::Unsayable,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_kept_where_it_is_understood() {
        for (keyword, schema, expected) in [
            ("type", json!({"type": "string"}), Said::Exactly(json!("string"))),
            ("type", json!({"type": ["string"]}), Said::Exactly(json!("string"))),
            (
                "type",
                json!({"type": "string", "nullable": true}),
                Said::Exactly(json!(["string", "null"])),
            ),
            ("type", json!({"type": "objekt"}), Said::Unsayable),
            ("type", json!({"type": []}), Said::Unsayable),
            ("enum", json!({"enum": []}), Said::Unsayable),
            ("enum", json!({"enum": [null]}), Said::Exactly(json!([null]))),
            ("multipleOf", json!({"multipleOf": 0.1}), Said::Unsayable),
            ("multipleOf", json!({"multipleOf": 3}), Said::Exactly(json!(3))),
            ("minLength", json!({"minLength": 2.0}), Said::Exactly(json!(2))),
            ("minLength", json!({"minLength": -1}), Said::Unsayable),
            ("minimum", json!({"minimum": 1, "exclusiveMinimum": true}), Said::Nothing),
            (
                "exclusiveMinimum",
                json!({"minimum": 1, "exclusiveMinimum": true}),
                Said::Exactly(json!(1)),
            ),
            ("exclusiveMaximum", json!({"exclusiveMaximum": false}), Said::Nothing),
            ("required", json!({"required": true}), Said::Unsayable),
            ("required", json!({"required": ["a", 1]}), Said::Unsayable),
            ("required", json!({"required": ["a"]}), Said::Exactly(json!(["a"]))),
            ("required", json!({"required": [""]}), Said::Weaker(json!([""]))),
            ("title", json!({"title": 5}), Said::Nothing),
            ("pattern", json!({"pattern": "^a"}), Said::Exactly(json!("^a"))),
            ("pattern", json!({"pattern": "^a$"}), Said::Weaker(json!("^a$"))),
            ("pattern", json!({"pattern": "("}), Said::Unsayable),
        ] {
            let beside = schema.as_object().unwrap();
            assert_eq!(say(keyword, &schema[keyword], beside), Some(expected), "{schema}");
        }
        assert_eq!(say("format", &json!("date"), &Map::new()), None);
    }
}
