//! Subscriptions: value order, idle timeouts and slow consumers.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use toolpost::CallRequest;

use super::fixture::{Fixture, data};
use super::harness::TestTransport;
use super::{code, serve, wait_idle};

pub(super) async fn values_arrive_in_order_without_loss(transport: &dyn TestTransport) {
    const MANY: usize = 50_000;
    let harness = serve(transport, &Fixture::new()).await;
    let client = harness.client().await;
    let values = client.subscribe(CallRequest::new("suite.count", json!(MANY)));
    let mut values = values.enumerate();
    let mut seen = 0;
    while let Some((number, value)) = values.next().await {
        assert_eq!(data(value.unwrap()), json!(number));
        seen += 1;
    }
    assert_eq!(seen, MANY);
    wait_idle(&*harness, &client).await;
}

pub(super) async fn idle_subscription_times_out(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    let request = CallRequest::new("suite.quiet", json!({}));
    let mut values = client.subscribe(request.idle_timeout(Duration::from_millis(50)));
    assert_eq!(data(values.next().await.unwrap().unwrap()), "first");
    assert_eq!(code(values.next().await.unwrap()), "TIMEOUT");
    assert!(values.next().await.is_none());
    fixture.counts.stopped.wait_for(1).await;
    wait_idle(&*harness, &client).await;
}

pub(super) async fn slow_consumer_pauses_only_its_source(transport: &dyn TestTransport) {
    let fixture = Fixture::new();
    let harness = serve(transport, &fixture).await;
    let client = harness.client().await;
    let mut values = client.subscribe(CallRequest::new("suite.ticks", json!({})));
    let mut taken = 0;
    for round in 0..3 {
        for _ in 0..1_000 {
            assert_eq!(data(values.next().await.unwrap().unwrap()), json!(taken));
            taken += 1;
        }
        // Repeats until the source produces nothing during a hundred other calls.
        let mut produced = usize::MAX;
        while produced != fixture.counts.produced.get() {
            produced = fixture.counts.produced.get();
            for number in 0..100 {
                let other = client.call(CallRequest::new("suite.echo", json!(number))).await;
                assert_eq!(data(other.unwrap()), json!(number));
            }
        }
        let ahead = produced - taken;
        assert!(ahead <= transport.max_buffered_values(), "round {round}: {ahead} values ahead");
    }
    drop(values);
    fixture.counts.stopped.wait_for(1).await;
    wait_idle(&*harness, &client).await;
}
