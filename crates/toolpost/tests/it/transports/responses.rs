//! Calls and their responses.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use toolpost::connection::Client;
use toolpost::{CallRequest, Payload, ProgressSender};

use super::fixture::{Fixture, data};
use super::harness::TestTransport;
use super::{serve, wait_idle};

pub(super) async fn clients_with_equal_ids_get_own_responses(transport: &dyn TestTransport) {
    const EACH: usize = 100;
    // No call gets a response before all calls are in flight.
    let fixture = Fixture::with_barrier(2 * EACH);
    let harness = serve(transport, &fixture).await;
    let (ada, bob) = (harness.client().await, harness.client().await);
    let ask = |client: &Client, name: &str| {
        let requests = (0..EACH).map(|number| {
            let input = json!({"name": name, "number": number});
            let request = CallRequest::new("suite.meet", input).request_id(number.to_string());
            let calling = client.call(request);
            async move { data(calling.await.unwrap()) }
        });
        futures::future::join_all(requests)
    };
    let (to_ada, to_bob) = tokio::join!(ask(&ada, "ada"), ask(&bob, "bob"));
    for (name, responses) in [("ada", to_ada), ("bob", to_bob)] {
        for (number, response) in responses.into_iter().enumerate() {
            assert_eq!(response, json!({"name": name, "number": number}));
        }
    }
    wait_idle(&*harness, &ada).await;
    wait_idle(&*harness, &bob).await;
}

pub(super) async fn thousand_calls_in_flight(transport: &dyn TestTransport) {
    let fixture = Fixture::with_barrier(1_000);
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    let mut calls: FuturesUnordered<_> = (0..1_000)
        .map(|number| {
            let calling = client.call(CallRequest::new("suite.meet", json!(number)));
            async move { (number, data(calling.await.unwrap())) }
        })
        .collect();
    while let Some((requested, responded)) = calls.next().await {
        assert_eq!(responded, json!(requested));
    }
    wait_idle(&*harness, &client).await;
}

pub(super) async fn ten_megabyte_payload_round_trips(transport: &dyn TestTransport) {
    let harness = serve(transport, &Fixture::new()).await;
    let client = harness.client().await;
    // Whitespace, escapes and trailing zeros that reserialization would change.
    let piece = r#" {"a" :1.50, "b":"\u00e9é\n",  "c":[ ] }"#;
    let pieces = vec![piece; 10 * 1024 * 1024 / piece.len() + 1];
    let text = format!("[{}]", pieces.join(","));
    assert!(text.len() > 10 * 1024 * 1024);
    let input = Payload::from_json(text.clone()).unwrap();
    let outcome = client.call(CallRequest::new("suite.echo", input)).await.unwrap();
    let raw = outcome.envelope.data.as_raw().expect("the payload stays raw");
    assert!(raw.get() == text, "{} bytes became {}", text.len(), raw.get().len());
}

pub(super) async fn progress_is_ordered_and_precedes_response(transport: &dyn TestTransport) {
    let harness = serve(transport, &Fixture::new()).await;
    let client = harness.client().await;
    let seen = Arc::<Mutex<Vec<Value>>>::default();
    let noting = Arc::clone(&seen);
    let progress = ProgressSender::from_fn(move |progress| {
        noting.lock().unwrap().push(serde_json::to_value(progress).unwrap());
    });
    let request = CallRequest::new("suite.steps", json!(50)).progress(progress);
    assert_eq!(data(client.call(request).await.unwrap()), "done");
    let expected: Vec<Value> = (1..=50)
        .map(|step| {
            json!({"progress": f64::from(step), "total": 50.0, "message": format!("step {step}")})
        })
        .collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}

pub(super) async fn repairs_and_warnings_round_trip(transport: &dyn TestTransport) {
    let harness = serve(transport, &Fixture::new()).await;
    let client = harness.client().await;
    let outcome = client.call(CallRequest::new("suite.messy", json!({}))).await.unwrap();
    let repairs = serde_json::to_value(outcome.repairs()).unwrap();
    let mut paths: Vec<_> =
        repairs.as_array().unwrap().iter().map(|repair| repair["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/id", "/odd"], "{repairs}");
    let warned: Vec<_> = outcome.warnings().iter().map(|warning| &*warning.path).collect();
    assert_eq!(warned, ["/score"]);
    assert_eq!(data(outcome), json!({"id": 42, "score": "high"}));
}

/// Each row: the operation kind, the requested failure, and the expected error.
pub(super) async fn errors_round_trip(transport: &dyn TestTransport) {
    let harness = serve(transport, &Fixture::new()).await;
    let client = harness.client().await;
    let may_have_run = json!({"mayHaveRun": true});
    let rows = [
        ("query", "domain", "SOLD_OUT", "none left", Some(json!({"left": 0})), false),
        ("query", "unavailable", "UNAVAILABLE", "away", None, true),
        ("query", "unsent", "UNAVAILABLE", "away", None, true),
        ("query", "broken", "EXECUTION_ERROR", "broken", None, false),
        ("mutation", "domain", "SOLD_OUT", "none left", Some(json!({"left": 0})), false),
        ("mutation", "unavailable", "UNAVAILABLE", "away", Some(may_have_run.clone()), false),
        ("mutation", "unsent", "UNAVAILABLE", "away", None, true),
        ("mutation", "broken", "EXECUTION_ERROR", "broken", Some(may_have_run), false),
    ];
    for (kind, how, code, message, details, is_retryable) in rows {
        let operation = format!("suite.fail-{kind}");
        let error = client.call(CallRequest::new(&operation, json!(how))).await.unwrap_err();
        assert_eq!(error.code().as_str(), code, "{kind} {how}");
        assert_eq!(error.message(), message, "{kind} {how}");
        assert_eq!(error.details(), details.as_ref(), "{kind} {how}");
        assert_eq!(error.is_retryable(), is_retryable, "{kind} {how}");
    }
    let missing = client.call(CallRequest::new("suite.none", json!({}))).await.unwrap_err();
    assert_eq!(missing.code().as_str(), "OPERATION_NOT_FOUND");
}

pub(super) async fn call_of_subscription_takes_first_value_and_cancels(
    transport: &dyn TestTransport,
) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    let outcome = client.call(CallRequest::new("suite.ticks", json!({}))).await.unwrap();
    assert_eq!(data(outcome), json!(0));
    fixture.counts.stopped.wait_for(1).await;
    wait_idle(&*harness, &client).await;
    let empty = client.call(CallRequest::new("suite.count", json!(0))).await.unwrap_err();
    assert_eq!(empty.code().as_str(), "ABORTED", "it completed without a response");
    wait_idle(&*harness, &client).await;
}

pub(super) async fn subscription_to_query_yields_result_and_ends(transport: &dyn TestTransport) {
    let harness = serve(transport, &Fixture::with_barrier(1)).await;
    let client = harness.client().await;
    for operation in ["suite.echo", "suite.steps"] {
        let values = client.subscribe(CallRequest::new(operation, json!(7)));
        assert_eq!(values.map(Result::unwrap).count().await, 1, "{operation}");
        wait_idle(&*harness, &client).await;
    }
    let mut failed = client.subscribe(CallRequest::new("suite.fail-query", json!("domain")));
    assert_eq!(failed.next().await.unwrap().unwrap_err().code().as_str(), "SOLD_OUT");
    assert!(failed.next().await.is_none());
}
