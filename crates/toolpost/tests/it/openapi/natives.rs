//! Services that are gateways like this one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::openapi::{Namespaces, OpenApiSettings, OpenApiSource, SourceHooks, from_openapi};
use toolpost::protocol::Secret;
use toolpost::{
    Authority, CallError, CallRequest, LogLine, Outcome, Progress, ProgressSender, Registry, Watch,
};

use super::rig::{Reply, Rig, Seen, Service, says, settings, soon};

const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";
const PROBLEM: &str = "application/problem+json";

/// The document of another gateway with `demo.read`, `demo.write` and `demo.watch`.
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

fn rig(service: &Service, settings: OpenApiSettings) -> Rig {
    Rig::of(&document(&service.origin), settings)
}

fn enveloped(body: &Value) -> Reply {
    Reply::typed(200, ENVELOPE, body.to_string())
}

fn problem(status: u16, error: &Value) -> Reply {
    let body = json!({"type": "about:blank", "title": "t", "status": status, "detail": "d", "error": error});
    Reply::typed(status, PROBLEM, body.to_string())
}

fn local() -> Value {
    json!({"source": "local", "operationId": "demo.read", "timestamp": 7})
}

async fn outcome(rig: &Rig, name: &str, input: Value) -> Result<Outcome, CallError> {
    let id = format!("x.demo.{name}");
    soon(rig.pipeline.call(CallRequest::new(&id, input), Authority::outside(None))).await
}

#[tokio::test]
async fn envelopes_arrive_as_they_are() {
    let http = json!({"source": "http", "statusCode": 201, "headers": {"a": "b"}, "contentType": "text/plain"});
    let mcp =
        json!({"source": "mcp", "isError": true, "content": [{"type": "text", "text": "no"}]});
    let rows = [
        json!({"data": null, "meta": local()}),
        json!({"data": {"a": [1, 1.5, "x"]}, "meta": local()}),
        json!({"data": "text", "meta": http}),
        json!({"data": [{"type": "text", "text": "no"}], "meta": mcp}),
        json!({"data": 1, "meta": local(), "warnings": [{"path": "/a", "message": "odd"}],
               "repairs": [{"path": "/b", "action": "stripped", "from": 1}]}),
    ];
    for sent in rows {
        let answer = sent.clone();
        let service = Service::start(move |_| enveloped(&answer)).await;
        let got = outcome(&rig(&service, settings()), "read", json!({})).await.unwrap();
        assert_eq!(serde_json::to_value(&got).unwrap(), sent);
    }
}

#[tokio::test]
async fn inputs_and_numbers_pass_to_the_letter() {
    let service = Service::start(|seen| {
        let text = format!("{{\"data\":{},\"meta\":{}}}", seen.body, local());
        Reply::typed(200, ENVELOPE, text)
    })
    .await;
    let rig = rig(&service, settings());
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
        let got = soon(rig.pipeline.call(request, Authority::outside(None))).await.unwrap();
        assert_eq!(serde_json::to_string(&got.envelope.data).unwrap(), text);
    }
    assert!(
        service.seen().iter().all(|seen| seen.path == "/api/demo/write" && seen.method == "POST")
    );
}

#[tokio::test]
async fn a_request_says_who_asks_how_long_and_for_what() {
    let service = Service::start(|_| enveloped(&json!({"data": 1, "meta": local()}))).await;
    let rig = rig(&service, settings());
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let metadata = json!({"traceparent": trace, "tracestate": "a=b", "other": "stays here"});
    let request = CallRequest::new("x.demo.read", json!({"a": 1}))
        .request_id("call-7")
        .timeout(Duration::from_secs(9))
        .metadata(metadata.as_object().unwrap().clone());
    soon(rig.pipeline.call(request, Authority::outside(None))).await.unwrap();
    let seen = service.seen().remove(0);
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

/// Each row: what the other gateway says, and the error as the caller here sees it.
#[tokio::test]
async fn errors_are_the_same_here() {
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
        // Nothing was started there, so nothing was started.
        ("write", 503, error("UNAVAILABLE", true)),
        ("write", 429, error("OVERLOADED", true)),
        ("write", 503, error("ABORTED", false)),
        ("read", 500, error("UNKNOWN_ERROR", false)),
    ];
    for (name, status, sent) in rows {
        let answer = sent.clone();
        let service = Service::start(move |_| problem(status, &answer)).await;
        let got = outcome(&rig(&service, settings()), name, json!({})).await.unwrap_err();
        assert_eq!(serde_json::to_value(&got).unwrap(), sent, "{name} {status}");
        // Whoever failed has said what may be repeated, and by whom.
        assert_eq!(service.count(), 1, "{name} {status}");
    }
}

