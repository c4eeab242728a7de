//! Results and errors of every kind of source, through every endpoint.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::TempFolder;
use super::journal::fixture::Gateway;
use super::process::Process;
use super::upstream::Upstream;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/results_server.py");

/// Returns an OpenAPI document with one POST operation per path, and the statuses that it declares.
fn document(server: &str, paths: &[(&str, &[&str])]) -> Value {
    let operations = paths.iter().map(|(path, statuses)| {
        let responses = statuses.iter().map(|status| {
            let content = json!({"application/json": {"schema": {}}});
            ((*status).to_owned(), json!({"description": "A response.", "content": content}))
        });
        let responses: Value = responses.collect::<serde_json::Map<_, _>>().into();
        let operation = json!({"operationId": path, "responses": responses});
        (format!("/{path}"), json!({"post": operation}))
    });
    let operations: Value = operations.collect::<serde_json::Map<_, _>>().into();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Results", "version": "1"},
        "servers": [{"url": server}],
        "paths": operations,
    })
}

impl Gateway {
    /// Calls a tool at the MCP endpoint with these query parameters.
    fn call_tool(&self, query: &str, operation: &str, arguments: &Value) -> Value {
        let name = operation.replacen('.', "__", 1);
        let params = json!({"name": name, "arguments": arguments});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let accept = ["accept: application/json, text/event-stream"];
        let (_, body) = self.post_with(&format!("/mcp{query}"), &request, &accept);
        let response: Value = serde_json::from_str(&body).unwrap();
        assert!(response["result"].is_object(), "{response}");
        response["result"].clone()
    }

    /// Calls an operation over HTTP and returns its envelope.
    fn envelope(&self, operation: &str, input: &Value) -> Value {
        let path = format!("/api/{}?envelope=true", operation.replacen('.', "/", 1));
        let (status, body) = self.post(&path, input);
        assert_eq!(status, 200, "{operation}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Calls an operation over the hub.
    fn call_over_hub(&self, operation: &str, input: &Value) -> Value {
        let arguments = ["call", operation, &input.to_string(), "--json", "--url", &self.url()];
        super::json(&super::toolpost(&arguments))
    }
}

/// Each row: an operation of a rate-limited service, and the status of the response over HTTP.
#[test]
fn upstream_retry_after_reaches_the_caller() {
    let service = Upstream::start(|target| match target {
        "POST /closed" => ("503 Service Unavailable\r\nretry-after: 7", ""),
        "POST /ended" => ("503 Gone\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT", ""),
        _ => ("429 Too Many Requests\r\nretry-after: 7", ""),
    });
    let mut server = Command::new("python3");
    let mut server = Process::spawn(server.args([SERVER, "http"]).stdout(Stdio::piped()));
    let port = server.stdout_lines().next().unwrap();
    let folder = TempFolder::new("retry-after");
    let paths: [(&str, &[&str]); 4] = [
        ("busy", &["200"]),
        ("declared", &["200", "429"]),
        ("closed", &["200"]),
        ("ended", &["200"]),
    ];
    folder.write("jobs.json", &document(&service.url(), &paths).to_string());
    folder.write(
        "toolpost.toml",
        &format!(
            "[source.jobs]\nopenapi = \"jobs.json\"\naccess = \"open\"\n\
             [source.tools]\nmcp = {{ url = \"http://127.0.0.1:{port}/\" }}\naccess = \"open\"\n"
        ),
    );
    let gateway = Gateway::start(&folder);
    gateway.wait_for("jobs.busy");
    gateway.wait_for("tools.limited");
    for (operation, status, seconds) in [
        ("jobs.busy", 502, 7),
        ("jobs.declared", 429, 7),
        ("jobs.closed", 502, 7),
        ("jobs.ended", 502, 0),
        ("tools.limited", 429, 7),
    ] {
        let path = format!("/api/{}", operation.replacen('.', "/", 1));
        let (head, problem) = gateway.exchange(&path, &json!({}));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{operation}: {head}");
        let header = format!("\r\nretry-after: {}\r\n", seconds.max(1));
        assert!(format!("{head}\r\n").contains(&header), "{operation}: {head}");
        let problem: Value = serde_json::from_str(&problem).unwrap();
        let tool_result = gateway.call_tool("", operation, &json!({}));
        for error in [
            &problem["error"],
            &tool_result["_meta"]["toolpost/error"],
            &gateway.call_over_hub(operation, &json!({}))["error"],
        ] {
            assert_eq!(error["details"]["retryAfterMs"], seconds * 1_000, "{operation}: {error}");
        }
    }
}

#[test]
fn meta_of_every_source_has_operation_id_and_timestamp() {
    let service = Upstream::start(|_| ("200 OK\r\ncontent-type: application/json", "{}"));
    let folder = TempFolder::new("result-meta");
    folder.write("jobs.json", &document(&service.url(), &[("busy", &["200"])]).to_string());
    let config = format!(
        "[source.jobs]\nopenapi = \"jobs.json\"\naccess = \"open\"\n\
         [source.tools]\nmcp = {{ command = \"python3\", args = [{SERVER:?}, \"stdio\"] }}\naccess = \"open\"\n"
    );
    folder.write("toolpost.toml", &config);
    let gateway = Gateway::start(&folder);
    gateway.wait_for("jobs.busy");
    gateway.wait_for("tools.plain");
    for (operation, input, source) in [
        ("demo.add", json!({"a": 1, "b": 2}), "local"),
        ("jobs.busy", json!({}), "http"),
        ("tools.plain", json!({}), "mcp"),
        ("tools.claims", json!({}), "mcp"),
    ] {
        let nested = json!({"id": operation, "input": input});
        for envelope in [
            gateway.envelope(operation, &input),
            gateway.envelope("hub.call", &nested),
            gateway.call_over_hub(operation, &input),
            gateway.call_tool("?dialect=envelope", operation, &input)["structuredContent"].clone(),
        ] {
            let meta = &envelope["meta"];
            assert_eq!(
                (&meta["source"], &meta["operationId"]),
                (&json!(source), &json!(operation))
            );
            assert!(meta["timestamp"].as_i64().unwrap() > 1_000_000_000_000, "{meta}");
        }
    }
    let claims = gateway.call_tool("", "tools.claims", &json!({}));
    for (name, value) in [("operationId", json!("demo.add")), ("timestamp", json!(1))] {
        assert_eq!(claims[name], value, "the result of the server is relayed: {claims}");
    }
    let meta = gateway.call_tool("", "tools.plain", &json!({}));
    assert_eq!(meta, json!({"content": [{"type": "text", "text": "\"plain\""}]}));
}
