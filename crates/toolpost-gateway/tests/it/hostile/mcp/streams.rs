//! Streams that are not read, and too many streams.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::{CallContext, HandlerError, Operation, Progress};
use toolpost_gateway::GatewaySettings;

use super::super::super::spokes::{wait_until, with_timeout};
use super::super::{BackgroundClient, RawClient, TestGateway, resident_kib};
use super::McpTester;

/// A small receive buffer, which fills up soon if the client does not read.
const RECV_BUFFER_BYTES: u32 = 4 * 1024;

fn settings_with_write_timeout(timeout: Duration) -> GatewaySettings {
    let mut settings = GatewaySettings::default();
    settings.write_timeout = timeout;
    settings.send_buffer_bytes = 8 * 1024;
    settings.mcp.list_changed_debounce = Duration::ZERO;
    settings
}

/// Returns an operation that sends large progress reports until it is canceled.
fn progress_flood() -> Operation {
    let report_progress = async |context: CallContext, _: Value| {
        let mut done = 0.0;
        while !context.is_canceled() {
            done += 1.0;
            context.report(Progress::new(done).with_message("x".repeat(10_000)));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok::<_, HandlerError>(Value::Null)
    };
    Operation::query("t.talk", report_progress).build().unwrap()
}

fn extra_operation() -> Operation {
    let nothing = async |_: CallContext, _: Value| Ok::<_, HandlerError>(Value::Null);
    Operation::query("t.extra", nothing).build().unwrap()
}

fn post(headers: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Returns a `subscriptions/listen` request of 2026-07-28 with this id.
fn listen_request(id: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let body =
        json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params});
    post("mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n", &body)
}

/// Adds and removes a tool until the future is dropped.
async fn change_tools(gateway: &TestGateway) {
    let registry = gateway.gateway.pipeline().registry();
    loop {
        registry.register(extra_operation()).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        registry.unregister(&"t.extra".parse().unwrap());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_progress_ends_its_call() {
    let gateway = TestGateway::start_with(
        [progress_flood()],
        settings_with_write_timeout(Duration::from_millis(500)),
    )
    .await;
    let healthy_client = BackgroundClient::start(&gateway);
    let before = resident_kib();
    let params = json!({"name": "t__talk", "arguments": {}, "_meta": {"progressToken": "p"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut deaf = Vec::new();
    for _ in 0..10 {
        let mut raw = RawClient::connect_with_recv_buffer(gateway.address, RECV_BUFFER_BYTES).await;
        raw.send(post("", &call)).await;
        deaf.push(raw);
    }
    for raw in deaf {
        raw.wait_for_disconnect().await;
    }
    eprintln!("10 floods of reports, not read: {before} KiB before, {} KiB after", resident_kib());
    eprintln!("{} calls beside them", healthy_client.stop().await);
    let pipeline = gateway.gateway.pipeline();
    wait_until("nothing runs", || pipeline.in_flight() == 0).await;
    assert!(gateway.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_notifications_end_their_stream() {
    let gateway =
        TestGateway::start_with([], settings_with_write_timeout(Duration::from_millis(500))).await;
    let healthy_client = BackgroundClient::start(&gateway);
    let session = McpTester::new(&gateway).initialize(None).await.unwrap();
    let stream = format!(
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\
         mcp-session-id: {session}\r\n\r\n"
    );
    let before = resident_kib();
    for request in [listen_request(&"i".repeat(250)), stream] {
        let mut raw = RawClient::connect_with_recv_buffer(gateway.address, RECV_BUFFER_BYTES).await;
        raw.send(request).await;
        tokio::select! {
            () = raw.wait_for_disconnect() => {}
            () = change_tools(&gateway) => {}
        }
        gateway.gateway.pipeline().registry().unregister(&"t.extra".parse().unwrap());
    }
    eprintln!("floods of changes, not read: {before} KiB before, {} KiB after", resident_kib());
    eprintln!("{} calls beside them", healthy_client.stop().await);
    assert!(gateway.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_session_stream_replaces_previous() {
    let gateway =
        TestGateway::start_with([], settings_with_write_timeout(Duration::from_secs(30))).await;
    let tester = McpTester::new(&gateway);
    let session = tester.initialize(None).await.unwrap();
    let get = async || {
        let request = tester.0.get(&tester.1).header("mcp-session-id", &session);
        with_timeout("a stream", request.send()).await.unwrap()
    };
    let first = get().await;
    let second = get().await;
    assert!(with_timeout("the first one's end", first.text()).await.is_ok());
    let mut received = second.bytes_stream();
    gateway.gateway.pipeline().registry().register(extra_operation()).unwrap();
    let mut text = String::new();
    while !text.contains("notifications/tools/list_changed") {
        let chunk = with_timeout("a change", received.next()).await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    drop(received);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listener_limit_leaves_connections_for_calls() {
    let mut settings = GatewaySettings::default();
    settings.max_connections = 16;
    settings.mcp.max_listeners = 8;
    let gateway = TestGateway::start_with([], settings).await;
    let healthy_client = BackgroundClient::start(&gateway);
    let tester = McpTester::new(&gateway);
    let session = tester.initialize(None).await.unwrap();
    let mut listeners = Vec::new();
    for _ in 0..8 {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(listen_request("l")).await;
        assert_eq!(raw.recv_response().await.unwrap().status, 200);
        listeners.push(raw);
    }
    for _ in 0..20 {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(listen_request("more")).await;
        let rejected = raw.recv_response().await.unwrap();
        assert_eq!(rejected.status, 503);
        assert!(rejected.head.contains("\r\nretry-after: 1\r\n"), "{}", rejected.head);
        let body: Value = serde_json::from_str(&rejected.body).unwrap();
        assert_eq!((&body["id"], &body["error"]["code"]), (&json!("more"), &json!(-32_000)));
        assert_eq!(body["error"]["message"], "listener limit reached: 8 clients are listening");
    }
    let headers: [(&str, &[u8]); 1] = [("mcp-session-id", session.as_bytes())];
    let rejected = tester.send(reqwest::Method::GET, &headers, Vec::new()).await;
    assert_eq!((rejected.status, rejected.code), (503, -32_000));
    listeners.pop();
    let again = async {
        loop {
            let mut raw = RawClient::connect(gateway.address).await;
            raw.send(listen_request("again")).await;
            if raw.recv_response().await.unwrap().status == 200 {
                break;
            }
        }
    };
    with_timeout("a place", again).await;
    eprintln!("{} calls beside listeners", healthy_client.stop().await);
    gateway.stop().await;
}
