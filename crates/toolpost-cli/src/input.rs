//! Converts command-line arguments into the input of an operation.

use std::io::Read;

use serde_json::{Map, Value};
use toolpost::{OperationSpec, property_from_text};

/// Splits the arguments into a JSON document, if there is one, and `--key value` pairs.
pub(crate) fn split(arguments: &[String]) -> (Option<&str>, &[String]) {
    match arguments.split_first() {
        Some((first, rest)) if !first.starts_with("--") => (Some(first), rest),
        _ => (None, arguments),
    }
}

/// Adds `--key value` pairs to the input. They take precedence.
pub(crate) fn add_pairs(
    spec: &OperationSpec,
    input: Value,
    pairs: &[String],
) -> Result<Value, String> {
    if pairs.is_empty() {
        return Ok(input);
    }
    let Value::Object(mut members) = input else {
        return Err("--key value pairs can only be added to a JSON object".to_owned());
    };
    let schema = spec.input_schema.json();
    let mut given = Vec::new();
    for (key, text) in parse_pairs(pairs)? {
        let (path, property) = property_path(&schema, key);
        let value = parse_value(&schema, property, text);
        let is_first = !given.contains(&path);
        add_value(&mut members, &path, value, is_first)
            .map_err(|name| format!("--{key} cannot be added: `{name}` is not an object"))?;
        given.push(path);
    }
    Ok(Value::Object(members))
}

/// Describes the keys that the input schema does not define, and where they belong. Most schemas
/// allow them, but they are usually typos. A closed schema rejects them, so they are described only
/// if they belong elsewhere.
pub(crate) fn describe_unknown_keys(spec: &OperationSpec, input: &Value) -> Option<String> {
    let schema = spec.input_schema.json();
    let (members, properties) = (input.as_object()?, schema.get("properties")?.as_object()?);
    let is_open = ["patternProperties", "$ref", "allOf", "anyOf", "oneOf"]
        .iter()
        .any(|keyword| schema.get(keyword).is_some());
    let extras = schema.get("additionalProperties");
    if is_open || extras.is_some_and(|extras| *extras != Value::Bool(false)) {
        return None;
    }
    let unknown: Vec<&str> =
        members.keys().map(String::as_str).filter(|key| !properties.contains_key(*key)).collect();
    let belongs = |key: &&str| {
        let mut parents = properties.iter();
        let (parent, _) = parents.find(|(_, inner)| property(&schema, inner, key).is_some())?;
        Some(format!("`--{parent}.{key}`"))
    };
    let options: Vec<String> = unknown.iter().filter_map(belongs).collect();
    if unknown.is_empty() || (extras.is_some() && options.is_empty()) {
        return None;
    }
    let remedy = match options.is_empty() {
        true => String::new(),
        false => format!("; use {}", options.join(", ")),
    };
    Some(format!("has no input `{}`{remedy}", unknown.join("`, `")))
}

/// Parses a JSON document, `@FILE` or `-`. Without one, the input is an empty object.
pub(crate) fn parse_document(argument: Option<&str>) -> Result<Value, String> {
    let Some(argument) = argument else { return Ok(Value::Object(Map::new())) };
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

/// Returns the path of a key, and the schema of its value if it is known. Dots separate the
/// properties of nested objects, unless they are part of a property name.
fn property_path<'a>(root: &'a Value, key: &str) -> (Vec<String>, Option<&'a Value>) {
    let (mut path, mut schema, mut rest) = (Vec::new(), Some(root), key);
    loop {
        let ends = std::iter::once(rest.len()).chain(rest.rmatch_indices('.').map(|(at, _)| at));
        let known = ends
            .filter_map(|end| {
                let (name, property) = known_property(root, schema?, &rest[..end])?;
                Some((end, name, Some(property)))
            })
            .next();
        let (end, name, property) = known.unwrap_or_else(|| {
            let is_plain = rest.split('.').any(str::is_empty);
            let end = rest.find('.').filter(|_| !is_plain).unwrap_or(rest.len());
            (end, rest[..end].to_owned(), None)
        });
        path.push(name);
        schema = property;
        match rest.get(end + 1..) {
            Some(inner) if end < rest.len() => rest = inner,
            _ => return (path, schema),
        }
    }
}

/// Returns the property for a key: the key itself, or `everyMs` for `every-ms`.
fn known_property<'a>(
    root: &'a Value,
    schema: &'a Value,
    key: &str,
) -> Option<(String, &'a Value)> {
    [key.to_owned(), camel_case(key)].into_iter().find_map(|name| {
        let found = property(root, schema, &name)?;
        Some((name, found))
    })
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

/// Maximum number of references and alternatives followed to find a property, because a schema can
/// refer to itself.
const MAX_SCHEMA_DEPTH: u8 = 8;

/// Returns the schema of a property, which a reference or an alternative may declare.
fn property<'a>(root: &'a Value, schema: &'a Value, name: &str) -> Option<&'a Value> {
    property_within(root, schema, name, MAX_SCHEMA_DEPTH)
}

fn property_within<'a>(
    root: &'a Value,
    schema: &'a Value,
    name: &str,
    depth: u8,
) -> Option<&'a Value> {
    let own = schema.get("properties").and_then(|properties| properties.get(name));
    if own.is_some() || depth == 0 {
        return own;
    }
    let referred = schema.get("$ref").and_then(Value::as_str);
    let referred = referred.and_then(|uri| root.pointer(uri.strip_prefix('#')?));
    let alternatives = ["allOf", "anyOf", "oneOf"].into_iter();
    let alternatives = alternatives.filter_map(|keyword| schema.get(keyword)?.as_array()).flatten();
    let mut parts = referred.into_iter().chain(alternatives);
    parts.find_map(|part| property_within(root, part, name, depth - 1))
}

