//! Services that are Toolpost gateways.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::openapi::{Namespaces, OpenApiSettings, OpenApiSource, from_openapi};
use toolpost::protocol::Secret;
use toolpost::{
    Authority, CallError, CallRequest, LogMessage, Outcome, Progress, ProgressObserver,
    ProgressSender, Registry, RunningSource, SourceHooks,
};

use super::fixture::{
    Fixture, ReceivedRequest, TestReply, TestService, assert_error, settings, within_timeout,
};

const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";
const PROBLEM_JSON: &str = "application/problem+json";

/// Returns the document of another gateway with `demo.read`, `demo.write` and `demo.watch`.
fn document(origin: &str) -> Value {
    let operation = |name: &str, kind: &str| {
        json!({"post": {
            "requestBody": {"content": {"application/json": {"schema": {}}}},
            "responses": {"200": {"description": "ok"}},
            "x-toolpost-operation": {
                "namespace": "demo", "name": name, "version": "1.0.0", "type": kind, "description": "",
                "inputSchema": true, "outputSchema": true,
                "errorSchemas": [{"code": "NO_FUNDS", "description": "", "schema": true, "httpStatus": 402}],
            },
        }})
    };
    json!({
        "openapi": "3.1.0", "info": {"title": "Another gateway", "version": "1"},
        "x-toolpost": {"version": "0.1.0"}, "servers": [{"url": origin}],
        "paths": {
            "/api/demo/read": operation("read", "query"),
            "/api/demo/write": operation("write", "mutation"),
            "/api/demo/watch": operation("watch", "subscription"),
        },
    })
}

fn fixture(service: &TestService, settings: OpenApiSettings) -> Fixture {
    Fixture::from_document(&document(&service.origin), settings)
}

fn envelope_reply(body: &Value) -> TestReply {
    TestReply::typed(200, ENVELOPE, body.to_string())
}

fn problem_reply(status: u16, error: &Value) -> TestReply {
    let body = json!({"type": "about:blank", "title": "t", "status": status, "detail": "d", "error": error});
    TestReply::typed(status, PROBLEM_JSON, body.to_string())
}

fn local_meta() -> Value {
    json!({"source": "local", "operationId": "demo.read", "timestamp": 7})
}

async fn outcome(fixture: &Fixture, name: &str, input: Value) -> Result<Outcome, CallError> {
    let id = format!("x.demo.{name}");
    within_timeout(fixture.pipeline.call(CallRequest::new(&id, input), Authority::untrusted(None)))
        .await
}

#[tokio::test]
async fn peer_envelope_is_passed_through_unchanged() {
    let http = json!({"source": "http", "statusCode": 201, "headers": {"a": "b"}, "contentType": "text/plain",
        "operationId": "far.read", "timestamp": 7});
    let mcp = json!({"source": "mcp", "isError": true, "content": [{"type": "text", "text": "no"}],
        "operationId": "far.read", "timestamp": 7});
    let rows = [
        json!({"data": null, "meta": local_meta()}),
        json!({"data": {"a": [1, 1.5, "x"]}, "meta": local_meta()}),
        json!({"data": "text", "meta": http}),
        json!({"data": [{"type": "text", "text": "no"}], "meta": mcp}),
        json!({"data": 1, "meta": local_meta(), "warnings": [{"path": "/a", "message": "odd"}],
               "repairs": [{"path": "/b", "action": "stripped", "from": 1}]}),
    ];
    for sent in rows {
        let response = sent.clone();
        let service = TestService::start(move |_| envelope_reply(&response)).await;
        let got = outcome(&fixture(&service, settings()), "read", json!({})).await.unwrap();
        assert_eq!(serde_json::to_value(&got).unwrap(), sent);
    }
}

#[tokio::test]
async fn peer_inputs_and_numbers_keep_their_source_text() {
    let service = TestService::start(|seen| {
        let text = format!("{{\"data\":{},\"meta\":{}}}", seen.body, local_meta());
        TestReply::typed(200, ENVELOPE, text)
    })
    .await;
    let fixture = fixture(&service, settings());
    for text in [
        "123456789012345678901234567890",
        "1.10",
        "[-0.0,1e400]",
        "null",
        "{\"a\":  1}",
        "\"é\\n\"",
    ] {
        let input = toolpost::Payload::from_json(text.to_owned()).unwrap();
        let request = CallRequest::new("x.demo.write", input);
        let got = within_timeout(fixture.pipeline.call(request, Authority::untrusted(None)))
            .await
            .unwrap();
        assert_eq!(serde_json::to_string(&got.envelope.data).unwrap(), text);
    }
    assert!(
        service
            .requests()
            .iter()
            .all(|seen| seen.path == "/api/demo/write" && seen.method == "POST")
    );
}