/// Each row: an answer of somebody on the way, or of a gateway that is none, and how often it is asked
/// for.
#[tokio::test]
async fn what_no_gateway_says_is_told_as_it_is() {
    let rows: [(&str, fn() -> Reply, &[&str], usize); 8] = [
        ("read", || Reply::typed(200, "text/html", "<html>"), &["`text/html`", "no envelope"], 1),
        ("read", || Reply::json(200, &json!({"data": 1, "meta": local()})), &["no envelope"], 1),
        ("read", || enveloped(&json!({"data": 1})), &["cannot be read"], 1),
        ("read", || Reply::typed(200, ENVELOPE, "{"), &["cannot be read"], 1),
        ("read", || Reply::typed(502, "text/html", "<h1>Bad</h1>"), &["HTTP 502", "Bad"], 3),
        ("write", || Reply::typed(502, "text/html", "<h1>Bad</h1>"), &["HTTP 502", "Bad"], 1),
        (
            "read",
            || Reply::typed(401, PROBLEM, r#"{"detail":"who are you"}"#),
            &["HTTP 401", "who are you"],
            1,
        ),
        ("read", || Reply::typed(413, PROBLEM, "{"), &["HTTP 413"], 1),
    ];
    for (name, reply, words, count) in rows {
        let service = Service::start(move |_| reply()).await;
        let called = outcome(&rig(&service, settings()), name, json!({})).await;
        says(called, "EXECUTION_ERROR", words);
        assert_eq!(service.count(), count, "{words:?}");
    }
}

#[tokio::test]
async fn a_credential_that_is_repeated_is_taken_out() {
    let hidden = |seen: &Seen| seen.header("x-key").unwrap_or_default().to_owned();
    let service = Service::start(move |seen| {
        let told =
            json!({"code": "NO_FUNDS", "message": hidden(seen), "details": {"a": [hidden(seen)]}});
        match seen.path.ends_with("watch") {
            true => {
                Reply::events(&format!("event: error\ndata: {}\n\n", json!({"error": told})), false)
            }
            false => problem(402, &told),
        }
    })
    .await;
    let mut settings = settings();
    settings.credentials.headers.insert("x-key".to_owned(), Secret::new("planted-5e6f"));
    let rig = rig(&service, settings);
    let error = outcome(&rig, "read", json!({})).await.unwrap_err();
    let streamed = soon(rig.subscribe("demo.watch").next()).await.unwrap().unwrap_err();
    for error in [error, streamed] {
        let text = serde_json::to_string(&error).unwrap();
        assert!(!text.contains("planted") && text.contains("NO_FUNDS"), "{text}");
    }
    assert!(service.seen().iter().all(|seen| seen.header("x-key") == Some("planted-5e6f")));
}

/// Whoever answers does not say where the next request goes.
#[tokio::test]
async fn the_rules_of_hosts_and_redirects_hold_here_too() {
    let elsewhere = Service::start(|_| enveloped(&json!({"data": 1, "meta": local()}))).await;
    let target = format!("{}/api/demo/read", elsewhere.origin);
    let service = Service::start(move |_| Reply::redirect(307, &target)).await;
    let called = outcome(&rig(&service, settings()), "read", json!({})).await;
    says(called, "EXECUTION_ERROR", &["sends the request elsewhere"]);
    assert_eq!(elsewhere.count(), 0);

    // As a GET it would have an answer, to another question.
    let service = Service::start(|seen| match &*seen.method {
        "POST" => Reply::redirect(301, "/api/demo/read"),
        _ => enveloped(&json!({"data": "without its input", "meta": local()})),
    })
    .await;
    let called = outcome(&rig(&service, settings()), "read", json!({"a": 1})).await;
    says(called, "EXECUTION_ERROR", &["without its input"]);
    assert_eq!(service.count(), 1);

    let big = json!({"data": "x".repeat(5_000), "meta": local()});
    let service = Service::start(move |_| enveloped(&big)).await;
    let mut small = settings();
    small.client.response_bytes = 1_000;
    let called = outcome(&rig(&service, small), "read", json!({})).await;
    says(called, "EXECUTION_ERROR", &["larger than 1000 bytes"]);

    // A document from outside does not name a host inside.
    let mut outside = settings();
    outside.document = toolpost::openapi::Location::of("https://gateway.example/openapi.json");
    let rig = Rig::of(&document("http://169.254.169.254"), outside);
    let called = outcome(&rig, "read", json!({})).await;
    says(called, "EXECUTION_ERROR", &["169.254.169.254"]);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_closed() {
    let service = Service::start(|_| Reply::Silence).await;
    let rig = rig(&service, settings());
    let reading = rig.pipeline.execute("x.demo.read", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(300), reading).await.is_err());
    service.is_left().await;
    let request = CallRequest::new("x.demo.write", json!({})).timeout(Duration::from_millis(200));
    let called = soon(rig.pipeline.call(request, Authority::outside(None))).await;
    assert!(says(called, "TIMEOUT", &[]).may_have_run());
    service.is_left().await;
}

fn event(id: &str, data: &Value) -> String {
    format!("id: {id}\ndata: {}\n\n", json!({"data": data, "meta": local()}))
}

/// Events, and then the connection is cut.
fn cut(text: String) -> Reply {
    let first = futures::stream::iter([Ok(text.into())]);
    let end = futures::stream::once(async {
        // What was said before has left by then.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("cut"))
    });
    Reply::Flow(vec![("content-type", "text/event-stream".to_owned())], first.chain(end).boxed())
}

fn data(value: &Result<Outcome, CallError>) -> Value {
    value.as_ref().unwrap().envelope.data.clone().into_value().unwrap()
}

/// What a call says beside its values.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Watch for Heard {
    fn progress(&self, _: Progress) {}

    fn log(&self, line: LogLine) {
        self.0.lock().unwrap().push(format!("{}: {}", line.level, line.data.as_str().unwrap()));
    }
}

