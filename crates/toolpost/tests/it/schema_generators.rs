//! Generates random schemas, and values related to them.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Few names, so that generated schemas and values overlap.
const NAMES: [&str; 7] = ["a", "b", "c", "kind", "x~/y", "", "$ref"];

pub(crate) fn name() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned)
}

pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..20).prop_map(Value::from),
        prop::sample::select(vec![
            json!(1.5),
            json!(1.0),
            json!(-0.0),
            json!(0.1),
            json!(1e21),
            json!(u64::MAX),
        ]),
        prop::sample::select(vec![
            "", "a", "b", "5", "1.5", "true", "false", "null", "007", "1e3", "😀"
        ])
        .prop_map(Value::from),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name(), inner), 0..5).prop_map(object),
        ]
    })
}

fn object(members: Vec<(String, Value)>) -> Value {
    Value::Object(members.into_iter().collect())
}

/// Generates a keyword without subschemas.
fn data_keyword() -> impl Strategy<Value = (String, Value)> {
    let kind = prop::sample::select(vec![
        "null", "boolean", "integer", "number", "string", "array", "object",
    ]);
    prop_oneof![
        4 => kind.clone().prop_map(|kind| ("type".to_owned(), kind.into())),
        1 => prop::collection::btree_set(kind, 1..4)
            .prop_map(|kinds| ("type".to_owned(), kinds.into_iter().collect())),
        1 => scalar().prop_map(|value| ("const".to_owned(), value)),
        1 => prop::collection::vec(scalar(), 1..4).prop_map(unique_enum),
        2 => value().prop_map(|value| ("default".to_owned(), value)),
        1 => (0..3_u8).prop_map(|limit| ("minLength".to_owned(), limit.into())),
        1 => (0..9_u8).prop_map(|limit| ("minimum".to_owned(), limit.into())),
        1 => (0..9_u8).prop_map(|limit| ("exclusiveMaximum".to_owned(), limit.into())),
        1 => prop::sample::select(vec![json!(2), json!(0.5), json!(0.1)])
            .prop_map(|divisor| ("multipleOf".to_owned(), divisor)),
        1 => (0..3_u8).prop_map(|limit| ("minItems".to_owned(), limit.into())),
        1 => Just(("uniqueItems".to_owned(), true.into())),
        1 => (0..4_u8).prop_map(|limit| ("minProperties".to_owned(), limit.into())),
        1 => (0..4_u8).prop_map(|limit| ("maxProperties".to_owned(), limit.into())),
        2 => prop::collection::btree_set(name(), 1..3)
            .prop_map(|names| ("required".to_owned(), names.into_iter().collect())),
        1 => (name(), prop::collection::btree_set(name(), 1..3)).prop_map(|(trigger, names)| {
            let names: Value = names.into_iter().collect();
            ("dependentRequired".to_owned(), object(vec![(trigger, names)]))
        }),
        1 => prop::sample::select(vec!["^a", "b|c", "^$", "(?=a)."])
            .prop_map(|pattern| ("pattern".to_owned(), pattern.into())),
        1 => prop::sample::select(vec!["#", "#/$defs/one", "#/$defs/two"])
            .prop_map(|target| ("$ref".to_owned(), target.into())),
    ]
}

fn unique_enum(values: Vec<Value>) -> (String, Value) {
    let mut listed: Vec<Value> = Vec::new();
    for value in values {
        if !listed.iter().any(|known| jsonschema::json::cmp::equal(known, &value)) {
            listed.push(value);
        }
    }
    ("enum".to_owned(), Value::Array(listed))
}

/// Generates a keyword with subschemas.
fn applicator_keyword(
    inner: impl Strategy<Value = Value> + Clone + 'static,
) -> impl Strategy<Value = (String, Value)> {
    let one = prop::sample::select(vec![
        "items",
        "contains",
        "not",
        "if",
        "then",
        "else",
        "additionalProperties",
        "unevaluatedProperties",
        "unevaluatedItems",
        "propertyNames",
    ]);
    let list = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems", "anyOf"]);
    prop_oneof![
        6 => prop::collection::vec((name(), inner.clone()), 1..4)
            .prop_map(|members| ("properties".to_owned(), object(members))),
        3 => (one, inner.clone()).prop_map(|(keyword, schema)| (keyword.to_owned(), schema)),
        5 => (list, prop::collection::vec(inner.clone(), 1..4))
            .prop_map(|(keyword, schemas)| (keyword.to_owned(), Value::Array(schemas))),
        1 => (prop::sample::select(vec!["^a", "b|c", "^$"]), inner.clone())
            .prop_map(|(pattern, schema)| {
                ("patternProperties".to_owned(), object(vec![(pattern.to_owned(), schema)]))
            }),
        1 => (name(), inner).prop_map(|(trigger, schema)| {
            ("dependentSchemas".to_owned(), object(vec![(trigger, schema)]))
        }),
    ]
}

