//! `call` and `subscribe`.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{command, json, run_with_stdin, stderr, stdout, toolpost};

#[test]
fn call_prints_envelope() {
    for arguments in [
        &["call", "demo.add", "--a", "2", "--b", "3"][..],
        &["call", "demo.add", "--a=2", "--b=3", "--json"],
        &["call", "--json", "demo.add", r#"{"a":2,"b":3}"#],
        &["call", "demo.add", r#"{"a":2}"#, "--b", "3"],
    ] {
        let output = toolpost(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let envelope = json(&output);
        assert_eq!(envelope["data"], json!({"sum": 5}), "{arguments:?}");
        assert_eq!(envelope["meta"]["source"], "local");
        assert_eq!(envelope["meta"]["operationId"], "demo.add");
        assert!(envelope["meta"]["timestamp"].as_u64().unwrap() > 1_700_000_000_000);
    }
}

#[test]
fn call_with_data_prints_only_data() {
    let output = toolpost(&["call", "demo.add", "--a", "2", "--b", "3", "--data"]);
    assert_eq!(stdout(&output), "{\"sum\":5}\n");
}

#[test]
fn call_reads_input_from_stdin_or_file() {
    let output = run_with_stdin(&["call", "demo.add", "-", "--data"], r#"{"a": 1, "b": 1.5}"#);
    assert_eq!(stdout(&output), "{\"sum\":2.5}\n");

    let file = std::env::temp_dir().join(format!("toolpost-input-{}.json", std::process::id()));
    std::fs::write(&file, r#"{"a": 20, "b": 22}"#).unwrap();
    let output = toolpost(&["call", "demo.add", &format!("@{}", file.display()), "--data"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(stdout(&output), "{\"sum\":42}\n");
}

/// Each row: the arguments, the exit code, the error code on standard output and the texts on
/// standard error.
#[test]
fn call_failures_print_code_and_message() {
    let rows: [(&[&str], i32, Option<&str>, &[&str]); 8] = [
        (&["call", "demo.fail"], 1, Some("DEMO_FAILURE"), &["this operation always fails"]),
        (&["call", "demo.fail", "--data"], 1, None, &["DEMO_FAILURE"]),
        (&["call", "demo.add", "--a", "x"], 1, Some("VALIDATION_ERROR"), &["/a: ", "/b: "]),
        (&["call", "demo.ad"], 1, Some("OPERATION_NOT_FOUND"), &["did you mean `demo.add`?"]),
        (&["call", "weather.now"], 1, Some("OPERATION_NOT_FOUND"), &["toolpost list"]),
        (
            &["call", "demo.slow", "--ms", "9000", "--timeout", "20ms"],
            1,
            Some("TIMEOUT"),
            &["deadline"],
        ),
        (&["call", "demo.add", "{", "--data"], 2, None, &["not JSON"]),
        (&["call", "demo.clock", "--data"], 2, None, &["toolpost subscribe demo.clock"]),
    ];
    for (arguments, exit, code, message) in rows {
        let output = toolpost(arguments);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}");
        match code {
            Some(code) => assert_eq!(json(&output)["error"]["code"], code, "{arguments:?}"),
            None => assert_eq!(stdout(&output), "", "{arguments:?}"),
        }
        assert!(!stderr(&output).contains("INFO"), "{arguments:?}: {}", stderr(&output));
        for text in message {
            assert!(stderr(&output).contains(text), "{arguments:?}: {}", stderr(&output));
        }
    }
}

#[test]
fn call_warns_about_output_schema_mismatch() {
    let output = toolpost(&["call", "demo.messy"]);
    assert_eq!(output.status.code(), Some(0));
    let warnings = json(&output)["warnings"].clone();
    let paths: Vec<_> = warnings.as_array().unwrap().iter().map(|issue| &issue["path"]).collect();
    assert!(paths.contains(&&json!("/score")), "{warnings}");
    assert!(stderr(&output).contains("/score"), "{}", stderr(&output));
}

#[test]
fn subscribe_prints_one_line_per_value() {
    let output =
        toolpost(&["subscribe", "demo.clock", "--count", "3", "--every-ms", "1", "--data"]);
    assert_eq!(output.status.code(), Some(0));
    let ticks: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = ticks.iter().map(|tick| tick["tick"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn subscribe_broken_pipe_exits_zero() {
    let mut child = command(&["subscribe", "demo.clock", "--count", "100000", "--every-ms", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut String::new()).unwrap();
    drop(reader);
    let output = super::process::output_of(child);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}
