//! `cast`: one document, or one on each line.

use std::path::Path;

use serde_json::{Value, json};

use super::{json, piped, stderr, stdout, toolpost};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string","default":"x"}},"required":["n"]}"#;

#[test]
fn a_document_is_normalized_or_cast() {
    let rows = [
        (&[][..], r#"{"n":"4","z":1}"#, 0, json!({"n": 4, "s": "x"}), 3, 0),
        (&["--keep-extras"], r#"{"n":"4","z":1}"#, 0, json!({"n": 4, "s": "x", "z": 1}), 2, 0),
        (&["--faithful"], r#"{"n":"4","z":1}"#, 0, json!({"n": 0}), 2, 0),
        (&[], r#"{"n":"four"}"#, 1, json!({"n": "four", "s": "x"}), 1, 1),
        (&[], r#"{"n":4,"s":"y"}"#, 0, json!({"n": 4, "s": "y"}), 0, 0),
    ];
    for (flags, input, exit, data, repairs, errors) in rows {
        let output = piped(&[&["cast", "--schema", SCHEMA], flags].concat(), input);
        assert_eq!(output.status.code(), Some(exit), "{flags:?} {input}");
        let found = json(&output);
        assert_eq!(found["data"], data, "{flags:?} {input}");
        assert_eq!(found["repairs"].as_array().unwrap().len(), repairs, "{flags:?} {input}");
        assert_eq!(found["errors"].as_array().unwrap().len(), errors, "{flags:?} {input}");
    }
}

#[test]
fn lines_are_answered_one_by_one() {
    let date = r#"{"type":"string","format":"date"}"#;
    let lines = format!(
        "{{\"schema\":{SCHEMA},\"input\":{{\"n\":\"1\"}}}}\n\nnot json\n{{\"schema\":5,\"input\":1}}\n\
         {{\"schema\":{{\"type\":\"nonsense\"}},\"input\":1}}\n{{\"schema\":{date},\"input\":1}}\n"
    );
    let answers = |flags: &[&str]| {
        let output = piped(&[&["cast", "--jsonl"], flags].concat(), &lines);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect::<Vec<Value>>()
    };
    let normalized = answers(&[]);
    assert_eq!(normalized.len(), 5);
    assert_eq!(normalized[0]["data"], json!({"n": 1, "s": "x"}));
    for (answer, error) in normalized[1..4].iter().zip(["line", "schema", "schema"]) {
        assert_eq!(answer["error"], error, "{answer}");
    }
    assert_eq!(normalized[4]["data"], "1");
    let cast = answers(&["--faithful"]);
    assert_eq!(cast[0]["data"], json!({"n": 0}));
    assert_eq!(cast[4]["error"], "create/format");
}

#[test]
fn what_cannot_be_used_is_named() {
    for (arguments, exit, said) in [
        (&["cast"][..], 2, "--schema"),
        (&["cast", "--schema", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["cast", "--schema", "{}", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["cast", "--jsonl", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["decode", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["encode", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["cast", "--schema", "{"], 2, "the schema is not JSON"),
        (&["cast", "--schema", "{\"type\":\"nonsense\"}", "-"], 1, "does not compile"),
    ] {
        let output = piped(arguments, "1");
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
}

/// The project's own copy of the vectors, through the door that people use.
#[test]
fn every_vector_goes_through() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolpost/tests/data/cast.jsonl");
    let file = file.to_str().unwrap();
    for flags in [&["cast", "--jsonl", file][..], &["cast", "--jsonl", "--faithful", file]] {
        let output = toolpost(flags);
        assert_eq!(stdout(&output).lines().count(), 2_938, "{}", stderr(&output));
    }
}
