//! The handshake and authentication, before the first event.

use std::time::Duration;

use serde_json::{Value, json};
use toolpost_gateway::GatewaySettings;

use super::super::{TestGateway, client};
use super::{
    HubClient, control_event, request_event, start_authenticated_gateway, start_open_gateway,
    stop_gateway,
};

/// Each row: the headers of an invalid upgrade request, and the expected status.
#[tokio::test]
async fn hub_request_without_websocket_upgrade_is_rejected() {
    let running = start_open_gateway().await;
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let rows: [(&[(&str, &str)], &[(&str, &str)], u16); 6] = [
        (&[], &[], 426),
        (&[], &[("upgrade", "websocket")], 426),
        (&upgrade[..2], &[("sec-websocket-version", "13")], 426),
        (&upgrade, &[("sec-websocket-version", "8")], 426),
        (&upgrade, &[("sec-websocket-version", "13"), ("origin", "https://evil.example")], 403),
        (&upgrade, &[("sec-websocket-version", "13"), ("host", "evil.example")], 403),
    ];
    for (common, own, status) in rows {
        let mut request = client().get(running.url("/hub"));
        for (name, value) in common.iter().chain(own) {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{common:?} {own:?}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        if status == 426 {
            let names = ["upgrade", "sec-websocket-version"];
            assert!(names.iter().any(|name| response.headers().contains_key(*name)), "{own:?}");
        }
    }
    let posted = client().post(running.url("/hub")).send().await.unwrap();
    assert_eq!(posted.status().as_u16(), 405);
    running.stop().await;
}

#[tokio::test]
async fn hub_connection_limit_returns_503_with_retry_after() {
    let mut settings = GatewaySettings::default();
    settings.max_connections = 1;
    let running = TestGateway::start_with([], settings).await;
    let upgrade = || {
        let request = client().get(running.url("/hub")).header("connection", "upgrade");
        let request = request.header("upgrade", "websocket").header("sec-websocket-version", "13");
        request.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==").send()
    };
    let first = upgrade().await.unwrap();
    assert_eq!(first.status(), 101);
    let second = upgrade().await.unwrap();
    assert_eq!(
        (second.status().as_u16(), &second.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    let problem: Value = second.json().await.unwrap();
    assert!(problem["detail"].as_str().unwrap().contains("limits.connections"), "{problem}");
    drop(first);
    running.stop().await;
}

/// Each row: the header, the first frame, and the expected identity or close reason.
#[tokio::test]
async fn authenticated_hub_rejects_missing_or_invalid_token() {
    let running = start_authenticated_gateway(GatewaySettings::default()).await;
    let auth = |token: &str| Some(control_event("__auth", &json!({"token": token})));
    let add = request_event("1", "demo.add", &json!({"a": 1, "b": 1}));
    let unknown = Err("invalid token");
    let needed = Err("the first frame must be `__auth`");
    let rows: [(Option<&str>, Option<Value>, Result<&str, &str>); 14] = [
        (Some("Bearer ci"), None, Ok("ci")),
        (Some("bearer  root"), None, Ok("root")),
        (None, auth("ci"), Ok("ci")),
        (None, auth("root"), Ok("root")),
        (Some("Bearer wrong"), None, unknown),
        (Some("Bearer wrong"), auth("ci"), unknown),
        (Some("Bearer "), None, Err("must be `Bearer` and a token")),
        (Some("Basic Y2k6"), None, Err("must be `Bearer` and a token")),
        (Some("ci"), None, Err("must be `Bearer` and a token")),
        (None, auth("wrong"), unknown),
        (None, auth(""), unknown),
        (None, Some(add), needed),
        (None, Some(control_event("__subscribe", &json!({"topic": "call.responded:1"}))), needed),
        (None, Some(json!("nonsense")), needed),
    ];
    for (header, first, expected) in rows {
        let mut raw = HubClient::with_header(running.address, header).await;
        let row = format!("{header:?} {first:?}");
        if let Some(first) = first {
            raw.send_json(&first).await;
        }
        match expected {
            Ok(name) => {
                assert_eq!(raw.call("who.am", json!({})).await, Ok(json!(name)), "{row}");
                // A second `__auth` is rejected and changes nothing.
                raw.send_json(&control_event("__auth", &json!({"token": "root"}))).await;
                let (id, code, message) = raw.recv_error().await;
                assert_eq!((&*id, &*code), ("", "VALIDATION_ERROR"), "{row}");
                assert!(message.contains("first frame"), "{row}: {message}");
                assert_eq!(raw.call("who.am", json!({})).await, Ok(json!(name)), "{row}");
            }
            Err(message) => {
                let (code, text) = raw.recv_close().await;
                assert_eq!(code, 4401, "{row}");
                assert!(text.contains(message), "{row}: {text}");
            }
        }
    }
    assert!(running.stop().await.in_time);
}

#[tokio::test]
async fn hub_peer_without_auth_is_closed_after_timeout() {
    let mut settings = GatewaySettings::default();
    settings.auth_timeout = Duration::from_millis(50);
    let running = start_authenticated_gateway(settings).await;
    let mut raw = HubClient::connect(running.address).await;
    let (code, message) = raw.recv_close().await;
    assert_eq!(code, 4401);
    assert!(message.contains("timed out"), "{message}");
    assert_eq!(running.gateway.hub().stats().connections, 0);
    stop_gateway(running, raw).await;
}

#[tokio::test]
async fn open_hub_rejects_tokens_and_names_callers_local() {
    let running = start_open_gateway().await;
    let mut raw = HubClient::connect(running.address).await;
    assert_eq!(raw.call("who.am", json!({})).await, Ok(json!("local")));
    let mut with_header = HubClient::with_token(running.address, "ci").await;
    let mut with_frame = HubClient::connect(running.address).await;
    with_frame.send_json(&control_event("__auth", &json!({"token": "ci"}))).await;
    for raw in [&mut with_header, &mut with_frame] {
        let (code, message) = raw.recv_close().await;
        assert_eq!(code, 4401);
        assert!(message.contains("invalid token"), "{message}");
    }
    stop_gateway(running, (raw, with_header, with_frame)).await;
}