/// Each value of a subscription, and what is said beside them.
async fn all(rig: &Rig) -> (Vec<Result<Outcome, CallError>>, Vec<String>) {
    let heard = Heard::default();
    let request = CallRequest::new("x.demo.watch", json!({"from": 1}))
        .progress(ProgressSender::to(Arc::new(heard.clone())));
    let values = rig.pipeline.start_subscription(request, Authority::outside(None));
    let values = soon(values.collect()).await;
    let heard = heard.0.lock().unwrap().clone();
    (values, heard)
}

#[tokio::test]
async fn a_stream_that_is_cut_off_goes_on_behind_its_last_event() {
    let service = Service::start(|seen| match seen.number {
        0 => cut([event("s-1", &json!(1)), event("s-2", &Value::Null)].concat()),
        // An end without a last word is none.
        1 => Reply::events(&event("s-3", &json!([3])), false),
        2 => Reply::typed(503, "text/html", "a proxy without a gateway"),
        3 => problem(429, &json!({"code": "OVERLOADED", "message": "m", "retryable": true})),
        4 => Reply::events(
            &format!(
                "event: gap\ndata: {}\n\n{}",
                json!({"lost": 2, "isNew": false}),
                event("s-6", &json!(6))
            ),
            false,
        ),
        _ => Reply::events("event: complete\nid: s-7\ndata: {}\n\n", true),
    })
    .await;
    let mut settings = settings();
    settings.client.retry.retries = 0;
    let (values, heard) = all(&rig(&service, settings)).await;
    assert_eq!(
        values.iter().map(data).collect::<Vec<_>>(),
        [json!(1), json!(null), json!([3]), json!(6)]
    );
    let meta = serde_json::to_value(&values[3].as_ref().unwrap().envelope.meta).unwrap();
    assert_eq!(meta, local());
    let ids: Vec<_> =
        service.seen().iter().map(|seen| seen.header("last-event-id").map(str::to_owned)).collect();
    assert_eq!(
        ids,
        [None, Some("s-2"), Some("s-3"), Some("s-3"), Some("s-3"), Some("s-6")]
            .map(|id| id.map(str::to_owned))
    );
    assert!(
        heard.iter().any(|line| line == "warning: 2 events of the stream are lost"),
        "{heard:?}"
    );
    let first = service.seen().remove(0);
    assert_eq!((&*first.body, &*first.method), ("{\"from\":1}", "POST"));
    assert!(
        first.header("accept").unwrap().starts_with("text/event-stream, application/vnd.toolpost")
    );
    assert_eq!(first.header("request-timeout"), None);
}

