//! Property tests: values survive encoding and decoding, and nothing panics.

use data_encoding::BASE64;
use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;
use serde_json::{Map, Value, json};
use url::Url;

use super::decode::{ValueKind, decode_inline, decode_query, stringify_scalars};
use super::external_parsers;
use super::plans::{
    body_content, content_parameter, fill_request, plan, styled_parameter, with_body,
    with_reserved_allowed,
};
use crate::openapi::media_type::MediaKind;
use crate::openapi::plan::{ParameterLocation, Style};

fn server() -> Url {
    "https://a.example/v1".parse().unwrap()
}

/// Text with characters that are special in some location.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,8}", "[ -~]{0,8}", "[;,.=&%/?#{}\\[\\]\\\\ \"'+|~-]{0,6}", any::<String>()]
}

/// Non-empty text. No style distinguishes empty text from a missing value.
fn non_empty_text() -> impl Strategy<Value = String> {
    any_text().prop_filter("not empty", |text| !text.is_empty())
}

fn flat_values() -> impl Strategy<Value = Value> {
    prop_oneof![
        non_empty_text().prop_map(Value::from),
        vec(non_empty_text(), 1..4).prop_map(|items| json!(items)),
        btree_map(non_empty_text(), non_empty_text(), 1..4).prop_map(|members| json!(members)),
    ]
}

