//! The budget of schemas and values: counted steps and bytes, and at most 20 errors.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolpost::{Extras, MASKED, Schema, SchemaError, Work, WorkLimits};

use crate::fuzz_corpus::schema_budget::assert_within_budget;
use crate::schema_attacks::{
    expression_input, expression_tree, nested_value, schema_over_budget, small_schemas,
    value_over_budget,
};
use crate::schema_generators::{schema, schema_with_defaults, value};

fn measure(schema: &Value, value: &Value) -> Work {
    Schema::new(schema.clone()).unwrap().measure(&mut value.clone(), Extras::Strip)
}

#[test]
fn small_hostile_schemas_cost_few_steps() {
    for (name, schema) in small_schemas() {
        let bytes = schema.to_string().len();
        assert!(bytes < 5_000, "{name}: {bytes} bytes");
        for value in [json!({}), json!(1), nested_value(20), nested_value(100)] {
            let work = measure(&schema, &value);
            println!("{name}: {work:?}");
            assert!(!work.is_exceeded && work.steps < 300_000, "{name}: {work:?}");
            assert!(work.memory < 4 << 20 && work.issues <= 20, "{name}: {work:?}");
        }
    }
}

#[test]
fn expression_tree_reports_one_bounded_error() {
    let input = expression_input();
    let work = measure(&expression_tree(), &input);
    assert!(work.steps < 10_000, "{work:?}");
    let issues = Schema::new(expression_tree()).unwrap().validate(&input).unwrap();
    assert_eq!(issues.len(), 1, "{issues:?}");
    assert_eq!(issues[0].path, "/tree");
    assert!(issues[0].message.contains("under any of the schemas"), "{}", issues[0]);
    assert!(issues[0].message.len() < 1_000);
}

#[test]
fn large_array_of_wrong_values_reports_20_errors() {
    let schema = Schema::new(json!({"items": {"type": "integer"}})).unwrap();
    let value = Value::Array(vec![json!("wrong"); 500_000]);
    let issues = schema.validate(&value).unwrap();
    assert_eq!(issues.len(), 20);
    assert_eq!(issues[19].to_string(), "/19: \"wrong\" is not of type \"integer\"");
    let nested = Schema::new(json!({"type": "object", "uniqueItems": true})).unwrap();
    let issues = nested.validate(&value).unwrap();
    assert!(issues.iter().all(|issue| issue.message.len() < 1_000), "{issues:?}");
}

#[test]
fn schema_over_budget_does_not_compile() {
    let error = Schema::new(schema_over_budget()).unwrap().compile().unwrap_err();
    assert!(matches!(error, SchemaError::OverBudget { .. }), "{error}");
    assert!(error.to_string().contains("more than 64 MiB"), "{error}");
}

#[test]
fn value_over_budget_is_invalid_and_unchanged() {
    let (schema, value) = value_over_budget();
    let schema = Schema::new(schema).unwrap();
    assert!(!schema.is_valid(&value).unwrap());
    let mut normalized = value;
    normalized["extra"] = json!(1);
    let before = normalized.clone();
    let done = schema.normalize(&mut normalized, Extras::Strip).unwrap();
    assert_eq!((&normalized, done.repairs.len(), done.issues.len()), (&before, 0, 1));
    let expected =
        "(root): validating the value takes more than 10000000 steps; send a smaller value";
    assert_eq!(done.issues[0].to_string(), expected);
}

#[test]
fn defaults_that_multiply_a_value_are_over_budget() {
    let large = "x".repeat(3_000);
    let schema = json!({"items": {"properties": {"a": {"default": large}}}});
    let value = Value::Array(vec![json!({}); 20_000]);
    let work = measure(&schema, &value);
    assert!(work.is_exceeded && work.memory < (64 << 20) + 10_000, "{work:?}");
    let mut filled = value.clone();
    let done = Schema::new(schema).unwrap().fill_defaults(&mut filled).unwrap();
    assert_eq!((filled == value, done.issues.len()), (true, 1));
}

#[test]
fn backtracking_pattern_is_bounded() {
    let schema = json!({"items": {"pattern": "^(?=(a+)+$)(a|aa)+(?!x)$"}});
    let value =
        Value::Array((0..2_000).map(|at| json!(format!("{}!{at}", "a".repeat(40)))).collect());
    let work = measure(&schema, &value);
    assert!(work.steps <= WorkLimits::VALUE.max_steps + 100_000, "{work:?}");
}

#[test]
fn secrets_of_value_over_budget_are_masked_completely() {
    let variants: Vec<Value> = (0..2_000)
        .map(|at| json!({"properties": {format!("p{at}"): {"writeOnly": true}}}))
        .collect();
    let schema = Schema::new(json!({"items": {"anyOf": variants}})).unwrap();
    let mut value = Value::Array(vec![json!({"a": "secret"}); 5_000]);
    assert!(schema.secrets().mask(&mut value));
    assert_eq!((&value[0]["a"], &value[4_999]), (&json!("secret"), &json!(MASKED)));
}

