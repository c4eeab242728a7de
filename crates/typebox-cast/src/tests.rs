//! One table per kind: schema, input and expected result.

use serde_json::{Value, json};

use crate::{CastAction, CastSchema};

/// Returns the value after the cast, or the error code.
fn cast(schema: &Value, input: &Value) -> Result<Value, &'static str> {
    let mut value = input.clone();
    let result = CastSchema::new(schema).cast(&mut value);
    match result {
        Ok(repairs) => {
            assert_eq!(repairs.is_empty(), value == *input, "{schema} {input}");
            Ok(value)
        }
        Err(error) => {
            assert_eq!(value, *input, "a failed cast does not change the value");
            Err(error.code.as_str())
        }
    }
}

fn check(schema: &Value, cases: &[(Value, Result<Value, &str>)]) {
    for (input, expected) in cases {
        assert_eq!(&cast(schema, input), expected, "{schema} {input}");
    }
}

#[test]
fn cast_replaces_scalars_without_conversion() {
    check(
        &json!({"type": "string", "minLength": 2}),
        &[
            (json!("ab"), Ok(json!("ab"))),
            (json!(5), Ok(json!("  "))),
            (json!("😀"), Ok(json!("😀"))),
        ],
    );
    check(
        &json!({"type": "integer", "minimum": 2.5}),
        &[(json!("42"), Ok(json!(2.5))), (json!(3.0), Ok(json!(3.0)))],
    );
    check(&json!({"type": "number", "multipleOf": 0.1}), &[(json!(0.3), Ok(json!(0)))]);
    check(
        &json!({"type": "string", "format": "date"}),
        &[(json!("anything"), Ok(json!("anything"))), (json!(1), Err("create/format"))],
    );
    check(&json!({"type": "string", "pattern": "("}), &[(json!("x"), Err("regex"))]);
    check(&json!({"type": "string", "minLength": -1}), &[(json!(1), Err("stack"))]);
}

#[test]
fn cast_object_keeps_valid_and_strips_undeclared() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "number", "default": 5}, "c": {}},
        "required": ["a", "c"],
    });
    check(
        &schema,
        &[
            (json!({"a": "x", "c": 1, "z": 1}), Ok(json!({"a": "x", "c": 1, "z": 1}))),
            (json!({"a": 1, "c": 1, "z": 1}), Ok(json!({"a": "", "c": 1}))),
            (json!({"a": "x", "b": "y", "c": 1}), Ok(json!({"a": "x", "b": 5, "c": 1}))),
            (json!({"a": "x"}), Ok(json!({"a": "x"}))),
            (json!([1]), Ok(json!({"a": ""}))),
            (json!(null), Ok(json!({"a": "", "c": {}}))),
        ],
    );
}

#[test]
fn cast_array_pads_truncates_and_dedups() {
    let schema =
        json!({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3});
    check(
        &schema,
        &[
            (json!([1]), Ok(json!([1, 0]))),
            (json!([1, 2, 3, 4]), Ok(json!([1, 2, 3]))),
            (json!("x"), Ok(json!([0, 0]))),
        ],
    );
    check(
        &json!({"type": "array", "uniqueItems": true}),
        &[
            (json!([1, 1, "1", null, null]), Ok(json!([1, "1", null]))),
            (json!([[1], [1]]), Err("cast/uniqueItems")),
            (json!(1), Err("create/uniqueItems")),
        ],
    );
    check(&json!({"type": "array", "default": "x"}), &[(json!(1), Err("type-error"))]);
    check(&json!({"type": "array", "minItems": 1e15}), &[(json!([]), Err("stack"))]);
}

/// JavaScript keeps the key of a missing property of type unknown as `undefined`, so the object
/// counts as complete.
#[test]
fn cast_treats_undefined_member_as_present() {
    let item = json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
    check(
        &json!({"type": "array", "uniqueItems": true, "items": item}),
        &[
            (json!([{}]), Ok(json!([{}]))),
            (json!([{}, {"a": null}]), Ok(json!([{}, {"a": null}]))),
            (json!([{}, {}]), Err("cast/uniqueItems")),
        ],
    );
}

