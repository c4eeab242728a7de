//! Cancellation, deadlines, silence and progress.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use toolpost::{Authority, CallRequest, Progress, ProgressSender};

use super::rig::{Rig, Way, combinations, id, says};

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    join_all(combinations().into_iter().map(async |(way, era)| {
        let rig = Rig::ready(way, &[era, &["plain"]].concat()).await;
        let operation = id("sleep");
        let request = || CallRequest::new(&operation, json!({"seconds": 30}));

        let call = rig.pipeline.call(request(), Authority::outside(None));
        let (abort, mut call) = (call.abort_handle(), Box::pin(call));
        tokio::select! {
            ended = &mut call => panic!("{ended:?}"),
            () = rig.scratch.saw("sleeps", 1) => abort.abort("enough"),
        }
        says(call.await, "ABORTED", &[]);
        rig.scratch.saw("sleep canceled", 1).await;

        let call = rig.pipeline.call(request(), Authority::outside(None));
        tokio::select! {
            ended = call => panic!("{ended:?}"),
            () = rig.scratch.saw("sleeps", 2) => {}
        }
        rig.scratch.saw("sleep canceled", 2).await;

        let request = request().timeout(Duration::from_millis(400));
        says(rig.pipeline.call(request, Authority::outside(None)).await, "TIMEOUT", &[]);
        rig.scratch.saw("sleep canceled", 3).await;

        // A server of the later era sees on its own that nobody listens over HTTP.
        let is_told = way == Way::Stdio || era.is_empty();
        if is_told {
            // A server that sees the connection close may notice that first.
            rig.scratch.saw("notifications/cancelled", 3).await;
        }
        let told = rig.count("notifications/cancelled");
        assert_eq!(told, if is_told { 3 } else { 0 }, "{way:?} {era:?}");
        rig.is_well().await;
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_call_that_was_answered_is_not_cancelled() {
    join_all(combinations().into_iter().map(async |(way, era)| {
        let rig = Rig::ready(way, &[era, &["plain"]].concat()).await;
        rig.is_well().await;
        rig.call("sleep", json!({"seconds": 0.1, "progress": true})).await.unwrap();
        rig.is_well().await;
        assert_eq!(rig.count("notifications/cancelled"), 0, "{way:?} {era:?}");
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn silence_ends_a_call_progress_prolongs_it_and_there_is_a_most() {
    let rows = [
        (2.0, false, Some("no sign of progress for 700ms")),
        (1.2, true, None),
        (9.0, true, Some("within 2.5s, which is the most")),
    ];
    join_all(combinations().into_iter().map(async |(way, era)| {
        let settle = |settings: &mut toolpost::mcp::McpSettings| {
            settings.timeout = Duration::from_millis(700);
            settings.max_timeout = Duration::from_millis(2500);
        };
        let arguments = [era, &["plain"]].concat();
        let rig = match way {
            Way::Stdio => Rig::stdio(&arguments, settle),
            Way::Http => Rig::http(&arguments, settle),
        };
        rig.found().await;
        join_all(rows.map(async |(seconds, progress, expected)| {
            let start = Instant::now();
            let input = json!({"seconds": seconds, "progress": progress});
            let ended = rig.call("sleep", input).await;
            match expected {
                None => assert_eq!(ended.unwrap().data[0]["text"], "slept"),
                Some(words) => says(ended, "TIMEOUT", &["`x`", words]),
            }
            assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        }))
        .await;
        rig.scratch.saw("sleep canceled", 2).await;
        rig.is_well().await;
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn progress_reaches_the_caller_in_order() {
    join_all(combinations().into_iter().map(async |(way, era)| {
        let rig = Rig::ready(way, &[era, &["plain"]].concat()).await;
        let (sender, mut reports) = tokio::sync::mpsc::channel(16);
        let operation = id("sleep");
        let request = CallRequest::new(&operation, json!({"seconds": 0.3, "progress": true}));
        let request = request.progress(ProgressSender::new(sender));
        rig.pipeline.call(request, Authority::outside(None)).await.unwrap();
        let mut all = Vec::new();
        while let Ok(report) = reports.try_recv() {
            all.push(report);
        }
        let expected = [0.0, 1.0, 2.0].map(|step| Progress::new(step).of(3.0));
        assert_eq!(all, expected, "{way:?} {era:?}");
        rig.close().await;
    }))
    .await;
}