/// Each row: the schema, an invalid value, and its errors.
#[test]
fn error_messages_name_path_and_keyword() {
    for (schema, value, expected) in [
        (json!(false), json!(1), vec!["(root): False schema does not allow 1"]),
        (json!({"type": "integer"}), json!("x"), vec!["(root): \"x\" is not of type \"integer\""]),
        (
            json!({"type": ["string", "null"]}),
            json!(1.5),
            vec!["(root): 1.5 is not of types \"null\", \"string\""],
        ),
        (json!({"const": [1]}), json!([2]), vec!["(root): [1] was expected"]),
        (json!({"enum": ["a", 1]}), json!("b"), vec!["(root): \"b\" is not one of \"a\", 1"]),
        (
            json!({"properties": {"a": {"minimum": 3, "multipleOf": 2}}}),
            json!({"a": 1}),
            vec!["/a: 1 is less than the minimum of 3", "/a: 1 is not a multiple of 2"],
        ),
        (
            json!({"exclusiveMaximum": 3}),
            json!(3),
            vec!["(root): 3 is greater than or equal to the maximum of 3"],
        ),
        (json!({"minLength": 1}), json!(""), vec!["(root): \"\" is shorter than 1 character"]),
        (
            json!({"maxLength": 2}),
            json!("abc"),
            vec!["(root): \"abc\" is longer than 2 characters"],
        ),
        (json!({"pattern": "^a"}), json!("b"), vec!["(root): \"b\" does not match \"^a\""]),
        (json!({"minItems": 2}), json!([1]), vec!["(root): [1] has less than 2 items"]),
        (
            json!({"uniqueItems": true}),
            json!([1, 1.0]),
            vec!["(root): [1,1.0] has non-unique elements"],
        ),
        (
            json!({"contains": {"type": "string"}}),
            json!([1]),
            vec!["(root): None of [1] are valid under the given schema"],
        ),
        (
            json!({"required": ["a/b"], "dependentRequired": {"c": ["d"]}}),
            json!({"c": 1}),
            vec!["/a~1b: required property is missing", "/d: required property is missing"],
        ),
        (
            json!({"properties": {"a": {}}, "additionalProperties": false}),
            json!({"b": 1, "c": 2}),
            vec!["(root): Additional properties are not allowed ('b', 'c' were unexpected)"],
        ),
        (
            json!({"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false}),
            json!({"a": 1, "b": 1}),
            vec!["(root): Unevaluated properties are not allowed ('b' was unexpected)"],
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"ab": 1}),
            vec!["(root): \"ab\" is not a valid property name"],
        ),
        (
            json!({"anyOf": [{"type": "null"}, false]}),
            json!(1),
            vec!["(root): 1 is not valid under any of the schemas listed in the 'anyOf' keyword"],
        ),
        (
            json!({"oneOf": [true, true]}),
            json!(1),
            vec![
                "(root): 1 is valid under more than one of the schemas listed in the 'oneOf' keyword",
            ],
        ),
        (json!({"not": {}}), json!(1), vec!["(root): 1 is not allowed by the 'not' keyword"]),
        (
            json!({"if": {"required": ["a"]}, "then": {"properties": {"b": {"type": "null"}}}}),
            json!({"a": 1, "b": 1}),
            vec!["/b: 1 is not of type \"null\""],
        ),
    ] {
        let issues = Schema::new(schema.clone()).unwrap().validate(&value).unwrap();
        let found: Vec<String> = issues.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{schema}");
    }
}

/// Each row: an invalid schema, the location of the problem, and a part of the message.
#[test]
fn invalid_keyword_is_reported_with_its_location() {
    for (schema, at, message) in [
        (json!({"type": "str"}), "/type", "name of a JSON type"),
        (json!({"properties": {"a/b": {"required": "x"}}}), "/properties/a~1b/required", "strings"),
        (json!({"anyOf": []}), "/anyOf", "not empty"),
        (json!({"allOf": [{"minLength": -1}]}), "/allOf/0/minLength", "non-negative integer"),
        (json!({"multipleOf": 0}), "/multipleOf", "greater than zero"),
        (json!({"pattern": "("}), "", "not a regular expression"),
        (json!({"$schema": "https://example.com/own"}), "/$schema", "unknown dialect"),
    ] {
        match Schema::new(schema.clone()).unwrap().compile() {
            Err(SchemaError::DoesNotCompile { at: found, message: text }) => {
                assert_eq!(found, at, "{schema}");
                assert!(text.contains(message), "{schema}: {text}");
            }
            other => panic!("{schema}: {other:?}"),
        }
    }
}

/// Returns a value of up to 64 KB: a value repeated in an array, an object, or at several depths.
fn large_value() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["a", "b", "c", "kind", ""]);
    (value(), 1..400_usize, 0..60_usize, names).prop_map(|(inner, width, depth, name)| {
        let bytes = inner.to_string().len() + 8;
        let list = Value::Array(vec![inner; width.min(60_000 / bytes)]);
        (0..depth).fold(list, |inner, _| json!({ name: inner }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn work_stays_within_budget(schema in schema(), value in large_value()) {
        prop_assume!(schema.to_string().len() <= 4_096);
        assert_within_budget(&schema, &value);
    }

    #[test]
    fn work_with_defaults_stays_within_budget(
        schema in schema_with_defaults(),
        value in large_value(),
    ) {
        prop_assume!(schema.to_string().len() <= 4_096);
        assert_within_budget(&schema, &value);
    }
}
