//! Calls that are given up, and what the far end hears of it.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use toolpost::{CallRequest, RequestId};

use super::wire::Wire;
use super::world::World;
use super::{code, serve, settled};

/// What waits, and is stopped by an explicit abort: a mutation as well as a query.
const WAITING: [&str; 2] = ["suite.wait", "suite.write"];

pub(super) async fn a_dropped_call_is_cancelled(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    for (round, operation) in WAITING.into_iter().enumerate() {
        let calling = client.call(CallRequest::new(operation, json!({})));
        tokio::select! {
            ended = calling => panic!("{operation}: {ended:?}"),
            () = world.counts.started.reaches(round + 1) => {}
        }
        world.counts.cancelled.reaches(round + 1).await;
        settled(&*end, &client).await;
    }
}

pub(super) async fn a_handle_aborts_a_call(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    for (round, operation) in WAITING.into_iter().enumerate() {
        let calling = client.call(CallRequest::new(operation, json!({})));
        let handle = calling.abort_handle();
        let calling = tokio::spawn(calling);
        world.counts.started.reaches(round + 1).await;
        handle.abort("enough");
        assert_eq!(code(calling.await.unwrap()), "ABORTED", "{operation}");
        world.counts.cancelled.reaches(round + 1).await;
        settled(&*end, &client).await;
        handle.abort("what has ended is not disturbed");
    }
}

/// A handle is often used before the task of its call had its first turn.
pub(super) async fn a_handle_aborts_a_call_that_nobody_has_polled(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    let calling = client.call(CallRequest::new("suite.wait", json!({})));
    calling.abort_handle().abort("enough");
    assert_eq!(code(calling.await), "ABORTED");
    settled(&*end, &client).await;
    assert_eq!(world.counts.started.get(), world.counts.cancelled.get());
}

pub(super) async fn a_client_aborts_a_call_by_its_id(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    for (round, operation) in WAITING.into_iter().enumerate() {
        // Not one that was given up: the last words about it may still be under way.
        let id = RequestId::from(operation);
        let request = CallRequest::new(operation, json!({})).request_id(id.clone());
        let calling = tokio::spawn(client.call(request));
        world.counts.started.reaches(round + 1).await;
        assert!(client.abort(&id, "enough"), "{operation}");
        assert!(!client.abort(&id, "twice"), "{operation}");
        assert_eq!(code(calling.await.unwrap()), "ABORTED", "{operation}");
        world.counts.cancelled.reaches(round + 1).await;
        settled(&*end, &client).await;
    }
    let id = RequestId::from("suite.quiet");
    let request = CallRequest::new("suite.quiet", json!({})).request_id(id.clone());
    let mut values = client.subscribe(request);
    values.next().await.unwrap().unwrap();
    assert!(client.abort(&id, "enough"));
    assert_eq!(code(values.next().await.unwrap()), "ABORTED");
    assert!(values.next().await.is_none());
    world.counts.stopped.reaches(1).await;
    settled(&*end, &client).await;
}

/// One that has just given a value, and one that always has another.
pub(super) async fn a_dropped_stream_is_cancelled(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    for (round, operation) in ["suite.quiet", "suite.ticks"].into_iter().enumerate() {
        let mut values = client.subscribe(CallRequest::new(operation, json!({})));
        assert_eq!(client.pending_count(), 0, "it is lazy");
        values.next().await.unwrap().unwrap();
        drop(values);
        world.counts.stopped.reaches(round + 1).await;
        settled(&*end, &client).await;
    }
    drop(client.subscribe(CallRequest::new("suite.ticks", json!({}))));
    settled(&*end, &client).await;
}

pub(super) async fn a_deadline_ends_the_call_on_both_sides(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    for (round, operation) in WAITING.into_iter().enumerate() {
        let request = CallRequest::new(operation, json!({})).timeout(Duration::from_millis(100));
        assert_eq!(code(client.call(request).await), "TIMEOUT", "{operation}");
        world.counts.cancelled.reaches(round + 1).await;
        settled(&*end, &client).await;
    }
    let request = CallRequest::new("suite.quiet", json!({})).timeout(Duration::from_millis(100));
    let mut values = client.subscribe(request);
    values.next().await.unwrap().unwrap();
    assert_eq!(code(values.next().await.unwrap()), "TIMEOUT");
    world.counts.stopped.reaches(1).await;
    settled(&*end, &client).await;
}
