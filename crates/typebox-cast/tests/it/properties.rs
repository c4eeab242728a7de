//! Properties of `cast` that hold for every schema and value.

use proptest::prelude::*;
use serde_json::{Value, json};
use typebox_cast::CastSchema;

use super::assert_repairs_explain;

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "7", "length", "x/y", ""]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..9_i64).prop_map(Value::from),
        prop::sample::select(vec![0.5, -1.5, 1e21, 3.0]).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "abc", "7", "😀"]).prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Generates keywords with arbitrary values, valid or not.
fn arbitrary_keywords() -> impl Strategy<Value = Vec<(String, Value)>> {
    let keyword = prop::sample::select(vec![
        "type",
        "const",
        "enum",
        "default",
        "minimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minContains",
        "required",
        "minProperties",
        "items",
        "prefixItems",
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "anyOf",
        "allOf",
        "not",
        "$ref",
        "contains",
    ]);
    prop::collection::vec((keyword.prop_map(str::to_owned), value()), 0..3)
}

fn leaf_schema() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "string", "number", "integer", "boolean", "null", "object", "array",
    ]);
    prop_oneof![
        3 => name.prop_map(|name| json!({"type": name})),
        1 => value().prop_map(|value| json!({"const": value})),
        1 => prop::collection::vec(value(), 0..3).prop_map(|values| json!({"enum": values})),
        1 => prop::sample::select(vec!["#", "#/$defs/d", "#/none"]).prop_map(|to| json!({"$ref": to})),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!({"type": "string", "pattern": "^[a-z]+$", "default": "x"})),
    ]
}

fn object_schema(inner: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let members = prop::collection::vec((key(), inner.clone(), any::<bool>()), 0..4);
    (members, prop::option::of(inner)).prop_map(|(members, rest)| {
        let required: Vec<_> =
            members.iter().filter(|(.., required)| *required).map(|(key, ..)| key.clone()).collect();
        let properties: serde_json::Map<_, _> =
            members.into_iter().map(|(key, schema, _)| (key, schema)).collect();
        let rest = rest.unwrap_or(json!(true));
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": rest})
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let nested = leaf_schema().prop_recursive(4, 32, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            object_schema(inner.clone()),
            (inner.clone(), any::<bool>(), 0..3_u8).prop_map(|(items, unique, min)| {
                json!({"type": "array", "items": items, "uniqueItems": unique, "minItems": min})
            }),
            list().prop_map(|items| json!({"type": "array", "prefixItems": items})),
            list().prop_map(|variants| json!({"anyOf": variants})),
            list().prop_map(|parts| json!({"allOf": parts})),
            list().prop_map(|parts| json!({"allOf": parts, "unevaluatedProperties": false})),
            inner.clone().prop_map(|schema| json!({"not": schema})),
            inner
                .clone()
                .prop_map(|schema| json!({"type": "object", "patternProperties": {"^a": schema}})),
            (inner, value())
                .prop_map(|(schema, default)| json!({"anyOf": [schema, {}], "default": default})),
        ]
    });
    (nested, leaf_schema(), arbitrary_keywords()).prop_map(
        |(schema, definition, extra_keywords)| {
            let mut document = schema.as_object().cloned().unwrap_or_default();
            document.insert("$defs".to_owned(), json!({"d": definition}));
            document.extend(extra_keywords);
            Value::Object(document)
        },
    )
}

/// Generates a schema and a value that is valid by construction.
fn valid_pair() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        value().prop_map(|value| (json!({}), value)),
        value().prop_map(|value| (json!({"const": value}), value)),
        any::<bool>().prop_map(|flag| (json!({"type": "boolean"}), json!(flag))),
        (0..9_i64).prop_map(|number| (json!({"type": "integer", "minimum": 0}), json!(number))),
        "[a-z]{1,5}"
            .prop_map(|text| (json!({"type": "string", "pattern": "^[a-z]+$"}), json!(text))),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let members = prop::collection::btree_map("[a-d]", inner.clone(), 0..4);
        let object = (members, value()).prop_map(|(members, extra)| {
            let required: Vec<_> = members.keys().cloned().collect();
            let properties: serde_json::Map<_, _> =
                members.iter().map(|(key, pair)| (key.clone(), pair.0.clone())).collect();
            let mut value: serde_json::Map<_, _> =
                members.into_iter().map(|(key, pair)| (key, pair.1)).collect();
            value.insert("undeclared".to_owned(), extra);
            (json!({"properties": properties, "required": required}), Value::Object(value))
        });
        let tuple = prop::collection::vec(inner.clone(), 0..4).prop_map(|pairs| {
            let (schemas, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            (json!({"prefixItems": schemas}), Value::from(values))
        });
        prop_oneof![
            object,
            tuple,
            (inner.clone(), schema()).prop_map(|((own, value), other)| {
                // `false` ensures that the second variant never matches.
                (json!({"anyOf": [own, {"allOf": [false, other]}]}), value)
            }),
            (inner, 1..4_usize).prop_map(|((own, value), count)| {
                (
                    json!({"type": "array", "items": own, "minItems": count}),
                    json!(vec![value; count]),
                )
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cast_repairs_explain_changes_and_errors_keep_input(document in schema(), input in value()) {
        let mut found = input.clone();
        match CastSchema::new(&document).cast(&mut found) {
            Ok(repairs) => assert_repairs_explain(&input, &found, &repairs),
            Err(error) => {
                prop_assert_eq!(&found, &input);
                prop_assert!(error.path.is_empty() || error.path.starts_with('/'));
            }
        }
    }

    #[test]
    fn cast_valid_value_is_unchanged((document, input) in valid_pair()) {
        let mut found = input.clone();
        let repairs = CastSchema::new(&document).cast(&mut found).unwrap();
        prop_assert_eq!(repairs, vec![]);
        prop_assert_eq!(found, input);
    }

    #[test]
    fn cast_pattern_never_panics(pattern in "[\\\\a-c(){}\\[\\]|^$*+?.,:=!<>0-9bBdDkux-]{0,12}", text in "[a-c0-9😀-]{0,6}") {
        let schema = CastSchema::new(&json!({"type": "string", "pattern": pattern, "default": ""}));
        let _ = schema.cast(&mut json!(text));
    }
}
