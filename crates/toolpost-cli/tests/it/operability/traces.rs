//! Distributed tracing from each endpoint to each kind of source, exported to a collector.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use serde_json::{Map, Value, json};
use toolpost::connection::{Connection, ConnectionSettings, IncomingRequests};
use toolpost::hub::Spoke;
use toolpost::transport::{Connector, WsConnector};
use toolpost::{CallContext, CallRequest, HandlerError, Operation};

use super::{GatewayProcess, SlowService, spawn_server};
use crate::process::wait_until_async;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that stores the spans it receives.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Value>>>);

impl Collector {
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let receiver = collector.clone();
        let take = move |body: axum::Json<Value>| {
            let receiver = receiver.clone();
            async move {
                for resource in body["resourceSpans"].as_array().unwrap() {
                    let name = &resource["resource"]["attributes"][0];
                    assert_eq!(name["value"]["stringValue"], "toolpost");
                    for scope in resource["scopeSpans"].as_array().unwrap() {
                        let spans = scope["spans"].as_array().unwrap();
                        receiver.0.lock().unwrap().extend(spans.iter().cloned());
                    }
                }
                axum::Json(json!({}))
            }
        };
        let router = Router::new().route("/v1/traces", post(take));
        (collector, format!("http://{}", spawn_server(router).await))
    }

    /// Waits until a trace has the given number of spans and returns them by id.
    async fn spans(&self, trace: &str, number: usize) -> HashMap<String, Value> {
        let found = || {
            let all = self.0.lock().unwrap().clone();
            let found = all.into_iter().filter(|span| span["traceId"] == trace);
            found.map(|span| (text(&span, "spanId"), span)).collect::<HashMap<_, _>>()
        };
        let what = format!("{number} spans of {trace}");
        wait_until_async(&what, async || found().len() >= number).await;
        found()
    }
}

fn text(span: &Value, key: &str) -> String {
    span[key].as_str().unwrap_or_default().to_owned()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let attributes = span["attributes"].as_array().unwrap().iter();
    let found = attributes.into_iter().find(|attribute| attribute["key"] == key);
    found.and_then(|found| found["value"]["stringValue"].as_str()).unwrap_or_default()
}

/// Returns the names and kinds of the spans from the one that a source received up to the caller's.
fn span_path(spans: &HashMap<String, Value>, seen: &str) -> Vec<(String, u64)> {
    let mut path = Vec::new();
    let mut id = seen.to_owned();
    while let Some(span) = spans.get(&id) {
        path.push((text(span, "name"), span["kind"].as_u64().unwrap()));
        let (start, end) = (text(span, "startTimeUnixNano"), text(span, "endTimeUnixNano"));
        assert!(start.parse::<u64>().unwrap() <= end.parse::<u64>().unwrap());
        assert_eq!(attribute(span, "toolpost.outcome"), "ok");
        assert!(!attribute(span, "toolpost.source").is_empty());
        id = text(span, "parentSpanId");
    }
    path.push((id, 0));
    path
}

/// Parses the trace id and span id of a `traceparent` that a source received.
fn parse_traceparent(parent: &Value) -> (String, String) {
    let parent = parent.as_str().unwrap_or_else(|| panic!("no trace was exported"));
    let parts: Vec<&str> = parent.split('-').collect();
    assert_eq!((parts.len(), parts[0], parts[3]), (4, "00", "01"), "{parent}");
    (parts[1].to_owned(), parts[2].to_owned())
}

fn config(service: &SlowService, name: &str) -> String {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/meta_echo_server.py");
    let server = server.display();
    let mcp = format!("[source.meta]\nmcp = {{ command = 'python3', args = ['{server}'] }}\n");
    service.source(name, "") + &mcp
}

/// Returns the call metadata that a spoke received.
async fn report_metadata(context: CallContext, _: Value) -> Result<Value, HandlerError> {
    Ok(Value::Object(context.metadata().cloned().unwrap_or_default()))
}

async fn with_spoke(served: &GatewayProcess) -> toolpost::hub::SpokeHandle {
    let connector = WsConnector::new(&format!("ws://{}/hub", served.address), None).unwrap();
    let operation = Operation::query("x.look", report_metadata).build().unwrap();
    let session = Spoke::new("box").operation(operation).unwrap().connect(connector);
    tokio::time::timeout(Duration::from_secs(30), session.ready()).await.unwrap().unwrap();
    session
}

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

