//! Server-sent events and JSON sequences.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::{CallError, Outcome};

use super::fixture::{Fixture, TestReply, TestService, assert_error, settings, within_timeout};

/// Collects all values of a subscription.
async fn collect_stream(fixture: &Fixture, name: &str) -> Vec<Result<Outcome, CallError>> {
    within_timeout(fixture.subscribe(name).collect()).await
}

fn data(outcome: &Result<Outcome, CallError>) -> Value {
    let outcome = outcome.as_ref().unwrap();
    outcome.envelope.data.clone().into_value().unwrap()
}

fn sse(outcome: &Result<Outcome, CallError>) -> Value {
    let meta = serde_json::to_value(&outcome.as_ref().unwrap().envelope.meta).unwrap();
    assert_eq!((&meta["source"], &meta["statusCode"]), (&json!("http"), &json!(200)));
    meta["sse"].clone()
}

#[tokio::test]
async fn sse_events_become_values_with_event_fields() {
    let text = ": hello\n\ndata: {\"a\": 1}\nid: 7\nevent: add\n\nretry: 1500\ndata: plain\n\ndata: 12\ndata: 3\n\n";
    let service = TestService::start(move |_| TestReply::events(text, false)).await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    let values = collect_stream(&fixture, "watch").await;
    let seen: Vec<_> = values.iter().map(|value| (data(value), sse(value))).collect();
    assert_eq!(
        seen,
        [
            (json!({"a": 1}), json!({"eventType": "add", "lastEventId": "7"})),
            (json!("plain"), json!({"eventType": "message", "lastEventId": "7", "retry": 1500})),
            (json!("12\n3"), json!({"eventType": "message", "lastEventId": "7"})),
        ]
    );
    assert_eq!(service.requests()[0].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn oversized_event_is_skipped() {
    let text = format!("data: 1\n\ndata: {}\n\ndata: 3\n\n", "x".repeat(5_000));
    let service = TestService::start(move |_| TestReply::events(&text, false)).await;
    let mut settings = settings();
    settings.client.response_bytes = 1_000;
    let fixture = Fixture::with_default_paths(&service.origin, settings);
    let values = collect_stream(&fixture, "watch").await;
    assert_eq!(values.iter().map(data).collect::<Vec<_>>(), [json!(1), json!(3)]);
}

#[tokio::test]
async fn mismatched_event_warns_and_stream_continues() {
    let paths = json!({"/": {"get": {"operationId": "watch", "responses": {"200": {
        "description": "ok",
        "content": {"text/event-stream": {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}},
    }}}}});
    let text = "data: {\"n\": 1}\n\ndata: {\"m\": 2}\n\ndata: [DONE]\n\ndata: {\"n\": 3}\n\n";
    let service = TestService::start(move |_| TestReply::events(text, false)).await;
    let fixture = Fixture::new(&service.origin, &paths, settings());
    let values = collect_stream(&fixture, "watch").await;
    let warnings =
        |outcome: &Result<Outcome, CallError>| outcome.as_ref().unwrap().warnings().len();
    assert_eq!(values.iter().map(warnings).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!(data(&values[2]), "[DONE]");
}

#[tokio::test]
async fn non_stream_response_is_one_value_or_an_error() {
    let service = TestService::start(|_| TestReply::json(200, &json!({"a": 1}))).await;
    let values =
        collect_stream(&Fixture::with_default_paths(&service.origin, settings()), "watch").await;
    assert_eq!(values.iter().map(data).collect::<Vec<_>>(), [json!({"a": 1})]);

    let service =
        TestService::start(|_| TestReply::json(403, &json!({"message": "not for you"}))).await;
    let values =
        collect_stream(&Fixture::with_default_paths(&service.origin, settings()), "watch").await;
    assert_eq!(values.len(), 1);
    assert_error(
        values.into_iter().next().unwrap(),
        "EXECUTION_ERROR",
        &["HTTP 403", "not for you"],
    );
}

#[tokio::test]
async fn json_lines_and_json_seq_are_streamed() {
    let rows = [
        ("application/jsonl", "{\"a\":1}\n\nnonsense\n{\"a\":2}"),
        ("application/x-ndjson; charset=utf-8", "{\"a\":1}\r\nnonsense\r\n{\"a\":2}\r\n"),
        ("application/json-seq", "\u{1e}{\"a\":1}\n\u{1e}{\"a\n\u{1e}{\"a\":2}\n"),
    ];
    for (kind, text) in rows {
        let service = TestService::start(move |_| TestReply::typed(200, kind, text)).await;
        let values =
            collect_stream(&Fixture::with_default_paths(&service.origin, settings()), "watch")
                .await;
        assert_eq!(
            values.iter().map(data).collect::<Vec<_>>(),
            [json!({"a": 1}), json!({"a": 2})],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn interrupted_stream_fails_unless_reconnect_is_enabled() {
    let broken = || {
        let first = futures::stream::iter([Ok("data: 1\nid: a\n\n".into())]);
        let cut = futures::stream::once(async {
            // Lets the previous chunk be sent first.
            tokio::task::yield_now().await;
            Err(std::io::Error::other("cut"))
        });
        let kind = vec![("content-type", "text/event-stream".to_owned())];
        TestReply::Stream(kind, first.chain(cut).boxed())
    };
    let service = TestService::start(move |_| broken()).await;
    let values =
        collect_stream(&Fixture::with_default_paths(&service.origin, settings()), "watch").await;
    assert_eq!((values.len(), data(&values[0])), (2, json!(1)));
    assert_error(values.into_iter().nth(1).unwrap(), "UNAVAILABLE", &["disconnected"]);
    assert_eq!(service.request_count(), 1);

    let service = TestService::start(move |seen| match seen.number {
        0 => TestReply::events("retry: 100\ndata: 0\nid: a\n\n", false),
        1 => broken(),
        2 => TestReply::json(503, &json!({})),
        3 => TestReply::events("data: 2\n\n", false),
        _ => TestReply::Response(204, Vec::new(), Vec::new()),
    })
    .await;
    let mut settings = settings();
    settings.client.reconnect = true;
    settings.client.retry.retries = 0;
    let fixture = Fixture::with_default_paths(&service.origin, settings.clone());
    let values = collect_stream(&fixture, "watch").await;
    assert_eq!(values.iter().map(data).collect::<Vec<_>>(), [json!(0), json!(1), json!(2)]);
    assert_eq!(sse(&values[2])["lastEventId"], "a");
    let ids: Vec<_> = service
        .requests()
        .iter()
        .map(|seen| seen.header("last-event-id").map(str::to_owned))
        .collect();
    let a = Some("a".to_owned());
    assert_eq!(ids, [None, a.clone(), a.clone(), a.clone(), a]);

    // A stream that is not idempotent is never resumed.
    let service = TestService::start(|_| TestReply::events("data: 1\n\n", false)).await;
    let values =
        collect_stream(&Fixture::with_default_paths(&service.origin, settings), "ask").await;
    assert_eq!((values.len(), service.request_count()), (1, 1));
}

#[tokio::test]
async fn dropped_stream_closes_the_connection() {
    let service = TestService::start(|_| TestReply::events("data: 1\n\n", true)).await;
    let fixture = Fixture::with_default_paths(&service.origin, settings());
    // The stream is dropped between two values, dropped while waiting for one, and aborted.
    let mut values = fixture.subscribe("watch");
    within_timeout(values.next()).await.unwrap().unwrap();
    let began = Instant::now();
    drop(values);
    service.wait_for_disconnect().await;
    println!("closed between two values within {:?}", began.elapsed());

    let mut values = fixture.subscribe("watch");
    within_timeout(values.next()).await.unwrap().unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(20), values.next()).await.is_err());
    let began = Instant::now();
    drop(values);
    service.wait_for_disconnect().await;
    println!("closed while waiting within {:?}", began.elapsed());

    let mut values = fixture.subscribe("watch");
    within_timeout(values.next()).await.unwrap().unwrap();
    let began = Instant::now();
    values.abort_handle().abort("enough");
    assert_error(within_timeout(values.next()).await.unwrap(), "ABORTED", &["enough"]);
    service.wait_for_disconnect().await;
    println!("closed by aborting within {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(service.request_count(), 3);
}

#[tokio::test]
async fn stream_outlives_timeout_but_not_idle_timeout() {
    let beats = || {
        let beats = futures::stream::unfold(0, async |beat| {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some((Ok(format!("data: {beat}\n\n").into()), beat + 1))
        });
        let kind = vec![("content-type", "text/event-stream".to_owned())];
        TestReply::Stream(kind, beats.take(8).boxed())
    };
    let service = TestService::start(move |_| beats()).await;
    let mut settings = settings();
    settings.client.timeout = Duration::from_millis(300);
    settings.client.idle_timeout = Some(Duration::from_secs(10));
    let values =
        collect_stream(&Fixture::with_default_paths(&service.origin, settings.clone()), "watch")
            .await;
    assert!(values.len() == 8 && values.iter().all(Result::is_ok), "{values:?}");

    let service = TestService::start(|_| TestReply::events("data: 1\n\n", true)).await;
    settings.client.idle_timeout = Some(Duration::from_millis(100));
    let values =
        collect_stream(&Fixture::with_default_paths(&service.origin, settings.clone()), "watch")
            .await;
    assert_eq!(values.len(), 2);
    assert_error(values.into_iter().nth(1).unwrap(), "UNAVAILABLE", &["no data for 100"]);

    let requests = AtomicUsize::new(0);
    let service = TestService::start(move |_| {
        requests.fetch_add(1, Ordering::Relaxed);
        TestReply::Hang
    })
    .await;
    let values =
        collect_stream(&Fixture::with_default_paths(&service.origin, settings), "watch").await;
    assert_error(values.into_iter().next().unwrap(), "TIMEOUT", &["did not respond"]);
}
