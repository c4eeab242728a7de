//! Hostile schemas and values, on a thread with a 2 MiB stack.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use typebox_cast::{CastAction, CastSchema};

const DEPTH: usize = 10_000;

/// Runs `work` on a thread with a 2 MiB stack, and fails if it takes 20 seconds or more.
fn with_small_stack(work: impl FnOnce() + Send + 'static) {
    let start = Instant::now();
    let thread =
        std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("a thread starts");
    thread.join().expect("the work succeeds");
    assert!(start.elapsed() < Duration::from_secs(20), "took {:?}", start.elapsed());
}

/// Creates a deeply nested value. It must be dropped with `drop_iteratively`.
fn nested(levels: usize, innermost: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(innermost, |value, _| wrap(value))
}

/// Creates an object. `json!` would copy deep values at every level.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn list(item: Value) -> Value {
    Value::Array(vec![item])
}

fn next(value: Value) -> Value {
    object([("next", value)])
}

/// Drops a deep value without recursion, which serde_json's own drop uses.
fn drop_iteratively(value: Value) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(map) => pending.extend(map.into_iter().map(|(_, member)| member)),
            _ => {}
        }
    }
}

/// Returns the error code, or `ok`. The values in repairs are dropped iteratively, because they can
/// be deep.
fn cast_code(schema: &CastSchema, value: &mut Value) -> &'static str {
    match schema.cast(value) {
        Ok(repairs) => {
            let old = repairs.into_iter().flat_map(|repair| [repair.from, repair.to]).flatten();
            old.for_each(drop_iteratively);
            "ok"
        }
        Err(error) => error.code.as_str(),
    }
}

fn tree() -> Value {
    json!({"type": "object", "properties": {"next": {"$ref": "#"}}})
}

#[test]
fn deep_values_return_stack_error_or_are_replaced() {
    with_small_stack(|| {
        let unique = json!({"type": "array", "uniqueItems": true});
        let unique_numbers =
            json!({"type": "array", "uniqueItems": true, "items": {"type": "number"}});
        let cases = [
            (tree(), nested(DEPTH, json!(1), next), "stack"),
            (
                json!({"type": "array", "items": {"$ref": "#"}}),
                nested(DEPTH, json!(1), list),
                "stack",
            ),
            (unique, nested(DEPTH, json!(1), list), "stack"),
            (unique_numbers, nested(DEPTH, json!(1), list), "stack"),
            (json!({"type": "string"}), nested(DEPTH, json!(1), list), "ok"),
            (
                json!({"properties": {"a": {"type": "null"}}, "required": ["a"]}),
                nested(DEPTH, json!(1), next),
                "ok",
            ),
            (
                json!({"allOf": [tree(), {"properties": {"x": {"type": "number"}}, "required": ["x"]}]}),
                nested(DEPTH, json!(1), next),
                "stack",
            ),
            (json!({"const": {"next": {"next": 1}}}), nested(DEPTH, json!(1), next), "ok"),
        ];
        for (document, mut value, expected) in cases {
            let schema = CastSchema::new(&document);
            let found = cast_code(&schema, &mut value);
            drop_iteratively(value);
            assert_eq!(found, expected, "{schema:?}");
        }
    });
}

#[test]
fn deep_schema_fails_only_at_reached_depth() {
    with_small_stack(|| {
        let leaf = || json!({"type": "number"});
        let optional = |schema| object([("properties", next(schema))]);
        let property =
            |schema| object([("properties", next(schema)), ("required", json!(["next"]))]);
        let pair = |schema, other| Value::Array(vec![schema, other]);
        let any_of = |schema| object([("anyOf", pair(schema, json!({"type": "null"})))]);
        let all_of = |schema| object([("allOf", pair(schema, json!({"properties": {}})))]);
        let not = |schema| object([("not", schema)]);
        let deep = || nested(DEPTH, json!(1), list);
        let default = object([("type", json!("string")), ("default", deep())]);
        let constant = object([("const", deep())]);
        let cases = [
            (nested(DEPTH, leaf(), property), json!(1), "stack"),
            (nested(DEPTH, leaf(), optional), json!({"next": {"next": 1}}), "ok"),
            (nested(DEPTH, leaf(), optional), nested(300, json!({}), next), "ok"),
            (nested(DEPTH, leaf(), optional), nested(DEPTH, json!(1), next), "stack"),
            (nested(DEPTH, leaf(), any_of), json!("x"), "stack"),
            (nested(DEPTH, leaf(), all_of), json!("x"), "stack"),
            (nested(DEPTH, leaf(), not), json!("x"), "stack"),
            (default, json!(1), "stack"),
            (constant, json!(1), "stack"),
        ];
        for (document, mut value, expected) in cases {
            let schema = CastSchema::new(&document);
            let found = cast_code(&schema, &mut value);
            drop_iteratively(value);
            drop_iteratively(document);
            assert_eq!(found, expected);
        }
    });
}

