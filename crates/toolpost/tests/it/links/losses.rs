//! Connections that are lost, and made again.

use futures::StreamExt;
use serde_json::json;
use toolpost::CallRequest;

use super::wire::Wire;
use super::world::{World, data};
use super::{code, serve, settled};

pub(super) async fn everything_pending_fails_at_once_and_only_mutations_go_on(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    let query = tokio::spawn(client.call(CallRequest::new("suite.wait", json!({}))));
    let mutation = tokio::spawn(client.call(CallRequest::new("suite.write", json!({}))));
    let mut values = client.subscribe(CallRequest::new("suite.quiet", json!({})));
    values.next().await.unwrap().unwrap();
    world.counts.started.reaches(3).await;

    end.cut();
    assert_eq!(code(query.await.unwrap()), "UNAVAILABLE");
    assert_eq!(code(mutation.await.unwrap()), "UNAVAILABLE");
    assert_eq!(code(values.next().await.unwrap()), "UNAVAILABLE");
    assert!(values.next().await.is_none());
    assert_eq!(client.pending_count(), 0);
    let refused = client.call(CallRequest::new("suite.echo", json!({}))).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "UNAVAILABLE");

    let cancelled = ["suite.quiet ABORTED", "suite.wait ABORTED"];
    assert_eq!(world.journal.lines(2).await, cancelled, "the mutation goes on");
    world.counts.cancelled.reaches(1).await;
    world.counts.stopped.reaches(1).await;
    world.release.notify_waiters();
    let all = ["suite.quiet ABORTED", "suite.wait ABORTED", "suite.write ok"];
    assert_eq!(world.journal.lines(3).await, all);
    assert_eq!(world.counts.cancelled.get(), 1);
    settled(&*end, &client).await;
}

pub(super) async fn a_session_comes_back_and_its_subscriptions_go_on(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let session = end.session();
    let mut values = session.resubscribe("suite.quiet", json!({}));
    for round in 1..=3 {
        let client = session.connected().await.unwrap();
        assert_eq!(data(values.next().await.unwrap().unwrap()), "first", "round {round}");
        let answer = client.call(CallRequest::new("suite.echo", json!(round))).await.unwrap();
        assert_eq!(data(answer), json!(round));
        let waiting = tokio::spawn(client.call(CallRequest::new("suite.wait", json!({}))));
        world.counts.started.reaches(2 * round).await;
        end.cut();
        assert_eq!(code(waiting.await.unwrap()), "UNAVAILABLE", "round {round}");
        client.closed().await;
        world.counts.stopped.reaches(round).await;
    }
    assert_eq!(data(values.next().await.unwrap().unwrap()), "first", "after the last cut");
    session.close().await;
    assert_eq!(code(values.next().await.unwrap()), "UNAVAILABLE");
    assert!(values.next().await.is_none());
}
