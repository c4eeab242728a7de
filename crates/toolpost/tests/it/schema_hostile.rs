//! Expensive schemas and values: the work is bounded by their size, and the stack does not
//! overflow.

use serde_json::{Map, Value, json};
use toolpost::{Extras, Schema, SchemaError};

/// Asserts that the work for the large input is at most `factor` times the work for the small one.
fn assert_growth(
    name: &str,
    factor: u64,
    pair: impl Fn(usize) -> (Value, Value),
    small: usize,
    large: usize,
) {
    let steps = |size: usize| {
        let (schema, mut value) = pair(size);
        let work = Schema::new(schema).unwrap().measure(&mut value, Extras::Strip);
        assert!(!work.is_exceeded, "{name}: {work:?}");
        work.steps
    };
    let (small, large) = (steps(small), steps(large));
    println!("{name}: {small} steps, then {large}");
    assert!(large <= factor * small.max(8), "{name}: {small} steps, then {large}");
}

#[test]
fn normalize_work_grows_with_input_size() {
    // The work is bounded by size times depth, so doubling both can quadruple it.
    assert_growth("wide objects", 12, wide, 1_000, 10_000);
    assert_growth("long arrays of unions", 12, union_array, 1_000, 10_000);
    assert_growth("nested unions in the schema", 5, nested_unions, 12, 24);
    assert_growth("unions without a valid variant", 5, unmatched_unions, 12, 24);
    assert_growth("diamonds of allOf", 5, diamonds, 15, 30);
    assert_growth("a recursive union down a list", 5, recursive_union, 30, 60);
    assert_growth("a recursive union down a dirty list", 5, dirty_recursive_union, 30, 60);
    assert_growth("conditions inside conditions", 5, nested_conditions, 20, 40);
    assert_growth("defaults that exclude each other", 5, exclusive_defaults, 30, 60);
    assert_growth("nested defaults that exclude each other", 5, nested_exclusive_defaults, 10, 20);
    // Each level hashes its items again, before and after a repair.
    assert_growth("unique items that stripping makes equal", 8, equal_items, 30, 60);
}

fn wide(size: usize) -> (Value, Value) {
    let names = |suffix: Value| -> Value {
        (0..size).map(|at| (format!("p{at}"), suffix.clone())).collect::<Map<_, _>>().into()
    };
    (json!({"properties": names(json!({"type": "integer"}))}), names(json!("5")))
}

