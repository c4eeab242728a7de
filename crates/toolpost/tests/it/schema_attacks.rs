//! Schemas and values that made a validator without a budget take exponential time or memory.

use serde_json::{Map, Value, json};

/// Creates a schema with a chain of definitions; `level` builds each from a reference to the next.
fn levels(count: usize, last: Value, level: impl Fn(Value) -> Value) -> Value {
    let mut definitions: Map<String, Value> = (0..count)
        .map(|at| (format!("d{at}"), level(json!({"$ref": format!("#/$defs/d{}", at + 1)}))))
        .collect();
    definitions.insert(format!("d{count}"), last);
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

/// Schemas of a few kilobytes, with their names.
pub(crate) fn small_schemas() -> Vec<(&'static str, Value)> {
    let nested_unevaluated = (0..60).fold(json!({"type": "integer"}), |inner, _| {
        json!({"anyOf": [{"properties": {"a": true}, "type": "object"}],
            "unevaluatedProperties": inner})
    });
    vec![
        ("nested unevaluatedProperties", nested_unevaluated),
        (
            "nested unevaluatedProperties over references",
            levels(
                24,
                json!({"type": "integer"}),
                |next| json!({"allOf": [next, next], "unevaluatedProperties": next}),
            ),
        ),
        (
            "anyOf over references",
            levels(24, json!({"type": "integer"}), |next| {
                let child = json!({"properties": {"c": next}, "required": ["c"]});
                json!({"anyOf": [next, child, {"allOf": [next, next]}]})
            }),
        ),
        (
            "chains of conditions",
            levels(
                24,
                json!({"type": "integer"}),
                |next| json!({"if": next, "then": {"not": next}, "else": {"allOf": [next, next]}}),
            ),
        ),
    ]
}

/// A value with `depth` nested objects around a string.
pub(crate) fn nested_value(depth: usize) -> Value {
    (0..depth).fold(json!("x"), |inner, _| json!({ "c": inner }))
}

/// The schema of an expression tree: each node contains trees.
pub(crate) fn expression_tree() -> Value {
    let node = |kind: &str| {
        let tree = json!({"$ref": "#/$defs/tree"});
        json!({
            "type": "object",
            "properties": {"kind": {"const": kind}, "left": tree, "right": tree},
            "required": ["kind", "left", "right"],
        })
    };
    let mut variants: Vec<Value> =
        ["add", "sub", "mul", "div", "and", "or"].into_iter().map(node).collect();
    variants.push(json!({
        "type": "object",
        "properties": {"kind": {"const": "number"}, "value": {"type": "number"}},
        "required": ["kind", "value"],
    }));
    json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"anyOf": variants}},
    })
}

/// An input for [`expression_tree`] nested 20 deep, whose innermost leaf is wrong.
pub(crate) fn expression_input() -> Value {
    let leaf = json!({"kind": "number", "value": "x"});
    let tree = (0..20).fold(
        leaf,
        |inner, _| json!({"kind": "or", "left": {"kind": "number", "value": 1}, "right": inner}),
    );
    json!({ "tree": tree })
}

/// A schema whose compilation is over budget: each of many properties has a large default.
pub(crate) fn schema_over_budget() -> Value {
    let property = || json!({"$ref": "#/$defs/large"});
    let properties: Map<String, Value> =
        (0..500).map(|at| (format!("p{at}"), property())).collect();
    let large: Vec<u8> = vec![0; 20_000];
    json!({"properties": properties, "$defs": {"large": {"type": "array", "default": large}}})
}

/// A schema and a value that take more steps than the budget of a value.
pub(crate) fn value_over_budget() -> (Value, Value) {
    let mut variants: Vec<Value> =
        (0..1_000).map(|at| json!({"required": [format!("p{at}")], "type": "object"})).collect();
    variants.push(json!({"type": "integer"}));
    let schema = json!({
        "type": "object",
        "properties": {"list": {"items": {"anyOf": variants}}},
        "required": ["list"],
    });
    (schema, json!({"list": vec![0; 12_000]}))
}