/// Parses an argument as the property's schema describes it, or else as JSON.
fn parse_value(root: &Value, property: Option<&Value>, text: Option<&str>) -> Value {
    let Some(text) = text else { return Value::Bool(true) };
    property_from_text(root, property.unwrap_or(&Value::Bool(true)), text)
}

/// Adds a value. A repeated key becomes a list; a key of the document is replaced. Returns the name of
/// a value on the path that is not an object.
fn add_value<'p>(
    mut members: &mut Map<String, Value>,
    path: &'p [String],
    value: Value,
    is_first: bool,
) -> Result<(), &'p str> {
    let Some((last, parents)) = path.split_last() else { return Ok(()) };
    for name in parents {
        let parent = members.entry(name).or_insert_with(|| Value::Object(Map::new()));
        members = parent.as_object_mut().ok_or(name.as_str())?;
    }
    match members.get_mut(last).filter(|_| !is_first) {
        Some(Value::Array(items)) => items.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
        None => drop(members.insert(last.clone(), value)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolpost::{OperationKind, Schema};

    use super::*;

    /// Builds the input from all arguments.
    fn build(spec: &OperationSpec, arguments: &[String]) -> Result<Value, String> {
        let (document, pairs) = split(arguments);
        add_pairs(spec, parse_document(document)?, pairs)
    }

    fn spec() -> OperationSpec {
        let mut spec = OperationSpec::new(&"t.op".parse().unwrap(), OperationKind::Query);
        let schema = json!({"properties": {
            "n": {"type": "number"}, "text": {"type": "string"}, "maybe": {"type": ["string", "null"]},
            "everyMs": {"type": "integer"}, "tags": {"type": "array"}, "any": {},
            "either": {"oneOf": [{"type": "string"}, {"type": "boolean"}]},
            "body": {"$ref": "#/$defs/body"}, "dotted.name": {"type": "string"},
        }, "$defs": {"body": {"allOf": [{"properties": {
            "title": {"type": "string"}, "dueDate": {"type": "string"}, "labels": {"type": "array"},
        }}]}}});
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
            ("--body.title 7 --body.size 7", json!({"body": {"title": "7", "size": 7}})),
            ("--body.due-date 7", json!({"body": {"dueDate": "7"}})),
            ("--body.labels a --body.labels b", json!({"body": {"labels": ["a", "b"]}})),
            (
                "{\"body\":{\"title\":\"a\"}} --body.x.y 1",
                json!({"body": {"title": "a", "x": {"y": 1}}}),
            ),
            ("--dotted.name 7", json!({"dotted.name": "7"})),
            ("--any.a.b 7", json!({"any": {"a": {"b": 7}}})),
            ("--a..b 7 --.c 7", json!({"a..b": 7, ".c": 7})),
            ("[1,2]", json!([1, 2])),
            ("null", json!(null)),
        ] {
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            assert_eq!(build(&spec(), &arguments), Ok(expected), "{arguments:?}");
        }
    }

    /// Each row: additional members of the schema, the input and the message.
    #[test]
    fn unknown_input_keys_are_described() {
        for (extras, input, expected) in [
            (json!({}), json!({"n": 1, "m": 2, "k": 2}), Some("has no input `m`, `k`")),
            (json!({}), json!({"title": 1}), Some("has no input `title`; use `--body.title`")),
            (json!({}), json!([1]), None),
            (json!({}), json!({"n": 1}), None),
            (json!({"additionalProperties": true}), json!({"title": 2}), None),
            (json!({"additionalProperties": false}), json!({"m": 2}), None),
            (
                json!({"additionalProperties": false}),
                json!({"title": 2}),
                Some("has no input `title`; use `--body.title`"),
            ),
        ] {
            let mut spec = spec();
            let mut schema = spec.input_schema.json().into_owned();
            schema.as_object_mut().unwrap().extend(extras.as_object().unwrap().clone());
            spec.input_schema = Schema::new(schema).unwrap();
            assert_eq!(describe_unknown_keys(&spec, &input).as_deref(), expected, "{input}");
        }
    }

    #[test]
    fn invalid_input_arguments_return_error() {
        for (arguments, expected) in [
            (&["{"][..], "not JSON"),
            (&["@/no/such/file"], "cannot read the input file `/no/such/file`"),
            (&["[1]", "--n", "2"], "only be added to a JSON object"),
            (&["--n", "2", "3"], "unexpected argument `3`"),
            (&["{}", "3"], "unexpected argument `3`"),
            (&["{\"n\":1}", "--n.x", "3"], "--n.x cannot be added: `n` is not an object"),
        ] {
            let arguments: Vec<String> =
                arguments.iter().map(|argument| (*argument).to_owned()).collect();
            let error = build(&spec(), &arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments:?}: {error}");
        }
    }
}
