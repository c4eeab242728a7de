//! Limits at every endpoint: which requests are rejected, and what the error contains.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolpost::{CallContext, CallError, CallRequest, HandlerError, Operation, Pipeline, build_env};
use toolpost_gateway::config::Config;
use toolpost_gateway::{BreakerLimits, Gateway, Limiter, LimitsSettings, SourceLimits, builtin};

use super::spokes::{caller, spoke, wait_until};
use super::{TestGateway, client};

/// Starts a gateway with telemetry and limits.
pub(super) async fn limited_gateway(
    operations: impl IntoIterator<Item = Operation>,
    limits: LimitsSettings,
    calls: usize,
) -> TestGateway {
    let registry = builtin::registry();
    for operation in operations {
        registry.register(operation).unwrap();
    }
    let mut config = Config::default();
    config.limits.calls = limits;
    config.limits.pipeline.max_concurrent_calls = calls;
    TestGateway::serve(Gateway::builder(registry).config(config), "127.0.0.1:0").await
}

pub(super) fn source_limits(concurrency: usize, queue: usize) -> LimitsSettings {
    let mut limits = LimitsSettings::default();
    limits.source.concurrency = concurrency;
    limits.source.queue = queue;
    limits
}

/// Operations that block until they are released and count how many run concurrently.
#[derive(Clone)]
struct BlockingOperations {
    permits: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

impl BlockingOperations {
    fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), running: Arc::default(), peak: Arc::default() }
    }

    fn operation(&self, id: &str) -> Operation {
        let gate = self.clone();
        let wait = move |(): ()| {
            let gate = gate.clone();
            async move {
                let now = gate.running.fetch_add(1, Ordering::SeqCst) + 1;
                gate.peak.fetch_max(now, Ordering::SeqCst);
                gate.permits.acquire().await.unwrap().forget();
                gate.running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, HandlerError>(now)
            }
        };
        Operation::query(id, wait).build().unwrap()
    }
}

fn post(gateway: &TestGateway, path: &str) -> reqwest::RequestBuilder {
    client().post(gateway.url(path)).json(&Value::Null)
}

/// Returns the status, the `Retry-After` header, and the limit in the error details.
async fn rejected_call(gateway: &TestGateway, path: &str) -> (u16, Option<String>, Value) {
    let response = post(gateway, path).send().await.unwrap();
    let again =
        response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    (status, again, body["error"]["details"]["limit"].clone())
}

/// Returns the value of the first metric line with this prefix.
pub(super) async fn metric(gateway: &TestGateway, start: &str) -> Option<f64> {
    let page = client().get(gateway.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let line = page.lines().find(|line| line.starts_with(start))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_limits_reject_and_name_the_limit() {
    let rows: [(&str, fn(&mut LimitsSettings), usize); 3] = [
        ("calls", |_| {}, 2),
        ("caller_calls", |limits| limits.caller_calls = 2, 10_000),
        (
            "source_queue",
            |limits| (limits.source.concurrency, limits.source.queue) = (2, 0),
            10_000,
        ),
    ];
    for (limit, change, calls) in rows {
        let gate = BlockingOperations::new();
        let mut limits = LimitsSettings::default();
        change(&mut limits);
        let gateway = limited_gateway([gate.operation("box.wait")], limits, calls).await;
        let held: Vec<_> =
            (0..2).map(|_| tokio::spawn(post(&gateway, "/api/box/wait").send())).collect();
        wait_until("two run", || gate.running.load(Ordering::SeqCst) == 2).await;
        let expected = (429, Some("1".to_owned()), json!(limit));
        assert_eq!(rejected_call(&gateway, "/api/box/wait").await, expected);

        // The other endpoints return the same as data.
        let peer = caller(&gateway, None).await;
        let error = peer.call(CallRequest::new("box.wait", Value::Null)).await.unwrap_err();
        assert_eq!((error.code().as_str(), error.is_retryable()), ("OVERLOADED", true));
        assert_eq!(
            (error.limit(), error.retry_after()),
            (Some(limit), Some(Duration::from_secs(1)))
        );
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "box__wait", "arguments": {}}});
        let response = client().post(gateway.url("/mcp?dialect=envelope")).json(&request);
        let response = response.header("accept", "application/json, text/event-stream");
        let response = response.send().await.unwrap().text().await.unwrap();
        assert!(response.contains("OVERLOADED") && response.contains("retryAfterMs"), "{response}");
        assert_eq!(
            metric(&gateway, &format!("toolpost_rejections_total{{limit=\"{limit}\"}}")).await,
            Some(3.0)
        );

        gate.permits.add_permits(2);
        for call in held {
            assert_eq!(call.await.unwrap().unwrap().status(), 200, "{limit}");
        }
        gate.permits.add_permits(1);
        assert_eq!(post(&gateway, "/api/box/wait").send().await.unwrap().status(), 200, "{limit}");
        gateway.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_per_minute_counts_outer_calls_per_caller() {
    let mut limits = LimitsSettings::default();
    limits.calls_per_minute = Some(3);
    let gateway = limited_gateway([], limits, 10_000).await;
    let nested = json!({"id": "demo.add", "input": {"a": 1, "b": 2}});
    for _ in 0..3 {
        let response =
            client().post(gateway.url("/api/hub/call")).json(&nested).send().await.unwrap();
        assert_eq!(response.status(), 200, "the nested call is not counted");
    }
    let response = client().post(gateway.url("/api/hub/call")).json(&nested).send().await.unwrap();
    assert_eq!(response.status(), 429);
    let again: u32 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=20).contains(&again), "{again} s");
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["details"]["limit"], "calls_per_minute");
    gateway.stop().await;
}

