//! Subscriptions: their order, their silence, and consumers who are slow.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use toolpost::CallRequest;

use super::wire::Wire;
use super::world::{World, data};
use super::{code, serve, settled};

pub(super) async fn values_come_in_order_and_none_is_lost(wire: &dyn Wire) {
    const MANY: usize = 50_000;
    let end = serve(wire, &World::new()).await;
    let client = end.client().await;
    let values = client.subscribe(CallRequest::new("suite.count", json!(MANY)));
    let mut values = values.enumerate();
    let mut seen = 0;
    while let Some((number, value)) = values.next().await {
        assert_eq!(data(value.unwrap()), json!(number));
        seen += 1;
    }
    assert_eq!(seen, MANY);
    settled(&*end, &client).await;
}

pub(super) async fn a_silent_subscription_is_given_up(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    let request = CallRequest::new("suite.quiet", json!({}));
    let mut values = client.subscribe(request.idle_timeout(Duration::from_millis(50)));
    assert_eq!(data(values.next().await.unwrap().unwrap()), "first");
    assert_eq!(code(values.next().await.unwrap()), "TIMEOUT");
    assert!(values.next().await.is_none());
    world.counts.stopped.reaches(1).await;
    settled(&*end, &client).await;
}

pub(super) async fn a_consumer_who_takes_nothing_stops_the_source_and_nobody_else(wire: &dyn Wire) {
    let world = World::new();
    let end = serve(wire, &world).await;
    let client = end.client().await;
    let mut values = client.subscribe(CallRequest::new("suite.ticks", json!({})));
    let mut taken = 0;
    for round in 0..3 {
        for _ in 0..1_000 {
            assert_eq!(data(values.next().await.unwrap().unwrap()), json!(taken));
            taken += 1;
        }
        // Until a hundred other calls were answered and the source gave nothing meanwhile.
        let mut produced = usize::MAX;
        while produced != world.counts.produced.get() {
            produced = world.counts.produced.get();
            for number in 0..100 {
                let other = client.call(CallRequest::new("suite.echo", json!(number))).await;
                assert_eq!(data(other.unwrap()), json!(number));
            }
        }
        let ahead = produced - taken;
        assert!(ahead <= wire.most_ahead(), "round {round}: {ahead} values ahead");
    }
    drop(values);
    world.counts.stopped.reaches(1).await;
    settled(&*end, &client).await;
}
