use crate::schema::Schema;
use serde_json::{Value, json};

use super::*;

fn schema(properties: &Value) -> Schema {
    Schema::new(json!({
        "type": "object",
        "properties": properties,
        "$defs": {
            "word": {"type": ["string", "null"], "enum": ["a", "b", null]},
            "again": {"$ref": "#/$defs/word"},
            "circle": {"$ref": "#/$defs/circle"},
            "point": {"type": "object"},
        },
    }))
    .unwrap()
}

/// Each row: a property, its query style, and the parameter schema if it differs from the property.
#[test]
fn query_encoding_selects_style_per_property() {
    use QueryStyle::{Json, Repeated, Text};
    for (property, style, written) in [
        (json!({"type": "string"}), Text, None),
        (json!({"type": "integer", "minimum": 1}), Text, None),
        (json!({"type": ["number", "boolean"]}), Text, None),
        (json!({"enum": ["x", "y"]}), Text, None),
        (json!({"const": 3}), Text, None),
        (
            json!({"type": ["string", "null"], "default": null}),
            Text,
            Some(json!({"type": "string"})),
        ),
        (json!({"enum": [1, null]}), Text, Some(json!({"enum": [1]}))),
        (
            json!({"anyOf": [{"$ref": "#/$defs/again"}, {"type": "null"}], "title": "W"}),
            Text,
            Some(json!({"type": "string", "enum": ["a", "b"], "title": "W"})),
        ),
        (
            json!({"type": "array", "items": {"$ref": "#/$defs/word"}, "maxItems": 3}),
            Repeated,
            Some(json!({
                "type": "array", "maxItems": 3, "minItems": 1,
                "items": {"type": "string", "enum": ["a", "b"]},
            })),
        ),
        (
            json!({"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 2}),
            Repeated,
            Some(json!({"type": "array", "items": {"type": "integer"}, "minItems": 2})),
        ),
        (json!({"type": ["string", "integer"]}), Json, None),
        (json!({"type": "null"}), Json, None),
        (json!({}), Json, None),
        (json!(true), Json, None),
        (json!({"type": "object"}), Json, None),
        (json!({"$ref": "#/$defs/point"}), Json, None),
        (json!({"$ref": "#/$defs/circle"}), Json, None),
        (json!({"$ref": "https://example.com/x"}), Json, None),
        (json!({"$ref": "#/$defs/word", "maxLength": 3}), Json, None),
        (json!({"type": "array"}), Json, None),
        (json!({"type": "array", "items": {"type": "array"}}), Json, None),
        (json!({"type": "array", "items": {"type": "string"}, "maxItems": 0}), Json, None),
        (json!({"type": "string", "not": {"const": "x"}}), Json, None),
        (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), Json, None),
    ] {
        let schema = schema(&json!({"p": property}));
        let schema = schema.json();
        let QueryEncoding::Properties(parameters) = QueryEncoding::from_schema(&schema) else {
            panic!("{property} has no parameter")
        };
        assert_eq!(parameters[0].style, style, "{property}");
        assert_eq!(*parameters[0].schema(), written.unwrap_or(property));
    }
}

#[test]
fn query_encoding_non_object_uses_single_parameter() {
    let text = json!({"p": {"type": "string"}});
    for (root, is_single) in [
        (json!(true), true),
        (json!({}), false),
        (json!({"type": "object"}), true),
        (json!({"type": "string"}), true),
        (json!({"type": ["object", "null"], "properties": text}), true),
        (json!({"properties": text, "minProperties": 1}), true),
        (json!({"properties": text, "required": ["q"]}), true),
        (json!({"properties": text, "additionalProperties": {"type": "string"}}), true),
        (json!({"$ref": "#/$defs/x", "$defs": {"x": {"properties": text}}}), true),
        (json!({"allOf": [{"properties": text}]}), true),
        (json!({"properties": text}), false),
        (json!({"properties": text, "required": ["p"], "x-order": 1}), false),
        (json!({"type": "object", "additionalProperties": false}), false),
        (json!({"type": "object", "properties": text, "additionalProperties": true}), false),
    ] {
        let schema = Schema::new(root.clone()).unwrap();
        // The unknown schema does not describe an object either.
        let is_single = is_single || schema.is_unknown();
        assert_eq!(
            matches!(QueryEncoding::from_schema(&schema.json()), QueryEncoding::SingleParameter),
            is_single,
            "{root}"
        );
    }
}

/// Each row: the query pairs, and the parsed input or the paths of the issues.
#[test]
#[expect(clippy::type_complexity, reason = "a row is a tuple")]
fn query_encoding_parses_pairs_into_input() {
    let schema = schema(&json!({
        "text": {"type": "string"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "words": {"type": "array", "items": {"type": "string"}},
        "point": {"type": "object"},
        "never": false,
        "a/b": {"type": "string"},
        "either": {"oneOf": [{"type": "string"}, {"type": "boolean"}]},
        "named": {"anyOf": [{"$ref": "#/$defs/word"}, {"type": "integer"}]},
    }));
    let schema = schema.json();
    let form = QueryEncoding::from_schema(&schema);
    let wrong = |issue_paths: &[&str]| {
        Err(issue_paths.iter().map(|issue_path| (*issue_path).to_owned()).collect())
    };
    let rows: [(&[(&str, &str)], Result<Value, Vec<String>>); 25] = [
        (&[], Ok(json!({}))),
        (&[("text", "42")], Ok(json!({"text": "42"}))),
        (&[("text", "")], Ok(json!({"text": ""}))),
        (&[("number", "-2.5e1")], Ok(json!({"number": -25.0}))),
        (&[("number", "two")], Ok(json!({"number": "two"}))),
        (&[("number", " 2")], Ok(json!({"number": " 2"}))),
        (&[("number", "\"2\"")], Ok(json!({"number": "\"2\""}))),
        (&[("number", "1e999")], Ok(json!({"number": "1e999"}))),
        (&[("flag", "true")], Ok(json!({"flag": true}))),
        (&[("flag", "yes")], Ok(json!({"flag": "yes"}))),
        (&[("list", "1")], Ok(json!({"list": [1]}))),
        (&[("list", "1"), ("text", "x"), ("list", "2")], Ok(json!({"list": [1, 2], "text": "x"}))),
        (&[("words", "1"), ("words", "[]")], Ok(json!({"words": ["1", "[]"]}))),
        (&[("point", r#"{"x":1}"#)], Ok(json!({"point": {"x": 1}}))),
        (&[("point", "{x:1}")], wrong(&["/point"])),
        (&[("point", r#"{"x":1,"x":2}"#)], wrong(&["/point"])),
        (&[("text", "1"), ("text", "2")], wrong(&["/text"])),
        (&[("other", "1"), ("never", "1"), ("a/c", "1")], wrong(&["/other", "/never", "/a~1c"])),
        (&[("a/b", "1")], Ok(json!({"a/b": "1"}))),
        (&[("either", "true")], Ok(json!({"either": true}))),
        (&[("either", "\"true\"")], Ok(json!({"either": "true"}))),
        (&[("either", "on")], Ok(json!({"either": "on"}))),
        (&[("either", "123")], Ok(json!({"either": "123"}))),
        (&[("named", "7")], Ok(json!({"named": 7}))),
        (&[("named", "a"), ("point", "3")], Ok(json!({"named": "a", "point": 3}))),
    ];
    for (pairs, expected) in rows {
        let read = form.parse(pairs.iter().copied());
        let read = read.map_err(|issues| issues.into_iter().map(|i| i.path).collect::<Vec<_>>());
        assert_eq!(read, expected, "{pairs:?}");
    }
}

#[test]
fn query_encoding_single_parameter_parses_json() {
    let form = QueryEncoding::SingleParameter;
    assert_eq!(form.parse([("input", "[1]")]).unwrap(), json!([1]));
    assert_eq!(form.parse([("", ""); 0]).unwrap(), json!({}));
    assert_eq!(form.parse([("input", "[")]).unwrap_err()[0].path, "");
    assert_eq!(form.parse([("other", "1")]).unwrap_err()[0].path, "/other");
    assert_eq!(form.parse([("input", "1"), ("input", "2")]).unwrap_err()[0].path, "");
}
