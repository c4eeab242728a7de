//! Servers that exit, and what is retried.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use toolpost::SourceStatus;
use toolpost::mcp::McpSettings;

use super::fixture::{GENERATIONS, McpFixture, TransportKind, assert_error, operation_id};

#[tokio::test]
async fn crash_retries_queries_once_and_mutations_never() {
    for generation in GENERATIONS {
        join_all(["count_mutation", "count_query", "count_idempotent"].map(async |tool| {
            let fixture =
                McpFixture::ready(TransportKind::Stdio, &[generation, &["plain"]].concat()).await;
            // A concurrent query is retried too, and succeeds.
            let other = fixture.call("sleep", json!({"seconds": 0.5}));
            let (called, slept) = tokio::join!(fixture.call(tool, json!({})), other);
            assert_eq!(slept.unwrap().data[0]["text"], "slept");
            match tool {
                "count_mutation" => {
                    let error = called.unwrap_err();
                    assert!(error.may_have_run() && !error.is_retryable(), "{error:?}");
                    assert_error::<()>(
                        Err(error),
                        "UNAVAILABLE",
                        &["`x`", "code 7", "the disk is on fire"],
                    );
                    assert_eq!(fixture.count(tool), 1);
                }
                _ => {
                    assert_eq!(called.unwrap().data[0]["text"], "2");
                    assert_eq!(fixture.count(tool), 2);
                }
            }
            fixture.wait_reconnected().await;
            fixture.assert_responsive().await;
            fixture.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn query_that_crashes_server_is_retried_once() {
    let fixture = McpFixture::ready(TransportKind::Stdio, &["crash-query"]).await;
    let error = fixture.call("odd", json!({})).await.unwrap_err();
    assert!(error.is_retryable() && !error.may_have_run(), "{error:?}");
    assert_error::<()>(Err(error), "UNAVAILABLE", &["`x`", "SIGABRT"]);
    assert_eq!(fixture.count("tools/call"), 2);
    fixture.wait_reconnected().await;
    fixture.assert_responsive().await;
    fixture.close().await;
}

#[tokio::test]
async fn server_exit_fails_calls_and_restarts_server() {
    let rows = [
        ("crash", "was killed by SIGABRT"),
        ("mid-line", "exited with code 0"),
        ("closes-output", "closed its output"),
    ];
    for generation in GENERATIONS {
        join_all(rows.map(async |(behavior, message)| {
            let fixture =
                McpFixture::ready(TransportKind::Stdio, &[generation, &[behavior]].concat()).await;
            let error = fixture.call("odd", json!({})).await.unwrap_err();
            assert!(error.may_have_run(), "{behavior}");
            assert_error::<()>(Err(error), "UNAVAILABLE", &["`x`", message]);
            fixture.wait_reconnected().await;
            fixture.assert_responsive().await;
            assert_eq!(fixture.lines().iter().filter(|line| line.starts_with("pid")).count(), 2);
            fixture.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn down_server_takes_operations_offline_with_retryable_errors() {
    let pause = Duration::from_secs(6);
    let fixture = McpFixture::stdio(&["crash"], |settings| settings.restart = (pause, pause));
    fixture.server_info().await;
    fixture.call("odd", json!({})).await.unwrap_err();
    fixture.wait_status(|status| matches!(status, SourceStatus::Down { .. })).await;
    let catalog = fixture.pipeline.registry().catalog();
    assert!(catalog.get(&operation_id("odd")).unwrap().is_offline());
    let error = fixture.call("odd", json!({})).await.unwrap_err();
    assert!(error.is_retryable() && !error.may_have_run(), "{error:?}");
    assert_error::<()>(Err(error), "UNAVAILABLE", &["`x`: offline", "SIGABRT"]);
    fixture.wait_status(|status| matches!(status, SourceStatus::Ready(_))).await;
    assert!(!fixture.pipeline.registry().catalog().get(&operation_id("odd")).unwrap().is_offline());
    fixture.assert_responsive().await;
    fixture.close().await;
}

#[tokio::test]
async fn closing_source_terminates_server_child_processes() {
    let fixture = McpFixture::ready(TransportKind::Stdio, &["fork"]).await;
    fixture.assert_responsive().await;
    assert_eq!(fixture.lines().iter().filter(|line| line.starts_with("pid")).count(), 3);
    fixture.close().await;
}

#[tokio::test]
async fn restarted_http_server_is_reconnected_by_next_call() {
    join_all(GENERATIONS.map(async |generation| {
        let mut fixture =
            McpFixture::ready(TransportKind::Http, &[generation, &["plain"]].concat()).await;
        let port = fixture.stop_server().to_string();
        fixture.start_server(&[generation, &["--port", &port, "plain"]].concat());
        fixture.assert_responsive().await;
        assert_eq!(fixture.text("odd", json!({})).await, "plain", "{generation:?}");
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn unreachable_http_server_returns_unavailable() {
    join_all(GENERATIONS.map(async |generation| {
        let often = Duration::from_millis(100);
        let configure = |settings: &mut McpSettings| settings.restart = (often, often);
        let mut fixture = McpFixture::http(&[generation, &["plain"]].concat(), configure);
        fixture.server_info().await;
        let port = fixture.stop_server().to_string();
        let error = fixture.call("echo", json!({})).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        assert_error::<()>(Err(error), "UNAVAILABLE", &["`x`", "cannot be reached"]);
        let error = fixture.call("odd", json!({})).await.unwrap_err();
        assert!(error.is_retryable() && !error.may_have_run(), "{error:?}");
        assert_error::<()>(Err(error), "UNAVAILABLE", &["`x`: offline", "cannot be reached"]);
        fixture.start_server(&[generation, &["--port", &port, "plain"]].concat());
        fixture.wait_status(|status| matches!(status, SourceStatus::Ready(_))).await;
        fixture.assert_responsive().await;
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn expired_http_session_is_reinitialized_transparently() {
    let fixture = McpFixture::ready(TransportKind::Http, &["forgets"]).await;
    fixture.text("odd", json!({})).await;
    fixture.text("odd", json!({})).await;
    fixture.assert_responsive().await;
    assert_eq!(fixture.count("initialize"), 3);
    fixture.close().await;
}
