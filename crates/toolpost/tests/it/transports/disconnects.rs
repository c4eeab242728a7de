//! Lost connections and reconnects.

use futures::StreamExt;
use serde_json::json;
use toolpost::CallRequest;

use super::fixture::{Fixture, data};
use super::harness::TestTransport;
use super::{code, serve, wait_idle};

pub(super) async fn disconnect_fails_pending_and_mutations_complete(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    let query = tokio::spawn(client.call(CallRequest::new("suite.wait", json!({}))));
    let mutation = tokio::spawn(client.call(CallRequest::new("suite.write", json!({}))));
    let mut values = client.subscribe(CallRequest::new("suite.quiet", json!({})));
    values.next().await.unwrap().unwrap();
    fixture.counts.started.wait_for(3).await;

    harness.disconnect_all();
    assert_eq!(code(query.await.unwrap()), "UNAVAILABLE");
    assert_eq!(code(mutation.await.unwrap()), "UNAVAILABLE");
    assert_eq!(code(values.next().await.unwrap()), "UNAVAILABLE");
    assert!(values.next().await.is_none());
    assert_eq!(client.pending_count(), 0);
    let rejected = client.call(CallRequest::new("suite.echo", json!({}))).await.unwrap_err();
    assert_eq!(rejected.code().as_str(), "UNAVAILABLE");

    let canceled = ["suite.quiet ABORTED", "suite.wait ABORTED"];
    assert_eq!(fixture.audit.lines(2).await, canceled, "the mutation continues");
    fixture.counts.canceled.wait_for(1).await;
    fixture.counts.stopped.wait_for(1).await;
    fixture.release.notify_waiters();
    let all = ["suite.quiet ABORTED", "suite.wait ABORTED", "suite.write ok"];
    assert_eq!(fixture.audit.lines(3).await, all);
    assert_eq!(fixture.counts.canceled.get(), 1);
    wait_idle(&*harness, &client).await;
}

pub(super) async fn reconnect_resumes_subscriptions(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let session = harness.reconnecting_client();
    let mut values = session.subscribe("suite.quiet", json!({}));
    for round in 1..=3 {
        let client = session.wait_connected().await.unwrap();
        assert_eq!(data(values.next().await.unwrap().unwrap()), "first", "round {round}");
        let response = client.call(CallRequest::new("suite.echo", json!(round))).await.unwrap();
        assert_eq!(data(response), json!(round));
        let waiting = tokio::spawn(client.call(CallRequest::new("suite.wait", json!({}))));
        fixture.counts.started.wait_for(2 * round).await;
        harness.disconnect_all();
        assert_eq!(code(waiting.await.unwrap()), "UNAVAILABLE", "round {round}");
        client.closed().await;
        fixture.counts.stopped.wait_for(round).await;
    }
    assert_eq!(data(values.next().await.unwrap().unwrap()), "first", "after the last disconnect");
    session.close().await;
    assert_eq!(code(values.next().await.unwrap()), "UNAVAILABLE");
    assert!(values.next().await.is_none());
}
