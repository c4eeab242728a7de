//! Peers that stop reading.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use toolpost::link::CloseReason;
use toolpost::{CallContext, HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use super::{Raw, Running, caller, data, eventually};

const LARGE: usize = 64 * 1024;

/// Large values, as fast as somebody takes them.
fn flood() -> Operation {
    let values = |_: CallContext, _: Value| {
        futures::stream::repeat_with(|| Ok::<_, HandlerError>("x".repeat(LARGE)))
    };
    Operation::subscription("flood.values", values).build().unwrap()
}

async fn gateway() -> Running {
    let mut settings = GatewaySettings::default();
    settings.websocket.stall = Duration::from_millis(500);
    settings.websocket.farewell = Duration::from_secs(600);
    Running::with([flood()], settings).await
}

/// Somebody else's calls, while a peer does not read.
async fn thousand_calls(gateway: &Running) {
    let client = caller(gateway, None).await;
    for n in 0..1_000 {
        let sum = data(&client, "demo.add", json!({"a": n, "b": 1})).await;
        assert_eq!(sum, Ok(json!({"sum": n + 1})));
    }
    client.close(CloseReason::done());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_stops_reading_is_closed_with_1013_and_slows_nobody() {
    let gateway = gateway().await;
    let mut slow = Raw::narrow(&gateway).await;
    slow.ask("s1", "flood.values", json!({})).await;
    assert_eq!(slow.next().await["type"], "call.responded");
    let began = std::time::Instant::now();
    thousand_calls(&gateway).await;
    eprintln!("1000 calls beside a stalled peer: {:?}", began.elapsed());
    let hub = gateway.gateway.hub();
    eventually("the peer is given up", || hub.census().peers == 0).await;
    eventually("and its stream", || gateway.gateway.pipeline().in_flight() == 0).await;
    assert_eq!(slow.close_code().await, 1013);
    assert!(gateway.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spoke_that_stops_reading_is_closed_with_1013_and_fails_its_calls() {
    let gateway = gateway().await;
    let mut slow = Raw::narrow(&gateway).await;
    slow.register("r1", "slow").await;
    let client = caller(&gateway, None).await;
    let large = json!("x".repeat(LARGE));
    // More than the sockets and the queue between them hold.
    let calls = (0..500).map(|_| data(&client, "slow.wire.ask", large.clone()));
    let (answers, ()) = tokio::join!(join_all(calls), thousand_calls(&gateway));
    for answer in answers {
        assert_eq!(answer, Err("UNAVAILABLE".to_owned()));
    }
    let hub = gateway.gateway.hub();
    eventually("the spoke is offline", || hub.census().online == 0).await;
    assert_eq!(slow.close_code().await, 1013);
    assert_eq!(client.pending_count(), 0);
    assert!(gateway.stop().await.in_time);
}