/// Calls the three kinds of sources through the three endpoints. Returns the trace context that
/// each source received.
async fn call_all_sources(served: &GatewayProcess, flags: &str) -> [(&'static str, Value); 3] {
    let mut caller = served.caller().await;
    let headers = format!("traceparent: {}\r\ntracestate: a=b\r\n", parent(flags));
    let body = json!({"id": "slow.look", "input": {}}).to_string();
    let response = caller.request("POST", "/api/hub/call", &headers, &body).await.unwrap();
    assert_eq!(response.status, 200, "{}", response.body);
    let service = response.json();

    let tool = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "meta__look", "arguments": {},
        "_meta": {"traceparent": parent(flags), "tracestate": "a=b"}}});
    let response = caller.post("/mcp?tools=all&dialect=data", &tool).await;
    let tool = response.json()["result"]["structuredContent"].clone();

    let connector = WsConnector::new(&format!("ws://{}/hub", served.address), None).unwrap();
    let link = connector.connect().await.unwrap();
    let (client, connection) =
        Connection::new(link, IncomingRequests::Reject, ConnectionSettings::default());
    tokio::spawn(connection.run());
    let metadata: Map<String, Value> =
        [("traceparent", parent(flags)), ("tracestate", "a=b".into())]
            .map(|(key, value)| (key.to_owned(), value.into()))
            .into_iter()
            .collect();
    let request = CallRequest::new("box.x.look", json!({})).metadata(metadata);
    let spoke = client.call(request).await.unwrap().envelope.into_value().unwrap().data;
    [("slow.look", service), ("meta.look", tool), ("box.x.look", spoke)]
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_spans_every_endpoint_and_source() {
    let service = SlowService::start(Duration::ZERO).await;
    let (collector, address) = Collector::start().await;
    let config = config(&service, "traces") + &format!("[telemetry]\notlp = \"{address}\"\n");
    let served = GatewayProcess::start("traces", &config, &[], &[]);
    served.ready().await;
    let session = with_spoke(&served).await;
    let forwarded = call_all_sources(&served, "01").await;
    // Seven spans: four calls, one of them nested, and three dispatches. The registration of the
    // spoke is not part of this trace.
    let spans = collector.spans(TRACE, 7).await;
    assert_eq!(spans.len(), 7, "{spans:?}");
    for (operation, trace_context) in forwarded {
        let (trace, span) = parse_traceparent(&trace_context["traceparent"]);
        assert_eq!(
            (trace.as_str(), &trace_context["tracestate"]),
            (TRACE, &json!("a=b")),
            "{operation}"
        );
        let name = operation.to_owned();
        let mut expected = vec![(name.clone(), 3), (name, 2), (PARENT.to_owned(), 0)];
        if operation == "slow.look" {
            // `slow.look` is nested in `hub.call`, so its span is internal and that of `hub.call`
            // is the server span.
            expected[1].1 = 1;
            expected.insert(2, ("hub.call".to_owned(), 2));
        }
        assert_eq!(span_path(&spans, &span), expected, "{operation}");
    }
    for endpoint in ["http", "mcp", "hub"] {
        let is_there = spans.values().any(|span| attribute(span, "toolpost.endpoint") == endpoint);
        assert!(is_there, "{endpoint}: {spans:?}");
    }

    // A request without a trace context starts a new trace.
    let mut caller = served.caller().await;
    let fresh = caller.post("/api/slow/look", &json!({})).await.json();
    let (trace, span) = parse_traceparent(&fresh["traceparent"]);
    assert_ne!(trace, TRACE);
    let spans = collector.spans(&trace, 2).await;
    let expected = [("slow.look".to_owned(), 3), ("slow.look".to_owned(), 2), (String::new(), 0)];
    assert_eq!(span_path(&spans, &span), expected);
    // The exporter counts spans after the collector has acknowledged them.
    wait_until_async("sent spans are counted", async || {
        served.metric("toolpost_spans_total{outcome=\"sent\"}").await >= 9.0
    })
    .await;
    assert_eq!(served.metric("toolpost_spans_total{outcome=\"dropped\"}").await, 0.0);
    drop(session);
}

