//! `normalize` and `cast`, with one document or one per line.

use std::path::Path;

use serde_json::{Value, json};

use super::{json, run_with_stdin, stderr, stdout, toolpost};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string","default":"x"}},"required":["n"]}"#;

#[test]
fn prints_data_repairs_and_errors() {
    let rows = [
        (&["normalize"][..], r#"{"n":"4","z":1}"#, 0, json!({"n": 4, "s": "x"}), 3, 0),
        (
            &["normalize", "--keep-extras"],
            r#"{"n":"4","z":1}"#,
            0,
            json!({"n": 4, "s": "x", "z": 1}),
            2,
            0,
        ),
        (&["cast"], r#"{"n":"4","z":1}"#, 0, json!({"n": 0}), 2, 0),
        (&["normalize"], r#"{"n":"four"}"#, 1, json!({"n": "four", "s": "x"}), 1, 1),
        (&["normalize"], r#"{"n":4,"s":"y"}"#, 0, json!({"n": 4, "s": "y"}), 0, 0),
    ];
    for (flags, input, exit, data, repairs, errors) in rows {
        let output = run_with_stdin(&[flags, &["--schema", SCHEMA]].concat(), input);
        assert_eq!(output.status.code(), Some(exit), "{flags:?} {input}");
        let found = json(&output);
        assert_eq!(found["data"], data, "{flags:?} {input}");
        assert_eq!(found["repairs"].as_array().unwrap().len(), repairs, "{flags:?} {input}");
        assert_eq!(found["errors"].as_array().unwrap().len(), errors, "{flags:?} {input}");
    }
}

#[test]
fn cast_jsonl_prints_one_result_per_line() {
    let date = r#"{"type":"string","format":"date"}"#;
    let lines = format!(
        "{{\"schema\":{SCHEMA},\"input\":{{\"n\":\"1\"}}}}\n\nnot json\n{{\"schema\":5,\"input\":1}}\n\
         {{\"schema\":{{\"type\":\"nonsense\"}},\"input\":1}}\n{{\"schema\":{date},\"input\":1}}\n"
    );
    let responses = |command: &str| {
        let output = run_with_stdin(&[command, "--jsonl"], &lines);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect::<Vec<Value>>()
    };
    let normalized = responses("normalize");
    assert_eq!(normalized.len(), 5);
    assert_eq!(normalized[0]["data"], json!({"n": 1, "s": "x"}));
    for (response, error) in normalized[1..4].iter().zip(["line", "schema", "schema"]) {
        assert_eq!(response["error"], error, "{response}");
    }
    assert_eq!(normalized[4]["data"], "1");
    let cast = responses("cast");
    assert_eq!(cast[0]["data"], json!({"n": 0}));
    assert_eq!(cast[4]["error"], "create/format");
}

#[test]
fn invalid_arguments_are_reported() {
    for (arguments, exit, message) in [
        (&["normalize"][..], 2, "--schema"),
        (&["cast"], 2, "--schema"),
        (&["cast", "--schema", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["cast", "--schema", "{}", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["normalize", "--jsonl", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["decode", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["encode", "/no/such/file"], 2, "cannot read `/no/such/file`"),
        (&["normalize", "--schema", "{"], 2, "the schema is not JSON"),
        (&["normalize", "--schema", "{\"type\":\"nonsense\"}", "-"], 1, "does not compile"),
    ] {
        let output = run_with_stdin(arguments, "1");
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}");
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
    }
}

/// Runs the project's copy of the test vectors through the command line.
#[test]
fn jsonl_processes_all_test_vectors() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../typebox-cast/tests/data/cast.jsonl");
    let file = file.to_str().unwrap();
    for command in ["normalize", "cast"] {
        let output = toolpost(&[command, "--jsonl", file]);
        assert_eq!(stdout(&output).lines().count(), 2_938, "{}", stderr(&output));
    }
}
