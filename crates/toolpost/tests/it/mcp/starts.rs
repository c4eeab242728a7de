//! Eras, versions, servers that are slow, silent, or gone.

use std::time::{Duration, Instant};

use futures::future::join_all;
use toolpost::mcp::{McpTransport, SourceStatus, StdioSettings};

use super::rig::{Rig, Scratch, Way, says};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn every_server_that_can_be_understood_is() {
    // What the server gets to see on the way shows that the way was the intended one.
    let rows: &[(&[&str], &str, &[&str])] = &[
        (&["plain"], "2025-11-25", &["server/discover", "initialize"]),
        (&["--version", "2024-11-05", "plain"], "2024-11-05", &["server/discover", "initialize"]),
        (&["--version", "2025-03-26", "plain"], "2025-03-26", &["server/discover", "initialize"]),
        (&["--version", "2025-06-18", "plain"], "2025-06-18", &["server/discover", "initialize"]),
        (&["--modern", "plain"], "2026-07-28", &["server/discover"]),
        (&["silent-discover"], "2025-11-25", &["server/discover", "initialize"]),
        (&["exits-on-discover"], "2025-11-25", &["server/discover", "pid", "initialize"]),
        // Longer than a client that loses patience after ten seconds would wait.
        (&["slow", "15"], "2025-11-25", &["server/discover", "initialize"]),
        (&["--modern", "slow", "15"], "2026-07-28", &["server/discover", "initialize"]),
        (&["slow-exits-on-discover", "4"], "2025-11-25", &["server/discover", "pid", "initialize"]),
        (&["banner"], "2025-11-25", &["server/discover", "initialize"]),
        (&["string-ids"], "2025-11-25", &["server/discover", "initialize"]),
        (&["--modern", "string-ids"], "2026-07-28", &["server/discover"]),
    ];
    join_all(rows.iter().map(async |(arguments, version, way)| {
        let rig = Rig::stdio(arguments, |_| {});
        assert_eq!(rig.found().await.protocol, *version, "{arguments:?}");
        rig.is_well().await;
        let lines = rig.lines();
        let first = lines.iter().filter(|line| *line != "starts").skip(1);
        let first = first.map(|line| line.split(' ').next().unwrap());
        let first: Vec<_> = first.take(way.len()).collect();
        assert_eq!(first, *way, "{arguments:?}");
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_why() {
    let rows: &[(&[&str], u64, &[&str])] = &[
        (&["silent"], 2, &["no answer within 2s"]),
        (&["silent-list"], 6, &["no answer within 6s"]),
        (&["dies"], 30, &["exited with code 1", "ODD_KEY is not set"]),
        (&["--version", "2031-01-01", "plain"], 30, &["unknown version 2031-01-01"]),
        (&["refuses"], 30, &["no license"]),
        (&["no-list"], 30, &["the list of tools cannot be read"]),
        (&["plain", "no-number"], 30, &["exited with code 2", "invalid float value"]),
    ];
    join_all(rows.iter().map(async |(arguments, patience, words)| {
        let rig = Rig::stdio(arguments, |settings| settings.start_timeout = seconds(*patience));
        says(rig.source.ready(seconds(30)).await, "UNAVAILABLE", words);
        let called = rig.call("echo", serde_json::json!({})).await;
        says(called, "UNAVAILABLE", &["`x` is not there yet"]);
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let stdio = StdioSettings::new("no-such-program-anywhere", ["--flag"]);
    let rig = Rig::over(McpTransport::Stdio(stdio), Scratch::new(), None, |_| {});
    let words = ["no-such-program-anywhere"];
    says(rig.source.ready(seconds(10)).await, "UNAVAILABLE", &words);
    rig.close().await;
}

#[tokio::test]
async fn a_source_that_takes_too_long_for_the_one_who_waits_goes_on_starting() {
    let rig = Rig::stdio(&["slow", "1"], |_| {});
    says(rig.source.ready(Duration::from_millis(50)).await, "TIMEOUT", &["50ms"]);
    rig.found().await;
    rig.is_well().await;
    rig.close().await;
}

#[tokio::test]
async fn a_settled_version_is_the_only_one_that_is_tried() {
    let rows: &[(&[&str], &str, Option<&str>, &str)] = &[
        (&["plain"], "2025-11-25", Some("2025-11-25"), "initialize"),
        (&["--version", "2025-06-18", "plain"], "2025-06-18", Some("2025-06-18"), "initialize"),
        (&["--modern", "plain"], "2026-07-28", Some("2026-07-28"), "server/discover"),
        (&["plain"], "2026-07-28", None, "server/discover"),
        (&["--modern", "plain"], "2025-11-25", None, "initialize"),
    ];
    join_all(rows.iter().map(async |(arguments, settled, expected, method)| {
        let rig = Rig::stdio(arguments, |settings| settings.protocol = Some((*settled).to_owned()));
        let found = rig.source.ready(seconds(20)).await.ok();
        let row = format!("{arguments:?} {settled}");
        assert_eq!(found.as_ref().map(|found| &*found.protocol), *expected, "{row}");
        assert_eq!(rig.lines()[2], *method, "{row}");
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn what_a_server_speaks_is_remembered_when_it_comes_back() {
    for (arguments, again) in [
        (&["plain"][..], ["initialize", "notifications/initialized"]),
        (&["exits-on-discover"], ["initialize", "notifications/initialized"]),
        (&["--modern", "plain"], ["server/discover", "subscriptions/listen"]),
    ] {
        let rig = Rig::stdio(arguments, |_| {});
        rig.found().await;
        says(rig.call("count_mutation", serde_json::json!({})).await, "UNAVAILABLE", &["code 7"]);
        rig.becomes(|status| !matches!(status, SourceStatus::Ready(_))).await;
        rig.becomes(|status| matches!(status, SourceStatus::Ready(_))).await;
        let lines = rig.lines();
        let start = lines.iter().rposition(|line| line.starts_with("pid")).unwrap();
        assert_eq!(lines[start + 2..start + 4], again, "{arguments:?}");
        rig.close().await;
    }
}

#[tokio::test]
async fn a_source_can_be_closed_at_any_moment() {
    let rows: [(Way, &[&str], &str, usize); 6] = [
        (Way::Stdio, &["silent"], "server/discover", 0),
        (Way::Stdio, &["silent-list"], "tools/list", 0),
        (Way::Stdio, &["--modern", "silent-list"], "tools/list", 0),
        (Way::Stdio, &["slow", "30"], "starts", 0),
        (Way::Http, &["silent-list"], "listening", 1),
        (Way::Http, &["--modern", "silent-list"], "tools/list", 0),
    ];
    join_all(rows.map(async |(way, arguments, seen, deleted)| {
        let rig = match way {
            Way::Stdio => Rig::stdio(arguments, |_| {}),
            Way::Http => Rig::http(arguments, |_| {}),
        };
        rig.scratch.saw(seen, 1).await;
        let start = Instant::now();
        rig.close_and_look(|scratch| {
            assert_eq!(scratch.count("DELETE"), deleted, "{way:?} {arguments:?}");
        })
        .await;
        assert!(start.elapsed() < seconds(10), "{way:?} {arguments:?} {:?}", start.elapsed());
    }))
    .await;
}

#[tokio::test]
async fn a_call_in_flight_is_told_that_its_source_was_closed() {
    join_all([Way::Stdio, Way::Http].map(async |way| {
        let rig = Rig::ready(way, &["plain"]).await;
        let pipeline = rig.pipeline.clone();
        let calling = pipeline.execute("x.sleep", serde_json::json!({"seconds": 30}));
        let closing = async {
            rig.scratch.saw("sleeps", 1).await;
            let start = Instant::now();
            rig.close().await;
            start
        };
        let (called, start) = tokio::join!(calling, closing);
        says(called, "UNAVAILABLE", &["`x`"]);
        // It may be repeated, but nobody comes back to repeat it on.
        assert!(start.elapsed() < seconds(8), "{way:?} {:?}", start.elapsed());
    }))
    .await;
}
