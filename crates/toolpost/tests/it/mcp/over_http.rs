//! What only happens over HTTP.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use toolpost::mcp::{McpSettings, McpTransport};
use toolpost::protocol::Secret;

use super::rig::{ERAS, Rig, Way, says};

#[tokio::test]
async fn every_version_is_spoken_and_sessions_are_ended() {
    let rows: [&[&str]; 5] = [
        &["--version", "2025-03-26"],
        &["--version", "2025-06-18"],
        &["--version", "2025-11-25"],
        &["--modern"],
        &["--modern"],
    ];
    join_all(rows.into_iter().enumerate().map(async |(row, version)| {
        let behavior = if row % 2 == 0 { "plain" } else { "stream" };
        let rig = Rig::ready(Way::Http, &[version, &[behavior]].concat()).await;
        let found = rig.found().await;
        let expected = version.get(1).copied().unwrap_or("2026-07-28");
        assert_eq!(found.protocol, expected);
        rig.is_well().await;
        let is_legacy = version.len() == 2;
        // A stream for notifications is asked for, and its absence is no loss.
        if is_legacy {
            rig.scratch.saw("GET", 1).await;
        }
        rig.close_and_look(|scratch| {
            assert_eq!(scratch.count("DELETE"), usize::from(is_legacy));
        })
        .await;
    }))
    .await;
}

