//! Requests that somebody answers with `respond`, `emit_error` and `complete`.

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolpost::connection::Client;
use toolpost::protocol::Requested;
use toolpost::{CallError, CallRequest, RequestId};

use super::wire::{Answers, End, Wire};
use super::world::data;
use super::{code, settled};

struct Hand {
    end: Box<dyn End>,
    client: Client,
    /// The serving side's end of the client's connection.
    server: Client,
    requests: mpsc::Receiver<Requested>,
}

impl Hand {
    async fn start(wire: &dyn Wire) -> Self {
        let (taker, requests) = mpsc::channel(16);
        let end = wire.start(Answers::ByHand(taker)).await;
        let client = end.client().await;
        let server = loop {
            match end.servers().pop() {
                Some(server) => break server,
                None => tokio::task::yield_now().await,
            }
        };
        Self { end, client, server, requests }
    }

    /// The id of the next request, which must be for that operation.
    async fn next(&mut self, operation: &str) -> RequestId {
        let request = self.requests.recv().await.unwrap();
        assert_eq!(&*request.operation, operation);
        RequestId::from(request.id)
    }
}

fn envelope(data: &Value) -> Value {
    json!({"data": data, "meta": {"source": "local", "operationId": "by.hand", "timestamp": 1}})
}

pub(super) async fn calls_are_answered_and_failed(wire: &dyn Wire) {
    let mut hand = Hand::start(wire).await;
    // The id is free again after each answer.
    for number in 0..3 {
        let request = CallRequest::new("by.hand", json!({})).request_id("same");
        let calling = tokio::spawn(hand.client.call(request));
        let id = hand.next("by.hand").await;
        assert_eq!(id, RequestId::from("same"));
        hand.server.respond(&id, envelope(&json!(number))).await.unwrap();
        assert_eq!(data(calling.await.unwrap().unwrap()), json!(number));
        settled(&*hand.end, &hand.client).await;
    }
    let calling = tokio::spawn(hand.client.call(CallRequest::new("by.hand", json!({}))));
    let id = hand.next("by.hand").await;
    let details = json!({"left": 0});
    let error = CallError::new("SOLD_OUT".into(), "none left").with_details(details.clone());
    hand.server.emit_error(&id, error).await;
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!((error.code().as_str(), error.details()), ("SOLD_OUT", Some(&details)));

    let calling = tokio::spawn(hand.client.call(CallRequest::new("by.hand", json!({}))));
    let id = hand.next("by.hand").await;
    hand.server.complete(&id).await;
    assert_eq!(code(calling.await.unwrap()), "ABORTED", "an end without an answer");
    settled(&*hand.end, &hand.client).await;
}

pub(super) async fn subscriptions_are_answered_and_completed(wire: &dyn Wire) {
    let mut hand = Hand::start(wire).await;
    let values = hand.client.subscribe(CallRequest::new("by.hand", json!({})));
    let collected = tokio::spawn(values.map(|value| data(value.unwrap())).collect::<Vec<_>>());
    let id = hand.next("by.hand").await;
    for number in 0..3 {
        hand.server.respond(&id, envelope(&json!(number))).await.unwrap();
    }
    hand.server.complete(&id).await;
    assert_eq!(collected.await.unwrap(), [0, 1, 2]);
    settled(&*hand.end, &hand.client).await;

    let mut values = hand.client.subscribe(CallRequest::new("by.hand", json!({})));
    let next = tokio::spawn(async move { (values.next().await, values) });
    let id = hand.next("by.hand").await;
    hand.server.emit_error(&id, CallError::unavailable("away")).await;
    let (ended, mut values) = next.await.unwrap();
    assert_eq!(code(ended.unwrap()), "UNAVAILABLE");
    assert!(values.next().await.is_none());
    settled(&*hand.end, &hand.client).await;
}

pub(super) async fn what_is_no_envelope_is_not_sent(wire: &dyn Wire) {
    let mut hand = Hand::start(wire).await;
    let calling = tokio::spawn(hand.client.call(CallRequest::new("by.hand", json!({}))));
    let id = hand.next("by.hand").await;
    let mut moon = envelope(&json!(1));
    moon["meta"]["source"] = json!("moon");
    for output in [json!(null), json!(5), json!({"data": 5}), json!({"meta": {}}), moon] {
        let refused = hand.server.respond(&id, output.clone()).await.unwrap_err();
        assert_eq!(refused.0.into_value().unwrap(), output, "it comes back");
    }
    assert_eq!(hand.client.pending_count(), 1);
    hand.server.respond(&id, envelope(&json!("at last"))).await.unwrap();
    assert_eq!(data(calling.await.unwrap().unwrap()), "at last");
}

pub(super) async fn what_is_given_up_is_not_served(wire: &dyn Wire) {
    let mut hand = Hand::start(wire).await;
    let calling = tokio::spawn(hand.client.call(CallRequest::new("by.hand", json!({}))));
    let id = hand.next("by.hand").await;
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    settled(&*hand.end, &hand.client).await;
    // An answer that comes too late disturbs nobody.
    hand.server.respond(&id, envelope(&json!("too late"))).await.unwrap();
    let calling = tokio::spawn(hand.client.call(CallRequest::new("by.hand", json!({}))));
    let id = hand.next("by.hand").await;
    hand.server.respond(&id, envelope(&json!("mine"))).await.unwrap();
    assert_eq!(data(calling.await.unwrap().unwrap()), "mine");
    settled(&*hand.end, &hand.client).await;
}