/// Each row: what follows after a stream was cut off, and how it ends.
#[tokio::test]
async fn a_stream_has_one_end() {
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
        let service = Service::start(move |seen| match seen.number {
            0 => cut(event("s-1", &json!(1))),
            _ => Reply::events(&then, true),
        })
        .await;
        let mut settings = settings();
        settings.client.reconnect = reconnect;
        let (mut values, heard) = all(&rig(&service, settings)).await;
        if let Some(code) = code {
            let error = says(values.pop().unwrap(), code, &[]);
            let details = error.details().and_then(|details| details.get("left")).cloned();
            assert_eq!(details.is_some(), code == "NO_FUNDS", "{error}");
        }
        assert_eq!(values.len(), count, "{rest}: {values:?}");
        assert!(values.iter().all(|value| data(value) == json!(1)), "{rest}");
        assert_eq!(heard.is_empty(), code.is_some(), "{rest}: {heard:?}");
        assert_eq!(service.count(), 2, "{rest}");
    }
    // The last event was the last; nothing is left to be said.
    let service = Service::start(|seen| match seen.number {
        0 => cut(event("s-1", &json!(1))),
        _ => Reply::Answer(204, Vec::new(), Vec::new()),
    })
    .await;
    assert_eq!(all(&rig(&service, settings())).await.0.len(), 1);
    // Without an id there is nothing to go on behind.
    let service = Service::start(|_| cut("data: {\"data\":1,\"meta\":{\"source\":\"local\",\"operationId\":\"a.b\",\"timestamp\":1}}\n\n".to_owned())).await;
    let (mut values, _) = all(&rig(&service, settings())).await;
    says(values.pop().unwrap(), "UNAVAILABLE", &["broke off"]);
    assert_eq!((values.len(), service.count()), (1, 1));
}

#[tokio::test]
async fn a_stream_is_left_when_nobody_listens() {
    let service = Service::start(|_| Reply::events(&event("s-1", &json!(1)), true)).await;
    let rig = rig(&service, settings());
    let mut values = rig.subscribe("demo.watch");
    soon(values.next()).await.unwrap().unwrap();
    drop(values);
    service.is_left().await;
}

#[tokio::test]
async fn namespaces_stand_below_the_source_or_stay_what_they_are() {
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
        // An id is there once.
        assert!(from_openapi(&registry, "x", &text, settings).is_err());
    }
}

/// What is shown where the document is is shown nowhere else, wherever the document leads.
#[tokio::test]
async fn a_private_document_is_asked_for_with_what_only_its_own_place_may_see() {
    let other =
        Service::start(|_| Reply::json(200, &json!({"schemas": {"S": {"type": "object"}}}))).await;
    let reference = format!("{}/more.json#/schemas/S", other.origin);
    let service = Service::start(move |seen| match &*seen.path {
        "/openapi.json" => Reply::redirect(302, "/real.json"),
        _ => Reply::json(200, &json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
            "/a": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": reference}}}}}}}})),
    })
    .await;
    for is_private in [true, false] {
        let mut settings = settings();
        settings.document =
            toolpost::openapi::Location::of(&format!("{}/openapi.json", service.origin));
        settings.load.hosts = vec![other.address.to_string()];
        settings.is_private = is_private;
        settings
            .credentials
            .generic
            .push(toolpost::openapi::Credential::Bearer(Secret::new("planted-5e6f")));
        let (registry, before) = (Registry::new(), service.count());
        let source =
            OpenApiSource::start(&registry, "x", settings, SourceHooks::default()).unwrap();
        let found = source.ready(Duration::from_secs(20)).await.unwrap();
        assert!(found.warnings.is_empty() && found.counts.mutations == 1, "{found:?}");
        let shown = is_private.then_some("Bearer planted-5e6f");
        let seen = service.seen().split_off(before);
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|seen| seen.header("authorization") == shown), "{seen:?}");
        source.close().await;
    }
    assert!(
        other.count() == 2
            && other.seen().iter().all(|seen| seen.header("authorization").is_none())
    );
}
