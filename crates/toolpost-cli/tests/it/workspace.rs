//! `workspace allows`: one message, or one on each line; `workspace join` is beside it.

mod join;

use std::path::Path;

use serde_json::{Value, json};

use super::{json, piped, stderr, stdout, toolpost};

#[test]
fn a_message_is_allowed_or_refused_with_a_reason() {
    let call =
        r#"{"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"read_a"}}}"#;
    let lies = r#"{"kind":"mcp/request:tools/call:read_a","payload":{"method":"tools/call","params":{"name":"drop"}}}"#;
    let read = "mcp/request:tools/call:read_*";
    let pattern = r#"{"kind":"mcp/request","payload":{"params":{"name":"read_*"}}}"#;
    let rows: [(&[&str], &str, i32, &str); 9] = [
        (&[read], call, 0, read),
        (&[pattern], call, 0, "read_*"),
        (&["chat", read], call, 0, read),
        (&["chat"], "chat", 0, "chat"),
        (&["chat"], call, 1, ""),
        (&[], call, 1, ""),
        (&["*"], lies, 1, "kind_mismatch: the kind says `read_a` and its payload says `drop`"),
        (&["*"], "system/welcome", 1, "system"),
        (&["*"], r#"{"payload":{}}"#, 1, "invalid_message: a message has a `kind`"),
    ];
    for (capabilities, message, exit, said) in rows {
        let mut arguments = vec!["workspace", "allows", "--message", message];
        arguments.extend(capabilities.iter().flat_map(|it| ["--capability", it]));
        let output = toolpost(&arguments);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", stderr(&output));
        let verdict = json(&output);
        assert_eq!(verdict["allow"], exit == 0, "{arguments:?}");
        let reason = verdict["reason"].as_str().unwrap();
        assert!(!reason.is_empty() && reason.contains(said), "{arguments:?}: {reason}");
    }
}

#[test]
fn a_message_can_come_from_standard_input_or_a_file() {
    let chat = r#"{"kind":"chat","payload":{"text":"hi"}}"#;
    let arguments = ["workspace", "allows", "--capability", "chat", "--message"];
    let output = piped(&[&arguments[..], &["-"]].concat(), chat);
    assert_eq!(json(&output)["allow"], true);
    let folder = super::Folder::new("workspace-allows");
    folder.write("message.json", chat);
    let output = folder.toolpost(&[&arguments[..], &["@message.json"]].concat());
    assert_eq!(json(&output)["allow"], true);
}

#[test]
fn what_makes_no_sense_is_told() {
    let allows = ["workspace", "allows"];
    for (arguments, said) in [
        (&[][..], "--message"),
        (&["--capability", r#"{"kind":"/(/"}"#, "--message", "chat"], "("),
        (&["--capability", "chat", "--message", "@/no/such/file"], "/no/such/file"),
        (&["--jsonl", "/no/such/file"], "/no/such/file"),
        (&["--jsonl", "--message", "chat"], "cannot be used with"),
    ] {
        let output = toolpost(&[&allows[..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_bad_line_is_told_in_its_place_and_the_run_goes_on() {
    let lines = [
        r#"{"capability":"chat","message":{"kind":"chat"}}"#,
        "",
        "not json",
        r#"{"capability":"chat"}"#,
        r#"{"capability":{"kind":"/(/"},"message":{"kind":"chat"}}"#,
        r#"{"capability":["mcp/*","chat"],"message":{"kind":"chat"}}"#,
        r#"{"capability":"*","message":{"kind":"chat","payload":{"a":1,"a":2}}}"#,
    ];
    let output = piped(&["workspace", "allows", "--jsonl"], &lines.join("\n"));
    assert_eq!(output.status.code(), Some(2));
    let answers: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> =
        answers.iter().map(|it| (it["allow"].clone(), it["error"].is_string())).collect();
    let expected = [
        (json!(true), false),
        (Value::Null, true),
        (Value::Null, true),
        (json!(false), true),
        (json!(true), false),
        (json!(false), false),
    ];
    assert_eq!(found, expected, "{}", stdout(&output));
    assert!(stderr(&output).contains("3 lines"), "{}", stderr(&output));
}

/// The project's own copy of the vectors, through the door that people use.
#[test]
fn every_vector_comes_out_as_it_says() {
    for (name, least) in [("capabilities-strings.jsonl", 37), ("capabilities-patterns.jsonl", 69)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolpost-gateway/tests/data");
        let file = folder.join(name);
        let text = std::fs::read_to_string(&file).unwrap();
        let output = toolpost(&["workspace", "allows", "--jsonl", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let answers = stdout(&output);
        assert_eq!(answers.lines().count(), text.lines().count());
        assert!(answers.lines().count() >= least);
        for (case, answer) in text.lines().zip(answers.lines()) {
            let (case, answer): (Value, Value) =
                (serde_json::from_str(case).unwrap(), serde_json::from_str(answer).unwrap());
            assert_eq!(answer["allow"], case["allow"], "{case}: {answer}");
        }
    }
}
