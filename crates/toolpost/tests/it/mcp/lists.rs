//! Odd tools, many tools, changes.

use futures::future::join_all;
use serde_json::json;
use toolpost::mcp::SourceStatus;

use super::rig::{ERAS, Rig, Way, eventually};

#[tokio::test]
async fn odd_tools_are_left_out_or_taken_with_a_warning_and_the_good_ones_are_there() {
    let rig = Rig::stdio(&["odd-tools"], |_| {});
    let found = rig.found().await;
    let warnings = found.warnings.join("\n");
    for words in [
        "no name: {\"inputSchema\"",
        "no name: {\"name\":7}",
        "not an object but \"loose\"",
        "not an object but null",
        "longlonglong",
        "`echo` is listed twice",
        "`bare` has no inputSchema",
        "`wrong` has an inputSchema that is not looked at",
        "`afar` has an inputSchema that is not looked at",
        "`pattern` has an outputSchema that is not looked at",
    ] {
        assert!(warnings.contains(words), "{words}: {warnings}");
    }
    for good in ["bare", "wrong", "afar", "pattern", "echo", "sleep", "odd"] {
        assert!(rig.has(good), "{good}");
    }
    for odd in ["wrong", "afar", "bare", "pattern"] {
        let said = rig.text(odd, json!({"anything": 1})).await;
        assert_eq!(said, format!("called {odd}"));
    }
    let echo = rig.pipeline.registry().catalog().get("x.echo").unwrap().spec().description.clone();
    assert_eq!(echo, "the first");
    rig.close().await;
}

#[tokio::test]
async fn ten_thousand_tools_are_listed_and_found() {
    let rig = Rig::stdio(&["many", "10000"], |_| {});
    let found = rig.found().await;
    assert_eq!((found.tools.len(), found.warnings.len()), (10_000, 0));
    let catalog = rig.pipeline.registry().catalog();
    assert_eq!(catalog.len(), 10_000);
    let hits = catalog.search("invoice 7771", 5);
    assert!(hits.iter().any(|hit| hit.operation.id().as_str() == "x.invoice_7771"), "{hits:?}");
    assert_eq!(rig.text("photo_9998", json!({})).await, "called photo_9998");
    rig.close().await;
}

#[tokio::test]
async fn a_list_without_end_has_one() {
    let rows: [(&str, usize, usize, &str); 3] = [
        ("endless-pages", 50, 50, "only the first 50 tools are taken"),
        ("repeating-pages", 50, 2, "the list of tools repeats itself"),
        ("many", 50, 50, "only the first 50 tools are taken"),
    ];
    join_all(rows.map(async |(behavior, most, taken, words)| {
        let rig = Rig::stdio(&[behavior, "70"], |settings| settings.tools = most);
        let found = rig.found().await;
        assert_eq!(found.tools.len(), taken, "{behavior}");
        assert!(found.warnings.concat().contains(words), "{behavior} {:?}", found.warnings);
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_changed_list_is_followed_in_both_eras_and_ways() {
    let rows = [
        (Way::Stdio, "list-changed", ERAS[0]),
        (Way::Stdio, "list-changed", ERAS[1]),
        (Way::Http, "get-stream", ERAS[0]),
        (Way::Http, "listen", ERAS[1]),
    ];
    join_all(rows.map(async |(way, behavior, era)| {
        let rig = Rig::ready(way, &[era, &[behavior]].concat()).await;
        match (way, era.is_empty()) {
            (Way::Stdio, true) => {}
            (Way::Stdio, false) => rig.scratch.saw("subscriptions/listen", 1).await,
            (Way::Http, _) => rig.scratch.saw("listening", 1).await,
        }
        let revision = rig.pipeline.registry().changes();
        for round in 0..2 {
            rig.text("odd", json!({})).await;
            let new = format!("new_{round}");
            assert!(eventually(|| rig.has(&new)).await, "{way:?} {era:?} {round}");
            assert_eq!(rig.text(&new, json!({})).await, format!("called {new}"));
        }
        // What did not change was not touched, and the source was ready all the time.
        assert!(matches!(*rig.source.status().borrow(), SourceStatus::Ready(_)));
        assert!(revision.has_changed().unwrap());
        // A burst of twenty notifications is read as one change, or as two when it is cut in half.
        let lists = rig.count("tools/list");
        assert!(lists <= 5, "{way:?} {era:?}: {lists} lists");
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_stream_of_changes_that_ends_is_opened_again_and_the_list_is_read() {
    join_all(ERAS.map(async |era| {
        let rig = Rig::ready(Way::Http, &[era, &["ends-streams"]].concat()).await;
        rig.scratch.saw("listening", 1).await;
        rig.text("odd", json!({})).await;
        rig.scratch.saw("listening", 2).await;
        assert!(eventually(|| rig.has("unheard")).await, "{era:?}");
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_change_between_listing_and_listening_is_not_missed() {
    for way in [Way::Stdio, Way::Http] {
        let rig = Rig::ready(way, &["--modern", "plain"]).await;
        let lines = rig.lines();
        let asked = |method: &str| lines.iter().position(|line| line == method).unwrap();
        assert!(asked("subscriptions/listen") < asked("tools/list"), "{way:?}: {lines:?}");
        rig.close().await;
    }
}
