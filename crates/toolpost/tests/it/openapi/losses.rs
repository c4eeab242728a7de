//! What is sent again, and what is left alone.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;

use super::rig::{Reply, Rig, Service, says, settings, soon};

/// Answers the first requests in one way, and the others well.
async fn recovering(failures: usize, fail: fn() -> Reply) -> Service {
    Service::start(move |seen| match seen.number < failures {
        true => fail(),
        false => Reply::json(200, &json!("well")),
    })
    .await
}

/// An answer that breaks off in its body.
fn cut(headers: &[(&'static str, &str)]) -> Reply {
    let packed = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".as_slice();
    let begun = if headers.is_empty() { b"{\"a\":".as_slice() } else { packed };
    let first = futures::stream::iter([Ok(Bytes::from_static(begun))]);
    let end = futures::stream::once(async {
        // What was said before has left by then.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("cut"))
    });
    let mut all = vec![("content-type", "application/json".to_owned())];
    all.extend(headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Reply::Flow(all, first.chain(end).boxed())
}

#[tokio::test]
async fn what_reads_is_sent_again_and_what_writes_is_not() {
    let rows: [(&str, fn() -> Reply); 7] = [
        ("429", || Reply::json(429, &json!({})).with("retry-after", "0")),
        ("502", || Reply::json(502, &json!({}))),
        ("503", || Reply::json(503, &json!({}))),
        ("504", || Reply::json(504, &json!({}))),
        ("closed", || Reply::Close),
        ("cut", || cut(&[])),
        ("cut and packed", || cut(&[("content-encoding", "gzip")])),
    ];
    join_all(rows.map(async |(name, fail)| {
        // What is asked, how often it fails, whether it works in the end, how often it was asked.
        let cases = [
            ("read", 2, true, 3),
            ("put", 2, true, 3),
            ("watch", 1, true, 2),
            ("read", 3, false, 3),
            ("write", 1, false, 1),
            ("ask", 1, false, 1),
        ];
        for (operation, failures, works, asked) in cases {
            let service = recovering(failures, fail).await;
            let rig = Rig::usual(&service.origin, settings());
            let mut values = rig.subscribe(operation);
            let first = soon(values.next()).await.unwrap();
            let row = format!("{name} {operation} {failures}");
            assert_eq!(first.is_ok(), works, "{row}: {first:?}");
            assert_eq!(service.count(), asked, "{row}");
            if let Err(error) = first {
                assert_eq!(error.may_have_run(), operation != "read", "{row}: {error:?}");
                assert_eq!(error.is_retryable(), operation == "read", "{row}: {error:?}");
            }
        }
    }))
    .await;
}

#[tokio::test]
async fn what_will_not_help_is_not_sent_again() {
    for status in [400, 401, 404, 500, 501] {
        let service = Service::start(move |_| Reply::json(status, &json!({}))).await;
        let rig = Rig::usual(&service.origin, settings());
        rig.call("read", json!({})).await.unwrap_err();
        assert_eq!(service.count(), 1, "{status}");
    }
    let service = recovering(1, || Reply::json(503, &json!({}))).await;
    let mut settings = settings();
    settings.client.retry.retries = 0;
    let rig = Rig::usual(&service.origin, settings);
    says(rig.call("read", json!({})).await, "EXECUTION_ERROR", &["503"]);
    assert_eq!(service.count(), 1);
}

#[tokio::test]
async fn a_service_says_when_it_wants_to_be_asked_again() {
    let wants = |seconds: &'static str| {
        Service::start(move |seen| match seen.number {
            0 => Reply::json(503, &json!({})).with("retry-after", seconds),
            _ => Reply::json(200, &json!("well")),
        })
    };
    let service = wants("1").await;
    let began = Instant::now();
    assert_eq!(
        Rig::usual(&service.origin, settings()).call("read", json!({})).await.unwrap().data,
        "well"
    );
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());

    // Longer than anybody waits.
    let service = wants("3600").await;
    let began = Instant::now();
    let error = Rig::usual(&service.origin, settings()).call("read", json!({})).await;
    assert!(says(error, "EXECUTION_ERROR", &["503"]).is_retryable());
    assert!(began.elapsed() < Duration::from_secs(10) && service.count() == 1);

    // Longer than this caller waits, who is told at once.
    let service = wants("10").await;
    let rig = Rig::usual(&service.origin, settings());
    let request = toolpost::CallRequest::new("x.read", json!({})).timeout(Duration::from_secs(9));
    let began = Instant::now();
    says(
        rig.pipeline.call(request, toolpost::Authority::outside(None)).await,
        "EXECUTION_ERROR",
        &["503"],
    );
    assert!(began.elapsed() < Duration::from_secs(8) && service.count() == 1);
}

#[tokio::test]
async fn what_was_never_sent_may_be_sent_by_anybody() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut settings = settings();
    settings.client.breaker.failures = 0;
    let rig = Rig::usual(&origin, settings);
    for operation in ["read", "write"] {
        let error = rig.call(operation, json!({})).await;
        let error = says(error, "UNAVAILABLE", &["127.0.0.1", "cannot be reached", "refused"]);
        assert!(error.is_retryable() && !error.may_have_run(), "{operation} {error:?}");
    }
}

/// A connection that the service has closed while nobody used it is no reason to fail, for writing
/// neither.
#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let service = Service::start(|_| Reply::json(200, &json!(1)).with("connection", "close")).await;
    let rig = Rig::usual(&service.origin, settings());
    for _ in 0..20 {
        rig.call("write", json!({"body": 1})).await.unwrap();
    }
    assert_eq!(service.count(), 20);
}

#[tokio::test]
async fn a_host_that_fails_again_and_again_is_left_alone_and_tried_by_one() {
    let service = Service::start(|seen| match seen.number {
        0..3 => Reply::Close,
        _ => Reply::json(200, &json!("well")),
    })
    .await;
    let mut settings = settings();
    settings.client.retry.retries = 0;
    settings.client.breaker.failures = 3;
    settings.client.breaker.open_for = Duration::from_secs(2);
    let rig = Rig::usual(&service.origin, settings);
    for _ in 0..3 {
        says(rig.call("read", json!({})).await, "UNAVAILABLE", &["lost"]);
    }
    let opened = Instant::now();
    let error =
        says(rig.call("write", json!({})).await, "UNAVAILABLE", &["127.0.0.1", "left alone"]);
    assert!(error.is_retryable() && !error.may_have_run());
    assert_eq!((error.limit(), error.own_limit()), (Some("breaker"), Some("breaker")));
    let wait = error.details().unwrap()["retryAfterMs"].as_u64().unwrap();
    assert!((1..=2_000).contains(&wait), "{wait}");
    assert_eq!(service.count(), 3);
    tokio::time::sleep(Duration::from_millis(wait + 20)).await;
    assert!(opened.elapsed() >= Duration::from_secs(2) - Duration::from_millis(100));
    assert_eq!(rig.call("read", json!({})).await.unwrap().data, "well");
    assert_eq!(rig.call("write", json!({})).await.unwrap().data, "well");
    assert_eq!(service.count(), 5);
}

#[tokio::test]
async fn statuses_break_a_circuit_only_if_they_are_to() {
    for (counts, asked) in [(true, 2), (false, 4)] {
        let service = Service::start(|_| Reply::json(500, &json!({}))).await;
        let mut settings = settings();
        settings.client.breaker.failures = 2;
        settings.client.breaker.server_errors = counts;
        let rig = Rig::usual(&service.origin, settings);
        for _ in 0..4 {
            rig.call("read", json!({})).await.unwrap_err();
        }
        assert_eq!(service.count(), asked);
    }
}