#[test]
fn recursion_through_every_keyword_terminates() {
    with_small_stack(|| {
        let root = json!({"$ref": "#"});
        let leaf = json!({"properties": {"x": {"type": "number"}}, "required": ["x"]});
        let documents = [
            json!({"properties": {"next": root}, "required": ["next"]}),
            json!({"additionalProperties": root, "type": "object", "minProperties": 1}),
            json!({"type": "object", "patternProperties": {"^n": root}, "minProperties": 1}),
            json!({"type": "array", "items": root, "minItems": 1}),
            json!({"type": "array", "items": root, "minItems": 1, "uniqueItems": true}),
            json!({"type": "array", "items": {"type": "null"}, "contains": root}),
            json!({"prefixItems": [root, {"type": "number"}]}),
            json!({"anyOf": [root, {"type": "number"}]}),
            json!({"anyOf": [{"prefixItems": [root]}, {"properties": {"next": root}, "required": ["next"]}]}),
            json!({"anyOf": [{"type": "number"}, {"properties": {"next": root}, "required": ["next", "n"]}]}),
            json!({"allOf": [root, leaf]}),
            json!({"allOf": [{"properties": {"next": root}, "required": ["next"]}, leaf]}),
            json!({"allOf": [{"properties": {"next": root}}, leaf], "unevaluatedProperties": root}),
            json!({"allOf": [false, root], "unevaluatedProperties": false}),
            json!({"allOf": [{"prefixItems": [root]}, {}], "default": {"next": [[1]]}}),
            json!({"not": root}),
            json!({"type": ["array", "object"], "items": root, "properties": {"next": root}, "required": ["next"]}),
            json!({"type": "array", "items": root, "default": [[[]], 1]}),
        ];
        let inputs = || {
            let list = |levels| nested(levels, json!("x"), list);
            let next = |levels| nested(levels, json!("x"), next);
            [
                json!(null),
                json!({}),
                json!([]),
                list(120),
                list(250),
                list(DEPTH),
                next(120),
                next(250),
                next(DEPTH),
            ]
        };
        for document in documents {
            let schema = CastSchema::new(&document);
            for mut value in inputs() {
                let found = cast_code(&schema, &mut value);
                drop_iteratively(value);
                let known = ["ok", "stack", "create/contains", "create/uniqueItems", "create/not"];
                let others = ["create/intersect", "create/never", "cast/uniqueItems"];
                assert!(known.contains(&found) || others.contains(&found), "{found}: {schema:?}");
            }
        }
    });
}

/// Creates a schema with a chain of `levels` definitions; `make` builds each from a reference to
/// the next.
fn chain(levels: usize, last: Value, make: impl Fn(Value) -> Value) -> CastSchema {
    let mut definitions = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        definitions.insert(level.to_string(), make(next));
    }
    definitions.insert(levels.to_string(), last);
    CastSchema::new(&json!({"$defs": definitions, "$ref": "#/$defs/0"}))
}

#[test]
fn fan_out_refs_take_polynomial_time() {
    with_small_stack(|| {
        let leaf = || json!({"properties": {"a": {"const": 1}}, "required": ["a"]});
        let twice = |keyword: &'static str| move |next: Value| json!({keyword: [next, next]});
        let object =
            |next: Value| json!({"properties": {"l": next, "r": next}, "required": ["l", "r"]});
        let variants = |next: Value| {
            let inner = json!({"properties": {"n": next}, "required": ["n"]});
            json!({"anyOf": [inner, next, {"oneOf": [next, inner]}]})
        };
        let closed = |next: Value| json!({"allOf": [next, next], "unevaluatedProperties": false});
        let cases = [
            (chain(60, leaf(), twice("anyOf")), json!({"a": 2}), "ok"),
            (chain(60, leaf(), twice("allOf")), json!({"a": 1}), "ok"),
            (chain(60, leaf(), twice("allOf")), json!({"a": 2}), "stack"),
            (chain(60, leaf(), closed), json!({"a": 1, "b": 1}), "stack"),
            (chain(60, leaf(), object), json!(1), "stack"),
            (
                chain(40, leaf(), variants),
                nested(20, json!({"a": 2}), |value| json!({"n": value})),
                "ok",
            ),
        ];
        for (schema, mut value, expected) in cases {
            assert_eq!(cast_code(&schema, &mut value), expected, "{schema:?}");
        }
    });
}

#[test]
fn repeated_types_take_polynomial_time() {
    with_small_stack(|| {
        let mut schema = json!({"type": "number"});
        for _ in 0..60 {
            schema = json!({"type": ["object", "object"], "properties": {"n": schema}, "required": ["n"]});
        }
        let schema = CastSchema::new(&schema);
        let mut value = nested(60, json!("x"), |value| json!({"n": value}));
        assert_eq!(cast_code(&schema, &mut value), "ok");
    });
}

#[test]
fn created_value_size_is_limited() {
    let cases = [
        (json!({"type": "string", "minLength": 1e15}), json!(1)),
        (json!({"type": "array", "minItems": 1e15}), json!(1)),
        (json!({"type": "array", "minItems": 1e15}), json!([1])),
        (
            json!({"type": "array", "minItems": 2000, "items": {"type": "array", "minItems": 2000}}),
            json!(1),
        ),
    ];
    for (document, mut value) in cases {
        assert_eq!(cast_code(&CastSchema::new(&document), &mut value), "stack");
    }
}

#[test]
fn long_arrays_take_linear_time() {
    with_small_stack(|| {
        let schema = CastSchema::new(&json!({"type": "array", "uniqueItems": true}));
        let mut value: Value = (0..200_000).map(|number| json!(number / 2)).collect();
        let repairs = schema.cast(&mut value).unwrap();
        assert_eq!(value.as_array().unwrap().len(), 100_000);
        assert_eq!(repairs[0].action, CastAction::Replaced);

        let schema =
            CastSchema::new(&json!({"properties": {"a": {"type": "number"}}, "required": ["a"]}));
        let mut value =
            Value::Object((0..100_000).map(|key| (format!("k{key}"), json!(key))).collect());
        assert_eq!(schema.cast(&mut value).unwrap().len(), 100_001);
        assert_eq!(value, json!({"a": 0}));
    });
}
