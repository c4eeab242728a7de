//! Retries and circuit breakers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;
use toolpost::Limit;

use super::fixture::{Fixture, TestReply, TestService, assert_error, settings, within_timeout};

/// Starts a service that fails the first requests and then succeeds.
async fn recovering(failures: usize, fail: fn() -> TestReply) -> TestService {
    TestService::start(move |seen| match seen.number < failures {
        true => fail(),
        false => TestReply::json(200, &json!("well")),
    })
    .await
}

/// A response whose body is cut off.
fn truncated_response(headers: &[(&'static str, &str)]) -> TestReply {
    let packed = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".as_slice();
    let begun = if headers.is_empty() { b"{\"a\":".as_slice() } else { packed };
    let first = futures::stream::iter([Ok(Bytes::from_static(begun))]);
    let end = futures::stream::once(async {
        // Lets the previous chunk be sent first.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("cut"))
    });
    let mut all = vec![("content-type", "application/json".to_owned())];
    all.extend(headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
    TestReply::Stream(all, first.chain(end).boxed())
}

#[tokio::test]
async fn queries_are_retried_and_mutations_are_not() {
    let rows: [(&str, fn() -> TestReply); 7] = [
        ("429", || TestReply::json(429, &json!({})).with_header("retry-after", "0")),
        ("502", || TestReply::json(502, &json!({}))),
        ("503", || TestReply::json(503, &json!({}))),
        ("504", || TestReply::json(504, &json!({}))),
        ("closed", || TestReply::Close),
        ("cut", || truncated_response(&[])),
        ("truncated and compressed", || truncated_response(&[("content-encoding", "gzip")])),
    ];
    join_all(rows.map(async |(name, fail)| {
        // Each row: the operation, the number of failures, whether the call succeeds, and the
        // number of requests.
        let cases = [
            ("read", 2, true, 3),
            ("put", 2, true, 3),
            ("watch", 1, true, 2),
            ("read", 3, false, 3),
            ("write", 1, false, 1),
            ("ask", 1, false, 1),
        ];
        for (operation, failures, works, expected_requests) in cases {
            let service = recovering(failures, fail).await;
            let fixture = Fixture::with_default_paths(&service.origin, settings());
            let mut values = fixture.subscribe(operation);
            let first = within_timeout(values.next()).await.unwrap();
            let row = format!("{name} {operation} {failures}");
            assert_eq!(first.is_ok(), works, "{row}: {first:?}");
            assert_eq!(service.request_count(), expected_requests, "{row}");
            if let Err(error) = first {
                assert_eq!(error.may_have_run(), operation != "read", "{row}: {error:?}");
                assert_eq!(error.is_retryable(), operation == "read", "{row}: {error:?}");
            }
        }
    }))
    .await;
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    for status in [400, 401, 404, 500, 501] {
        let service = TestService::start(move |_| TestReply::json(status, &json!({}))).await;
        let fixture = Fixture::with_default_paths(&service.origin, settings());
        fixture.call("read", json!({})).await.unwrap_err();
        assert_eq!(service.request_count(), 1, "{status}");
    }
    let service = recovering(1, || TestReply::json(503, &json!({}))).await;
    let mut settings = settings();
    settings.client.retry.retries = 0;
    let fixture = Fixture::with_default_paths(&service.origin, settings);
    assert_error(fixture.call("read", json!({})).await, "EXECUTION_ERROR", &["503"]);
    assert_eq!(service.request_count(), 1);
}

#[tokio::test]
async fn retry_after_header_delays_the_retry() {
    let wants = |seconds: &'static str| {
        TestService::start(move |seen| match seen.number {
            0 => TestReply::json(503, &json!({})).with_header("retry-after", seconds),
            _ => TestReply::json(200, &json!("well")),
        })
    };
    let service = wants("1").await;
    let began = Instant::now();
    assert_eq!(
        Fixture::with_default_paths(&service.origin, settings())
            .call("read", json!({}))
            .await
            .unwrap()
            .data,
        "well"
    );
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());

    // Longer than `max_retry_after`.
    let service = wants("3600").await;
    let began = Instant::now();
    let error =
        Fixture::with_default_paths(&service.origin, settings()).call("read", json!({})).await;
    assert!(assert_error(error, "EXECUTION_ERROR", &["503"]).is_retryable());
    assert!(began.elapsed() < Duration::from_secs(10) && service.request_count() == 1);

    // Longer than the timeout of the call, which fails immediately.
    let service = wants("10").await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    let request = toolpost::CallRequest::new("x.read", json!({})).timeout(Duration::from_secs(9));
    let began = Instant::now();
    assert_error(
        fixture.pipeline.call(request, toolpost::Authority::untrusted(None)).await,
        "EXECUTION_ERROR",
        &["503"],
    );
    assert!(began.elapsed() < Duration::from_secs(8) && service.request_count() == 1);
}

#[tokio::test]
async fn unsent_requests_are_retried_for_any_operation() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut settings = settings();
    settings.client.breaker.failures = 0;
    let fixture = Fixture::with_default_paths(&origin, settings);
    for operation in ["read", "write"] {
        let error = fixture.call(operation, json!({})).await;
        let error =
            assert_error(error, "UNAVAILABLE", &["127.0.0.1", "cannot be reached", "refused"]);
        assert!(error.is_retryable() && !error.may_have_run(), "{operation} {error:?}");
    }
}

