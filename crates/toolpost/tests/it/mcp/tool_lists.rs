//! Malformed tools, long tool lists and list changes.

use futures::future::join_all;
use serde_json::json;
use toolpost::SourceStatus;

use super::fixture::{GENERATIONS, McpFixture, TransportKind, eventually};

#[tokio::test]
async fn malformed_tools_are_skipped_or_imported_with_warning() {
    let fixture = McpFixture::stdio(&["odd-tools"], |_| {});
    let found = fixture.server_info().await;
    let warnings = found.warnings.join("\n");
    for message in [
        "no name: {\"inputSchema\"",
        "no name: {\"name\":7}",
        "not an object but \"loose\"",
        "not an object but null",
        "longlonglong",
        "`echo` is listed twice",
        "`bare` has no inputSchema",
        "`wrong` has an inputSchema that is ignored",
        "`afar` has an inputSchema that is ignored",
        "`pattern` has an outputSchema that is ignored",
    ] {
        assert!(warnings.contains(message), "{message}: {warnings}");
    }
    for good in ["bare", "wrong", "afar", "pattern", "echo", "sleep", "odd"] {
        assert!(fixture.has_tool(good), "{good}");
    }
    for odd in ["wrong", "afar", "bare", "pattern"] {
        let result_text = fixture.text(odd, json!({"anything": 1})).await;
        assert_eq!(result_text, format!("called {odd}"));
    }
    let echo =
        fixture.pipeline.registry().catalog().get("x.echo").unwrap().spec().description.clone();
    assert_eq!(echo, "the first");
    fixture.close().await;
}

#[tokio::test]
async fn ten_thousand_tools_are_listed_and_searchable() {
    let fixture = McpFixture::stdio(&["many", "10000"], |_| {});
    let found = fixture.server_info().await;
    assert_eq!((found.tools.len(), found.warnings.len()), (10_000, 0));
    let catalog = fixture.pipeline.registry().catalog();
    assert_eq!(catalog.len(), 10_000);
    let hits = catalog.search("invoice 7771", 5).hits;
    assert!(hits.iter().any(|hit| hit.operation.id().as_str() == "x.invoice_7771"), "{hits:?}");
    assert_eq!(fixture.text("photo_9998", json!({})).await, "called photo_9998");
    fixture.close().await;
}

#[tokio::test]
async fn endless_tool_list_is_truncated_with_warning() {
    let rows: [(&str, usize, usize, &str); 3] = [
        ("endless-pages", 50, 50, "only the first 50 tools are used"),
        ("repeating-pages", 50, 2, "the tool list repeats a cursor; the rest is skipped"),
        ("many", 50, 50, "only the first 50 tools are used"),
    ];
    join_all(rows.map(async |(behavior, most, taken, message)| {
        let fixture = McpFixture::stdio(&[behavior, "70"], |settings| settings.max_tools = most);
        let found = fixture.server_info().await;
        assert_eq!(found.tools.len(), taken, "{behavior}");
        assert!(found.warnings.concat().contains(message), "{behavior} {:?}", found.warnings);
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn list_changed_reloads_tools_on_all_transports() {
    let rows = [
        (TransportKind::Stdio, "list-changed", GENERATIONS[0]),
        (TransportKind::Stdio, "list-changed", GENERATIONS[1]),
        (TransportKind::Http, "get-stream", GENERATIONS[0]),
        (TransportKind::Http, "listen", GENERATIONS[1]),
    ];
    join_all(rows.map(async |(transport_kind, behavior, generation)| {
        let fixture = McpFixture::ready(transport_kind, &[generation, &[behavior]].concat()).await;
        match (transport_kind, generation.is_empty()) {
            (TransportKind::Stdio, true) => {}
            (TransportKind::Stdio, false) => {
                fixture.scratch.wait_for_line("subscriptions/listen", 1).await;
            }
            (TransportKind::Http, _) => fixture.scratch.wait_for_line("listening", 1).await,
        }
        let revision = fixture.pipeline.registry().watch_changes();
        for round in 0..2 {
            fixture.text("odd", json!({})).await;
            let new = format!("new_{round}");
            assert!(
                eventually(|| fixture.has_tool(&new)).await,
                "{transport_kind:?} {generation:?} {round}"
            );
            assert_eq!(fixture.text(&new, json!({})).await, format!("called {new}"));
        }
        // The source stays ready during the reloads.
        assert!(matches!(*fixture.source.status().borrow(), SourceStatus::Ready(_)));
        assert!(revision.has_changed().unwrap());
        // A burst of twenty notifications causes one reload, or two if the burst is split.
        let lists = fixture.count("tools/list");
        assert!(lists <= 5, "{transport_kind:?} {generation:?}: {lists} lists");
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn list_change_stream_reconnects_and_reloads_tools() {
    join_all(GENERATIONS.map(async |generation| {
        let fixture =
            McpFixture::ready(TransportKind::Http, &[generation, &["ends-streams"]].concat()).await;
        fixture.scratch.wait_for_line("listening", 1).await;
        fixture.text("odd", json!({})).await;
        fixture.scratch.wait_for_line("listening", 2).await;
        assert!(eventually(|| fixture.has_tool("unheard")).await, "{generation:?}");
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn list_changes_are_subscribed_before_tools_are_listed() {
    for transport_kind in [TransportKind::Stdio, TransportKind::Http] {
        let fixture = McpFixture::ready(transport_kind, &["--modern", "plain"]).await;
        let lines = fixture.lines();
        let position_of = |method: &str| lines.iter().position(|line| line == method).unwrap();
        assert!(
            position_of("subscriptions/listen") < position_of("tools/list"),
            "{transport_kind:?}: {lines:?}"
        );
        fixture.close().await;
    }
}
