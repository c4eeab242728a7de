//! Deadlines and cancellation.

use std::time::{Duration, Instant};

use serde_json::json;
use toolpost::{Authority, CallRequest};

use super::fixture::{Fixture, TestReply, TestService, assert_error, settings, within_timeout};

#[tokio::test]
async fn shorter_deadline_applies_and_closes_the_connection() {
    let ms = Duration::from_millis;
    for (own, callers) in [(ms(200), Duration::from_secs(30)), (Duration::from_secs(30), ms(200))] {
        for operation in ["x.read", "x.write"] {
            let service = TestService::start(|_| TestReply::Hang).await;
            let mut settings = settings();
            settings.client.timeout = own;
            let fixture = Fixture::with_default_paths(&service.origin, settings);
            let began = Instant::now();
            let request = CallRequest::new(operation, json!({})).timeout(callers);
            let called =
                within_timeout(fixture.pipeline.call(request, Authority::untrusted(None))).await;
            let error = assert_error(called, "TIMEOUT", &[]);
            assert_eq!(error.may_have_run(), operation == "x.write");
            assert!(began.elapsed() < Duration::from_secs(10));
            service.wait_for_disconnect().await;
            assert_eq!(service.request_count(), 1);
        }
    }
}

#[tokio::test]
async fn abandoned_query_is_canceled_and_mutation_completes() {
    let service = TestService::start(|_| TestReply::Hang).await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    let reading = fixture.pipeline.call_trusted("x.read", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(300), reading).await.is_err());
    service.wait_for_disconnect().await;

    let request = CallRequest::new("x.write", json!({"body": 1}));
    let writing = fixture.pipeline.call(request, Authority::untrusted(None));
    let abort = writing.abort_handle();
    let aborting = async {
        while service.request_count() < 2 {
            tokio::task::yield_now().await;
        }
        abort.abort("enough");
    };
    let (ended, ()) = within_timeout(async { tokio::join!(writing, aborting) }).await;
    let error = assert_error(ended, "ABORTED", &["enough"]);
    assert!(error.may_have_run());
    service.wait_for_disconnect().await;
}

/// The delay between two attempts counts toward the deadline.
#[tokio::test]
async fn retries_stop_at_the_deadline() {
    let service =
        TestService::start(|_| TestReply::json(503, &json!({})).with_header("retry-after", "1"))
            .await;
    let mut settings = settings();
    settings.client.retry.retries = 100;
    settings.client.timeout = Duration::from_millis(1_500);
    let fixture = Fixture::with_default_paths(&service.origin, settings);
    let began = Instant::now();
    assert_error(fixture.call("read", json!({})).await, "EXECUTION_ERROR", &["503"]);
    assert!(began.elapsed() < Duration::from_secs(10) && service.request_count() == 2);
}
