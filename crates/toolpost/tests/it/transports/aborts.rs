//! Canceled calls and their effect on the peer.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use toolpost::{CallRequest, RequestId};

use super::fixture::Fixture;
use super::harness::TestTransport;
use super::{code, serve, wait_idle};

/// Operations that wait until they are aborted: a query and a mutation.
const WAITING_OPERATIONS: [&str; 2] = ["suite.wait", "suite.write"];

pub(super) async fn dropped_call_cancels_handler(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    for (round, operation) in WAITING_OPERATIONS.into_iter().enumerate() {
        let calling = client.call(CallRequest::new(operation, json!({})));
        tokio::select! {
            ended = calling => panic!("{operation}: {ended:?}"),
            () = fixture.counts.started.wait_for(round + 1) => {}
        }
        fixture.counts.canceled.wait_for(round + 1).await;
        wait_idle(&*harness, &client).await;
    }
}

pub(super) async fn abort_handle_cancels_call(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    for (round, operation) in WAITING_OPERATIONS.into_iter().enumerate() {
        let calling = client.call(CallRequest::new(operation, json!({})));
        let handle = calling.abort_handle();
        let calling = tokio::spawn(calling);
        fixture.counts.started.wait_for(round + 1).await;
        handle.abort("enough");
        assert_eq!(code(calling.await.unwrap()), "ABORTED", "{operation}");
        fixture.counts.canceled.wait_for(round + 1).await;
        wait_idle(&*harness, &client).await;
        handle.abort("what has ended is not disturbed");
    }
}

/// An abort before the call is first polled cancels it.
pub(super) async fn abort_handle_cancels_unpolled_call(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    let calling = client.call(CallRequest::new("suite.wait", json!({})));
    calling.abort_handle().abort("enough");
    assert_eq!(code(calling.await), "ABORTED");
    wait_idle(&*harness, &client).await;
    assert_eq!(fixture.counts.started.get(), fixture.counts.canceled.get());
}

pub(super) async fn client_abort_by_request_id_cancels_call(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    for (round, operation) in WAITING_OPERATIONS.into_iter().enumerate() {
        // Each round uses a new id: events for an aborted id may still be in flight.
        let id = RequestId::from(operation);
        let request = CallRequest::new(operation, json!({})).request_id(id.clone());
        let calling = tokio::spawn(client.call(request));
        fixture.counts.started.wait_for(round + 1).await;
        assert!(client.abort(&id, "enough"), "{operation}");
        assert!(!client.abort(&id, "twice"), "{operation}");
        assert_eq!(code(calling.await.unwrap()), "ABORTED", "{operation}");
        fixture.counts.canceled.wait_for(round + 1).await;
        wait_idle(&*harness, &client).await;
    }
    let id = RequestId::from("suite.quiet");
    let request = CallRequest::new("suite.quiet", json!({})).request_id(id.clone());
    let mut values = client.subscribe(request);
    values.next().await.unwrap().unwrap();
    assert!(client.abort(&id, "enough"));
    assert_eq!(code(values.next().await.unwrap()), "ABORTED");
    assert!(values.next().await.is_none());
    fixture.counts.stopped.wait_for(1).await;
    wait_idle(&*harness, &client).await;
}

/// Covers a source that is idle after its first value, and a source that always has another value.
pub(super) async fn dropped_stream_cancels_source(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    for (round, operation) in ["suite.quiet", "suite.ticks"].into_iter().enumerate() {
        let mut values = client.subscribe(CallRequest::new(operation, json!({})));
        assert_eq!(client.pending_count(), 0, "a subscription is sent when it is polled");
        values.next().await.unwrap().unwrap();
        drop(values);
        fixture.counts.stopped.wait_for(round + 1).await;
        wait_idle(&*harness, &client).await;
    }
    drop(client.subscribe(CallRequest::new("suite.ticks", json!({}))));
    wait_idle(&*harness, &client).await;
}

pub(super) async fn deadline_ends_call_on_both_sides(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    for (round, operation) in WAITING_OPERATIONS.into_iter().enumerate() {
        let request = CallRequest::new(operation, json!({})).timeout(Duration::from_millis(100));
        assert_eq!(code(client.call(request).await), "TIMEOUT", "{operation}");
        fixture.counts.canceled.wait_for(round + 1).await;
        wait_idle(&*harness, &client).await;
    }
    let request = CallRequest::new("suite.quiet", json!({})).timeout(Duration::from_millis(100));
    let mut values = client.subscribe(request);
    values.next().await.unwrap().unwrap();
    assert_eq!(code(values.next().await.unwrap()), "TIMEOUT");
    fixture.counts.stopped.wait_for(1).await;
    wait_idle(&*harness, &client).await;
}
