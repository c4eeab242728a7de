//! `room allows`, with one message or one per line, and `room join`.

mod join;

use std::path::Path;

use serde_json::{Value, json};

use super::{json, run_with_stdin, stderr, stdout, toolpost};

#[test]
fn allows_prints_decision_with_reason() {
    let call =
        r#"{"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"read_a"}}}"#;
    let lies = r#"{"kind":"mcp/request:tools/call:read_a","payload":{"method":"tools/call","params":{"name":"drop"}}}"#;
    let read = "mcp/request:tools/call:read_*";
    let pattern = r#"{"kind":"mcp/request","payload":{"params":{"name":"read_*"}}}"#;
    let to_files = r#"{"kind":"mcp/request:tools/call:read_*","to":["files","tool-*"]}"#;
    let addressed = |to: &str| call.replacen('{', &format!("{{\"to\":{to},"), 1);
    let [to_one, to_both, to_other, to_all] =
        [r#""files""#, r#"["tool-1","files"]"#, r#"["files","ada"]"#, "[]"].map(addressed);
    let rows: [(&[&str], &str, i32, &str); 13] = [
        (&[to_files], &to_one, 0, to_files),
        (&[to_files], &to_both, 0, to_files),
        (&[to_files], &to_other, 1, "does not cover messages to `ada`"),
        (&[to_files], &to_all, 1, "does not cover a message without `to`"),
        (&[read], call, 0, read),
        (&[pattern], call, 0, "read_*"),
        (&["chat", read], call, 0, read),
        (&["chat"], "chat", 0, "chat"),
        (&["chat"], call, 1, ""),
        (&[], call, 1, ""),
        (&["*"], lies, 1, "kind_mismatch: the kind has `read_a`, but its payload has `drop`"),
        (&["*"], "system/welcome", 1, "system"),
        (&["*"], r#"{"payload":{}}"#, 1, "invalid_message: a message must have a `kind`"),
    ];
    for (capabilities, message, exit, text) in rows {
        let mut arguments = vec!["room", "allows", "--message", message];
        arguments.extend(capabilities.iter().flat_map(|it| ["--capability", it]));
        let output = toolpost(&arguments);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", stderr(&output));
        let result = json(&output);
        assert_eq!(result["allow"], exit == 0, "{arguments:?}");
        let reason = result["reason"].as_str().unwrap();
        assert!(!reason.is_empty() && reason.contains(text), "{arguments:?}: {reason}");
    }
}

#[test]
fn allows_reads_message_from_stdin_or_file() {
    let chat = r#"{"kind":"chat","payload":{"text":"hi"}}"#;
    let arguments = ["room", "allows", "--capability", "chat", "--message"];
    let output = run_with_stdin(&[&arguments[..], &["-"]].concat(), chat);
    assert_eq!(json(&output)["allow"], true);
    let folder = super::TempFolder::new("room-allows");
    folder.write("message.json", chat);
    let output = folder.toolpost(&[&arguments[..], &["@message.json"]].concat());
    assert_eq!(json(&output)["allow"], true);
}

#[test]
fn allows_invalid_arguments_are_reported() {
    let allows = ["room", "allows"];
    for (arguments, text) in [
        (&[][..], "--message"),
        (&["--capability", r#"{"kind":"/(/"}"#, "--message", "chat"], "("),
        (&["--capability", "chat", "--message", "@/no/such/file"], "/no/such/file"),
        (&["--jsonl", "/no/such/file"], "/no/such/file"),
        (&["--jsonl", "--message", "chat"], "cannot be used with"),
    ] {
        let output = toolpost(&[&allows[..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(text), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn allows_jsonl_reports_bad_lines_and_continues() {
    let lines = [
        r#"{"capability":"chat","message":{"kind":"chat"}}"#,
        "",
        "not json",
        r#"{"capability":"chat"}"#,
        r#"{"capability":{"kind":"/(/"},"message":{"kind":"chat"}}"#,
        r#"{"capability":["mcp/*","chat"],"message":{"kind":"chat"}}"#,
        r#"{"capability":"*","message":{"kind":"chat","payload":{"a":1,"a":2}}}"#,
        "5",
    ];
    let output = run_with_stdin(&["room", "allows", "--jsonl"], &lines.join("\n"));
    assert_eq!(output.status.code(), Some(2));
    let results: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> =
        results.iter().map(|it| (it["allow"].clone(), it["error"].is_string())).collect();
    let expected = [
        (json!(true), false),
        (Value::Null, true),
        (Value::Null, true),
        (json!(false), true),
        (json!(true), false),
        (json!(false), false),
        (Value::Null, true),
    ];
    assert_eq!(found, expected, "{}", stdout(&output));
    assert!(stderr(&output).contains("4 lines"), "{}", stderr(&output));
    let not_an_object =
        "expected {capability, message}: invalid type: integer `5`, expected an object";
    assert!(results[6]["error"].as_str().unwrap().starts_with(not_an_object), "{}", results[6]);
}

/// Runs the project's copy of the test vectors through the command line.
#[test]
fn allows_jsonl_matches_capability_vectors() {
    for (name, min_lines) in
        [("capabilities-strings.jsonl", 37), ("capabilities-patterns.jsonl", 69)]
    {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolpost-gateway/tests/data");
        let file = folder.join(name);
        let text = std::fs::read_to_string(&file).unwrap();
        let output = toolpost(&["room", "allows", "--jsonl", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let results = stdout(&output);
        assert_eq!(results.lines().count(), text.lines().count());
        assert!(results.lines().count() >= min_lines);
        for (case, result_line) in text.lines().zip(results.lines()) {
            let (case, result_line): (Value, Value) =
                (serde_json::from_str(case).unwrap(), serde_json::from_str(result_line).unwrap());
            assert_eq!(result_line["allow"], case["allow"], "{case}: {result_line}");
        }
    }
}
