//! Values parsed from YAML, and rejected texts.

use serde_json::{Value, json};

use super::super::parse;

fn parse_value(text: &str) -> Result<Value, String> {
    let parsed = parse(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(parsed.tree.root().to_value())
}

#[test]
fn yaml_collections_and_keys_match_json() {
    let rows = [
        (
            "200: ok\n1.10: v\ntrue: t\nnull: n\n",
            json!({"200": "ok", "1.10": "v", "true": "t", "null": "n"}),
        ),
        ("a:\nb: \n- \n- c\n", json!({"a": null, "b": [null, "c"]})),
        ("? a\n: 1\n", json!({"a": 1})),
        ("- [a, {b: 1}]\n- {}\n- []\n", json!([["a", {"b": 1}], {}, []])),
        (
            "a: |\n  x\n  y\nb: >\n  x\n  y\nc: 'it''s'\nd: \"\\u00e9\"\n",
            json!({"a": "x\ny\n", "b": "x y\n", "c": "it's", "d": "é"}),
        ),
        ("%YAML 1.2\n---\na: 1\n...\n", json!({"a": 1})),
        ("--- text\n", json!("text")),
        ("!mine\na: !other [1]\n", json!({"a": [1]})),
        ("# nothing but this\na: 1 # and this\n", json!({"a": 1})),
    ];
    for (text, expected) in rows {
        assert_eq!(parse_value(text), Ok(expected), "{text}");
    }
}

#[test]
fn yaml_aliases_repeat_the_anchored_value() {
    let rows = [
        (
            "a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n",
            json!({"a": {"b": [1]}, "c": {"b": [1]}, "d": [{"b": [1]}, {"b": [1]}]}),
        ),
        ("a: &x 1\n*x : 2\nb: *x\n", json!({"a": 1, "1": 2, "b": 1})),
        ("&x a: 1\nb: *x\n", json!({"a": 1, "b": "a"})),
        ("a: &x 1\nb: &x 2\nc: *x\n", json!({"a": 1, "b": 2, "c": 2})),
        ("a: &x\nb: *x\n", json!({"a": null, "b": null})),
    ];
    for (text, expected) in rows {
        assert_eq!(parse_value(text), Ok(expected), "{text}");
    }
}

#[test]
fn yaml_merge_keys_do_not_override_members() {
    let rows = [
        (
            "a: &x {b: 1, c: 2}\nd:\n  c: 3\n  <<: *x\n",
            json!({"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}),
        ),
        (
            "- &x {a: 1}\n- &y {a: 2, b: 2}\n- {<<: [*x, *y], c: 3}\n",
            json!([{"a": 1}, {"a": 2, "b": 2}, {"c": 3, "a": 1, "b": 2}]),
        ),
        ("{<<: {a: 1}, <<: {b: 2}}", json!({"a": 1, "b": 2})),
        ("'<<': {a: 1}\n", json!({"<<": {"a": 1}})),
        ("<<: text\n", json!({"<<": "text"})),
        (
            "- &x {a: 1}\n- &y {<<: *x, b: 2}\n- {<<: *y}\n",
            json!([{"a": 1}, {"b": 2, "a": 1}, {"b": 2, "a": 1}]),
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(parse_value(text), Ok(expected), "{text}");
    }
}

#[test]
fn fallback_reader_parses_what_the_first_rejects() {
    let rows = [
        // The fallback reader rejects a tab in a block scalar and integers beyond 128 bits.
        ("a: |\n  x\n  \ty\n", json!({"a": "x\n\ty\n"})),
        (
            "a: 340282366920938463463374607431768211456\n",
            json!({"a": 340282366920938463463374607431768211456_f64}),
        ),
        // The first reader rejects a closing bracket that is indented less than its opening line.
        ("a:\n  b: [\n1,\n2\n]\n", json!({"a": {"b": [1, 2]}})),
        (
            "a: &x {b: 1}\nc:\n  <<: *x\n  d: !e [\n1\n]\n",
            json!({"a": {"b": 1}, "c": {"d": [1], "b": 1}}),
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(parse_value(text), Ok(expected), "{text}");
    }
}

#[test]
fn hostile_yaml_is_rejected_with_reason() {
    let laughs = (1..30).fold(String::from("- &a0 [x]\n"), |text, at| {
        text + &format!("- &a{at} [{}]\n", format!("*a{},", at - 1).repeat(10))
    });
    let tower = (1..200)
        .fold(String::from("- &a0 [x]\n"), |text, at| text + &format!("- &a{at} [*a{}]\n", at - 1));
    let wide: String = (0..1000).map(|at| format!("k{at}: 1,")).collect();
    let merges = format!("- &a {{{wide}}}\n{}", "- {<<: *a}\n".repeat(100_000));
    let repeats = format!("- &a {}\n{}", "x".repeat(1 << 20), "- *a\n".repeat(100));
    let expands = "aliases expand the document by more than 64 MiB";
    let rows = [
        (laughs, expands),
        (merges, expands),
        (repeats, expands),
        (tower, "arrays and objects are nested more than 120 deep"),
        ("&a [*a]".to_owned(), "an alias refers to a value that contains it"),
        ("? [a]\n: 1\n".to_owned(), "a mapping key must be a scalar"),
        ("{{a}}: 1\n".to_owned(), "a mapping key must be a scalar"),
        ("[".repeat(1 << 20), "arrays and objects are nested more than 120 deep"),
        ("{a: ".repeat(1 << 20), "arrays and objects are nested more than 120 deep"),
        ("}{a: ".repeat(1 << 20), "invalid YAML"),
        ("a: b: \n".to_owned() + &"[".repeat(1 << 20), "invalid YAML"),
        ("- ".repeat(1 << 20), "arrays and objects are nested more than 120 deep"),
        ("*a".to_owned(), "invalid YAML: while parsing node, found unknown anchor"),
    ];
    for (text, expected) in rows {
        let error = parse_value(&text).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}