fn deep_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any_text(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn styles() -> impl Strategy<Value = Style> {
    use Style::{Cookie, DeepObject, Form, Label, Matrix, PipeDelimited, Simple};
    use Style::{SpaceDelimited, TabDelimited};
    select(vec![
        Matrix,
        Label,
        Simple,
        Form,
        SpaceDelimited,
        PipeDelimited,
        DeepObject,
        Cookie,
        TabDelimited,
    ])
}

fn locations() -> impl Strategy<Value = ParameterLocation> {
    select(vec![
        ParameterLocation::Path,
        ParameterLocation::Query,
        ParameterLocation::Cookie,
        ParameterLocation::Header,
    ])
}

fn content_kinds() -> impl Strategy<Value = MediaKind> {
    use MediaKind::{Binary, Form, Json, JsonLines, Multipart, Text};
    select(vec![Json, JsonLines, Form, Multipart, Text, Binary])
}

proptest! {
    #[test]
    fn path_values_round_trip(value in flat_values(), name in non_empty_text(), explode in any::<bool>()) {
        for style in [Style::Matrix, Style::Label, Style::Simple] {
            // A placeholder name contains no braces and no `#`.
            let hole = name.replace(['{', '}', '#'], "_");
            let parameter = styled_parameter(&hole, ParameterLocation::Path, style, explode);
            let path = format!("/a/{{{hole}}}/b");
            let Ok(prepared) = fill_request(plan(&path, vec![parameter]), &server(), &json!({&hole: value})) else {
                continue;
            };
            let segments: Vec<&str> = prepared.url.path().split('/').collect();
            assert_eq!(segments.len(), 5, "{}", prepared.url);
            // Exploded labels and matrix values are ambiguous: a dot or a name may be data or a
            // delimiter.
            let is_clear = match style {
                Style::Matrix => false,
                Style::Label => !explode || value.is_string(),
                _ => true,
            };
            if is_clear {
                let read = decode_inline(style, explode, ValueKind::of_value(&value), &hole, segments[3]);
                assert_eq!(read, stringify_scalars(&value), "{style:?} {}", prepared.url);
            }
        }
    }

    #[test]
    fn query_values_round_trip(value in flat_values(), name in non_empty_text(), explode in any::<bool>()) {
        let parameter = styled_parameter(&name, ParameterLocation::Query, Style::Form, explode);
        let prepared = fill_request(plan("/a", vec![parameter]), &server(), &json!({&name: value})).unwrap();
        let text = prepared.url.query().unwrap();
        assert_eq!(decode_query(Style::Form, explode, ValueKind::of_value(&value), &name, text), stringify_scalars(&value));
        assert_eq!(prepared.url.path(), "/v1/a");
    }

    #[test]
    fn json_parameters_round_trip(value in deep_values()) {
        let of = |location| content_parameter("p", location, "application/json");
        let parameters = vec![of(ParameterLocation::Query)];
        let prepared = fill_request(plan("/a", parameters), &server(), &json!({"p": value})).unwrap();
        let (_, text) = prepared.url.query_pairs().next().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        let prepared = fill_request(plan("/a", vec![of(ParameterLocation::Header)]), &server(), &json!({"p": value})).unwrap();
        let text = prepared.headers["p"].to_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
        fill_request(plan("/a", vec![of(ParameterLocation::Cookie)]), &server(), &json!({"p": value})).unwrap();
    }

    #[test]
    fn parameters_never_panic_or_escape_their_location(
        value in deep_values(),
        name in any_text(),
        style in styles(),
        location in locations(),
        explode in any::<bool>(),
    ) {
        let name = if location == ParameterLocation::Header { "x" } else { &name };
        let is_hole = location == ParameterLocation::Path && !name.contains(['{', '}', '#']);
        let path = if is_hole { format!("/{{{name}}}") } else { "/a".to_owned() };
        let parameter = styled_parameter(name, location, style, explode);
        for parameter in [with_reserved_allowed(parameter.clone()), parameter] {
            let plan = plan(&path, vec![parameter]);
            if let Ok(prepared) = fill_request(plan, &server(), &json!({name: value})) {
                assert!(prepared.url.path().starts_with("/v1/"), "{}", prepared.url);
                assert_eq!(prepared.url.path().matches('/').count(), 2, "{}", prepared.url);
                assert_eq!(prepared.url.host_str(), Some("a.example"));
                assert_eq!(prepared.url.fragment(), None, "{}", prepared.url);
            }
        }
    }

    #[test]
    fn body_encoding_never_panics(value in deep_values(), kind in content_kinds()) {
        for media_type in ["a/b", "*/*", "multipart/mixed", "no type"] {
            let plan = with_body(true, vec![body_content(media_type, kind, Vec::new())]);
            let _ = fill_request(plan, &server(), &json!({"body": value}));
        }
    }
}

/// Generates many samples for one interpreter run, because starting an interpreter is slow.
fn samples<S: Strategy>(strategy: S, count: usize) -> Vec<S::Value> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn forms_and_parts_round_trip_through_external_parsers() {
    const FORM: &str = "application/x-www-form-urlencoded";
    let fields = samples(btree_map(non_empty_text(), any_text(), 1..4), 300);
    let bodies = |media_type: &str, kind| -> Vec<(String, Vec<u8>)> {
        let each = fields.iter().map(|fields| {
            let plan = with_body(true, vec![body_content(media_type, kind, Vec::new())]);
            let prepared = fill_request(plan, &server(), &json!({"body": fields})).unwrap();
            let kind = prepared.headers["content-type"].to_str().unwrap().to_owned();
            (kind, prepared.body.unwrap().to_vec())
        });
        each.collect()
    };
    let pairs: Vec<Value> = fields
        .iter()
        .map(|fields| fields.iter().map(|(name, value)| json!([name, value])).collect())
        .collect();
    assert_eq!(external_parsers::parse_with_python(&bodies(FORM, MediaKind::Form)), pairs);

    let expected: Vec<Value> = fields
        .iter()
        .map(|fields| {
            let each = fields.iter();
            each.map(|(name, value)| json!([name, null, null, BASE64.encode(value.as_bytes())]))
                .collect()
        })
        .collect();
    let read =
        external_parsers::parse_with_node(&bodies("multipart/form-data", MediaKind::Multipart));
    for (read, expected) in read.iter().zip(&expected) {
        assert_eq!(read, expected);
    }
}

#[test]
fn deep_object_brackets_are_parsed_by_qs() {
    let values = [
        json!({"a": "1", "b": {"c": "ä&", "d": {"e": "2"}}}),
        json!({"list": ["1", "2"], "objects": [{"a": "1", "b": "2"}, {"a": "3"}]}),
        json!(["1", "2"]),
        json!([{"a": ["x"]}, {"b": "y"}]),
    ];
    let queries: Vec<String> = values
        .iter()
        .map(|value| {
            let parameter =
                styled_parameter("p", ParameterLocation::Query, Style::DeepObject, true);
            let plan = plan("/a", vec![parameter]);
            let prepared = fill_request(plan, &server(), &json!({"p": value})).unwrap();
            prepared.url.query().unwrap().to_owned()
        })
        .collect();
    let read = external_parsers::parse_with_qs(&queries);
    let read: Vec<&Value> = read.iter().map(|read| &read["p"]).collect();
    assert_eq!(read, values.iter().collect::<Vec<_>>());
}
