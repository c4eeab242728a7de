//! Tests for behavior that is specific to HTTP.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use toolpost::mcp::{McpSettings, McpTransport};
use toolpost::protocol::Secret;

use super::fixture::{GENERATIONS, McpFixture, TransportKind, assert_error};

#[tokio::test]
async fn http_supports_every_version_and_deletes_sessions() {
    let rows: [&[&str]; 5] = [
        &["--version", "2025-03-26"],
        &["--version", "2025-06-18"],
        &["--version", "2025-11-25"],
        &["--modern"],
        &["--modern"],
    ];
    join_all(rows.into_iter().enumerate().map(async |(row, version)| {
        let behavior = if row % 2 == 0 { "plain" } else { "stream" };
        let fixture =
            McpFixture::ready(TransportKind::Http, &[version, &[behavior]].concat()).await;
        let found = fixture.server_info().await;
        let expected = version.get(1).copied().unwrap_or("2026-07-28");
        assert_eq!(found.protocol, expected);
        fixture.assert_responsive().await;
        let is_legacy = version.len() == 2;
        // A legacy client opens the notification stream; a server need not offer it.
        if is_legacy {
            fixture.scratch.wait_for_line("GET", 1).await;
        }
        fixture
            .close_and_inspect(|scratch| {
                assert_eq!(scratch.count("DELETE"), usize::from(is_legacy));
            })
            .await;
    }))
    .await;
}

