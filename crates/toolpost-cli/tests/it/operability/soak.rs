//! Soak test: resource usage does not grow under sustained load through every endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use toolpost::CallRequest;
use toolpost::connection::{Connection, ConnectionSettings, IncomingRequests};
use toolpost::transport::{Connector, WsConnector};

use super::{EXCLUSIVE, GatewayProcess, HttpClient, SlowService, duration_from_env};
use crate::process::wait_until_async;

/// Resource usage that must not grow.
#[derive(Debug, Clone, Copy)]
struct ResourceUsage {
    tasks: f64,
    descriptors: f64,
    megabytes: f64,
}

impl ResourceUsage {
    async fn of(served: &GatewayProcess) -> Self {
        Self {
            tasks: served.metric("toolpost_tasks").await,
            descriptors: served.metric("process_open_fds").await,
            megabytes: served.metric("process_resident_memory_bytes").await / 1e6,
        }
    }

    /// Returns the resource usage once there are no connections and no calls.
    async fn when_idle(served: &GatewayProcess) -> Self {
        wait_until_async("every client disconnects", async || {
            served.metric("toolpost_connections{endpoint=\"http\"}").await <= 1.0
                && served.metric("toolpost_connections{endpoint=\"hub\"}").await <= 0.0
                && served.metric("toolpost_calls_in_flight{source=\"demo\"}").await <= 0.0
        })
        .await;
        Self::of(served).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_does_not_leak_tasks_fds_or_memory() {
    let _alone = EXCLUSIVE.lock().await;
    let service = SlowService::start(Duration::from_millis(2)).await;
    let source = service.source("soak", "concurrency = 8\nqueue = 4");
    let served = Arc::new(GatewayProcess::start("soak", &source, &[], &[]));
    served.ready().await;
    let time = duration_from_env("TOOLPOST_SOAK_SECONDS", 20);
    // Warm-up: allocates what is kept for the lifetime of the process.
    run(&served, time / 4).await;
    let before = ResourceUsage::when_idle(&served).await;
    let calls = run(&served, time * 3 / 4).await;
    let after = ResourceUsage::when_idle(&served).await;
    eprintln!("soak: {calls} calls in {time:?}: {before:?}, then {after:?}");
    assert!(calls > 100, "{calls}");
    // The connection pool keeps a few connections to the service.
    assert!(after.tasks <= before.tasks + 24.0, "{before:?} {after:?}");
    assert!(after.descriptors <= before.descriptors + 16.0, "{before:?} {after:?}");
    assert!(after.megabytes <= before.megabytes * 1.25 + 16.0, "{before:?} {after:?}");
}

/// Runs all kinds of clients concurrently for the given time and returns the number of calls.
async fn run(served: &Arc<GatewayProcess>, time: Duration) -> u64 {
    let (is_over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12 {
        let (is_over, calls) = (Arc::clone(&is_over), Arc::clone(&calls));
        let address = served.address.clone();
        tasks.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let round = async {
                    match number % 4 {
                        0 => over_http(&address).await,
                        1 => over_mcp(&address).await,
                        2 => over_hub(&address).await,
                        _ => disconnect_early(&address).await,
                    }
                };
                let finished_round = tokio::time::timeout(Duration::from_secs(60), round).await;
                calls.fetch_add(finished_round.expect("every call ends"), Ordering::Relaxed);
                // Leaves CPU time for other tests.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    tokio::time::sleep(time).await;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    calls.load(Ordering::Relaxed)
}

async fn over_http(address: &str) -> u64 {
    let mut caller = HttpClient::connect(address).await;
    for _ in 0..20 {
        let work = caller.post("/api/slow/work", &json!({})).await;
        assert!(matches!(work.status, 200 | 429), "{}", work.body);
        let none = caller.post("/api/demo/none", &json!({})).await;
        assert_eq!(none.status, 404);
    }
    let clock = caller.post("/api/demo/clock", &json!({"count": 5, "everyMs": 1})).await;
    assert!(clock.body.contains("event: complete"), "{}", clock.body);
    41
}

async fn over_mcp(address: &str) -> u64 {
    let mut caller = HttpClient::connect(address).await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "soak", "version": "1"}}});
    let begun = caller.post("/mcp", &hello).await;
    let session = begun.header("mcp-session-id").unwrap().to_owned();
    let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
    for id in 0..20 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "demo__add", "arguments": {"a": 1, "b": id}}});
        let response = caller.request("POST", "/mcp", &headers, &call.to_string()).await.unwrap();
        assert!(response.body.contains("result"), "{}", response.body);
    }
    let ended = caller.request("DELETE", "/mcp", &headers, "").await.unwrap();
    assert!(ended.status < 300, "{}", ended.status);
    20
}

async fn over_hub(address: &str) -> u64 {
    let connector = WsConnector::new(&format!("ws://{address}/hub"), None).unwrap();
    let link = connector.connect().await.unwrap();
    let (client, connection) =
        Connection::new(link, IncomingRequests::Reject, ConnectionSettings::default());
    let running = tokio::spawn(connection.run());
    for n in 0..20 {
        let request = CallRequest::new("demo.add", json!({"a": n, "b": 1}));
        client.call(request).await.unwrap();
    }
    // A call canceled before its response.
    let mut abandoned = Box::pin(client.call(CallRequest::new("demo.slow", json!({"ms": 5_000}))));
    assert!(futures::poll!(&mut abandoned).is_pending());
    drop(abandoned);
    client.close(toolpost::transport::CloseReason::going_away());
    let _ = running.await;
    20
}

/// Starts a slow call and disconnects before the response.
async fn disconnect_early(address: &str) -> u64 {
    let mut caller = HttpClient::connect(address).await;
    let body = json!({"ms": 10_000});
    let request = caller.post("/api/demo/slow", &body);
    let _ = tokio::time::timeout(Duration::from_millis(20), request).await;
    1
}