/// Each row: a request that is rejected before the call starts or because the operation does not
/// exist, and its status.
#[tokio::test]
async fn requests_rejected_before_the_call_count_as_calls() {
    let rows: [(&str, &str, &str, &str, u16); 7] = [
        ("POST", "add", "*/*", "{", 400),
        ("POST", "add?unheard=1", "*/*", "{}", 400),
        ("GET", "add?unheard=1", "*/*", "", 422),
        ("PUT", "add", "*/*", "{}", 405),
        ("POST", "add", "text/html", "{}", 406),
        ("POST", "%FF", "*/*", "{}", 400),
        ("POST", "none", "*/*", "{}", 404),
    ];
    let mut limits = LimitsSettings::default();
    limits.calls_per_minute = Some(7);
    let gateway = limited_gateway([], limits, 10_000).await;
    for is_too_often in [false, true] {
        for (method, path, accept, body, status) in rows {
            let url = gateway.url(&format!("/api/demo/{path}"));
            let request = client().request(method.parse().unwrap(), url).header("accept", accept);
            let request = request.header("content-type", "application/json");
            let response = request.body(body).send().await.unwrap();
            let expected = if is_too_often { 429 } else { status };
            assert_eq!(response.status(), expected, "{method} {path} {body}");
            assert_eq!(response.headers().contains_key("retry-after"), is_too_often);
        }
    }
    for (start, expected) in [
        ("toolpost_calls_total{source=\"demo\",kind=\"query\",outcome=\"VALIDATION_ERROR\"}", 5.0),
        ("toolpost_calls_total{source=\"demo\",kind=\"query\",outcome=\"OVERLOADED\"}", 5.0),
        ("toolpost_rejections_total{limit=\"calls_per_minute\"}", 7.0),
    ] {
        assert_eq!(metric(&gateway, start).await, Some(expected), "{start}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_subscriptions_limit_is_enforced() {
    let mut limits = LimitsSettings::default();
    limits.caller_subscriptions = 1;
    let gateway = limited_gateway([], limits, 10_000).await;
    let clock = || {
        let request = client().post(gateway.url("/api/demo/clock"));
        request.json(&json!({"count": 1_000, "everyMs": 20})).send()
    };
    let mut first = clock().await.unwrap();
    first.chunk().await.unwrap();
    let second = clock().await.unwrap();
    assert_eq!(
        (second.status().as_u16(), &second.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    let second: Value = second.json().await.unwrap();
    assert_eq!(second["error"]["code"], "OVERLOADED");
    assert_eq!(second["error"]["details"]["limit"], "caller_subscriptions");
    drop(first);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn source_calls_queue_and_queue_is_bounded() {
    let gate = BlockingOperations::new();
    let gateway = limited_gateway([gate.operation("box.wait")], source_limits(2, 3), 10_000).await;
    let calls: Vec<_> =
        (0..5).map(|_| tokio::spawn(post(&gateway, "/api/box/wait").send())).collect();
    let waiting = "toolpost_queue_depth{source=\"box\"}";
    while metric(&gateway, waiting).await != Some(3.0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(rejected_call(&gateway, "/api/box/wait").await.2, json!("source_queue"));
    gate.permits.add_permits(5);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(gate.peak.load(Ordering::SeqCst), 2, "at most two calls run at once");
    assert_eq!(metric(&gateway, waiting).await, Some(0.0));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_call_leaves_on_timeout_or_disconnect() {
    let gate = BlockingOperations::new();
    let mut limits = source_limits(1, 2);
    limits.source.queue_wait = Duration::from_millis(50);
    let gateway = limited_gateway([gate.operation("box.wait")], limits, 10_000).await;
    let first = tokio::spawn(post(&gateway, "/api/box/wait").send());
    wait_until("one runs", || gate.running.load(Ordering::SeqCst) == 1).await;
    assert_eq!(rejected_call(&gateway, "/api/box/wait").await.2, json!("queue_wait"));
    let impatient = client().post(gateway.url("/api/box/wait?timeout=10ms")).json(&Value::Null);
    assert_eq!(impatient.send().await.unwrap().status(), 504);
    assert_eq!(metric(&gateway, "toolpost_queue_depth{source=\"box\"}").await, Some(0.0));
    gate.permits.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    gateway.stop().await;
}

/// Returns an operation that calls `target`, in its own or another source.
fn nested_call(id: &str, target: &'static str) -> Operation {
    let run = move |context: CallContext, (): ()| async move {
        let env = build_env(&context, ["a", "b"]);
        Ok::<_, HandlerError>(env.call_trusted(target, Value::Null).await?.data)
    };
    Operation::query(id, run).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_calls_never_deadlock_on_permits() {
    let leaf = |id: &str| {
        let response = async |(): ()| Ok::<_, HandlerError>("leaf");
        Operation::query(id, response).build().unwrap()
    };
    let operations = [
        nested_call("a.own", "a.leaf"),
        nested_call("a.other", "b.back"),
        nested_call("b.back", "a.leaf"),
        nested_call("b.other", "a.leaf"),
        leaf("a.leaf"),
        leaf("b.leaf"),
    ];
    let gateway = limited_gateway(operations, source_limits(1, 1_000), 10_000).await;
    // A nested call shares the permit of its ancestor, so one permit is sufficient.
    assert_eq!(post(&gateway, "/api/a/own").send().await.unwrap().status(), 200);
    assert_eq!(post(&gateway, "/api/a/other").send().await.unwrap().status(), 200);
    // Calls between both sources in both directions finish without a deadlock: they succeed or are
    // rejected.
    let paths = ["/api/a/other", "/api/b/other"];
    let client = client();
    let calls = paths.iter().cycle().take(200);
    let calls = calls.map(|path| client.post(gateway.url(path)).json(&Value::Null).send());
    let all = futures::future::join_all(calls);
    let all = tokio::time::timeout(Duration::from_secs(60), all).await.expect("every call ends");
    let responded = all.into_iter().map(|response| response.unwrap().status().as_u16());
    let (good, rejected): (Vec<u16>, Vec<u16>) = responded.partition(|status| *status == 200);
    assert!(rejected.iter().all(|status| matches!(status, 429 | 502)), "{rejected:?}");
    assert!(!good.is_empty());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn breaker_opens_for_hanging_spoke_and_recovers() {
    let mut limits = LimitsSettings::default();
    let mut breaker = BreakerLimits::default();
    breaker.failures = 2;
    breaker.slow = Duration::from_millis(20);
    // Long enough that the next call finds the breaker open, also on a busy machine.
    breaker.open_for = Duration::from_secs(5);
    limits.source.breaker = Some(breaker);
    let gateway = limited_gateway([], limits, 10_000).await;
    let (is_well, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (well, seen) = (Arc::clone(&is_well), Arc::clone(&reached));
    let hang = move |(): ()| {
        seen.fetch_add(1, Ordering::SeqCst);
        let is_well = well.load(Ordering::SeqCst) == 1;
        async move {
            if !is_well {
                std::future::pending::<()>().await;
            }
            Ok::<_, HandlerError>(1)
        }
    };
    let fails =
        async |(): ()| Err::<i32, HandlerError>(CallError::execution("an error of its own").into());
    let operations = [Operation::query("x.hang", hang), Operation::query("x.fails", fails)];
    let session = spoke(&gateway, None, "box", operations.map(|made| made.build().unwrap())).await;
    // An error from the source itself shows that the source is alive.
    for _ in 0..5 {
        assert_eq!(post(&gateway, "/api/box/x.fails").send().await.unwrap().status(), 502);
    }
    for _ in 0..2 {
        let hanging = client().post(gateway.url("/api/box/x.hang?timeout=40ms")).json(&Value::Null);
        assert_eq!(hanging.send().await.unwrap().status(), 504);
    }
    let before = reached.load(Ordering::SeqCst);
    let (status, again, limit) = rejected_call(&gateway, "/api/box/x.hang").await;
    assert_eq!((status, limit), (503, json!("breaker")));
    let again: u64 = again.expect("a Retry-After header").parse().unwrap();
    assert!((1..=5).contains(&again), "{again}");
    assert_eq!(reached.load(Ordering::SeqCst), before, "the source was not called");
    assert_eq!(metric(&gateway, "toolpost_source_breaker_open{source=\"box\"}").await, Some(1.0));
    // Other sources are not affected.
    assert_eq!(post(&gateway, "/api/demo/add").send().await.unwrap().status(), 422);
    is_well.store(1, Ordering::SeqCst);
    let back = async {
        while post(&gateway, "/api/box/x.hang").send().await.unwrap().status() != 200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), back).await.expect("the queued call runs");
    assert_eq!(metric(&gateway, "toolpost_source_breaker_open{source=\"box\"}").await, Some(0.0));
    drop(session);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_change_applies_and_keeps_held_permits() {
    let gate = BlockingOperations::new();
    let limiter = Arc::new(Limiter::new(source_limits(1, 0)));
    let registry = builtin::registry();
    registry.register(gate.operation("box.wait")).unwrap();
    let pipeline = Pipeline::builder(registry).limits(Arc::clone(&limiter) as _).build();
    let run = || {
        let pipeline = pipeline.clone();
        tokio::spawn(async move { pipeline.call_trusted("box.wait", Value::Null).await })
    };
    let first = run();
    wait_until("one runs", || gate.running.load(Ordering::SeqCst) == 1).await;
    assert_eq!(run().await.unwrap().unwrap_err().limit(), Some("source_queue"));
    let mut more = LimitsSettings::default();
    let mut own = SourceLimits::default();
    own.concurrency = 2;
    more.sources.insert("box".to_owned(), own);
    limiter.configure(more);
    let second = run();
    wait_until("two run", || gate.running.load(Ordering::SeqCst) == 2).await;
    gate.permits.add_permits(2);
    assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok());
}

#[tokio::test]
async fn input_depth_limit_is_enforced() {
    let mut limits = LimitsSettings::default();
    limits.json_depth = 3;
    let any = async |_: Value| Ok::<_, HandlerError>(1);
    let gateway =
        limited_gateway([Operation::query("box.any", any).build().unwrap()], limits, 10).await;
    for (input, status) in [(json!({"a": [{}]}), 200), (json!({"a": [[[]]]}), 422)] {
        let response =
            client().post(gateway.url("/api/box/any")).json(&input).send().await.unwrap();
        assert_eq!(response.status(), status, "{input}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn reload_applies_limits_and_reports_restart_needed() {
    let config = |text: &str| Config::parse("toolpost.toml".as_ref(), text, &|_| None).unwrap();
    let builder = Gateway::builder(builtin::registry())
        .config(config("[limits]\njson_depth = 1\n"))
        .listen("127.0.0.1:0");
    let (running, listener) = builder.bind().await.unwrap();
    let url = format!("http://{}/api/demo/add", listener.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let client_requests = async {
        let ask = async || {
            let nested = json!({"value": {"a": {"b": []}}});
            client().post(&url).json(&nested).send().await.unwrap().text().await.unwrap()
        };
        assert!(ask().await.contains("deeper than 1 levels"));
        let now = "[limits]\njson_depth = 20\nconnections = 7\n[telemetry]\nsample = 0.5\n\
                   [http]\ncors = [\"https://app.example\"]\n";
        let report = running.apply_config(config(now)).await.unwrap();
        assert_eq!(report.notes, ["limits updated"]);
        assert_eq!(report.restart_needed, ["http.cors", "limits.connections", "telemetry"]);
        let (with_source, without_source) = (
            format!("{now}[source.far]\nhub = {{ url = \"ws://127.0.0.1:1/hub\" }}\n"),
            now.to_owned(),
        );
        for text in [with_source, without_source] {
            let report = running.apply_config(config(&text)).await.unwrap();
            assert_eq!(report.notes, [""; 0], "every limit has its own name");
        }
        assert!(!ask().await.contains("levels"));
        drop(stop);
    };
    let serving = running.serve(listener, async { drop(stopped.await) });
    let (served, ()) = tokio::join!(serving, client_requests);
    assert!(served.unwrap().in_time);
}
