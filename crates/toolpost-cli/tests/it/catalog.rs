//! `list`, `search`, `schema` and `completions`.

use super::{TempFolder, json, stderr, stdout, toolpost};

#[test]
fn list_prints_all_operations_or_one_namespace() {
    let ids = |arguments: &[&str]| {
        let listed = json(&toolpost(arguments));
        let id = |listed: &serde_json::Value| listed["id"].as_str().unwrap().to_owned();
        listed.as_array().unwrap().iter().map(id).collect::<Vec<_>>()
    };
    let all = [
        "demo.add",
        "demo.clock",
        "demo.fail",
        "demo.messy",
        "demo.note",
        "demo.slow",
        "hub.call",
        "hub.list",
        "hub.schema",
        "hub.search",
    ];
    assert_eq!(ids(&["list"]), all);
    assert_eq!(ids(&["list", "--namespace", "demo"]), all[..6]);
    assert_eq!(ids(&["list", "--namespace", "none"]), [""; 0]);
    assert_eq!(ids(&["search", "two", "numbers"])[0], "demo.add");
    assert_eq!(ids(&["search", "time", "--limit", "1"]).len(), 1);
}

/// Each row: a command and its exit code. No output contains a demo operation.
#[test]
fn demo_operations_can_be_disabled() {
    let folder = TempFolder::new("catalog-demo");
    folder.write("toolpost.toml", "demo = false\n");
    for (arguments, code) in [
        (&["list"][..], 0),
        (&["list", "--namespace", "demo"], 0),
        (&["search", "numbers"], 0),
        (&["schema", "demo.add"], 1),
        (&["call", "demo.add", "--a", "1", "--b", "2"], 1),
    ] {
        let output = folder.toolpost(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(!stdout(&output).contains("\"demo.add\""), "{arguments:?}: {}", stdout(&output));
    }
}

#[test]
fn schema_prints_operation_envelope_or_events() {
    let spec = json(&toolpost(&["schema", "demo.add"]));
    assert_eq!(spec["inputSchema"]["required"], serde_json::json!(["a", "b"]));
    let envelope = json(&toolpost(&["schema", "envelope"]));
    assert_eq!(envelope["title"], "ResponseEnvelope");
    let events = json(&toolpost(&["schema", "events"]));
    assert_eq!(events["$defs"]["call.requested"]["title"], "call.requested");
    let output = toolpost(&["schema", "demo.sum"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("Operation not found: demo.sum"));
}

#[test]
fn completions_print_shell_scripts() {
    for shell in ["bash", "zsh", "fish"] {
        let output = toolpost(&["completions", shell]);
        assert!(output.status.success());
        assert!(stdout(&output).contains("subscribe"), "{shell}");
    }
}

#[test]
fn usage_errors_exit_with_code_2() {
    for arguments in [&["nonsense"][..], &["call"], &["list", "--frobnicate"], &[]] {
        assert_eq!(toolpost(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