/// An idle connection that the service has closed does not fail a call, even a mutation.
#[tokio::test]
async fn stale_pooled_connection_is_replaced() {
    let service =
        TestService::start(|_| TestReply::json(200, &json!(1)).with_header("connection", "close"))
            .await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    for _ in 0..20 {
        fixture.call("write", json!({"body": 1})).await.unwrap();
    }
    assert_eq!(service.request_count(), 20);
}

#[tokio::test]
async fn breaker_opens_and_probes_with_one_request() {
    let service = TestService::start(|seen| match seen.number {
        0..3 => TestReply::Close,
        _ => TestReply::json(200, &json!("well")),
    })
    .await;
    let mut settings = settings();
    settings.client.retry.retries = 0;
    settings.client.breaker.failures = 3;
    settings.client.breaker.open_for = Duration::from_secs(2);
    let fixture = Fixture::with_default_paths(&service.origin, settings);
    for _ in 0..3 {
        assert_error(fixture.call("read", json!({})).await, "UNAVAILABLE", &["lost"]);
    }
    let opened = Instant::now();
    let error = assert_error(
        fixture.call("write", json!({})).await,
        "UNAVAILABLE",
        &["127.0.0.1", "circuit breaker open"],
    );
    assert!(error.is_retryable() && !error.may_have_run());
    assert_eq!((error.limit(), error.local_limit()), (Some("breaker"), Some(Limit::Breaker)));
    let wait = error.details().unwrap()["retryAfterMs"].as_u64().unwrap();
    assert!((1..=2_000).contains(&wait), "{wait}");
    assert_eq!(service.request_count(), 3);
    tokio::time::sleep(Duration::from_millis(wait + 20)).await;
    assert!(opened.elapsed() >= Duration::from_secs(2) - Duration::from_millis(100));
    assert_eq!(fixture.call("read", json!({})).await.unwrap().data, "well");
    assert_eq!(fixture.call("write", json!({})).await.unwrap().data, "well");
    assert_eq!(service.request_count(), 5);
}

#[tokio::test]
async fn error_statuses_open_breaker_only_if_configured() {
    for (counts, expected_requests) in [(true, 2), (false, 4)] {
        let service = TestService::start(|_| TestReply::json(500, &json!({}))).await;
        let mut settings = settings();
        settings.client.breaker.failures = 2;
        settings.client.breaker.server_errors = counts;
        let fixture = Fixture::with_default_paths(&service.origin, settings);
        for _ in 0..4 {
            fixture.call("read", json!({})).await.unwrap_err();
        }
        assert_eq!(service.request_count(), expected_requests);
    }
}