#[tokio::test]
async fn peer_request_sends_id_trace_timeout_and_accept() {
    let service =
        TestService::start(|_| envelope_reply(&json!({"data": 1, "meta": local_meta()}))).await;
    let fixture = fixture(&service, settings());
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let metadata = json!({"traceparent": trace, "tracestate": "a=b", "other": "stays here"});
    let request = CallRequest::new("x.demo.read", json!({"a": 1}))
        .request_id("call-7")
        .timeout(Duration::from_secs(9))
        .metadata(metadata.as_object().unwrap().clone());
    within_timeout(fixture.pipeline.call(request, Authority::untrusted(None))).await.unwrap();
    let seen = service.requests().remove(0);
    let accept = "application/vnd.toolpost.envelope+json, application/problem+json";
    for (name, value) in [
        ("accept", accept),
        ("content-type", "application/json"),
        ("content-length", "7"),
        ("x-request-id", "call-7"),
        ("traceparent", trace),
        ("tracestate", "a=b"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    let seconds: f64 = seen.header("request-timeout").unwrap().parse().unwrap();
    assert!((5.0..=9.0).contains(&seconds), "{seconds}");
    assert!(!format!("{:?}", seen.headers).contains("stays here"));
}

/// Each row: the operation, and the status and error of the other gateway, which the caller
/// receives unchanged.
#[tokio::test]
async fn peer_errors_are_passed_through() {
    let error =
        |code: &str, retryable: bool| json!({"code": code, "message": "m", "retryable": retryable});
    let detailed =
        json!({"code": "NO_FUNDS", "message": "m", "details": {"left": 1.5}, "retryable": false});
    let listed = json!({"code": "VALIDATION_ERROR", "message": "m", "details": [{"path": "/a", "message": "x"}], "retryable": false});
    let doubtful = json!({"code": "EXECUTION_ERROR", "message": "m", "details": {"mayHaveRun": true}, "retryable": false});
    let rows = [
        ("read", 404, error("OPERATION_NOT_FOUND", false)),
        ("read", 403, error("ACCESS_DENIED", false)),
        ("read", 422, listed),
        ("read", 402, detailed.clone()),
        ("write", 402, detailed),
        ("read", 504, error("TIMEOUT", true)),
        ("read", 502, error("EXECUTION_ERROR", false)),
        ("write", 502, doubtful),
        // The other gateway did not start the operation, so the errors have no `mayHaveRun`.
        ("write", 503, error("UNAVAILABLE", true)),
        ("write", 429, error("OVERLOADED", true)),
        ("write", 503, error("ABORTED", false)),
        ("read", 500, error("UNKNOWN_ERROR", false)),
    ];
    for (name, status, sent) in rows {
        let response = sent.clone();
        let service = TestService::start(move |_| problem_reply(status, &response)).await;
        let got = outcome(&fixture(&service, settings()), name, json!({})).await.unwrap_err();
        assert_eq!(serde_json::to_value(&got).unwrap(), sent, "{name} {status}");
        // The other gateway decides about retries, so the request is sent once.
        assert_eq!(service.request_count(), 1, "{name} {status}");
    }
}

/// Each row: the operation, a response of a proxy or an invalid gateway response, the expected
/// message and the number of requests.
#[tokio::test]
async fn non_gateway_responses_are_reported_as_http_errors() {
    let rows: [(&str, fn() -> TestReply, &[&str], usize); 8] = [
        (
            "read",
            || TestReply::typed(200, "text/html", "<html>"),
            &["`text/html`", "not an envelope"],
            1,
        ),
        (
            "read",
            || TestReply::json(200, &json!({"data": 1, "meta": local_meta()})),
            &["not an envelope"],
            1,
        ),
        ("read", || envelope_reply(&json!({"data": 1})), &["cannot be read"], 1),
        ("read", || TestReply::typed(200, ENVELOPE, "{"), &["cannot be read"], 1),
        ("read", || TestReply::typed(502, "text/html", "<h1>Bad</h1>"), &["HTTP 502", "Bad"], 3),
        ("write", || TestReply::typed(502, "text/html", "<h1>Bad</h1>"), &["HTTP 502", "Bad"], 1),
        (
            "read",
            || TestReply::typed(401, PROBLEM_JSON, r#"{"detail":"who are you"}"#),
            &["HTTP 401", "who are you"],
            1,
        ),
        ("read", || TestReply::typed(413, PROBLEM_JSON, "{"), &["HTTP 413"], 1),
    ];
    for (name, reply, message, count) in rows {
        let service = TestService::start(move |_| reply()).await;
        let called = outcome(&fixture(&service, settings()), name, json!({})).await;
        assert_error(called, "EXECUTION_ERROR", message);
        assert_eq!(service.request_count(), count, "{message:?}");
    }
}

#[tokio::test]
async fn peer_error_redacts_echoed_credentials() {
    let hidden = |seen: &ReceivedRequest| seen.header("x-key").unwrap_or_default().to_owned();
    let service = TestService::start(move |seen| {
        let problem =
            json!({"code": "NO_FUNDS", "message": hidden(seen), "details": {"a": [hidden(seen)]}});
        match seen.path.ends_with("watch") {
            true => TestReply::events(
                &format!("event: error\ndata: {}\n\n", json!({"error": problem})),
                false,
            ),
            false => problem_reply(402, &problem),
        }
    })
    .await;
    let mut settings = settings();
    settings.credentials.headers.insert("x-key".to_owned(), Secret::new("planted-5e6f"));
    let fixture = fixture(&service, settings);
    let error = outcome(&fixture, "read", json!({})).await.unwrap_err();
    let streamed =
        within_timeout(fixture.subscribe("demo.watch").next()).await.unwrap().unwrap_err();
    for error in [error, streamed] {
        let text = serde_json::to_string(&error).unwrap();
        assert!(!text.contains("planted") && text.contains("NO_FUNDS"), "{text}");
    }
    assert!(service.requests().iter().all(|seen| seen.header("x-key") == Some("planted-5e6f")));
}

/// A peer response cannot redirect the request to a host that is not allowed.
#[tokio::test]
async fn peer_calls_enforce_host_and_redirect_rules() {
    let elsewhere =
        TestService::start(|_| envelope_reply(&json!({"data": 1, "meta": local_meta()}))).await;
    let target = format!("{}/api/demo/read", elsewhere.origin);
    let service = TestService::start(move |_| TestReply::redirect(307, &target)).await;
    let called = outcome(&fixture(&service, settings()), "read", json!({})).await;
    assert_error(called, "EXECUTION_ERROR", &["redirect rejected"]);
    assert_eq!(elsewhere.request_count(), 0);

    // A redirect that changes POST to GET would drop the input.
    let service = TestService::start(|seen| match &*seen.method {
        "POST" => TestReply::redirect(301, "/api/demo/read"),
        _ => envelope_reply(&json!({"data": "without its input", "meta": local_meta()})),
    })
    .await;
    let called = outcome(&fixture(&service, settings()), "read", json!({"a": 1})).await;
    assert_error(called, "EXECUTION_ERROR", &["drop the request body"]);
    assert_eq!(service.request_count(), 1);

    let big = json!({"data": "x".repeat(5_000), "meta": local_meta()});
    let service = TestService::start(move |_| envelope_reply(&big)).await;
    let mut small = settings();
    small.client.response_bytes = 1_000;
    let called = outcome(&fixture(&service, small), "read", json!({})).await;
    assert_error(called, "EXECUTION_ERROR", &["larger than 1000 bytes"]);

    // An external document cannot name an internal host.
    let mut outside = settings();
    outside.document = toolpost::openapi::DocumentLocation::from_path_or_url(
        "https://gateway.example/openapi.json",
    );
    let fixture = Fixture::from_document(&document("http://169.254.169.254"), outside);
    let called = outcome(&fixture, "read", json!({})).await;
    assert_error(called, "EXECUTION_ERROR", &["169.254.169.254"]);
}

#[tokio::test]
async fn abandoned_peer_call_closes_the_connection() {
    let service = TestService::start(|_| TestReply::Hang).await;
    let fixture = fixture(&service, settings());
    let reading = fixture.pipeline.call_trusted("x.demo.read", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(300), reading).await.is_err());
    service.wait_for_disconnect().await;
    let request = CallRequest::new("x.demo.write", json!({})).timeout(Duration::from_millis(200));
    let called = within_timeout(fixture.pipeline.call(request, Authority::untrusted(None))).await;
    assert!(assert_error(called, "TIMEOUT", &[]).may_have_run());
    service.wait_for_disconnect().await;
}

fn event(id: &str, data: &Value) -> String {
    format!("id: {id}\ndata: {}\n\n", json!({"data": data, "meta": local_meta()}))
}

/// Sends events and then cuts the connection.
fn truncated_events(text: String) -> TestReply {
    let first = futures::stream::iter([Ok(text.into())]);
    let end = futures::stream::once(async {
        // Lets the previous chunk be sent first.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("cut"))
    });
    TestReply::Stream(
        vec![("content-type", "text/event-stream".to_owned())],
        first.chain(end).boxed(),
    )
}

fn data(value: &Result<Outcome, CallError>) -> Value {
    value.as_ref().unwrap().envelope.data.clone().into_value().unwrap()
}

/// Records the log messages of a call.
#[derive(Clone, Default)]
struct RecordedLog(Arc<Mutex<Vec<String>>>);

impl ProgressObserver for RecordedLog {
    fn progress(&self, _: Progress) {}

    fn log(&self, line: LogMessage) {
        self.0.lock().unwrap().push(format!("{}: {}", line.level, line.data.as_str().unwrap()));
    }
}

/// Collects the values of a subscription and its log messages.
async fn collect_stream(fixture: &Fixture) -> (Vec<Result<Outcome, CallError>>, Vec<String>) {
    let log_lines = RecordedLog::default();
    let request = CallRequest::new("x.demo.watch", json!({"from": 1}))
        .progress(ProgressSender::from_observer(Arc::new(log_lines.clone())));
    let values = fixture.pipeline.start_subscription(request, Authority::untrusted(None));
    let values = within_timeout(values.collect()).await;
    let log_lines = log_lines.0.lock().unwrap().clone();
    (values, log_lines)
}

#[tokio::test]
async fn interrupted_peer_stream_resumes_after_last_event() {
    let service = TestService::start(|seen| match seen.number {
        0 => truncated_events([event("s-1", &json!(1)), event("s-2", &Value::Null)].concat()),
        // A stream that ends without a `complete` or `error` event is resumed.
        1 => TestReply::events(&event("s-3", &json!([3])), false),
        2 => TestReply::typed(503, "text/html", "a proxy without a gateway"),
        3 => problem_reply(429, &json!({"code": "OVERLOADED", "message": "m", "retryable": true})),
        4 => TestReply::events(
            &format!(
                "event: gap\ndata: {}\n\n{}",
                json!({"lost": 2, "isNew": false}),
                event("s-6", &json!(6))
            ),
            false,
        ),
        _ => TestReply::events("event: complete\nid: s-7\ndata: {}\n\n", true),
    })
    .await;
    let mut settings = settings();
    settings.client.retry.retries = 0;
    let (values, log_lines) = collect_stream(&fixture(&service, settings)).await;
    assert_eq!(
        values.iter().map(data).collect::<Vec<_>>(),
        [json!(1), json!(null), json!([3]), json!(6)]
    );
    let meta = serde_json::to_value(&values[3].as_ref().unwrap().envelope.meta).unwrap();
    assert_eq!(meta, local_meta());
    let ids: Vec<_> = service
        .requests()
        .iter()
        .map(|seen| seen.header("last-event-id").map(str::to_owned))
        .collect();
    assert_eq!(
        ids,
        [None, Some("s-2"), Some("s-3"), Some("s-3"), Some("s-3"), Some("s-6")]
            .map(|id| id.map(str::to_owned))
    );
    assert!(
        log_lines.iter().any(|line| line == "warning: 2 events of the stream are lost"),
        "{log_lines:?}"
    );
    let first = service.requests().remove(0);
    assert_eq!((&*first.body, &*first.method), ("{\"from\":1}", "POST"));
    assert!(
        first.header("accept").unwrap().starts_with("text/event-stream, application/vnd.toolpost")
    );
    assert_eq!(first.header("request-timeout"), None);
}

/// Each row: the response after a cut stream, whether `reconnect` is enabled, the expected error
/// and the number of values.
#[tokio::test]
async fn peer_stream_ends_exactly_once() {
    let failed = json!({"error": {"code": "NO_FUNDS", "message": "m", "details": {"left": 2}, "retryable": false}});
    let failure = format!("event: error\nid: s-2\ndata: {failed}\n\n");
    let new = format!(
        "event: gap\ndata: {}\n\n{}event: complete\ndata: {{}}\n\n",
        json!({"lost": null, "isNew": true}),
        event("t-1", &json!(1))
    );
    let rows: [(String, bool, Option<&str>, usize); 4] = [
        (failure, false, Some("NO_FUNDS"), 1),
        (new.clone(), false, Some("UNAVAILABLE"), 1),
        (new, true, None, 2),
        (
            "event: news\ndata: 1\n\ndata: nonsense\n\nevent: complete\ndata: {}\n\n".to_owned(),
            false,
            None,
            1,
        ),
    ];
    for (rest, reconnect, code, count) in rows {
        let then = rest.clone();
        let service = TestService::start(move |seen| match seen.number {
            0 => truncated_events(event("s-1", &json!(1))),
            _ => TestReply::events(&then, true),
        })
        .await;
        let mut settings = settings();
        settings.client.reconnect = reconnect;
        let (mut values, log_lines) = collect_stream(&fixture(&service, settings)).await;
        if let Some(code) = code {
            let error = assert_error(values.pop().unwrap(), code, &[]);
            let details = error.details().and_then(|details| details.get("left")).cloned();
            assert_eq!(details.is_some(), code == "NO_FUNDS", "{error}");
        }
        assert_eq!(values.len(), count, "{rest}: {values:?}");
        assert!(values.iter().all(|value| data(value) == json!(1)), "{rest}");
        assert_eq!(log_lines.is_empty(), code.is_some(), "{rest}: {log_lines:?}");
        assert_eq!(service.request_count(), 2, "{rest}");
    }
    // The resume request returns 204: there are no more events.
    let service = TestService::start(|seen| match seen.number {
        0 => truncated_events(event("s-1", &json!(1))),
        _ => TestReply::Response(204, Vec::new(), Vec::new()),
    })
    .await;
    assert_eq!(collect_stream(&fixture(&service, settings())).await.0.len(), 1);
    // Without an event id, the stream cannot be resumed.
    let service = TestService::start(|_| truncated_events("data: {\"data\":1,\"meta\":{\"source\":\"local\",\"operationId\":\"a.b\",\"timestamp\":1}}\n\n".to_owned())).await;
    let (mut values, _) = collect_stream(&fixture(&service, settings())).await;
    assert_error(values.pop().unwrap(), "UNAVAILABLE", &["disconnected"]);
    assert_eq!((values.len(), service.request_count()), (1, 1));
}

#[tokio::test]
async fn dropped_peer_stream_closes_the_connection() {
    let service = TestService::start(|_| TestReply::events(&event("s-1", &json!(1)), true)).await;
    let fixture = fixture(&service, settings());
    let mut values = fixture.subscribe("demo.watch");
    within_timeout(values.next()).await.unwrap().unwrap();
    drop(values);
    service.wait_for_disconnect().await;
}

#[tokio::test]
async fn peer_namespaces_are_nested_or_kept() {
    let text = document("http://127.0.0.1:9").to_string();
    for (namespaces, ids) in [
        (Namespaces::Below, ["x.demo.read", "x.demo.watch", "x.demo.write"]),
        (Namespaces::Keep, ["demo.read", "demo.watch", "demo.write"]),
    ] {
        let registry = Registry::new();
        let mut settings = settings();
        settings.namespaces = namespaces;
        from_openapi(&registry, "x", &text, settings.clone()).unwrap();
        let catalog = registry.catalog();
        let mut found: Vec<_> =
            catalog.list().iter().map(|operation| operation.id().to_string()).collect();
        found.sort();
        assert_eq!(found, ids);
        // The ids are taken, so a second registration fails.
        assert!(from_openapi(&registry, "x", &text, settings).is_err());
    }
}

/// The document credentials are sent only to the origin of the document, not to references on other
/// hosts.
#[tokio::test]
async fn private_document_credentials_are_sent_only_to_its_origin() {
    let other = TestService::start(|_| {
        TestReply::json(200, &json!({"schemas": {"S": {"type": "object"}}}))
    })
    .await;
    let reference = format!("{}/more.json#/schemas/S", other.origin);
    let service = TestService::start(move |seen| match &*seen.path {
        "/openapi.json" => TestReply::redirect(302, "/real.json"),
        _ => TestReply::json(200, &json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
            "/a": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": reference}}}}}}}})),
    })
    .await;
    for is_private in [true, false] {
        let mut settings = settings();
        settings.document = toolpost::openapi::DocumentLocation::from_path_or_url(&format!(
            "{}/openapi.json",
            service.origin
        ));
        settings.load.hosts = vec![other.address.to_string()];
        settings.document_requires_auth = is_private;
        settings
            .credentials
            .generic
            .push(toolpost::openapi::Credential::Bearer(Secret::new("planted-5e6f")));
        let (registry, before) = (Registry::new(), service.request_count());
        let source = RunningSource::start(
            &registry,
            OpenApiSource::new("x", settings).unwrap(),
            SourceHooks::default(),
        );
        let found = source.ready(Duration::from_secs(20)).await.unwrap();
        assert!(found.warnings.is_empty() && found.operations == 1, "{found:?}");
        let expected = is_private.then_some("Bearer planted-5e6f");
        let seen = service.requests().split_off(before);
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|seen| seen.header("authorization") == expected), "{seen:?}");
        source.close().await;
    }
    assert!(
        other.request_count() == 2
            && other.requests().iter().all(|seen| seen.header("authorization").is_none())
    );
}
