//! Deadlines and cancellation.

use std::time::{Duration, Instant};

use serde_json::json;
use toolpost::{Authority, CallRequest};

use super::rig::{Reply, Rig, Service, says, settings, soon};

#[tokio::test]
async fn the_shorter_of_two_deadlines_counts_and_reaches_the_service() {
    let ms = Duration::from_millis;
    for (own, callers) in [(ms(200), Duration::from_secs(30)), (Duration::from_secs(30), ms(200))] {
        for operation in ["x.read", "x.write"] {
            let service = Service::start(|_| Reply::Silence).await;
            let mut settings = settings();
            settings.client.timeout = own;
            let rig = Rig::usual(&service.origin, settings);
            let began = Instant::now();
            let request = CallRequest::new(operation, json!({})).timeout(callers);
            let called = soon(rig.pipeline.call(request, Authority::outside(None))).await;
            let error = says(called, "TIMEOUT", &[]);
            assert_eq!(error.may_have_run(), operation == "x.write");
            assert!(began.elapsed() < Duration::from_secs(10));
            service.is_left().await;
            assert_eq!(service.count(), 1);
        }
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_closed_if_it_reads_and_ends_if_it_writes() {
    let service = Service::start(|_| Reply::Silence).await;
    let rig = Rig::usual(&service.origin, settings());
    let reading = rig.pipeline.execute("x.read", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(300), reading).await.is_err());
    service.is_left().await;

    let request = CallRequest::new("x.write", json!({"body": 1}));
    let writing = rig.pipeline.call(request, Authority::outside(None));
    let abort = writing.abort_handle();
    let aborting = async {
        while service.count() < 2 {
            tokio::task::yield_now().await;
        }
        abort.abort("enough");
    };
    let (ended, ()) = soon(async { tokio::join!(writing, aborting) }).await;
    let error = says(ended, "ABORTED", &["enough"]);
    assert!(error.may_have_run());
    service.is_left().await;
}

/// The time that is left between two attempts is the caller's as well.
#[tokio::test]
async fn attempts_end_with_the_deadline() {
    let service = Service::start(|_| Reply::json(503, &json!({})).with("retry-after", "1")).await;
    let mut settings = settings();
    settings.client.retry.retries = 100;
    settings.client.timeout = Duration::from_millis(1_500);
    let rig = Rig::usual(&service.origin, settings);
    let began = Instant::now();
    says(rig.call("read", json!({})).await, "EXECUTION_ERROR", &["503"]);
    assert!(began.elapsed() < Duration::from_secs(10) && service.count() == 2);
}
