//! Converts command-line arguments into the input of an operation.

use std::io::Read;

use serde_json::{Map, Value};
use toolpost::{OperationSpec, property_from_text};

/// Builds the input from an optional JSON document and `--key value` pairs, which take precedence.
pub(crate) fn build(spec: &OperationSpec, arguments: &[String]) -> Result<Value, String> {
    let (document, pairs) = match arguments.split_first() {
        Some((first, rest)) if !first.starts_with("--") => (parse_document(first)?, rest),
        _ => (Value::Object(Map::new()), arguments),
    };
    if pairs.is_empty() {
        return Ok(document);
    }
    let Value::Object(mut members) = document else {
        return Err("--key value pairs can only be added to a JSON object".to_owned());
    };
    let schema = spec.input_schema.json();
    let mut given = Vec::new();
    for (key, text) in parse_pairs(pairs)? {
        let key = property_name(&schema, key);
        let value = parse_value(&schema, property(&schema, &key), text);
        add_value(&mut members, &mut given, key, value);
    }
    Ok(Value::Object(members))
}

/// Returns the keys that the input schema does not define. Most schemas allow them, but they are
/// usually typos.
pub(crate) fn unknown_keys<'a>(spec: &OperationSpec, input: &'a Value) -> Vec<&'a str> {
    let schema = spec.input_schema.json();
    let is_open = ["additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"]
        .iter()
        .any(|keyword| schema.get(keyword).is_some());
    let (Some(input), Some(_), false) = (input.as_object(), schema.get("properties"), is_open)
    else {
        return Vec::new();
    };
    let names = input.keys().map(String::as_str);
    names.filter(|name| property(&schema, name).is_none()).collect()
}

fn parse_document(argument: &str) -> Result<Value, String> {
    let text = match argument.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the input file `{path}`: {error}"))?,
        None if argument == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| format!("cannot read the input from standard input: {error}"))?;
            text
        }
        None => argument.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        format!("the input is not JSON: {error}; use a JSON object, @FILE, - or --key value")
    })
}

/// Parses `--key value`, `--key=value`, or `--key` alone for `true`.
fn parse_pairs(arguments: &[String]) -> Result<Vec<(&str, Option<&str>)>, String> {
    let mut pairs = Vec::new();
    let mut arguments = arguments.iter().map(String::as_str).peekable();
    while let Some(argument) = arguments.next() {
        let Some(key) = argument.strip_prefix("--").filter(|key| !key.is_empty()) else {
            return Err(format!("unexpected argument `{argument}`; expected --key value"));
        };
        let pair = match key.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (key, arguments.next_if(|next| !next.starts_with("--"))),
        };
        pairs.push(pair);
    }
    Ok(pairs)
}

/// Returns the property for a key: the key itself, or `everyMs` for `every-ms`.
fn property_name(schema: &Value, key: &str) -> String {
    let camel = camel_case(key);
    let is_known = |name: &str| property(schema, name).is_some();
    if !is_known(key) && is_known(&camel) { camel } else { key.to_owned() }
}

fn camel_case(key: &str) -> String {
    let mut parts = key.split('-');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(letters.as_str());
    }
    name
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// Parses an argument as the property's schema describes it, or else as JSON.
fn parse_value(root: &Value, property: Option<&Value>, text: Option<&str>) -> Value {
    let Some(text) = text else { return Value::Bool(true) };
    property_from_text(root, property.unwrap_or(&Value::Bool(true)), text)
}

/// Adds a value. A repeated key becomes a list; a key of the document is replaced.
fn add_value(members: &mut Map<String, Value>, given: &mut Vec<String>, key: String, value: Value) {
    if !given.contains(&key) {
        given.push(key.clone());
        members.insert(key, value);
        return;
    }
    match members.get_mut(&key) {
        Some(Value::Array(items)) => items.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolpost::{OperationKind, Schema};

    use super::*;

    fn spec() -> OperationSpec {
        let mut spec = OperationSpec::new(&"t.op".parse().unwrap(), OperationKind::Query);
        let schema = json!({"properties": {
            "n": {"type": "number"}, "text": {"type": "string"}, "maybe": {"type": ["string", "null"]},
            "everyMs": {"type": "integer"}, "tags": {"type": "array"}, "any": {},
            "either": {"oneOf": [{"type": "string"}, {"type": "boolean"}]},
        }});
        spec.input_schema = Schema::new(schema).unwrap();
        spec
    }

    #[test]
    fn arguments_are_converted_by_input_schema() {
        for (arguments, expected) in [
            ("", json!({})),
            ("--n 2", json!({"n": 2})),
            ("--n=-2.5", json!({"n": -2.5})),
            ("--n -2", json!({"n": -2})),
            ("--n two", json!({"n": "two"})),
            ("--text 42", json!({"text": "42"})),
            ("--maybe null", json!({"maybe": "null"})),
            ("--every-ms 5", json!({"everyMs": 5})),
            ("--other-key 5", json!({"other-key": 5})),
            ("--any {\"a\":1}", json!({"any": {"a": 1}})),
            ("--any hello", json!({"any": "hello"})),
            ("--either 5", json!({"either": "5"})),
            ("--either true", json!({"either": true})),
            ("--flag", json!({"flag": true})),
            ("--flag --n 1", json!({"flag": true, "n": 1})),
            ("--tags a --tags b --tags c", json!({"tags": ["a", "b", "c"]})),
            ("{\"n\":1,\"m\":2} --n 3", json!({"n": 3, "m": 2})),
            ("[1,2]", json!([1, 2])),
            ("null", json!(null)),
        ] {
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            assert_eq!(build(&spec(), &arguments), Ok(expected), "{arguments:?}");
        }
    }

    #[test]
    fn unknown_input_keys_are_reported() {
        assert_eq!(unknown_keys(&spec(), &json!({"n": 1, "m": 2})), ["m"]);
        assert_eq!(unknown_keys(&spec(), &json!([1])), [""; 0]);
        let mut open = spec();
        open.input_schema =
            Schema::new(json!({"properties": {}, "additionalProperties": true})).unwrap();
        assert_eq!(unknown_keys(&open, &json!({"m": 2})), [""; 0]);
    }

    #[test]
    fn invalid_input_arguments_return_error() {
        for (arguments, expected) in [
            (&["{"][..], "not JSON"),
            (&["@/no/such/file"], "cannot read the input file `/no/such/file`"),
            (&["[1]", "--n", "2"], "only be added to a JSON object"),
            (&["--n", "2", "3"], "unexpected argument `3`"),
            (&["{}", "3"], "unexpected argument `3`"),
        ] {
            let arguments: Vec<String> =
                arguments.iter().map(|argument| (*argument).to_owned()).collect();
            let error = build(&spec(), &arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments:?}: {error}");
        }
    }
}