fn union_array(size: usize) -> (Value, Value) {
    let schema = json!({"items": {"anyOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"b": {"type": "string"}}, "required": ["b"]}]}});
    (schema, Value::Array((0..size).map(|_| json!({"b": 5, "z": 1})).collect()))
}

/// Creates a schema with a chain of `size` definitions; `level` builds each from a reference to the
/// next.
fn levels(size: usize, last: Value, level: impl Fn(String) -> Value) -> Value {
    let mut definitions: Map<String, Value> =
        (0..size).map(|at| (format!("d{at}"), level(format!("#/$defs/d{}", at + 1)))).collect();
    definitions.insert(format!("d{size}"), last);
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

fn list(size: usize, end: Value) -> Value {
    (0..size).fold(end, |inner, _| json!({ "c": inner }))
}

fn nested_unions(size: usize) -> (Value, Value) {
    let schema = levels(size, json!({"type": "integer"}), |next| {
        json!({"anyOf": [{"properties": {"c": {"$ref": next}, "x": {}}, "required": ["x"]},
                         {"properties": {"c": {"$ref": next}}}]})
    });
    (schema, list(size, json!("5")))
}

fn unmatched_unions(size: usize) -> (Value, Value) {
    let schema = levels(size, json!({"type": "integer"}), |next| {
        json!({"oneOf": [{"properties": {"c": {"$ref": next}, "x": {}}},
                         {"properties": {"c": {"$ref": next}}}]})
    });
    (schema, list(size, json!("none")))
}

fn diamonds(size: usize) -> (Value, Value) {
    let schema = levels(
        size,
        json!({"properties": {"a": {"type": "integer"}}}),
        |next| json!({"allOf": [{"allOf": [{"$ref": next}]}, {"allOf": [{"$ref": next}], "title": "x"}]}),
    );
    (schema, json!({"a": "5", "z": 1}))
}

fn recursive() -> Value {
    json!({"anyOf": [
        {"type": "object", "properties": {"c": {"$ref": "#"}}, "required": ["c"]},
        {"type": "object", "properties": {"c": {"$ref": "#"}, "d": {"type": "integer"}}},
        {"type": "integer"}]})
}

fn recursive_union(size: usize) -> (Value, Value) {
    (recursive(), list(size, json!(5)))
}

fn dirty_recursive_union(size: usize) -> (Value, Value) {
    (recursive(), list(size, json!({"d": "5", "z": 1})))
}

fn nested_conditions(size: usize) -> (Value, Value) {
    let schema = json!({
        "properties": {"c": {"$ref": "#"}, "n": {"type": "integer"}},
        "if": {"required": ["c"]},
        "then": {"properties": {"c": {"$ref": "#"}}},
        "else": {"properties": {"k": {"default": 1}}}});
    (schema, list(size, json!({"n": "5"})))
}

/// Defaults of which an object can have only one.
fn exclusive(next: &Value) -> Value {
    json!({
        "properties": {"c": next, "a": {"default": 1}, "b": {"default": 2}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})
}

fn exclusive_defaults(size: usize) -> (Value, Value) {
    (exclusive(&json!({"$ref": "#"})), list(size, json!({"a": 1})))
}

fn nested_exclusive_defaults(size: usize) -> (Value, Value) {
    let schema = levels(size, json!({"type": "integer"}), |next| {
        exclusive(&json!({"$ref": next, "default": {"b": 1}}))
    });
    (schema, json!({"b": 1}))
}

fn equal_items(size: usize) -> (Value, Value) {
    let schema = json!({"uniqueItems": true, "items": {"properties": {"c": {"$ref": "#"}}}});
    let level = |inner, _| json!([{"c": inner, "z": 1}, {"z": 2}, {"z": 3}]);
    (schema, (0..size).fold(json!([]), level))
}

/// Runs `test` on a thread with a 2 MiB stack.
fn with_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(test).unwrap().join().unwrap();
}

fn deep(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(json!(1), |inner, _| wrap(inner))
}

/// Creates an object with one property. `json!` would copy deep values at every level.
fn member(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

/// Drops a deep value without recursion, which serde_json's own drop uses.
fn drop_iteratively(value: Value) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(members) => pending.extend(members.into_iter().map(|(_, member)| member)),
            _ => {}
        }
    }
}

#[test]
fn deep_value_is_reported_and_unchanged() {
    with_small_stack(|| {
        let schemas = [
            json!({"properties": {"c": {"$ref": "#"}}, "additionalProperties": false}),
            json!({"anyOf": [{"type": "integer"}, {"properties": {"c": {"$ref": "#"}}}]}),
            json!({"allOf": [{"properties": {"c": {"$ref": "#"}}}, {"properties": {"d": {"default": 1}}}]}),
            json!({"if": {"required": ["c"]}, "then": {"properties": {"c": {"$ref": "#"}}}, "else": false}),
            json!({"not": {"properties": {"c": {"not": {"$ref": "#"}}}}}),
            json!({"const": {"c": 1}}),
            json!({"type": "array"}),
        ];
        for json in schemas {
            for levels in [600, 10_000] {
                let schema = Schema::new(json.clone()).unwrap();
                let mut value = deep(levels, |inner| member("c", inner));
                assert!(!schema.is_valid(&value).unwrap(), "{json}");
                assert!(!schema.validate(&value).unwrap().is_empty(), "{json}");
                let done = schema.normalize(&mut value, Extras::Strip).unwrap();
                assert_eq!(done.repairs, [], "{json}");
                assert_eq!(done.issues.len(), 1, "{json}");
                // Schemas that do not look into the value decide without its depth.
                let is_shallow = json.get("const").or_else(|| json.get("type")).is_some();
                let is_depth = done.issues[0].message.contains("deep");
                assert_eq!(is_depth, !is_shallow, "{json}: {}", done.issues[0]);
                drop_iteratively(value);
            }
        }
    });
}

#[test]
fn unconstrained_subtree_may_be_deep() {
    with_small_stack(|| {
        let schema =
            Schema::new(json!({"properties": {"a": {"type": "integer"}, "b": {}}})).unwrap();
        let mut value = member("b", deep(10_000, |inner| Value::Array(vec![inner])));
        value["a"] = json!("5");
        let done = schema.normalize(&mut value, Extras::Strip).unwrap();
        assert_eq!((done.repairs.len(), done.issues.len()), (1, 0));
        drop_iteratively(value);
    });
}

#[test]
fn value_at_parser_depth_limit_is_normalized() {
    with_small_stack(|| {
        let schema = Schema::new(recursive()).unwrap();
        let mut value = list(120, json!("5"));
        let done = schema.normalize(&mut value, Extras::Strip).unwrap();
        assert_eq!((done.repairs.len(), done.issues.len()), (1, 0));
        assert_eq!(value, list(120, json!(5)));
    });
}

#[test]
fn deep_schema_fails_to_compile() {
    with_small_stack(|| {
        for levels in [300, 10_000] {
            let json = deep(levels, |inner| member("allOf", Value::Array(vec![inner])));
            let schema = Schema::new(json).unwrap();
            let error = schema.compile().unwrap_err();
            assert!(matches!(error, SchemaError::DoesNotCompile { .. }), "{error}");
            // Leak the schema: its document is deep, and dropping it would recurse.
            std::mem::forget(schema);
        }
    });
}

#[test]
fn recursive_defaults_are_not_filled() {
    let cases = [
        json!({"properties": {"c": {"$ref": "#", "default": {}}, "n": {"default": 1}}}),
        json!({"properties": {"n": {"default": 1}}, "allOf": [{"properties": {"c": {"$ref": "#", "default": {}}}}]}),
    ];
    for json in cases {
        let mut value = json!({});
        let done = Schema::new(json).unwrap().normalize(&mut value, Extras::Strip).unwrap();
        assert_eq!(value, json!({"n": 1}));
        assert_eq!((done.repairs.len(), done.issues.len()), (1, 0));
    }
}
