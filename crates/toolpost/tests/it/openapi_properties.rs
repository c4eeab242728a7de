//! Property tests: JSON values survive writing and parsing as JSON and YAML.

use super::fuzz_corpus::openapi_document as checks;
use super::json_strategy::any_scalar;
use proptest::prelude::*;
use serde_json::Value;
use toolpost::openapi::parsers::{ParsedDocument, parse_yaml_with_both_readers};

fn any_json() -> impl Strategy<Value = Value> {
    any_scalar(any_text()).prop_recursive(5, 64, 6, |inner| {
        let members = prop::collection::vec((any_text(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Values that YAML 1.1 and 1.2 read alike. The writer uses YAML 1.1, which has more line break
/// characters than 1.2, and does not quote `<<`.
fn any_yaml() -> impl Strategy<Value = Value> {
    let is_end = |char| matches!(char, '\u{85}' | '\u{2028}' | '\u{2029}');
    any_json().prop_filter("ambiguous value", move |value| {
        let text = value.to_string();
        !text.contains(is_end) && !text.contains("\"<<\":")
    })
}

/// Any text, including strings that look like other YAML types.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~\\n]{0,40}",
        prop::sample::select(vec![
            "",
            "~",
            "null",
            "true",
            "No",
            "on",
            "1",
            "-0",
            "007",
            "0x1F",
            "0b1",
            "1e3",
            ".inf",
            "1_000",
            "2020-01-01",
            "12:30:00",
            "<<",
            "&a",
            "*a",
            "!tag",
            "%a",
            "@a",
            "`a",
            "- a",
            "a: b",
            "a #b",
            " a",
            "a ",
            "\n",
            "a\n",
            "\na",
            "a\n\n b\n",
            "\ta",
            "---",
            "...",
            "[",
            "{a}",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
            "\"",
            "'",
            "\\\\",
            "$ref",
            "200",
        ])
        .prop_map(str::to_owned),
    ]
}

/// YAML tokens in any order.
fn any_yaml_fragments() -> impl Strategy<Value = String> {
    let pieces = vec![
        "a",
        "b: ",
        "- ",
        "? ",
        ": ",
        ":",
        ",",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a ",
        "!t ",
        "!!str ",
        "!<x> ",
        "|",
        ">",
        "|+2\n",
        ">-\n",
        "'",
        "\"",
        "\\u12",
        "\\x41",
        "#",
        " #c",
        "%YAML 1.2\n",
        "%TAG ! x\n",
        "---",
        "...",
        "\n",
        "\r\n",
        "\r",
        " ",
        "  ",
        "\n  ",
        "\n    ",
        "\t",
        "<<: ",
        "1",
        "-1.5e3",
        "~",
        "null",
        "é",
        "\u{feff}",
        "\u{85}",
        "\0",
        "@",
        "`",
        "=",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn arbitrary_input_never_panics_the_parser(text in any_yaml_fragments(), bytes in any::<Vec<u8>>()) {
        checks::check(text.as_bytes());
        checks::check(&bytes);
    }

    #[test]
    fn json_round_trips(value in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let document = ParsedDocument::parse(text.unwrap().as_bytes()).unwrap();
        prop_assert_eq!(document.to_value(), value);
    }

    #[test]
    fn yaml_round_trips(value in any_yaml()) {
        let text = serde_norway::to_string(&value).unwrap();
        let document = ParsedDocument::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(document.to_value(), value, "{}", text);
    }

    #[test]
    fn both_yaml_readers_agree(value in any_yaml()) {
        let text = serde_norway::to_string(&value).unwrap();
        let [first, second] = parse_yaml_with_both_readers(&text);
        prop_assert_eq!(second, Some(value.clone()), "{}", &text);
        prop_assert!(first.is_none() || first == Some(value), "{}", text);
    }
}
