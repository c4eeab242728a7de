//! Cancellation, deadlines, idle timeouts and progress.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use toolpost::{Authority, CallRequest, Progress, ProgressSender};

use super::fixture::{McpFixture, TransportKind, assert_error, operation_id, transport_matrix};

#[tokio::test]
async fn aborted_dropped_or_timed_out_call_is_canceled_at_server() {
    join_all(transport_matrix().into_iter().map(async |(transport_kind, generation)| {
        let fixture = McpFixture::ready(transport_kind, &[generation, &["plain"]].concat()).await;
        let operation = operation_id("sleep");
        let request = || CallRequest::new(&operation, json!({"seconds": 30}));

        let call = fixture.pipeline.call(request(), Authority::untrusted(None));
        let (abort, mut call) = (call.abort_handle(), Box::pin(call));
        tokio::select! {
            ended = &mut call => panic!("{ended:?}"),
            () = fixture.scratch.wait_for_line("sleeps", 1) => abort.abort("enough"),
        }
        assert_error(call.await, "ABORTED", &[]);
        fixture.scratch.wait_for_line("sleep canceled", 1).await;

        let call = fixture.pipeline.call(request(), Authority::untrusted(None));
        tokio::select! {
            ended = call => panic!("{ended:?}"),
            () = fixture.scratch.wait_for_line("sleeps", 2) => {}
        }
        fixture.scratch.wait_for_line("sleep canceled", 2).await;

        let request = request().timeout(Duration::from_millis(400));
        assert_error(
            fixture.pipeline.call(request, Authority::untrusted(None)).await,
            "TIMEOUT",
            &[],
        );
        fixture.scratch.wait_for_line("sleep canceled", 3).await;

        // Over HTTP, a modern server detects the cancellation by the closed stream.
        let is_notified = transport_kind == TransportKind::Stdio || generation.is_empty();
        if is_notified {
            // The server may detect the closed connection before it receives the notification.
            fixture.scratch.wait_for_line("notifications/cancelled", 3).await;
        }
        let notifications = fixture.count("notifications/cancelled");
        assert_eq!(
            notifications,
            if is_notified { 3 } else { 0 },
            "{transport_kind:?} {generation:?}"
        );
        fixture.assert_responsive().await;
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn completed_call_sends_no_cancellation() {
    join_all(transport_matrix().into_iter().map(async |(transport_kind, generation)| {
        let fixture = McpFixture::ready(transport_kind, &[generation, &["plain"]].concat()).await;
        fixture.assert_responsive().await;
        fixture.call("sleep", json!({"seconds": 0.1, "progress": true})).await.unwrap();
        fixture.assert_responsive().await;
        assert_eq!(
            fixture.count("notifications/cancelled"),
            0,
            "{transport_kind:?} {generation:?}"
        );
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn progress_extends_idle_timeout_up_to_max_timeout() {
    let rows = [
        (2.0, false, Some("no progress for 700ms")),
        (1.2, true, None),
        (9.0, true, Some("within 2.5s, the maximum allowed")),
    ];
    join_all(transport_matrix().into_iter().map(async |(transport_kind, generation)| {
        let configure = |settings: &mut toolpost::mcp::McpSettings| {
            settings.timeout = Duration::from_millis(700);
            settings.max_timeout = Duration::from_millis(2500);
        };
        let arguments = [generation, &["plain"]].concat();
        let fixture = match transport_kind {
            TransportKind::Stdio => McpFixture::stdio(&arguments, configure),
            TransportKind::Http => McpFixture::http(&arguments, configure),
        };
        fixture.server_info().await;
        join_all(rows.map(async |(seconds, progress, expected)| {
            let start = Instant::now();
            let input = json!({"seconds": seconds, "progress": progress});
            let ended = fixture.call("sleep", input).await;
            match expected {
                None => assert_eq!(ended.unwrap().data[0]["text"], "slept"),
                Some(message) => assert_error(ended, "TIMEOUT", &["`x`", message]),
            }
            assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        }))
        .await;
        fixture.scratch.wait_for_line("sleep canceled", 2).await;
        fixture.assert_responsive().await;
        fixture.close().await;
    }))
    .await;
}

#[tokio::test]
async fn progress_reports_reach_caller_in_order() {
    join_all(transport_matrix().into_iter().map(async |(transport_kind, generation)| {
        let fixture = McpFixture::ready(transport_kind, &[generation, &["plain"]].concat()).await;
        let (sender, mut reports) = tokio::sync::mpsc::channel(16);
        let operation = operation_id("sleep");
        let request = CallRequest::new(&operation, json!({"seconds": 0.3, "progress": true}));
        let request = request.progress(ProgressSender::new(sender));
        fixture.pipeline.call(request, Authority::untrusted(None)).await.unwrap();
        let mut all = Vec::new();
        while let Ok(report) = reports.try_recv() {
            all.push(report);
        }
        let expected = [0.0, 1.0, 2.0].map(|step| Progress::new(step).with_total(3.0));
        assert_eq!(all, expected, "{transport_kind:?} {generation:?}");
        fixture.close().await;
    }))
    .await;
}