/// Each row: a method with its parameters, and where its response contains the trace context that
/// the server received. Each is called with the context in `_meta`, in headers, and in `_meta` with
/// different headers.
#[tokio::test(flavor = "multi_thread")]
async fn mcp_methods_propagate_trace_context() {
    let service = SlowService::start(Duration::ZERO).await;
    let served = GatewayProcess::start("methods", &config(&service, "methods"), &[], &[]);
    served.ready().await;
    let mut caller = served.caller().await;
    let meta = json!({"traceparent": parent("01"), "tracestate": "a=b"});
    let headers = format!("traceparent: {}\r\ntracestate: a=b\r\n", parent("01"));
    let other = format!("traceparent: 00-{}-{PARENT}-01\r\n", "1".repeat(32));
    let prompt = json!({"type": "ref/prompt", "name": "p"});
    let rows = [
        ("resources/list", json!({}), "/result/resources/0/name"),
        ("resources/read", json!({"uri": "meta:it"}), "/result/contents/0/text"),
        ("prompts/get", json!({"name": "p"}), "/result/description"),
        (
            "completion/complete",
            json!({"ref": prompt, "argument": {"name": "a", "value": ""}}),
            "/result/completion/values/0",
        ),
        ("tools/call", json!({"name": "look", "arguments": {}}), "/result/content/0/text"),
    ];
    for (method, params, at) in rows {
        for (lines, inside) in [("", Some(&meta)), (&headers, None), (&other, Some(&meta))] {
            let mut params = params.clone();
            if let Some(inside) = inside {
                params["_meta"] = inside.clone();
            }
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let address = "/mcp?source=meta&tools=all&dialect=data";
            let response = caller.request("POST", address, lines, &body.to_string()).await.unwrap();
            let message = response.json();
            let message = message.pointer(at).and_then(Value::as_str);
            let message = message.unwrap_or_else(|| panic!("{method}: {}", response.body));
            let seen: Value = serde_json::from_str(message).unwrap();
            assert_eq!(seen["traceparent"], parent("01"), "{method}, {lines}");
            assert_eq!(seen["tracestate"], "a=b", "{method}, {lines}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_request_is_recorded_in_trace() {
    let service = SlowService::start(Duration::ZERO).await;
    let (collector, address) = Collector::start().await;
    let config = config(&service, "refused") + &format!("[telemetry]\notlp = \"{address}\"\n");
    let served = GatewayProcess::start("refused", &config, &[], &[]);
    served.ready().await;
    let mut caller = served.caller().await;
    let headers = format!("traceparent: {}\r\n", parent("01"));
    let rows = [
        ("POST", "/api/demo/add", "{", 400),
        ("PUT", "/api/demo/add", "{}", 405),
        ("POST", "/api/demo/add?unheard=1", "{}", 400),
        ("POST", "/api/demo/none", "{}", 404),
    ];
    for (method, path, body, status) in rows {
        let response = caller.request(method, path, &headers, body).await.unwrap();
        assert_eq!(response.status, status, "{method} {path}");
    }
    for span in collector.spans(TRACE, rows.len()).await.values() {
        assert_eq!(text(span, "parentSpanId"), PARENT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_context_is_forwarded_without_collector() {
    let service = SlowService::start(Duration::ZERO).await;
    let served = GatewayProcess::start("passing", &config(&service, "passing"), &[], &[]);
    served.ready().await;
    let session = with_spoke(&served).await;
    for (operation, trace_context) in call_all_sources(&served, "01").await {
        assert_eq!(trace_context["traceparent"], parent("01"), "{operation}");
        assert_eq!(trace_context["tracestate"], "a=b", "{operation}");
    }
    let fresh = served.caller().await.post("/api/slow/look", &json!({})).await.json();
    assert_eq!(fresh["traceparent"], Value::Null, "no trace begins here");
    drop(session);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsampled_traces_and_dead_collector_are_tolerated() {
    let service = SlowService::start(Duration::ZERO).await;
    // The port has no listener.
    let closed_listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", closed_listener.local_addr().unwrap());
    drop(closed_listener);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str())];
    let served =
        GatewayProcess::start("unrecorded", &config(&service, "unrecorded"), &[], &variables);
    served.ready().await;
    let session = with_spoke(&served).await;
    for (operation, trace_context) in call_all_sources(&served, "00").await {
        assert_eq!(trace_context["traceparent"], parent("00"), "{operation}");
    }
    let mut caller = served.caller().await;
    for _ in 0..20 {
        assert_eq!(caller.post("/api/slow/look", &json!({})).await.status, 200);
    }
    wait_until_async("dropped spans are counted", async || {
        served.metric("toolpost_spans_total{outcome=\"dropped\"}").await >= 40.0
    })
    .await;
    let log = served.log.lock().unwrap().clone();
    assert_eq!(log.matches("span export failed").count(), 1, "{log}");
    drop(session);
}