#[tokio::test]
async fn invalid_http_response_fails_only_its_call() {
    let rows: [(&str, &str, &[&str]); 7] = [
        ("wrong-type", "EXECUTION_ERROR", &["`x`", "text/plain instead of JSON"]),
        ("no-json", "EXECUTION_ERROR", &["`x`", "invalid message", "}{ oops"]),
        ("nothing", "EXECUTION_ERROR", &["`x`", "200 OK with an empty body"]),
        ("error-page", "EXECUTION_ERROR", &["`x`", "HTTP 500", "Internal Server Error"]),
        ("too-many", "OVERLOADED", &["`x`", "HTTP 429", "slow down"]),
        ("bad-request", "VALIDATION_ERROR", &["`size` must be even"]),
        ("fails", "EXECUTION_ERROR", &["the printer is out of paper"]),
    ];
    for generation in GENERATIONS {
        join_all(rows.map(async |(behavior, code, fragments)| {
            let fixture =
                McpFixture::ready(TransportKind::Http, &[generation, &[behavior]].concat()).await;
            let other = fixture.call("sleep", json!({"seconds": 0.3}));
            let (failed, slept) = tokio::join!(fixture.call("odd", json!({})), other);
            assert_error(failed, code, fragments);
            assert_eq!(slept.unwrap().data[0]["text"], "slept");
            fixture.assert_responsive().await;
            assert_eq!(fixture.count("tools/call"), 3, "{generation:?} {behavior}");
            fixture.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn broken_stream_is_retried_only_for_queries() {
    for generation in GENERATIONS {
        join_all(["cut", "ended", "cut-query", "ended-query"].map(async |behavior| {
            let fixture =
                McpFixture::ready(TransportKind::Http, &[generation, &[behavior]].concat()).await;
            let start = Instant::now();
            let called = fixture.call("odd", json!({})).await;
            let row = format!("{generation:?} {behavior}");
            assert!(start.elapsed() < Duration::from_secs(5), "{row} {:?}", start.elapsed());
            if behavior.ends_with("-query") {
                assert_eq!(called.unwrap().data[0]["text"], "at last", "{row}");
                assert_eq!(fixture.count("odd ran"), 2, "{row}");
            } else {
                let error = called.unwrap_err();
                assert!(error.may_have_run(), "{row} {error:?}");
                assert_error::<()>(Err(error), "UNAVAILABLE", &["`x`"]);
                assert_eq!(fixture.count("odd ran"), 1, "{row}");
            }
            fixture.assert_responsive().await;
            fixture.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn stream_with_event_ids_is_resumed() {
    // The second stream breaks in the middle of an event.
    join_all(["resumes", "resumes-cut"].map(async |behavior| {
        let fixture = McpFixture::ready(TransportKind::Http, &[behavior]).await;
        let start = Instant::now();
        assert_eq!(fixture.text("odd", json!({})).await, "resumed");
        // The server sets a retry delay of 50 ms.
        assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
        assert_eq!((fixture.count("odd ran"), fixture.count("GET e-1")), (1, 1));
        fixture.assert_responsive().await;
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn unresumable_stream_does_not_rerun_mutation() {
    join_all(["resumes-forgets", "resumes-dies", "resumes-never"].map(async |behavior| {
        let fixture = McpFixture::ready(TransportKind::Http, &[behavior]).await;
        let error = fixture.call("odd", json!({})).await.unwrap_err();
        assert!(error.may_have_run() && !error.is_retryable(), "{behavior} {error:?}");
        assert_error::<()>(Err(error), "UNAVAILABLE", &["`x`", "before the result"]);
        if behavior != "resumes-dies" {
            fixture.assert_responsive().await;
        }
        assert_eq!(fixture.count("odd ran"), 1, "{behavior}");
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn modern_call_sends_mcp_headers() {
    let fixture = McpFixture::ready(TransportKind::Http, &["--modern", "headers"]).await;
    for (input, region) in [
        (json!({"region": "eu-1"}), Some("eu-1")),
        (json!({"region": "Zürich"}), Some("=?base64?WsO8cmljaA==?=")),
        (json!({}), None),
    ] {
        let headers = fixture.call("odd", input).await.unwrap().data;
        let get = |name: &str| headers.get(name).and_then(Value::as_str);
        assert_eq!(get("mcp-method"), Some("tools/call"));
        assert_eq!(get("mcp-name"), Some("odd"));
        assert_eq!(get("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(get("mcp-param-region"), region);
        assert_eq!(get("mcp-session-id"), None);
    }
    fixture.close().await;
    let fixture = McpFixture::ready(TransportKind::Http, &["headers"]).await;
    let headers = fixture.call("odd", json!({"region": "eu-1"})).await.unwrap().data;
    assert_eq!(headers["mcp-protocol-version"], "2025-11-25");
    assert!(headers["mcp-session-id"].is_string() && headers["mcp-param-region"].is_null());
    fixture.close().await;
}

fn http_settings(settings: &mut McpSettings) -> &mut toolpost::mcp::HttpSettings {
    match &mut settings.transport {
        McpTransport::Http(http) => http,
        _ => panic!("the server has a URL"),
    }
}

#[tokio::test]
async fn configured_bearer_or_header_is_sent() {
    let rows: [(Option<&str>, Option<&str>, Option<&[&str]>); 3] = [
        (Some("good"), None, None),
        (None, Some("Bearer good"), None),
        (Some("bad"), None, Some(&["rejected the configured token or header"])),
    ];
    for generation in GENERATIONS {
        join_all(rows.map(async |(bearer, header, rejected)| {
            let fixture = McpFixture::http(&[generation, &["bearer"]].concat(), |settings| {
                http_settings(settings).bearer = bearer.map(Secret::new);
                let header = header.map(|value| ("authorization".to_owned(), Secret::new(value)));
                http_settings(settings).headers.extend(header);
            });
            let ready = fixture.source.ready(Duration::from_secs(20)).await;
            match rejected {
                None => fixture.assert_responsive().await,
                Some(message) => assert_error(ready, "UNAVAILABLE", message),
            }
            fixture.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn redirect_is_followed_only_within_origin() {
    join_all(GENERATIONS.map(async |generation| {
        let fixture = McpFixture::http(&[generation, &["redirect"]].concat(), |settings| {
            http_settings(settings).bearer = Some(Secret::new("secret"));
        });
        let ready = fixture.source.ready(Duration::from_secs(20)).await;
        assert_error(ready, "UNAVAILABLE", &["HTTP 307"]);
        assert_eq!(fixture.count("elsewhere"), 0);
        fixture.close().await;
        let fixture =
            McpFixture::ready(TransportKind::Http, &[generation, &["redirect-within"]].concat())
                .await;
        fixture.assert_responsive().await;
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn non_mcp_server_returns_unavailable_with_reason() {
    let rows: [(&str, &[&str]); 2] = [
        ("html-page", &["text/html instead of JSON"]),
        ("broken-gateway", &["HTTP 502", "Bad gateway"]),
    ];
    join_all(rows.map(async |(behavior, message)| {
        let fixture = McpFixture::http(&[behavior], |_| {});
        assert_error(fixture.source.ready(Duration::from_secs(20)).await, "UNAVAILABLE", message);
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn slow_http_server_handles_concurrent_calls() {
    for generation in GENERATIONS {
        let fixture =
            McpFixture::ready(TransportKind::Http, &[generation, &["slow", "0.5"]].concat()).await;
        let start = Instant::now();
        let calls = (0..40).map(|n| fixture.text("echo", json!({"text": n.to_string()})));
        let message = join_all(calls).await;
        assert_eq!(message, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        fixture.close().await;
    }
}
