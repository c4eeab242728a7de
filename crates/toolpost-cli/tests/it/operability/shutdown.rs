//! Shutdown: the gateway reports not-ready, then stops accepting connections and drains running
//! calls.

use std::time::Duration;

use serde_json::json;

use super::{GatewayProcess, SlowService};

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_reports_not_ready_then_drains_calls() {
    let service = SlowService::start(Duration::from_millis(300)).await;
    let source = service.source("stopping", "concurrency = 1\nqueue = 8");
    let mut served =
        GatewayProcess::start("stopping", &source, &["--shutdown-delay", "700ms"], &[]);
    served.ready().await;
    let mut watcher = served.caller().await;
    let mut calls = Vec::new();
    for _ in 0..4 {
        let mut caller = served.caller().await;
        calls.push(tokio::spawn(async move { caller.post("/api/slow/work", &json!({})).await }));
    }
    while served.metric("toolpost_queue_depth{source=\"slow\"}").await < 3.0 {
        tokio::task::yield_now().await;
    }
    served.signal("-TERM");
    let ready = loop {
        let ready = watcher.get("/ready").await;
        if ready.status != 200 {
            break ready;
        }
    };
    assert_eq!((ready.status, ready.json()["status"].as_str()), (503, Some("stopping")));
    let late = watcher.post("/api/demo/add", &json!({"a": 1, "b": 2})).await;
    assert_eq!(late.status, 200, "requests before the shutdown get a response");
    for call in calls {
        let response = call.await.expect("the connection was not cut");
        assert_eq!(response.status, 200, "one at work and three in line: {}", response.body);
    }
    let ended = tokio::task::spawn_blocking(move || {
        let status = served.child.wait().unwrap();
        (status.code(), served.log.lock().unwrap().clone())
    });
    let (code, log) = ended.await.unwrap();
    assert_eq!(code, Some(0));
    assert!(log.contains("reporting not-ready") && log.contains("drained"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_log_has_call_fields_without_payloads() {
    let variables = [("TOOLPOST_LOG", "info,toolpost=debug")];
    let served = GatewayProcess::start("lines", "", &["--log-format", "json"], &variables);
    served.ready().await;
    let mut caller = served.caller().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = format!("traceparent: 00-{trace}-b7ad6b7169203331-00\r\nx-request-id: r-1\r\n");
    let body = json!({"text": "planted-hush-4711"}).to_string();
    let response = caller.request("POST", "/api/demo/note", &headers, &body).await.unwrap();
    assert_eq!(response.status, 200);
    let line = loop {
        let log = served.log.lock().unwrap().clone();
        assert!(!log.contains("planted-hush-4711"), "{log}");
        let line = log.lines().find(|line| line.contains("demo.note")).map(str::to_owned);
        match line {
            Some(line) => break line,
            None => tokio::task::yield_now().await,
        }
    };
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    for (key, expected) in [
        ("level", "DEBUG"),
        ("message", "call completed"),
        ("request_id", "r-1"),
        ("trace_id", trace),
        ("operation", "demo.note"),
        ("endpoint", "http"),
        ("identity", "local"),
        ("outcome", "ok"),
    ] {
        assert_eq!(line[key], expected, "{line}");
    }
    assert!(line["ms"].is_number() && line["timestamp"].is_string(), "{line}");
}
