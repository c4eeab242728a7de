//! Protocol generations and versions; slow, silent and missing servers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use toolpost::SourceStatus;
use toolpost::mcp::{McpTransport, StdioSettings};

use super::fixture::{McpFixture, ScratchDir, TransportKind, assert_error};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn handshake_succeeds_for_every_supported_version() {
    // Each row: server arguments, negotiated version, and the first lines that the server logs.
    let rows: &[(&[&str], &str, &[&str])] = &[
        (&["plain"], "2025-11-25", &["ping", "initialize"]),
        (&["--version", "2024-11-05", "plain"], "2024-11-05", &["ping", "initialize"]),
        (&["--version", "2025-03-26", "plain"], "2025-03-26", &["ping", "initialize"]),
        (&["--version", "2025-06-18", "plain"], "2025-06-18", &["ping", "initialize"]),
        (&["--modern", "plain"], "2026-07-28", &["ping", "server/discover"]),
        (&["no-ping"], "2025-11-25", &["ping", "server/discover", "initialize"]),
        (&["silent-ping"], "2025-11-25", &["ping", "initialize"]),
        (&["exits-on-ping"], "2025-11-25", &["ping", "pid", "initialize"]),
        // The start takes longer than a timeout of ten seconds.
        (&["slow", "15"], "2025-11-25", &["ping", "initialize"]),
        (&["--modern", "slow", "15"], "2026-07-28", &["ping", "initialize", "server/discover"]),
        (&["slow-exits-on-ping", "4"], "2025-11-25", &["ping", "pid", "initialize"]),
        (&["banner"], "2025-11-25", &["ping", "initialize"]),
        (&["string-ids"], "2025-11-25", &["ping", "initialize"]),
        (&["--modern", "string-ids"], "2026-07-28", &["ping", "server/discover"]),
    ];
    join_all(rows.iter().map(async |(arguments, version, methods)| {
        let fixture = McpFixture::stdio(arguments, |_| {});
        assert_eq!(fixture.server_info().await.protocol, *version, "{arguments:?}");
        fixture.assert_responsive().await;
        let lines = fixture.lines();
        let first = lines.iter().filter(|line| *line != "starts").skip(1);
        let first = first.map(|line| line.split(' ').next().unwrap());
        let first: Vec<_> = first.take(methods.len()).collect();
        assert_eq!(first, *methods, "{arguments:?}");
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn unusable_server_reports_reason() {
    let rows: &[(&[&str], u64, &[&str])] = &[
        (&["silent"], 2, &["no response within 2s"]),
        (&["silent-list"], 6, &["no response within 6s"]),
        (&["dies"], 30, &["exited with code 1", "ODD_KEY is not set"]),
        (&["--version", "2031-01-01", "plain"], 30, &["unsupported version 2031-01-01"]),
        (&["refuses"], 30, &["no license"]),
        (&["no-list"], 30, &["the tool list cannot be read"]),
        (&["plain", "no-number"], 30, &["exited with code 2", "invalid float value"]),
    ];
    join_all(rows.iter().map(async |(arguments, timeout, message)| {
        let fixture =
            McpFixture::stdio(arguments, |settings| settings.start_timeout = seconds(*timeout));
        assert_error(fixture.source.ready(seconds(30)).await, "UNAVAILABLE", message);
        let called = fixture.call("echo", serde_json::json!({})).await;
        assert_error(called, "UNAVAILABLE", &["`x` is not ready yet"]);
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn missing_program_is_named_in_error() {
    let stdio = StdioSettings::new("no-such-program-anywhere", ["--flag"]);
    let fixture =
        McpFixture::with_transport(McpTransport::Stdio(stdio), ScratchDir::new(), None, |_| {});
    let message = ["no-such-program-anywhere"];
    assert_error(fixture.source.ready(seconds(10)).await, "UNAVAILABLE", &message);
    fixture.close().await;
}

#[tokio::test]
async fn ready_timeout_does_not_stop_startup() {
    let fixture = McpFixture::stdio(&["slow", "1"], |_| {});
    assert_error(fixture.source.ready(Duration::from_millis(50)).await, "TIMEOUT", &["50ms"]);
    fixture.server_info().await;
    fixture.assert_responsive().await;
    fixture.close().await;
}

#[tokio::test]
async fn pinned_protocol_version_is_the_only_one_tried() {
    let rows: &[(&[&str], &str, Option<&str>, &str)] = &[
        (&["plain"], "2025-11-25", Some("2025-11-25"), "initialize"),
        (&["--version", "2025-06-18", "plain"], "2025-06-18", Some("2025-06-18"), "initialize"),
        (&["--modern", "plain"], "2026-07-28", Some("2026-07-28"), "server/discover"),
        (&["plain"], "2026-07-28", None, "server/discover"),
        (&["--modern", "plain"], "2025-11-25", None, "initialize"),
    ];
    join_all(rows.iter().map(async |(arguments, pinned, expected, method)| {
        let fixture =
            McpFixture::stdio(arguments, |settings| settings.protocol = Some((*pinned).to_owned()));
        let found = fixture.source.ready(seconds(20)).await.ok();
        let row = format!("{arguments:?} {pinned}");
        assert_eq!(found.as_ref().map(|found| &*found.protocol), *expected, "{row}");
        assert_eq!(fixture.lines()[2], *method, "{row}");
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn reconnect_reuses_known_protocol_generation() {
    for (arguments, again) in [
        (&["plain"][..], ["initialize", "notifications/initialized"]),
        (&["exits-on-ping"], ["initialize", "notifications/initialized"]),
        (&["--modern", "plain"], ["server/discover", "subscriptions/listen"]),
    ] {
        let fixture = McpFixture::stdio(arguments, |_| {});
        fixture.server_info().await;
        assert_error(
            fixture.call("count_mutation", serde_json::json!({})).await,
            "UNAVAILABLE",
            &["code 7"],
        );
        fixture.wait_status(|status| !matches!(status, SourceStatus::Ready(_))).await;
        fixture.wait_status(|status| matches!(status, SourceStatus::Ready(_))).await;
        let lines = fixture.lines();
        let start = lines.iter().rposition(|line| line.starts_with("pid")).unwrap();
        assert_eq!(lines[start + 2..start + 4], again, "{arguments:?}");
        fixture.close().await;
    }
}

#[tokio::test]
async fn source_can_be_closed_during_startup() {
    let rows: [(TransportKind, &[&str], &str, usize); 6] = [
        (TransportKind::Stdio, &["silent"], "ping", 0),
        (TransportKind::Stdio, &["silent-list"], "tools/list", 0),
        (TransportKind::Stdio, &["--modern", "silent-list"], "tools/list", 0),
        (TransportKind::Stdio, &["slow", "30"], "starts", 0),
        (TransportKind::Http, &["silent-list"], "listening", 1),
        (TransportKind::Http, &["--modern", "silent-list"], "tools/list", 0),
    ];
    join_all(rows.map(async |(transport_kind, arguments, seen, deleted)| {
        let fixture = match transport_kind {
            TransportKind::Stdio => McpFixture::stdio(arguments, |_| {}),
            TransportKind::Http => McpFixture::http(arguments, |_| {}),
        };
        fixture.scratch.wait_for_line(seen, 1).await;
        let start = Instant::now();
        fixture
            .close_and_inspect(|scratch| {
                assert_eq!(scratch.count("DELETE"), deleted, "{transport_kind:?} {arguments:?}");
            })
            .await;
        assert!(
            start.elapsed() < seconds(10),
            "{transport_kind:?} {arguments:?} {:?}",
            start.elapsed()
        );
    }))
    .await;
}

#[tokio::test]
async fn closing_source_fails_calls_in_flight() {
    join_all([TransportKind::Stdio, TransportKind::Http].map(async |transport_kind| {
        let fixture = McpFixture::ready(transport_kind, &["plain"]).await;
        let pipeline = fixture.pipeline.clone();
        let calling = pipeline.call_trusted("x.sleep", serde_json::json!({"seconds": 30}));
        let closing = async {
            fixture.scratch.wait_for_line("sleeps", 1).await;
            let start = Instant::now();
            fixture.close().await;
            start
        };
        let (called, start) = tokio::join!(calling, closing);
        assert_error(called, "UNAVAILABLE", &["`x`"]);
        // The call can be retried, but no new session follows, so it fails without waiting for one.
        assert!(start.elapsed() < seconds(8), "{transport_kind:?} {:?}", start.elapsed());
    }))
    .await;
}