#[test]
fn cast_union_selects_highest_scoring_variant() {
    let schema = json!({
        "$defs": {"A": {"const": "A"}, "B": {"const": "B"}},
        "anyOf": [
            {"type": "object", "properties": {"t": {"$ref": "#/$defs/A"}, "x": {"type": "number"}}, "required": ["t", "x"]},
            {"type": "object", "properties": {"t": {"$ref": "#/$defs/B"}, "y": {"type": "number"}}, "required": ["t", "y"]},
        ],
    });
    check(
        &schema,
        &[
            (json!({"t": "B", "x": 1}), Ok(json!({"t": "A", "x": 1}))),
            (json!({"t": "B"}), Ok(json!({"t": "B", "y": 0}))),
            (json!(5), Ok(json!({"t": "A", "x": 0}))),
        ],
    );
    check(&json!({"enum": [1, 2], "default": 7}), &[(json!(3), Ok(json!(7)))]);
    check(&json!({"anyOf": []}), &[(json!(3), Err("cast/never"))]);
}

#[test]
fn cast_intersection_merges_or_recreates() {
    let part = |key: &str, schema: Value| json!({"type": "object", "properties": {key: schema}, "required": [key]});
    let number = json!({"type": "number"});
    let schema = json!({"allOf": [part("x", number.clone()), part("y", number.clone())]});
    check(
        &schema,
        &[
            (json!({"x": 1, "z": 3}), Ok(json!({"x": 1, "y": 0}))),
            (json!({"x": "bad", "y": 2}), Ok(json!({"x": 0, "y": 0}))),
        ],
    );
    let tags = json!({"type": "array", "items": {"type": "string"}});
    check(
        &json!({"allOf": [part("tags", tags), part("n", number)]}),
        &[(json!({"tags": ["a"]}), Ok(json!({"tags": [], "n": 0})))],
    );
    check(
        &json!({"allOf": [{"type": "string"}, {"type": "number"}]}),
        &[(json!(1), Err("create/intersect"))],
    );
}

#[test]
fn cast_unresolved_ref_fails_only_when_reached() {
    check(
        &json!({"type": "array", "items": {"$ref": "#/none"}}),
        &[(json!([]), Ok(json!([]))), (json!([1]), Err("deref"))],
    );
    check(&json!({"$ref": "#"}), &[(json!(1), Err("stack"))]);
}

#[test]
fn cast_repairs_report_path_and_action() {
    use CastAction::{Defaulted, Invented, Replaced, Stripped};
    let number = json!({"type": "number"});
    let object = json!({
        "type": "object",
        "properties": {
            "a/b": {"type": "number"},
            "list": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 2},
            "d": {"type": "number", "default": 4},
        },
        "required": ["a/b", "list", "d"],
    });
    let both = json!({"allOf": [
        {"properties": {"x": number, "o": number}, "required": ["x"]},
        {"properties": {"y": {"type": "number", "default": 1}}, "required": ["y"]},
    ]});
    let cases = [
        (&object, json!({}), vec![("/a~1b", Invented), ("/list", Invented), ("/d", Defaulted)]),
        (
            &object,
            json!({"a/b": 1, "list": [1, "2", 3], "d": "x", "z": 0}),
            vec![("/z", Stripped), ("/list/1", Replaced), ("/list/2", Replaced), ("/d", Replaced)],
        ),
        (&object, json!({"a/b": 1, "list": [], "d": 0}), vec![("/list/0", Invented)]),
        (&object, json!([]), vec![("", Replaced)]),
        (
            &both,
            json!({"x": 1, "o": 2, "z": 3}),
            vec![("/o", Replaced), ("/z", Stripped), ("/y", Defaulted)],
        ),
        (&both, json!({"x": "1"}), vec![("", Replaced)]),
    ];
    for (schema, mut value, expected) in cases {
        let repairs = CastSchema::new(schema).cast(&mut value).unwrap();
        let found: Vec<_> =
            repairs.iter().map(|repair| (repair.path.as_str(), repair.action)).collect();
        assert_eq!(found, expected, "{value}");
    }
}

#[test]
fn cast_error_reports_path_and_detail() {
    let item = json!({"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}, "required": ["id"]});
    let schema = CastSchema::new(&json!({"type": "array", "items": item}));
    let error = schema.cast(&mut json!([{"id": "x"}, {}])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "create/format at `/1/id`: no string can be created for a format: `uuid`"
    );
}
