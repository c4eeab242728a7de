//! `call` and `subscribe`.

use std::process::Stdio;

use serde_json::{Value, json};

use super::journal::fixture::post;
use super::process::{OutputLines, Process, wait_until};
use super::upstream::Upstream;
use super::{TempFolder, command, json, run_with_stdin, stderr, stdout, toolpost};

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
    let output = toolpost(&["call", "demo.add", "--a", "2", "--b", "3", "--output", "data"]);
    assert_eq!(stdout(&output), "{\"sum\":5}\n");
}

#[test]
fn call_reads_input_from_stdin_or_file() {
    let output =
        run_with_stdin(&["call", "demo.add", "-", "--output", "data"], r#"{"a": 1, "b": 1.5}"#);
    assert_eq!(stdout(&output), "{\"sum\":2.5}\n");

    let file = std::env::temp_dir().join(format!("toolpost-input-{}.json", std::process::id()));
    std::fs::write(&file, r#"{"a": 20, "b": 22}"#).unwrap();
    let output =
        toolpost(&["call", "demo.add", &format!("@{}", file.display()), "--output", "data"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(stdout(&output), "{\"sum\":42}\n");
}

/// Each row: the arguments, the exit code, the error code on standard output and the texts on
/// standard error.
#[test]
fn call_failures_print_code_and_message() {
    let rows: [(&[&str], i32, Option<&str>, &[&str]); 7] = [
        (&["call", "demo.fail"], 1, Some("DEMO_FAILURE"), &["this operation always fails"]),
        (&["call", "demo.fail", "--output", "data"], 1, None, &["DEMO_FAILURE"]),
        (&["call", "demo.add", "--a", "x"], 1, Some("VALIDATION_ERROR"), &["/a: ", "/b: "]),
        (&["call", "demo.ad"], 1, Some("OPERATION_NOT_FOUND"), &["did you mean `demo.add`?"]),
        (&["call", "weather.now"], 1, Some("OPERATION_NOT_FOUND"), &["toolpost list"]),
        (
            &["call", "demo.slow", "--ms", "9000", "--timeout", "20ms"],
            1,
            Some("TIMEOUT"),
            &["deadline"],
        ),
        (&["call", "demo.add", "{", "--output", "data"], 2, None, &["not JSON"]),
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
    let output = toolpost(&[
        "subscribe",
        "demo.clock",
        "--count",
        "3",
        "--every-ms",
        "1",
        "--output",
        "data",
    ]);
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

/// A service with an operation `notes.add`, which takes a body and responds with the wrong types.
fn notes(folder: &TempFolder) -> Upstream {
    let respond = |_: &str| {
        ("200 OK\r\ncontent-type: application/json", r#"{"id": "x", "size": "y", "done": "z"}"#)
    };
    let upstream = Upstream::start(respond);
    let text = json!({"type": "string"});
    let note = json!({"type": "object", "additionalProperties": false, "properties": {
        "title": text, "number": text, "tags": {"type": "array", "items": text},
        "author": {"type": "object", "properties": {"name": text, "age": {"type": "integer"}}},
    }});
    let done = json!({"type": "object", "properties": {
        "id": {"type": "integer"}, "size": {"type": "integer"}, "done": {"type": "integer"}}});
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Notes", "version": "1"},
        "servers": [{"url": upstream.url()}],
        "components": {"schemas": {"Note": note}},
        "paths": {"/notes": {"post": {
            "operationId": "add",
            "requestBody": {"required": true, "content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Note"}}}},
            "responses": {"200": {"description": "added", "content": {"application/json": {
                "schema": done}}}},
        }}},
    });
    folder.write("notes.json", &document.to_string());
    folder.write("toolpost.toml", "[source.notes]\nopenapi = \"notes.json\"\n");
    upstream
}

/// Each row: the arguments and the request body.
#[test]
fn dotted_keys_build_nested_input() {
    let folder = TempFolder::new("calls-dotted");
    let upstream = notes(&folder);
    for (arguments, body) in [
        (
            &["--body.title", "a b", "--body.number", "7"][..],
            json!({"title": "a b", "number": "7"}),
        ),
        (&["--body.tags", "x", "--body.tags=y"], json!({"tags": ["x", "y"]})),
        (
            &["--body.author.name", "5", "--body.author.age", "5"],
            json!({"author": {"name": "5", "age": 5}}),
        ),
        (
            &[r#"{"body": {"title": "a", "number": "1"}}"#, "--body.title", "b"],
            json!({"title": "b", "number": "1"}),
        ),
    ] {
        let output = folder.toolpost(&[&["call", "notes.add"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        let sent: Value = serde_json::from_str(&upstream.last_request().1).unwrap();
        assert_eq!(sent, body, "{arguments:?}");
    }
}

#[test]
fn key_of_body_is_reported_with_dotted_key() {
    let folder = TempFolder::new("calls-body-hint");
    let _upstream = notes(&folder);
    let output = folder.toolpost(&["call", "notes.add", "--title", "x", "--number", "7"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let text = stderr(&output);
    let hint = "notes.add has no input `title`, `number`; use `--body.title`, `--body.number`";
    assert!(text.contains(hint) && text.matches("warning").count() == 1, "{text}");
}

#[test]
fn output_mismatches_are_one_warning() {
    let folder = TempFolder::new("calls-one-warning");
    let _upstream = notes(&folder);
    let output = folder.toolpost(&["call", "notes.add", r#"{"body": {"title": "x"}}"#]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["warnings"].as_array().unwrap().len(), 3);
    let text = stderr(&output);
    assert_eq!(text.matches("warning").count(), 1, "{text}");
    assert!(text.contains("(and 2 more; `--output envelope` lists all)"), "{text}");
}

/// The details are logged at debug level.
#[test]
fn output_mismatches_are_one_warning_in_the_log() {
    let folder = TempFolder::new("calls-one-log-line");
    let _upstream = notes(&folder);
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    serve.env("TOOLPOST_LOG", "info,toolpost::pipeline=debug").env("NO_COLOR", "1");
    serve.current_dir(folder.path()).stderr(Stdio::piped());
    let (mut process, address, _lines) = Process::serve(&mut serve);
    let log = OutputLines::of(process.stderr.take().unwrap());
    let call = || post(&address, "/api/notes/add?envelope=true", &json!({"body": {}}), &[]);
    wait_until("the source is ready", || {
        call().is_some_and(|(status, body)| status == 200 && body.contains("\"warnings\""))
    });
    process.signal("-TERM");
    let text = "output does not match its schema";
    let lines: Vec<String> = log.filter(|line| line.contains(text)).collect();
    let of_level = |level: &str| lines.iter().filter(|line| line.contains(level)).count();
    assert_eq!((of_level("WARN"), of_level("DEBUG")), (1, 3), "{lines:#?}");
    let warning = lines.iter().find(|line| line.contains("WARN")).unwrap();
    for field in ["operation=\"notes.add\"", "warnings=3", "path=\"/"] {
        assert!(warning.contains(field), "{field}: {warning}");
    }
    assert!(!warning.contains("\"x\""), "values can be secret: {warning}");
}

/// Each row: the id of the called operation and the suggestion.
#[test]
fn hub_call_suggests_accessible_id() {
    for (id, suggestion) in [
        ("demo.ad", Some("did you mean `demo.add`?")),
        ("demo__add", Some("did you mean `demo.add`?")),
        ("gateway.reloads", None),
        ("weather.now", None),
    ] {
        let output = toolpost(&["call", "hub.call", "--id", id]);
        assert_eq!(output.status.code(), Some(1), "{id}");
        let error = json(&output)["error"].clone();
        assert_eq!(error["code"], "OPERATION_NOT_FOUND", "{id}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("Operation not found: {id}")), "{message}");
        assert_eq!(message.contains("did you mean"), suggestion.is_some(), "{message}");
        assert!(message.contains(suggestion.unwrap_or_default()), "{message}");
    }
}
