//! Events and other values in a row.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::{CallError, Outcome};

use super::rig::{Reply, Rig, Service, says, settings, soon};

/// Everything that a subscription says.
async fn all(rig: &Rig, name: &str) -> Vec<Result<Outcome, CallError>> {
    soon(rig.subscribe(name).collect()).await
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
async fn events_are_values_with_the_fields_of_their_event() {
    let text = ": hello\n\ndata: {\"a\": 1}\nid: 7\nevent: add\n\nretry: 1500\ndata: plain\n\ndata: 12\ndata: 3\n\n";
    let service = Service::start(move |_| Reply::events(text, false)).await;
    let rig = Rig::usual(&service.origin, settings());
    let values = all(&rig, "watch").await;
    let seen: Vec<_> = values.iter().map(|value| (data(value), sse(value))).collect();
    assert_eq!(
        seen,
        [
            (json!({"a": 1}), json!({"eventType": "add", "lastEventId": "7"})),
            (json!("plain"), json!({"eventType": "message", "lastEventId": "7", "retry": 1500})),
            (json!("12\n3"), json!({"eventType": "message", "lastEventId": "7"})),
        ]
    );
    assert_eq!(service.seen()[0].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn an_event_that_is_too_large_is_passed_over() {
    let text = format!("data: 1\n\ndata: {}\n\ndata: 3\n\n", "x".repeat(5_000));
    let service = Service::start(move |_| Reply::events(&text, false)).await;
    let mut settings = settings();
    settings.client.response_bytes = 1_000;
    let rig = Rig::usual(&service.origin, settings);
    let values = all(&rig, "watch").await;
    assert_eq!(values.iter().map(data).collect::<Vec<_>>(), [json!(1), json!(3)]);
}

#[tokio::test]
async fn what_does_not_fit_is_a_warning_and_the_stream_goes_on() {
    let paths = json!({"/": {"get": {"operationId": "watch", "responses": {"200": {
        "description": "ok",
        "content": {"text/event-stream": {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}},
    }}}}});
    let text = "data: {\"n\": 1}\n\ndata: {\"m\": 2}\n\ndata: [DONE]\n\ndata: {\"n\": 3}\n\n";
    let service = Service::start(move |_| Reply::events(text, false)).await;
    let rig = Rig::new(&service.origin, &paths, settings());
    let values = all(&rig, "watch").await;
    let warnings =
        |outcome: &Result<Outcome, CallError>| outcome.as_ref().unwrap().warnings().len();
    assert_eq!(values.iter().map(warnings).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!(data(&values[2]), "[DONE]");
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_one_value_or_an_error() {
    let service = Service::start(|_| Reply::json(200, &json!({"a": 1}))).await;
    let values = all(&Rig::usual(&service.origin, settings()), "watch").await;
    assert_eq!(values.iter().map(data).collect::<Vec<_>>(), [json!({"a": 1})]);

    let service = Service::start(|_| Reply::json(403, &json!({"message": "not for you"}))).await;
    let values = all(&Rig::usual(&service.origin, settings()), "watch").await;
    assert_eq!(values.len(), 1);
    says(values.into_iter().next().unwrap(), "EXECUTION_ERROR", &["HTTP 403", "not for you"]);
}

#[tokio::test]
async fn values_in_a_row_are_a_stream() {
    let rows = [
        ("application/jsonl", "{\"a\":1}\n\nnonsense\n{\"a\":2}"),
        ("application/x-ndjson; charset=utf-8", "{\"a\":1}\r\nnonsense\r\n{\"a\":2}\r\n"),
        ("application/json-seq", "\u{1e}{\"a\":1}\n\u{1e}{\"a\n\u{1e}{\"a\":2}\n"),
    ];
    for (kind, text) in rows {
        let service = Service::start(move |_| Reply::typed(200, kind, text)).await;
        let values = all(&Rig::usual(&service.origin, settings()), "watch").await;
        assert_eq!(
            values.iter().map(data).collect::<Vec<_>>(),
            [json!({"a": 1}), json!({"a": 2})],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error_unless_it_is_asked_for_again() {
    let broken = || {
        let first = futures::stream::iter([Ok("data: 1\nid: a\n\n".into())]);
        let cut = futures::stream::once(async {
            // What was said before has left by then.
            tokio::task::yield_now().await;
            Err(std::io::Error::other("cut"))
        });
        let kind = vec![("content-type", "text/event-stream".to_owned())];
        Reply::Flow(kind, first.chain(cut).boxed())
    };
    let service = Service::start(move |_| broken()).await;
    let values = all(&Rig::usual(&service.origin, settings()), "watch").await;
    assert_eq!((values.len(), data(&values[0])), (2, json!(1)));
    says(values.into_iter().nth(1).unwrap(), "UNAVAILABLE", &["broke off"]);
    assert_eq!(service.count(), 1);

    let service = Service::start(move |seen| match seen.number {
        0 => Reply::events("retry: 100\ndata: 0\nid: a\n\n", false),
        1 => broken(),
        2 => Reply::json(503, &json!({})),
        3 => Reply::events("data: 2\n\n", false),
        _ => Reply::Answer(204, Vec::new(), Vec::new()),
    })
    .await;
    let mut settings = settings();
    settings.client.reconnect = true;
    settings.client.retry.retries = 0;
    let rig = Rig::usual(&service.origin, settings.clone());
    let values = all(&rig, "watch").await;
    assert_eq!(values.iter().map(data).collect::<Vec<_>>(), [json!(0), json!(1), json!(2)]);
    assert_eq!(sse(&values[2])["lastEventId"], "a");
    let ids: Vec<_> =
        service.seen().iter().map(|seen| seen.header("last-event-id").map(str::to_owned)).collect();
    let a = Some("a".to_owned());
    assert_eq!(ids, [None, a.clone(), a.clone(), a.clone(), a]);

    // What writes is asked once, whatever is configured.
    let service = Service::start(|_| Reply::events("data: 1\n\n", false)).await;
    let values = all(&Rig::usual(&service.origin, settings), "ask").await;
    assert_eq!((values.len(), service.count()), (1, 1));
}

#[tokio::test]
async fn the_connection_is_closed_when_nobody_listens_any_more() {
    let service = Service::start(|_| Reply::events("data: 1\n\n", true)).await;
    let rig = Rig::usual(&service.origin, settings());
    // Leaving between two values, while waiting for one, and by aborting.
    let mut values = rig.subscribe("watch");
    soon(values.next()).await.unwrap().unwrap();
    let began = Instant::now();
    drop(values);
    service.is_left().await;
    println!("closed between two values within {:?}", began.elapsed());

    let mut values = rig.subscribe("watch");
    soon(values.next()).await.unwrap().unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(20), values.next()).await.is_err());
    let began = Instant::now();
    drop(values);
    service.is_left().await;
    println!("closed while waiting within {:?}", began.elapsed());

    let mut values = rig.subscribe("watch");
    soon(values.next()).await.unwrap().unwrap();
    let began = Instant::now();
    values.abort_handle().abort("enough");
    says(soon(values.next()).await.unwrap(), "ABORTED", &["enough"]);
    service.is_left().await;
    println!("closed by aborting within {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(service.count(), 3);
}

#[tokio::test]
async fn a_stream_may_last_longer_than_its_beginning_and_be_silent_only_so_long() {
    let beats = || {
        let beats = futures::stream::unfold(0, async |beat| {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some((Ok(format!("data: {beat}\n\n").into()), beat + 1))
        });
        let kind = vec![("content-type", "text/event-stream".to_owned())];
        Reply::Flow(kind, beats.take(8).boxed())
    };
    let service = Service::start(move |_| beats()).await;
    let mut settings = settings();
    settings.client.timeout = Duration::from_millis(300);
    settings.client.idle_timeout = Some(Duration::from_secs(10));
    let values = all(&Rig::usual(&service.origin, settings.clone()), "watch").await;
    assert!(values.len() == 8 && values.iter().all(Result::is_ok), "{values:?}");

    let service = Service::start(|_| Reply::events("data: 1\n\n", true)).await;
    settings.client.idle_timeout = Some(Duration::from_millis(100));
    let values = all(&Rig::usual(&service.origin, settings.clone()), "watch").await;
    assert_eq!(values.len(), 2);
    says(values.into_iter().nth(1).unwrap(), "UNAVAILABLE", &["silent for 100"]);

    let asked = AtomicUsize::new(0);
    let service = Service::start(move |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        Reply::Silence
    })
    .await;
    let values = all(&Rig::usual(&service.origin, settings), "watch").await;
    says(values.into_iter().next().unwrap(), "TIMEOUT", &["did not answer"]);
}
