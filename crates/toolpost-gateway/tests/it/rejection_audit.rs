//! Requests that an endpoint rejects before they are calls are audited.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use toolpost::{
    AuditEntry, AuditOutcome, AuditSink, CallView, Handler, HandlerOutput, HookResult, Operation,
    OperationKind, OperationSpec, Schema,
};
use toolpost_gateway::{Gateway, McpView, builtin};

use super::hub::{HubClient, request_event};
use super::mcp::message;
use super::{TestGateway, client};

/// Records endpoint, operation and error code of failed calls.
#[derive(Clone, Default)]
struct FailureLog(Arc<Mutex<Vec<(String, String, String)>>>);

impl AuditSink for FailureLog {
    fn enter(&self, _: &CallView<'_>) -> AuditEntry {
        HookResult::Ready(Ok(())).into()
    }

    fn exit(&self, call: &CallView<'_>, ending: &AuditOutcome<'_>, _: Duration) -> HookResult<()> {
        if let AuditOutcome::Failed(error) = ending {
            let code = error.code().as_str().to_owned();
            let failure = (call.endpoint.as_str().to_owned(), call.operation_id.to_owned(), code);
            self.0.lock().unwrap().push(failure);
        }
        HookResult::Ready(Ok(()))
    }
}

impl FailureLog {
    /// Returns the failures since the last call.
    fn take(&self) -> Vec<(String, String, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn start() -> (TestGateway, FailureLog) {
    let failures = FailureLog::default();
    let registry = builtin::registry();
    let mut spec = OperationSpec::new(&"t.there".parse().unwrap(), OperationKind::Query);
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    spec.input_schema =
        Schema::new(json!({"type": "object", "properties": {"region": region}})).unwrap();
    let handler = Handler::once_fn(async |_, _| Ok(HandlerOutput::dynamic(json!({}))));
    registry.register(Operation::from_spec(spec).handler(handler).build().unwrap()).unwrap();
    let mut spec = OperationSpec::new(&"t.closed".parse().unwrap(), OperationKind::Query);
    spec.access_control.required_scopes.push("a".to_owned());
    let handler = Handler::once_fn(async |_, _| Ok(HandlerOutput::dynamic(json!({}))));
    registry.register(Operation::from_spec(spec).handler(handler).build().unwrap()).unwrap();
    let audit = failures.clone();
    let gateway = Gateway::builder(registry).pipeline(|pipeline| pipeline.audit(audit));
    (TestGateway::serve(gateway, "127.0.0.1:0").await, failures)
}

fn expected_failure(endpoint: &str, operation: &str, code: &str) -> Vec<(String, String, String)> {
    vec![(endpoint.to_owned(), operation.to_owned(), code.to_owned())]
}

/// Each row: additional headers, the tool name, the arguments, `_meta`, and the audited operation.
#[tokio::test]
async fn invalid_tool_call_over_http_is_audited() {
    let (running, failures) = start().await;
    let add = json!({"a": 1, "b": 2});
    let token = json!({"progressToken": {}});
    for (headers, name, arguments, meta, operation) in [
        (&[("mcp-name", "demo__fail")][..], "demo__add", &add, None, "demo.add"),
        (&[], "demo__add", &add, None, "demo.add"),
        (&[("mcp-name", "demo__add")], "demo__add", &add, Some(&token), "demo.add"),
        (&[("mcp-name", "t__there")], "t__there", &json!({"region": "eu"}), None, "t.there"),
    ] {
        let mut sent = HeaderMap::new();
        sent.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
        sent.insert("mcp-method", "tools/call".parse().unwrap());
        sent.insert("accept", "application/json, text/event-stream".parse().unwrap());
        for (name, value) in headers {
            sent.insert(*name, value.parse().unwrap());
        }
        let mut params = json!({"name": name, "arguments": arguments, "_meta": meta});
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let request = client().post(running.url("/mcp?tools=all")).headers(sent);
        let request = request.json(&message(1, "tools/call", &params));
        let response: Value = request.send().await.unwrap().json().await.unwrap();
        assert!(response.get("error").is_some(), "{response}");
        assert_eq!(
            failures.take(),
            expected_failure("mcp", operation, "VALIDATION_ERROR"),
            "{response}"
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn invalid_tool_call_over_stdio_is_audited() {
    let (running, failures) = start().await;
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let gateway = running.gateway.clone();
    let serving = tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(theirs);
        let local = Arc::new(toolpost::Identity::new("local"));
        gateway.serve_mcp(reader, writer, local, McpView::default(), std::future::pending()).await
    });
    let (output, mut input) = tokio::io::split(ours);
    let params = json!({"name": "demo__add", "_meta": {"progressToken": {}}});
    let request = format!("{}\n", message(1, "tools/call", &params));
    input.write_all(request.as_bytes()).await.unwrap();
    let text = BufReader::new(output).lines().next_line().await.unwrap().unwrap();
    assert!(text.contains("progressToken"), "{text}");
    assert_eq!(failures.take(), expected_failure("mcp", "demo.add", "VALIDATION_ERROR"));
    serving.abort();
    running.stop().await;
}

#[tokio::test]
async fn rejected_hub_request_is_audited() {
    let (running, failures) = start().await;
    let mut peer = HubClient::connect(running.address).await;
    peer.send_json(&request_event("used", "demo.slow", &json!({"ms": 60_000}))).await;
    for (id, operation, input, code) in [
        ("a", "t.closed", json!({}), "ACCESS_DENIED"),
        ("b", "demo.nothing", json!({}), "OPERATION_NOT_FOUND"),
        ("c", "demo.add", json!({"a": "one"}), "VALIDATION_ERROR"),
        ("used", "demo.add", json!({"a": 1, "b": 2}), "VALIDATION_ERROR"),
    ] {
        peer.send_json(&request_event(id, operation, &input)).await;
        let message = peer.recv_message().await.into_text().unwrap();
        assert!(message.contains(code), "{message}");
        assert_eq!(failures.take(), expected_failure("hub", operation, code), "{message}");
    }
    drop(peer);
    running.stop().await;
}

#[tokio::test]
async fn request_during_shutdown_is_audited() {
    let (running, failures) = start().await;
    let mut peer = HubClient::connect(running.address).await;
    // A running call keeps the connection open while the gateway drains.
    peer.send_json(&request_event("held", "demo.slow", &json!({"ms": 60_000}))).await;
    assert!(add_result(&mut peer, 0).await.contains(r#""sum":3"#));
    let stopping = tokio::spawn(running.stop());
    for number in 1.. {
        let message = add_result(&mut peer, number).await;
        if message.contains("UNAVAILABLE") {
            break;
        }
        assert!(message.contains(r#""sum":3"#), "{message}");
    }
    assert_eq!(failures.take(), expected_failure("hub", "demo.add", "UNAVAILABLE"));
    drop(peer);
    assert!(stopping.await.unwrap().in_time);
}

/// Calls `demo.add` and returns the text of the response.
async fn add_result(peer: &mut HubClient, number: u32) -> String {
    peer.send_json(&request_event(&number.to_string(), "demo.add", &json!({"a": 1, "b": 2}))).await;
    peer.recv_message().await.into_text().unwrap().to_string()
}
