//! What a door refuses before it is a call is told to whoever writes calls down.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use toolpost::{
    AuditSink, CallView, Ending, Entered, Handler, Kind, Operation, OperationSpec, Output,
    Pipeline, Schema, Step,
};
use toolpost_gateway::{Gateway, GatewaySettings, McpView, builtin};

use super::call::{Raw, requested};
use super::mcp::message;
use super::{Running, client};

/// The doors, operations and codes of calls that failed.
#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Vec<(String, String, String)>>>);

impl AuditSink for Failures {
    fn enter(&self, _: &CallView<'_>) -> Entered {
        Step::Now(Ok(())).into()
    }

    fn exit(&self, call: &CallView<'_>, ending: &Ending<'_>, _: Duration) -> Step<()> {
        if let Ending::Failed(error) = ending {
            let code = error.code().as_str().to_owned();
            let failure = (call.door.to_owned(), call.operation_id.to_owned(), code);
            self.0.lock().unwrap().push(failure);
        }
        Step::Now(Ok(()))
    }
}

impl Failures {
    /// Those since the last look.
    fn take(&self) -> Vec<(String, String, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn start() -> (Running, Failures) {
    let failures = Failures::default();
    let registry = builtin::registry();
    let mut spec = OperationSpec::new(&"t.there".parse().unwrap(), Kind::Query);
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    spec.input_schema =
        Schema::new(json!({"type": "object", "properties": {"region": region}})).unwrap();
    let handler = Handler::once_fn(async |_, _| Ok(Output::dynamic(json!({}))));
    registry.register(Operation::from_spec(spec).handler(handler).build().unwrap()).unwrap();
    let mut spec = OperationSpec::new(&"t.closed".parse().unwrap(), Kind::Query);
    spec.access_control.required_scopes.push("a".to_owned());
    let handler = Handler::once_fn(async |_, _| Ok(Output::dynamic(json!({}))));
    registry.register(Operation::from_spec(spec).handler(handler).build().unwrap()).unwrap();
    let pipeline = Pipeline::builder(registry).audit(failures.clone()).build();
    let gateway = Gateway::with(pipeline, GatewaySettings::default());
    (Running::serve(gateway, "127.0.0.1:0").await, failures)
}

fn expected(door: &str, operation: &str, code: &str) -> Vec<(String, String, String)> {
    vec![(door.to_owned(), operation.to_owned(), code.to_owned())]
}

/// Each row: the headers beside those of every request, the name of the tool, what else is in the
/// params, and the operation that was refused, if the request was about one.
#[tokio::test]
async fn calls_of_tools_that_are_not_understood_are_written_down() {
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
        let said: Value = request.send().await.unwrap().json().await.unwrap();
        assert!(said.get("error").is_some(), "{said}");
        assert_eq!(failures.take(), expected("mcp", operation, "VALIDATION_ERROR"), "{said}");
    }
    running.stop().await;
}

#[tokio::test]
async fn calls_of_tools_over_streams_that_are_not_understood_are_written_down() {
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
    let said = BufReader::new(output).lines().next_line().await.unwrap().unwrap();
    assert!(said.contains("progressToken"), "{said}");
    assert_eq!(failures.take(), expected("mcp", "demo.add", "VALIDATION_ERROR"));
    serving.abort();
    running.stop().await;
}

#[tokio::test]
async fn whatever_the_call_protocol_refuses_is_written_down() {
    let (running, failures) = start().await;
    let mut peer = Raw::connect(running.address).await;
    peer.say(&requested("used", "demo.slow", &json!({"ms": 60_000}))).await;
    for (id, operation, input, code) in [
        ("a", "t.closed", json!({}), "ACCESS_DENIED"),
        ("b", "demo.nothing", json!({}), "OPERATION_NOT_FOUND"),
        ("c", "demo.add", json!({"a": "one"}), "VALIDATION_ERROR"),
        ("used", "demo.add", json!({"a": 1, "b": 2}), "VALIDATION_ERROR"),
    ] {
        peer.say(&requested(id, operation, &input)).await;
        let said = peer.message().await.into_text().unwrap();
        assert!(said.contains(code), "{said}");
        assert_eq!(failures.take(), expected("call", operation, code), "{said}");
    }
    drop(peer);
    running.stop().await;
}

#[tokio::test]
async fn what_is_asked_of_a_gateway_that_stops_is_written_down() {
    let (running, failures) = start().await;
    let mut peer = Raw::connect(running.address).await;
    // Holds the connection open while the gateway waits for it.
    peer.say(&requested("held", "demo.slow", &json!({"ms": 60_000}))).await;
    assert!(added(&mut peer, 0).await.contains(r#""sum":3"#));
    let stopping = tokio::spawn(running.stop());
    for number in 1.. {
        let said = added(&mut peer, number).await;
        if said.contains("UNAVAILABLE") {
            break;
        }
        assert!(said.contains(r#""sum":3"#), "{said}");
    }
    assert_eq!(failures.take(), expected("call", "demo.add", "UNAVAILABLE"));
    drop(peer);
    assert!(stopping.await.unwrap().in_time);
}

/// What is said to somebody who adds.
async fn added(peer: &mut Raw, number: u32) -> String {
    peer.say(&requested(&number.to_string(), "demo.add", &json!({"a": 1, "b": 2}))).await;
    peer.message().await.into_text().unwrap().to_string()
}
