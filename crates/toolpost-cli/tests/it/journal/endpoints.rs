//! Journal records of every endpoint and every call outcome.

use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};

use super::fixture::{Gateway, offline};
use crate::process::output_of;
use crate::{TempFolder, command, stdout, toolpost};

/// Makes a call at an endpoint. The test checks the journal, not the response.
type EndpointCall = fn(&Gateway, &str, &Value);

const ENDPOINTS: [(&str, EndpointCall); 3] =
    [("http", over_http), ("hub", over_websocket), ("mcp", over_mcp)];

fn over_http(gateway: &Gateway, operation: &str, input: &Value) {
    gateway.post(&format!("/api/{}", operation.replacen('.', "/", 1)), input);
}

fn over_websocket(gateway: &Gateway, operation: &str, input: &Value) {
    let (url, input) = (gateway.url(), input.to_string());
    let verb = if operation == "demo.clock" { "subscribe" } else { "call" };
    toolpost(&[verb, operation, &input, "--json", "--url", &url]);
}

fn over_mcp(gateway: &Gateway, operation: &str, input: &Value) {
    let name = operation.replacen('.', "__", 1);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": name, "arguments": input, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let name_header = format!("mcp-name: {name}");
    let headers = [
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        &name_header,
        "accept: application/json, text/event-stream",
    ];
    gateway.post_with("/mcp", &body, &headers);
}

#[test]
fn every_endpoint_records_call_outcome() {
    for (endpoint, call) in ENDPOINTS {
        let folder = TempFolder::new(&format!("journal-endpoint-{endpoint}"));
        folder.write("toolpost.toml", "[journal]\nmode = \"sync\"\n");
        let gateway = Gateway::start(&folder);
        for (operation, input, outcome, code) in [
            ("demo.add", json!({"a": 1, "b": 2}), "ok", Value::Null),
            ("demo.add", json!({"a": "one"}), "error", json!("VALIDATION_ERROR")),
            ("demo.fail", json!({}), "error", json!("DEMO_FAILURE")),
            ("demo.clock", json!({"count": 2, "everyMs": 1}), "completed", Value::Null),
        ] {
            call(&gateway, operation, &input);
            let found = newest_call(&gateway, operation);
            assert_eq!(found["outcome"], outcome, "{endpoint}: {found}");
            assert_eq!(found["code"], code, "{endpoint}: {found}");
            assert_eq!(
                (&found["endpoint"], &found["identity"]),
                (&json!(endpoint), &json!("local")),
                "{found}"
            );
            assert_eq!(found["input"], input, "{endpoint}: {found}");
            assert!(found["tookUs"].is_u64() && found["seq"].as_u64() < found["endSeq"].as_u64());
        }
        call(&gateway, "hub.call", &json!({"id": "demo.add", "input": {"a": 3, "b": 4}}));
        let (above, below) = (newest_call(&gateway, "hub.call"), newest_call(&gateway, "demo.add"));
        assert_eq!(below["parent"], above["id"], "{endpoint}");
        assert_eq!((&above["endpoint"], &below["endpoint"]), (&json!(endpoint), &json!("local")));
        assert_eq!(below["output"]["data"]["sum"], 7);
    }
}

/// Requests that an endpoint rejects itself are also recorded.
#[test]
fn rejected_requests_are_recorded() {
    let folder = TempFolder::new("journal-refusals");
    folder.write("toolpost.toml", "[journal]\nmode = \"sync\"\n");
    let gateway = Gateway::start(&folder);
    for (endpoint, call) in [ENDPOINTS[0], ENDPOINTS[2]] {
        for (operation, code) in
            [("gateway.verify", "ACCESS_DENIED"), ("demo.nothing", "OPERATION_NOT_FOUND")]
        {
            call(&gateway, operation, &json!({}));
            let found = newest_call(&gateway, operation);
            assert_eq!(
                (&found["code"], &found["endpoint"]),
                (&json!(code), &json!(endpoint)),
                "{found}"
            );
        }
    }
    // Requests rejected before a call is made, because of their query string or `Accept` header.
    for (path, headers) in [
        ("/api/demo/add?unheard=1", &[][..]),
        ("/api/demo/note?unheard=1", &[]),
        ("/api/demo/slow", &["accept: text/html"]),
    ] {
        let (status, _) = gateway.post_with(path, &json!({}), headers);
        assert!((400..500).contains(&status), "{path}: {status}");
        let operation = path["/api/".len()..].split('?').next().unwrap().replace('/', ".");
        let found = newest_call(&gateway, &operation);
        let expected = (&json!("VALIDATION_ERROR"), &json!("http"), &json!("local"));
        assert_eq!((&found["code"], &found["endpoint"], &found["identity"]), expected, "{found}");
    }
    let wrong = ["authorization: Bearer tpt_nobody"];
    let (status, _) = gateway.post_with("/api/demo/add", &json!({"a": 1, "b": 1}), &wrong);
    assert_eq!(status, 401);
    let found = newest_call(&gateway, "demo.add");
    assert_eq!((&found["code"], found.get("identity")), (&json!("ACCESS_DENIED"), None), "{found}");
}

#[test]
fn stdio_mcp_calls_are_recorded() {
    let folder = TempFolder::new("journal-stdio");
    let data = super::fixture::data(&folder).display().to_string();
    let mut command = command(&["mcp", "--data", &data]);
    command.current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let calls = [("demo__add", json!({"a": 1, "b": 2})), ("demo__nothing", json!({}))];
    let mut input = child.stdin.take().unwrap();
    for (id, (name, arguments)) in calls.into_iter().enumerate() {
        let params = json!({"name": name, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        writeln!(input, "{call}").unwrap();
    }
    drop(input);
    let output = output_of(child);
    assert!(output.status.success(), "{}", stdout(&output));
    for (operation, code) in
        [("demo.add", Value::Null), ("demo.nothing", "OPERATION_NOT_FOUND".into())]
    {
        let found = offline(&folder, &["log", "--op", operation, "--json"]);
        let found: Value = serde_json::from_str(&stdout(&found)).unwrap();
        assert_eq!(
            (&found["endpoint"], &found["identity"]),
            (&json!("mcp"), &json!("local")),
            "{found}"
        );
        assert_eq!(found["code"], code, "{found}");
    }
}

#[test]
fn call_of_disconnected_client_is_recorded() {
    let folder = TempFolder::new("journal-left");
    let gateway = Gateway::start(&folder);
    let body = r#"{"ms": 600000}"#;
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    write!(
        stream,
        "POST /api/demo/slow HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    gateway.wait_for_enter("demo.slow");
    drop(stream);
    gateway.wait_for_calls("demo.slow", 1);
    let found = newest_call(&gateway, "demo.slow");
    assert_eq!(
        (&found["outcome"], &found["code"]),
        (&json!("error"), &json!("ABORTED")),
        "{found}"
    );
}

fn newest_call(gateway: &Gateway, operation: &str) -> Value {
    let calls = stdout(&gateway.log(&["--op", operation, "--limit", "1"]));
    let found: Value = serde_json::from_str(&calls).unwrap_or_default();
    assert!(found.is_object(), "{operation} is not in the journal: {calls}");
    found
}
