//! Clients that connect and send nothing, or an incomplete request.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use toolpost_gateway::GatewaySettings;

use super::super::spokes::{call_data, caller, wait_until, with_timeout};
use super::{
    BackgroundClient, HEALTH_REQUEST, RawClient, TestGateway, add_request, client, resident_kib,
};

/// What idle clients send before they stop, in rotation.
const PARTIAL_REQUESTS: [&str; 4] = ["", "G", "POST /api/demo/add HTTP/1.1\r\nhost: loc", "\r\n"];

fn settings_with_connections(connections: usize) -> GatewaySettings {
    let mut settings = GatewaySettings::default();
    settings.max_connections = connections;
    settings.reserved_connections = 0;
    // No connection is closed by a timeout.
    settings.header_timeout = Duration::from_secs(600);
    settings.body_timeout = Duration::from_secs(600);
    settings
}

async fn connect_idle_clients(gateway: &TestGateway, count: usize) -> Vec<RawClient> {
    let mut silent = Vec::with_capacity(count);
    for number in 0..count {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(PARTIAL_REQUESTS[number % PARTIAL_REQUESTS.len()]).await;
        silent.push(raw);
    }
    silent
}

#[tokio::test]
async fn new_connection_evicts_longest_idle() {
    let gateway = TestGateway::start_with([], settings_with_connections(4)).await;
    let mut silent = connect_idle_clients(&gateway, 4).await;
    for round in 0..3 {
        let mut joining = RawClient::connect(gateway.address).await;
        joining.send(HEALTH_REQUEST).await;
        assert_eq!(joining.recv_response().await.unwrap().status, 200, "round {round}");
        assert!(silent.remove(0).recv_response().await.is_none(), "round {round}");
        // A served connection becomes idle too. Closing it keeps the number of connections
        // constant.
        drop(joining);
        silent.extend(connect_idle_clients(&gateway, 1).await);
    }
    let mut last = silent.pop().unwrap();
    last.send("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(last.recv_response().await.is_some(), "other connections stay open");
    gateway.stop().await;
}

#[tokio::test]
async fn active_connection_is_not_evicted() {
    let gateway = TestGateway::start_with([], settings_with_connections(3)).await;
    // WebSockets have a separate limit.
    let peer = caller(&gateway, None).await;
    let clock = client().post(gateway.url("/api/demo/clock"));
    let stream = clock.json(&json!({"count": 60, "everyMs": 10})).send().await.unwrap();
    let slow = client().post(gateway.url("/api/demo/slow")).json(&json!({"ms": 600})).send();
    let slow = tokio::spawn(slow);
    let pipeline = gateway.gateway.pipeline();
    wait_until("two calls in flight", || pipeline.in_flight() == 2).await;
    let mut uploading = RawClient::connect(gateway.address).await;
    uploading.send(add_request("content-length: 13\r\n", r#"{"a":1,"#)).await;
    wait_until("the upload is incomplete", || pipeline.in_flight() == 2).await;
    for _ in 0..20 {
        let mut joining = RawClient::connect(gateway.address).await;
        joining.send(HEALTH_REQUEST).await;
        assert_eq!(joining.recv_response().await.unwrap().status, 200);
    }
    assert!(
        uploading.recv_response().await.is_none(),
        "the connection with an incomplete request is evicted first"
    );
    let slow: Value = slow.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(slow, json!({"sleptMs": 600}));
    let text = stream.text().await.unwrap();
    assert_eq!(text.matches("\"tick\":").count(), 60, "{text}");
    assert!(call_data(&peer, "demo.add", json!({"a": 1, "b": 1})).await.is_ok());
    gateway.stop().await;
}

#[tokio::test]
async fn new_connection_waits_when_all_are_active() {
    let gateway = TestGateway::start_with([], settings_with_connections(1)).await;
    let mut busy = RawClient::connect(gateway.address).await;
    let body = r#"{"ms":300}"#;
    busy.send(format!(
        "POST /api/demo/slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    let pipeline = gateway.gateway.pipeline();
    wait_until("it runs", || pipeline.in_flight() == 1).await;
    let mut joining = RawClient::connect(gateway.address).await;
    joining.send(HEALTH_REQUEST).await;
    let (first, second) = tokio::join!(busy.recv_response(), joining.recv_response());
    assert_eq!((first.unwrap().status, second.unwrap().status), (200, 200));
    assert!(busy.recv_response().await.is_none(), "the connection is served, then evicted");
    gateway.stop().await;
}

#[tokio::test]
async fn connection_limit_returns_503_after_wait() {
    let mut settings = settings_with_connections(1);
    settings.reserved_connections = 1;
    let gateway = TestGateway::start_with([], settings).await;
    let mut busy = RawClient::connect(gateway.address).await;
    busy.send(
        add_request("content-length: 17\r\n", r#"{"ms":   3600000}"#).replace("/add", "/slow"),
    )
    .await;
    let pipeline = gateway.gateway.pipeline();
    wait_until("it runs", || pipeline.in_flight() == 1).await;
    for round in 0..3 {
        let mut joining = RawClient::connect(gateway.address).await;
        joining.send(add_request("content-length: 13\r\n", r#"{"a":1,"b":2}"#)).await;
        let response = joining.recv_response().await.unwrap();
        assert_eq!(response.status, 503, "round {round}");
        assert!(response.head.contains("\r\nretry-after: 1\r\n"), "{}", response.head);
        let problem: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(problem["status"], 503, "{problem}");
        assert!(joining.recv_response().await.is_none(), "round {round}");
    }
    drop(busy);
    let mut joining = RawClient::connect(gateway.address).await;
    joining.send(HEALTH_REQUEST).await;
    assert_eq!(
        joining.recv_response().await.unwrap().status,
        200,
        "a connection slot is free again"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn idle_connection_closes_after_header_timeout() {
    let mut settings = GatewaySettings::default();
    settings.header_timeout = Duration::from_millis(200);
    let gateway = TestGateway::start_with([], settings).await;
    let mut all = connect_idle_clients(&gateway, 100).await;
    let mut served = RawClient::connect(gateway.address).await;
    served.send(HEALTH_REQUEST).await;
    assert_eq!(served.recv_response().await.unwrap().status, 200);
    all.push(served);
    for mut raw in all {
        assert!(raw.recv_response().await.is_none());
    }
    assert!(gateway.stop().await.in_time);
}

/// Default settings: as many idle clients as the limit allows, then as many again.
#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_idle_clients_do_not_affect_calls() {
    const SILENT: usize = 1_000;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < 8_192) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(8_192), maximum })
            .expect("8192 open files are allowed: raise `ulimit -Hn`");
    }
    let gateway = TestGateway::start().await;
    let clock = client().post(gateway.url("/api/demo/clock"));
    let stream = clock.json(&json!({"count": 1_000_000, "everyMs": 50})).send().await.unwrap();
    let healthy_client = BackgroundClient::start(&gateway);
    let before = resident_kib();
    let mut all = connect_idle_clients(&gateway, SILENT).await;
    eprintln!("{SILENT} silent clients: {before} KiB before, {} KiB after", resident_kib());
    all.extend(connect_idle_clients(&gateway, SILENT).await);
    let mut joining = RawClient::connect(gateway.address).await;
    joining.send(HEALTH_REQUEST).await;
    assert_eq!(joining.recv_response().await.unwrap().status, 200);
    let calls = healthy_client.stop().await;
    eprintln!(
        "{} silent clients: {} KiB after, {calls} calls beside them",
        all.len(),
        resident_kib()
    );
    // More connections than the limit were opened, so the first ones are evicted.
    assert!(all[0].recv_response().await.is_none());
    drop(stream);
    with_timeout("the gateway stops", async { assert!(gateway.stop().await.in_time) }).await;
}
