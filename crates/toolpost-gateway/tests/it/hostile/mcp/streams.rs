//! Streams that nobody reads, and too many of them.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::{CallContext, HandlerError, Operation, Progress};
use toolpost_gateway::GatewaySettings;

use super::super::super::spokes::{eventually, in_time};
use super::super::{Neighbor, Raw, Running, resident};
use super::Tester;

/// Whoever reads nothing is full soon.
const TINY: u32 = 4 * 1024;

fn patient(patience: Duration) -> GatewaySettings {
    let mut settings = GatewaySettings::default();
    settings.write_timeout = patience;
    settings.send_buffer = 8 * 1024;
    settings.mcp.settle = Duration::ZERO;
    settings
}

/// Reports without end, at length.
fn talkative() -> Operation {
    let talk = async |context: CallContext, _: Value| {
        let mut done = 0.0;
        while !context.is_cancelled() {
            done += 1.0;
            context.report(Progress::new(done).with_message("x".repeat(10_000)));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok::<_, HandlerError>(Value::Null)
    };
    Operation::query("t.talk", talk).build().unwrap()
}

fn extra() -> Operation {
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

/// A subscription of 2026-07-28 with this id.
fn listen(id: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let body =
        json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params});
    post("mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n", &body)
}

/// Adds and takes away a tool until told to stop.
async fn change_tools(gateway: &Running) {
    let registry = gateway.gateway.pipeline().registry();
    loop {
        registry.register(extra()).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        registry.unregister(&"t.extra".parse().unwrap());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_that_nobody_reads_end_their_call() {
    let gateway = Running::with([talkative()], patient(Duration::from_millis(500))).await;
    let neighbor = Neighbor::start(&gateway);
    let before = resident();
    let params = json!({"name": "t__talk", "arguments": {}, "_meta": {"progressToken": "p"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut deaf = Vec::new();
    for _ in 0..10 {
        let mut raw = Raw::narrow(gateway.address, TINY).await;
        raw.say(post("", &call)).await;
        deaf.push(raw);
    }
    for raw in deaf {
        raw.is_cut().await;
    }
    eprintln!("10 floods of reports, not read: {before} KiB before, {} KiB after", resident());
    eprintln!("{} calls beside them", neighbor.stop().await);
    let pipeline = gateway.gateway.pipeline();
    eventually("nothing runs", || pipeline.in_flight() == 0).await;
    assert!(gateway.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_nobody_reads_end_their_stream() {
    let gateway = Running::with([], patient(Duration::from_millis(500))).await;
    let neighbor = Neighbor::start(&gateway);
    let session = Tester::new(&gateway).hello(None).await.unwrap();
    let stream = format!(
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\
         mcp-session-id: {session}\r\n\r\n"
    );
    let before = resident();
    for request in [listen(&"i".repeat(250)), stream] {
        let mut raw = Raw::narrow(gateway.address, TINY).await;
        raw.say(request).await;
        tokio::select! {
            () = raw.is_cut() => {}
            () = change_tools(&gateway) => {}
        }
        gateway.gateway.pipeline().registry().unregister(&"t.extra".parse().unwrap());
    }
    eprintln!("floods of changes, not read: {before} KiB before, {} KiB after", resident());
    eprintln!("{} calls beside them", neighbor.stop().await);
    assert!(gateway.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_one_stream_and_the_last_one_counts() {
    let gateway = Running::with([], patient(Duration::from_secs(30))).await;
    let tester = Tester::new(&gateway);
    let session = tester.hello(None).await.unwrap();
    let get = async || {
        let request = tester.0.get(&tester.1).header("mcp-session-id", &session);
        in_time("a stream", request.send()).await.unwrap()
    };
    let first = get().await;
    let second = get().await;
    assert!(in_time("the first one's end", first.text()).await.is_ok());
    let mut heard = second.bytes_stream();
    gateway.gateway.pipeline().registry().register(extra()).unwrap();
    let mut text = String::new();
    while !text.contains("notifications/tools/list_changed") {
        let chunk = in_time("a change", heard.next()).await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    drop(heard);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_leave_room_for_those_who_call() {
    let mut settings = GatewaySettings::default();
    settings.connections = 16;
    settings.mcp.listeners = 8;
    let gateway = Running::with([], settings).await;
    let neighbor = Neighbor::start(&gateway);
    let tester = Tester::new(&gateway);
    let session = tester.hello(None).await.unwrap();
    let mut listeners = Vec::new();
    for _ in 0..8 {
        let mut raw = Raw::connect(gateway.address).await;
        raw.say(listen("l")).await;
        assert_eq!(raw.answer().await.unwrap().status, 200);
        listeners.push(raw);
    }
    for _ in 0..20 {
        let mut raw = Raw::connect(gateway.address).await;
        raw.say(listen("more")).await;
        let refused = raw.answer().await.unwrap();
        assert_eq!(refused.status, 503);
        assert!(refused.head.contains("\r\nretry-after: 1\r\n"), "{}", refused.head);
        let body: Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!((&body["id"], &body["error"]["code"]), (&json!("more"), &json!(-32_000)));
        assert_eq!(body["error"]["message"], "8 clients are listening, which is the limit");
    }
    let headers: [(&str, &[u8]); 1] = [("mcp-session-id", session.as_bytes())];
    let refused = tester.send(reqwest::Method::GET, &headers, Vec::new()).await;
    assert_eq!((refused.status, refused.code), (503, -32_000));
    listeners.pop();
    let again = async {
        loop {
            let mut raw = Raw::connect(gateway.address).await;
            raw.say(listen("again")).await;
            if raw.answer().await.unwrap().status == 200 {
                break;
            }
        }
    };
    in_time("a place", again).await;
    eprintln!("{} calls beside listeners", neighbor.stop().await);
    gateway.stop().await;
}