#[tokio::test]
async fn an_answer_that_is_none_fails_its_call_and_disturbs_nobody() {
    let rows: [(&str, &str, &[&str]); 7] = [
        ("wrong-type", "EXECUTION_ERROR", &["`x`", "text/plain instead of JSON"]),
        ("no-json", "EXECUTION_ERROR", &["`x`", "something else", "}{ oops"]),
        ("nothing", "EXECUTION_ERROR", &["`x`", "200 OK with nothing"]),
        ("error-page", "EXECUTION_ERROR", &["`x`", "HTTP 500", "Internal Server Error"]),
        ("too-many", "OVERLOADED", &["`x`", "HTTP 429", "slow down"]),
        ("bad-request", "VALIDATION_ERROR", &["`size` must be even"]),
        ("fails", "EXECUTION_ERROR", &["the printer is out of paper"]),
    ];
    for era in ERAS {
        join_all(rows.map(async |(behavior, code, words)| {
            let rig = Rig::ready(Way::Http, &[era, &[behavior]].concat()).await;
            let other = rig.call("sleep", json!({"seconds": 0.3}));
            let (failed, slept) = tokio::join!(rig.call("odd", json!({})), other);
            says(failed, code, words);
            assert_eq!(slept.unwrap().data[0]["text"], "slept");
            rig.is_well().await;
            assert_eq!(rig.count("tools/call"), 3, "{era:?} {behavior}");
            rig.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_repeated_only_for_what_reads() {
    for era in ERAS {
        join_all(["cut", "ended", "cut-query", "ended-query"].map(async |behavior| {
            let rig = Rig::ready(Way::Http, &[era, &[behavior]].concat()).await;
            let start = Instant::now();
            let called = rig.call("odd", json!({})).await;
            let row = format!("{era:?} {behavior}");
            assert!(start.elapsed() < Duration::from_secs(5), "{row} {:?}", start.elapsed());
            if behavior.ends_with("-query") {
                assert_eq!(called.unwrap().data[0]["text"], "at last", "{row}");
                assert_eq!(rig.count("odd ran"), 2, "{row}");
            } else {
                let error = called.unwrap_err();
                assert!(error.may_have_run(), "{row} {error:?}");
                says::<()>(Err(error), "UNAVAILABLE", &["`x`"]);
                assert_eq!(rig.count("odd ran"), 1, "{row}");
            }
            rig.is_well().await;
            rig.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn a_stream_with_numbered_events_is_resumed() {
    // The second breaks off in the middle of an event.
    join_all(["resumes", "resumes-cut"].map(async |behavior| {
        let rig = Rig::ready(Way::Http, &[behavior]).await;
        let start = Instant::now();
        assert_eq!(rig.text("odd", json!({})).await, "resumed");
        // The server says how long to wait, and it says fifty milliseconds.
        assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
        assert_eq!((rig.count("odd ran"), rig.count("GET e-1")), (1, 1));
        rig.is_well().await;
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_does_not_run_a_mutation_again() {
    join_all(["resumes-forgets", "resumes-dies", "resumes-never"].map(async |behavior| {
        let rig = Rig::ready(Way::Http, &[behavior]).await;
        let error = rig.call("odd", json!({})).await.unwrap_err();
        assert!(error.may_have_run() && !error.is_retryable(), "{behavior} {error:?}");
        says::<()>(Err(error), "UNAVAILABLE", &["`x`", "before the result"]);
        if behavior != "resumes-dies" {
            rig.is_well().await;
        }
        assert_eq!(rig.count("odd ran"), 1, "{behavior}");
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn what_a_call_is_about_stands_in_headers() {
    let rig = Rig::ready(Way::Http, &["--modern", "headers"]).await;
    for (input, region) in [
        (json!({"region": "eu-1"}), Some("eu-1")),
        (json!({"region": "Zürich"}), Some("=?base64?WsO8cmljaA==?=")),
        (json!({}), None),
    ] {
        let headers = rig.call("odd", input).await.unwrap().data;
        let get = |name: &str| headers.get(name).and_then(Value::as_str);
        assert_eq!(get("mcp-method"), Some("tools/call"));
        assert_eq!(get("mcp-name"), Some("odd"));
        assert_eq!(get("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(get("mcp-param-region"), region);
        assert_eq!(get("mcp-session-id"), None);
    }
    rig.close().await;
    let rig = Rig::ready(Way::Http, &["headers"]).await;
    let headers = rig.call("odd", json!({"region": "eu-1"})).await.unwrap().data;
    assert_eq!(headers["mcp-protocol-version"], "2025-11-25");
    assert!(headers["mcp-session-id"].is_string() && headers["mcp-param-region"].is_null());
    rig.close().await;
}

fn http(settings: &mut McpSettings) -> &mut toolpost::mcp::HttpSettings {
    match &mut settings.transport {
        McpTransport::Http(http) => http,
        _ => panic!("it is reached over HTTP"),
    }
}

#[tokio::test]
async fn a_token_or_header_of_the_settings_is_sent() {
    let rows: [(Option<&str>, Option<&str>, Option<&[&str]>); 3] = [
        (Some("good"), None, None),
        (None, Some("Bearer good"), None),
        (Some("bad"), None, Some(&["does not accept the token or header"])),
    ];
    for era in ERAS {
        join_all(rows.map(async |(bearer, header, refused)| {
            let rig = Rig::http(&[era, &["bearer"]].concat(), |settings| {
                http(settings).bearer = bearer.map(Secret::new);
                let header = header.map(|value| ("authorization".to_owned(), Secret::new(value)));
                http(settings).headers.extend(header);
            });
            let ready = rig.source.ready(Duration::from_secs(20)).await;
            match refused {
                None => rig.is_well().await,
                Some(words) => says(ready, "UNAVAILABLE", words),
            }
            rig.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn a_redirect_is_followed_within_the_host_and_never_to_another() {
    join_all(ERAS.map(async |era| {
        let rig = Rig::http(&[era, &["redirect"]].concat(), |settings| {
            http(settings).bearer = Some(Secret::new("secret"));
        });
        let ready = rig.source.ready(Duration::from_secs(20)).await;
        says(ready, "UNAVAILABLE", &["HTTP 307"]);
        assert_eq!(rig.count("elsewhere"), 0);
        rig.close().await;
        let rig = Rig::ready(Way::Http, &[era, &["redirect-within"]].concat()).await;
        rig.is_well().await;
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_server_that_is_none_is_said_to_be_so() {
    let rows: [(&str, &[&str]); 2] = [
        ("html-page", &["text/html instead of JSON"]),
        ("broken-gateway", &["HTTP 502", "Bad gateway"]),
    ];
    join_all(rows.map(async |(behavior, words)| {
        let rig = Rig::http(&[behavior], |_| {});
        says(rig.source.ready(Duration::from_secs(20)).await, "UNAVAILABLE", words);
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_slow_server_answers_many_calls_at_once() {
    for era in ERAS {
        let rig = Rig::ready(Way::Http, &[era, &["slow", "0.5"]].concat()).await;
        let start = Instant::now();
        let calls = (0..40).map(|n| rig.text("echo", json!({"text": n.to_string()})));
        let said = join_all(calls).await;
        assert_eq!(said, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        rig.close().await;
    }
}
