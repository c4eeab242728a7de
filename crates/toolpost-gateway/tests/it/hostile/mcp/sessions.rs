//! Sessions: guessed, stolen, or created by the thousand.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use toolpost_gateway::GatewaySettings;

use super::super::super::spokes::{gateway_with_tokens, wait_until, with_timeout};
use super::super::{BackgroundClient, RawClient, TestGateway, resident_kib, tool_call_message};
use super::McpTester;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn session_is_hidden_from_other_identities() {
    let (gateway, [ann, bob]) = gateway_with_tokens(["ann", "bob"]).await;
    let healthy_client = BackgroundClient::with_token(&gateway, Some(&bob));
    let tester = McpTester::new(&gateway);
    let session = tester.initialize(Some(&ann)).await.unwrap();
    let ended_session = tester.initialize(Some(&ann)).await.unwrap();
    let [ann, bob] = [ann, bob].map(|token| format!("Bearer {}", token.reveal()));
    let end: [(&str, &[u8]); 2] =
        [("authorization", ann.as_bytes()), ("mcp-session-id", ended_session.as_bytes())];
    assert_eq!(tester.send(Method::DELETE, &end, Vec::new()).await.status, 204);
    let none = (404, -32_001, "unknown session");
    let good = (200, 0, r#""result""#);
    let (guess, shout) = ("0123456789abcdef".repeat(4), session.to_uppercase());
    let (long, cut) = ("a".repeat(10_000), &session[..63]);
    let rows: Vec<(&str, &str, &[u8], (u16, i64, &str))> = vec![
        ("own session", &ann, session.as_bytes(), good),
        ("guessed id", &ann, guess.as_bytes(), none),
        ("uppercase id", &ann, shout.as_bytes(), none),
        ("truncated id", &ann, cut.as_bytes(), none),
        ("empty id", &ann, b"", none),
        ("long id", &ann, long.as_bytes(), none),
        ("id with a tab", &ann, b"a\tb", none),
        ("non-ASCII id", &ann, b"\xe9\xff", none),
        ("ended session", &ann, ended_session.as_bytes(), none),
        ("session of another identity", &bob, session.as_bytes(), none),
        ("unknown token", "Bearer tpt_guess", session.as_bytes(), (401, 0, "token")),
    ];
    let mut wrong = Vec::new();
    for (what, token, id, expected) in rows {
        let headers: [(&str, &[u8]); 2] =
            [("authorization", token.as_bytes()), ("mcp-session-id", id)];
        tester.post(&headers, PING).await.check(what, expected, &mut wrong);
        // GET and DELETE are rejected too. The valid session is skipped, since DELETE would end it.
        if expected != good {
            for method in [Method::GET, Method::DELETE] {
                let verdict = tester.send(method, &headers, Vec::new()).await;
                verdict.check(what, expected, &mut wrong);
            }
        }
    }
    let without = tester.post(&[("mcp-session-id", session.as_bytes())], PING).await;
    without.check("no token", (401, 0, "token"), &mut wrong);
    let headers: [(&str, &[u8]); 2] =
        [("authorization", ann.as_bytes()), ("mcp-session-id", session.as_bytes())];
    tester.post(&headers, PING).await.check("the session of its own identity", good, &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    eprintln!("{} calls beside thieves", healthy_client.stop().await);
    gateway.stop().await;
}

#[tokio::test]
async fn session_id_with_control_characters_is_rejected() {
    let gateway = TestGateway::start().await;
    for id in ["a\0b", "a\u{1}b", "a\u{7f}b", "a\rmcp-name: b"] {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(format!("GET /mcp HTTP/1.1\r\nhost: localhost\r\nmcp-session-id: {id}\r\n\r\n"))
            .await;
        assert_eq!(raw.recv_response().await.unwrap().status, 400, "{id:?}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_flood_does_not_evict_active_sessions() {
    let mut settings = GatewaySettings::default();
    settings.mcp.max_sessions = 64;
    let gateway = TestGateway::start_with([], settings).await;
    let healthy_client = BackgroundClient::start(&gateway);
    let tester = McpTester::new(&gateway);
    let first = tester.initialize(None).await.unwrap();
    let before = resident_kib();
    for _ in 0..1_000 {
        tester.initialize(None).await.unwrap();
    }
    eprintln!("1000 sessions begun: {before} KiB before, {} KiB after", resident_kib());
    let verdict = tester.post(&[("mcp-session-id", first.as_bytes())], PING).await;
    assert_eq!((verdict.status, verdict.code), (404, -32_001), "the first session was never used");
    eprintln!("{} calls beside the flood", healthy_client.stop().await);
    assert!(gateway.stop().await.in_time);
}

#[tokio::test]
async fn session_limit_rejects_initialize() {
    let mut settings = GatewaySettings::default();
    settings.mcp.max_sessions = 4;
    let gateway = TestGateway::start_with([], settings).await;
    let tester = McpTester::new(&gateway);
    let mut streams = Vec::new();
    for _ in 0..4 {
        let session = tester.initialize(None).await.unwrap();
        let get = tester.0.get(&tester.1).header("mcp-session-id", session);
        streams.push(get.send().await.unwrap());
    }
    let rejected = tester.initialize(None).await.unwrap_err();
    assert_eq!((rejected.status, rejected.code), (503, -32_000));
    assert!(rejected.text.contains("all sessions are in use"), "{}", rejected.text);
    streams.pop();
    let again = async { while tester.initialize(None).await.is_err() {} };
    with_timeout("a place", again).await;
    drop(streams);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_is_scoped_to_its_session() {
    let gateway = TestGateway::start().await;
    let tester = McpTester::new(&gateway);
    let [mine, other] =
        [tester.initialize(None).await.unwrap(), tester.initialize(None).await.unwrap()];
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let slow = |ms: u64| {
        let request = tester.0.post(&tester.1).header("mcp-session-id", &mine);
        tokio::spawn(request.json(&tool_call_message("demo__slow", &json!({"ms": ms}))).send())
    };
    let pipeline = gateway.gateway.pipeline();
    let running = slow(500);
    wait_until("it runs", || pipeline.in_flight() == 1).await;
    let others: [&[(&str, &[u8])]; 2] = [&[("mcp-session-id", other.as_bytes())], &[]];
    for headers in others {
        let verdict = tester.post(headers, cancel.to_string()).await;
        assert_eq!(verdict.status, 202);
    }
    let response: Value = running.await.unwrap().unwrap().json().await.unwrap();
    assert!(response["result"].to_string().contains("500"), "{response}");

    let running = slow(600_000);
    wait_until("it runs", || pipeline.in_flight() == 1).await;
    let own: [(&str, &[u8]); 1] = [("mcp-session-id", mine.as_bytes())];
    assert_eq!(tester.post(&own, cancel.to_string()).await.status, 202);
    let ended = tokio::time::timeout(Duration::from_secs(30), running).await;
    assert!(ended.is_ok(), "the session of the call can cancel it");
    gateway.stop().await;
}