fn subschema() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::Bool),
        8 => prop::collection::vec(data_keyword(), 0..3).prop_map(object),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        (
            prop::collection::vec(data_keyword(), 0..3),
            prop::collection::vec(applicator_keyword(inner), 1..4),
        )
            .prop_map(|(plain, nested)| object(plain.into_iter().chain(nested).collect()))
    })
    .boxed()
}

/// Generates a schema whose properties have defaults, many of which do not fit, next to keywords
/// that an inserted default can violate.
pub(crate) fn schema_with_defaults() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        prop::sample::select(vec!["null", "boolean", "integer", "string", "array", "object"])
            .prop_map(|kind| json!({ "type": kind })),
        prop::collection::vec(scalar(), 1..3).prop_map(|values| object(vec![unique_enum(values)])),
        value().prop_map(|value| json!({ "const": value })),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let property = (inner.clone(), prop::option::of(value())).prop_map(|(schema, default)| {
            let mut members = schema.as_object().cloned().unwrap_or_default();
            members.extend(default.map(|default| ("default".to_owned(), default)));
            Value::Object(members)
        });
        let properties = prop::collection::vec((name(), property), 1..4)
            .prop_map(|members| ("properties".to_owned(), object(members)));
        let rules = prop::collection::vec(object_rule(inner.clone()), 0..3);
        let objects =
            (properties, rules).prop_map(|(own, rules)| object([vec![own], rules].concat()));
        let items = (inner, any::<bool>())
            .prop_map(|(items, unique)| json!({"items": items, "uniqueItems": unique}));
        prop_oneof![4 => objects, 1 => items]
    })
}

/// Generates a keyword that a filled-in or stripped property can violate.
fn object_rule(
    inner: impl Strategy<Value = Value> + Clone + 'static,
) -> impl Strategy<Value = (String, Value)> {
    let names = || prop::collection::btree_set(name(), 1..3).prop_map(Value::from_iter);
    let presence = names().prop_map(|names| json!({ "required": names }));
    let presence = prop_oneof![2 => presence, 1 => inner.clone()];
    let choices = prop::sample::select(vec!["oneOf", "anyOf", "allOf"]);
    let negation = prop::sample::select(vec!["not", "if", "then", "else", "additionalProperties"]);
    prop_oneof![
        2 => names().prop_map(|names| ("required".to_owned(), names)),
        1 => (1..3_u8).prop_map(|limit| ("maxProperties".to_owned(), limit.into())),
        1 => (1..3_u8).prop_map(|limit| ("minProperties".to_owned(), limit.into())),
        1 => (name(), names()).prop_map(|(trigger, names)| {
            ("dependentRequired".to_owned(), object(vec![(trigger, names)]))
        }),
        1 => (name(), presence.clone()).prop_map(|(trigger, schema)| {
            ("dependentSchemas".to_owned(), object(vec![(trigger, schema)]))
        }),
        3 => (choices, prop::collection::vec(presence.clone(), 1..4))
            .prop_map(|(keyword, schemas)| (keyword.to_owned(), Value::Array(schemas))),
        2 => (negation, presence).prop_map(|(keyword, schema)| (keyword.to_owned(), schema)),
        1 => prop::collection::vec(value(), 1..3).prop_map(unique_enum),
        1 => Just(("additionalProperties".to_owned(), false.into())),
        1 => prop::sample::select(vec!["^a", "b|c", "^$"])
            .prop_map(|pattern| ("propertyNames".to_owned(), json!({ "pattern": pattern }))),
        1 => (prop::sample::select(vec!["^a", "b|c"]), inner).prop_map(|(pattern, schema)| {
            ("patternProperties".to_owned(), object(vec![(pattern.to_owned(), schema)]))
        }),
    ]
}

/// A complete schema with two definitions.
pub(crate) fn schema() -> impl Strategy<Value = Value> {
    (subschema(), subschema(), subschema()).prop_map(|(root, one, two)| {
        let mut root = match root {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        root.insert("$defs".to_owned(), json!({"one": one, "two": two}));
        Value::Object(root)
    })
}
