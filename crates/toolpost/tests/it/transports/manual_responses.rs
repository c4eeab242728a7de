//! Requests whose responses are sent manually with `respond`, `emit_error` and `complete`.

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolpost::connection::Client;
use toolpost::protocol::RequestEvent;
use toolpost::{CallError, CallRequest, RequestId};

use super::fixture::data;
use super::harness::{RequestSource, TestTransport, TransportHarness};
use super::{code, wait_idle};

struct ManualServer {
    harness: Box<dyn TransportHarness>,
    client: Client,
    /// Server end of the client's connection.
    server: Client,
    requests: mpsc::Receiver<RequestEvent>,
}

impl ManualServer {
    async fn start(transport: &dyn TestTransport) -> Self {
        let (sender, requests) = mpsc::channel(16);
        let end = transport.start(RequestSource::Manual(sender)).await;
        let client = end.client().await;
        let server = loop {
            match end.servers().pop() {
                Some(server) => break server,
                None => tokio::task::yield_now().await,
            }
        };
        Self { harness: end, client, server, requests }
    }

    /// Returns the id of the next request, and asserts that it is for `operation`.
    async fn next_request(&mut self, operation: &str) -> RequestId {
        let request = self.requests.recv().await.unwrap();
        assert_eq!(&*request.operation, operation);
        RequestId::from(request.id)
    }
}

fn envelope(data: &Value) -> Value {
    json!({"data": data, "meta": {"source": "local", "operationId": "by.hand", "timestamp": 1}})
}

pub(super) async fn manual_call_responses_and_errors_are_delivered(transport: &dyn TestTransport) {
    let mut manual = ManualServer::start(transport).await;
    // The id can be reused after each response.
    for number in 0..3 {
        let request = CallRequest::new("by.hand", json!({})).request_id("same");
        let calling = tokio::spawn(manual.client.call(request));
        let id = manual.next_request("by.hand").await;
        assert_eq!(id, RequestId::from("same"));
        manual.server.respond(&id, envelope(&json!(number))).await.unwrap();
        assert_eq!(data(calling.await.unwrap().unwrap()), json!(number));
        wait_idle(&*manual.harness, &manual.client).await;
    }
    let calling = tokio::spawn(manual.client.call(CallRequest::new("by.hand", json!({}))));
    let id = manual.next_request("by.hand").await;
    let details = json!({"left": 0});
    let error = CallError::new("SOLD_OUT".into(), "none left").with_details(details.clone());
    manual.server.emit_error(&id, error).await;
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!((error.code().as_str(), error.details()), ("SOLD_OUT", Some(&details)));

    let calling = tokio::spawn(manual.client.call(CallRequest::new("by.hand", json!({}))));
    let id = manual.next_request("by.hand").await;
    manual.server.complete(&id).await;
    assert_eq!(code(calling.await.unwrap()), "ABORTED", "a completion without a response");
    wait_idle(&*manual.harness, &manual.client).await;
}

pub(super) async fn manual_subscription_values_and_completion_are_delivered(
    transport: &dyn TestTransport,
) {
    let mut manual = ManualServer::start(transport).await;
    let values = manual.client.subscribe(CallRequest::new("by.hand", json!({})));
    let collected = tokio::spawn(values.map(|value| data(value.unwrap())).collect::<Vec<_>>());
    let id = manual.next_request("by.hand").await;
    for number in 0..3 {
        manual.server.respond(&id, envelope(&json!(number))).await.unwrap();
    }
    manual.server.complete(&id).await;
    assert_eq!(collected.await.unwrap(), [0, 1, 2]);
    wait_idle(&*manual.harness, &manual.client).await;

    let mut values = manual.client.subscribe(CallRequest::new("by.hand", json!({})));
    let next = tokio::spawn(async move { (values.next().await, values) });
    let id = manual.next_request("by.hand").await;
    manual.server.emit_error(&id, CallError::unavailable("away")).await;
    let (ended, mut values) = next.await.unwrap();
    assert_eq!(code(ended.unwrap()), "UNAVAILABLE");
    assert!(values.next().await.is_none());
    wait_idle(&*manual.harness, &manual.client).await;
}

pub(super) async fn respond_rejects_non_envelope(transport: &dyn TestTransport) {
    let mut manual = ManualServer::start(transport).await;
    let calling = tokio::spawn(manual.client.call(CallRequest::new("by.hand", json!({}))));
    let id = manual.next_request("by.hand").await;
    let mut moon = envelope(&json!(1));
    moon["meta"]["source"] = json!("moon");
    for output in [json!(null), json!(5), json!({"data": 5}), json!({"meta": {}}), moon] {
        let rejected = manual.server.respond(&id, output.clone()).await.unwrap_err();
        assert_eq!(rejected.0.into_value().unwrap(), output, "the queued call runs");
    }
    assert_eq!(manual.client.pending_count(), 1);
    manual.server.respond(&id, envelope(&json!("at last"))).await.unwrap();
    assert_eq!(data(calling.await.unwrap().unwrap()), "at last");
}

pub(super) async fn canceled_request_ignores_late_response(transport: &dyn TestTransport) {
    let mut manual = ManualServer::start(transport).await;
    let calling = tokio::spawn(manual.client.call(CallRequest::new("by.hand", json!({}))));
    let id = manual.next_request("by.hand").await;
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    wait_idle(&*manual.harness, &manual.client).await;
    // A late response has no effect.
    manual.server.respond(&id, envelope(&json!("too late"))).await.unwrap();
    let calling = tokio::spawn(manual.client.call(CallRequest::new("by.hand", json!({}))));
    let id = manual.next_request("by.hand").await;
    manual.server.respond(&id, envelope(&json!("mine"))).await.unwrap();
    assert_eq!(data(calling.await.unwrap().unwrap()), "mine");
    wait_idle(&*manual.harness, &manual.client).await;
}
