//! Servers that die, and what is repeated.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use toolpost::mcp::{McpSettings, SourceStatus};

use super::rig::{ERAS, Rig, Way, id, says};

#[tokio::test]
async fn a_mutation_that_was_lost_is_never_repeated_and_what_only_reads_is_once() {
    for era in ERAS {
        join_all(["count_mutation", "count_query", "count_idempotent"].map(async |tool| {
            let rig = Rig::ready(Way::Stdio, &[era, &["plain"]].concat()).await;
            // A reading call beside it is repeated too, and its caller does not notice.
            let other = rig.call("sleep", json!({"seconds": 0.5}));
            let (called, slept) = tokio::join!(rig.call(tool, json!({})), other);
            assert_eq!(slept.unwrap().data[0]["text"], "slept");
            match tool {
                "count_mutation" => {
                    let error = called.unwrap_err();
                    assert!(error.may_have_run() && !error.is_retryable(), "{error:?}");
                    says::<()>(
                        Err(error),
                        "UNAVAILABLE",
                        &["`x`", "code 7", "the disk is on fire"],
                    );
                    assert_eq!(rig.count(tool), 1);
                }
                _ => {
                    assert_eq!(called.unwrap().data[0]["text"], "2");
                    assert_eq!(rig.count(tool), 2);
                }
            }
            rig.comes_back().await;
            rig.is_well().await;
            rig.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn a_query_that_kills_its_server_is_repeated_only_once() {
    let rig = Rig::ready(Way::Stdio, &["crash-query"]).await;
    let error = rig.call("odd", json!({})).await.unwrap_err();
    assert!(error.is_retryable() && !error.may_have_run(), "{error:?}");
    says::<()>(Err(error), "UNAVAILABLE", &["`x`", "SIGABRT"]);
    assert_eq!(rig.count("tools/call"), 2);
    rig.comes_back().await;
    rig.is_well().await;
    rig.close().await;
}

#[tokio::test]
async fn the_end_of_a_server_is_told_to_its_callers_and_it_comes_back() {
    let rows = [
        ("crash", "was killed by SIGABRT"),
        ("mid-line", "exited with code 0"),
        ("closes-output", "closed its output"),
    ];
    for era in ERAS {
        join_all(rows.map(async |(behavior, words)| {
            let rig = Rig::ready(Way::Stdio, &[era, &[behavior]].concat()).await;
            let error = rig.call("odd", json!({})).await.unwrap_err();
            assert!(error.may_have_run(), "{behavior}");
            says::<()>(Err(error), "UNAVAILABLE", &["`x`", words]);
            rig.comes_back().await;
            rig.is_well().await;
            assert_eq!(rig.lines().iter().filter(|line| line.starts_with("pid")).count(), 2);
            rig.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn while_a_server_is_away_its_operations_are_offline_and_calls_are_safe_to_repeat() {
    let pause = Duration::from_secs(2);
    let rig = Rig::stdio(&["crash"], |settings| settings.restart = (pause, pause));
    rig.found().await;
    rig.call("odd", json!({})).await.unwrap_err();
    rig.becomes(|status| matches!(status, SourceStatus::Down { .. })).await;
    let catalog = rig.pipeline.registry().catalog();
    assert!(catalog.get(&id("odd")).unwrap().is_offline());
    let error = rig.call("odd", json!({})).await.unwrap_err();
    assert!(error.is_retryable() && !error.may_have_run(), "{error:?}");
    says::<()>(Err(error), "UNAVAILABLE", &["`x`: offline", "SIGABRT"]);
    rig.becomes(|status| matches!(status, SourceStatus::Ready(_))).await;
    assert!(!rig.pipeline.registry().catalog().get(&id("odd")).unwrap().is_offline());
    rig.is_well().await;
    rig.close().await;
}

#[tokio::test]
async fn nothing_is_left_of_a_server_with_children() {
    let rig = Rig::ready(Way::Stdio, &["fork"]).await;
    rig.is_well().await;
    assert_eq!(rig.lines().iter().filter(|line| line.starts_with("pid")).count(), 3);
    rig.close().await;
}

#[tokio::test]
async fn a_server_that_is_started_again_at_its_address_is_found_by_the_next_call() {
    join_all(ERAS.map(async |era| {
        let mut rig = Rig::ready(Way::Http, &[era, &["plain"]].concat()).await;
        let port = rig.end_server().to_string();
        rig.start_server(&[era, &["--port", &port, "plain"]].concat());
        rig.is_well().await;
        assert_eq!(rig.text("odd", json!({})).await, "plain", "{era:?}");
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_said_to_be_so() {
    join_all(ERAS.map(async |era| {
        let often = Duration::from_millis(100);
        let settle = |settings: &mut McpSettings| settings.restart = (often, often);
        let mut rig = Rig::http(&[era, &["plain"]].concat(), settle);
        rig.found().await;
        let port = rig.end_server().to_string();
        let error = rig.call("echo", json!({})).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        says::<()>(Err(error), "UNAVAILABLE", &["`x`", "cannot be reached"]);
        let error = rig.call("odd", json!({})).await.unwrap_err();
        assert!(error.is_retryable() && !error.may_have_run(), "{error:?}");
        says::<()>(Err(error), "UNAVAILABLE", &["`x`: offline", "cannot be reached"]);
        rig.start_server(&[era, &["--port", &port, "plain"]].concat());
        rig.becomes(|status| matches!(status, SourceStatus::Ready(_))).await;
        rig.is_well().await;
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_made_anew_without_the_caller() {
    let rig = Rig::ready(Way::Http, &["forgets"]).await;
    rig.text("odd", json!({})).await;
    rig.text("odd", json!({})).await;
    rig.is_well().await;
    assert_eq!(rig.count("initialize"), 3);
    rig.close().await;
}
