//! Before the first event: the handshake, and who is let in.

use std::time::Duration;

use serde_json::{Value, json};
use toolpost_gateway::GatewaySettings;

use super::super::{Running, client};
use super::{Raw, closed, control, open, requested, stop};

/// Each row: the headers of a request that is no WebSocket of ours, and the status.
#[tokio::test]
async fn what_is_no_websocket_is_told_so() {
    let running = open().await;
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
async fn when_there_are_as_many_websockets_as_there_may_be_the_next_is_told_to_come_again() {
    let mut settings = GatewaySettings::default();
    settings.connections = 1;
    let running = Running::with([], settings).await;
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
    assert!(problem["detail"].as_str().unwrap().contains("1 peers are connected"), "{problem}");
    drop(first);
    running.stop().await;
}

/// Each row: the header, the first frame, and who one is or what one is told.
#[tokio::test]
async fn with_tokens_nobody_comes_in_without_a_known_one() {
    let running = closed(GatewaySettings::default()).await;
    let auth = |token: &str| Some(control("__auth", &json!({"token": token})));
    let add = requested("1", "demo.add", &json!({"a": 1, "b": 1}));
    let unknown = Err("not known here");
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
        (None, Some(control("__subscribe", &json!({"topic": "call.responded:1"}))), needed),
        (None, Some(json!("nonsense")), needed),
    ];
    for (header, first, expected) in rows {
        let mut raw = Raw::with_header(running.address, header).await;
        let row = format!("{header:?} {first:?}");
        if let Some(first) = first {
            raw.say(&first).await;
        }
        match expected {
            Ok(name) => {
                assert_eq!(raw.call("who.am", json!({})).await, Ok(json!(name)), "{row}");
                // A second introduction is refused and changes nothing.
                raw.say(&control("__auth", &json!({"token": "root"}))).await;
                let (id, code, words) = raw.hear_error().await;
                assert_eq!((&*id, &*code), ("", "VALIDATION_ERROR"), "{row}");
                assert!(words.contains("first frame"), "{row}: {words}");
                assert_eq!(raw.call("who.am", json!({})).await, Ok(json!(name)), "{row}");
            }
            Err(words) => {
                let (code, said) = raw.hear_close().await;
                assert_eq!(code, 4401, "{row}");
                assert!(said.contains(words), "{row}: {said}");
            }
        }
    }
    assert!(running.stop().await.in_time);
}

#[tokio::test]
async fn whoever_does_not_say_who_it_is_is_sent_away() {
    let mut settings = GatewaySettings::default();
    settings.introduction = Duration::from_millis(50);
    let running = closed(settings).await;
    let mut raw = Raw::connect(running.address).await;
    let (code, words) = raw.hear_close().await;
    assert_eq!(code, 4401);
    assert!(words.contains("in time"), "{words}");
    assert_eq!(running.gateway.hub().census().peers, 0);
    stop(running, raw).await;
}

#[tokio::test]
async fn an_open_gateway_knows_no_token_and_calls_everybody_local() {
    let running = open().await;
    let mut raw = Raw::connect(running.address).await;
    assert_eq!(raw.call("who.am", json!({})).await, Ok(json!("local")));
    let mut with_header = Raw::with_token(running.address, "ci").await;
    let mut with_frame = Raw::connect(running.address).await;
    with_frame.say(&control("__auth", &json!({"token": "ci"}))).await;
    for raw in [&mut with_header, &mut with_frame] {
        let (code, words) = raw.hear_close().await;
        assert_eq!(code, 4401);
        assert!(words.contains("not known here"), "{words}");
    }
    stop(running, (raw, with_header, with_frame)).await;
}
