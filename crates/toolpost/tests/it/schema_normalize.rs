//! The examples in `docs/normalize.md`, and details of the normalization rules.

use std::path::Path;

use serde_json::{Value, json};
use toolpost::{Extras, Schema};

/// Each line of a fenced `json` block is one example: `schema`, `in` and `out`, optionally
/// `extras`, and `issues` with the paths of the remaining errors.
#[test]
fn docs_normalize_examples_match() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/normalize.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```json\n").skip(1).filter_map(|block| block.split("```").next());
    let mut examples = 0;
    for line in blocks.flat_map(str::lines) {
        let example = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        check(&example);
        examples += 1;
    }
    assert!(examples > 30, "the page has only {examples} examples");
}

fn check(example: &Value) {
    let extras = if example["extras"] == "keep" { Extras::Keep } else { Extras::Strip };
    let mut value = example["in"].clone();
    let schema = Schema::new(example["schema"].clone()).unwrap();
    let done = schema.normalize(&mut value, extras).unwrap();
    assert_eq!(value, example["out"], "{example}");
    let paths: Value = done.issues.iter().map(|issue| issue.path.clone()).collect();
    let expected = example.get("issues").cloned().unwrap_or(json!([]));
    assert_eq!(paths, expected, "{example}: {:?}", done.issues);
}

#[test]
fn normalize_repairs_use_escaped_json_pointers() {
    let schema = json!({"properties": {"a/b": {"properties": {"~": {"type": "integer"}}}}});
    let mut value = json!({"a/b": {"~": "5", "/": 1}});
    let done = Schema::new(schema).unwrap().normalize(&mut value, Extras::Strip).unwrap();
    let found = serde_json::to_value(&done.repairs).unwrap();
    let expected = json!([
        {"path": "/a~1b/~0", "action": "converted", "from": "5", "to": 5},
        {"path": "/a~1b/~1", "action": "stripped", "from": 1},
    ]);
    assert_eq!(found, expected);
}

#[test]
fn normalize_uses_discriminator_if_no_variant_matches() {
    let schema = json!({
        "$defs": {
            "Cat": {"properties": {"kind": {"type": "string"}, "lives": {"type": "integer"}}, "required": ["lives", "name"]},
            "Dog": {"properties": {"kind": {"type": "string"}, "age": {"type": "integer"}}, "required": ["age", "name"]}},
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        "discriminator": {"propertyName": "kind", "mapping": {"hound": "#/$defs/Dog"}}});
    let schema = Schema::new(schema).unwrap();
    for (input, expected) in [
        (json!({"kind": "Cat", "lives": "9", "age": "1"}), json!({"kind": "Cat", "lives": 9})),
        (json!({"kind": "hound", "lives": "9", "age": "1"}), json!({"kind": "hound", "age": 1})),
        (json!({"kind": "Cow", "lives": "9"}), json!({"kind": "Cow", "lives": "9"})),
    ] {
        let mut value = input;
        let done = schema.normalize(&mut value, Extras::Strip).unwrap();
        assert_eq!(value, expected);
        assert!(!done.issues.is_empty());
    }
}

#[test]
fn normalize_draft_4_converts_integral_float() {
    let schema = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"});
    let mut value = json!(1.0);
    let done = Schema::new(schema).unwrap().normalize(&mut value, Extras::Strip).unwrap();
    assert_eq!((value, done.repairs.len()), (json!(1), 1));
}

#[test]
fn normalize_valid_value_does_not_reallocate() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}});
    let schema = Schema::new(schema).unwrap();
    let mut value = json!({"a": ["x", null, "y"]});
    let before = value["a"].as_array().unwrap().as_ptr();
    assert_eq!(schema.normalize(&mut value, Extras::Strip).unwrap(), Default::default());
    assert_eq!(value["a"].as_array().unwrap().as_ptr(), before);
}
