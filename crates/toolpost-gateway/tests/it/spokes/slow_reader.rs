//! Peers that stop reading.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use toolpost::transport::CloseReason;
use toolpost::{CallContext, HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use super::{RawPeer, TestGateway, call_data, caller, wait_until};

const VALUE_BYTES: usize = 64 * 1024;

/// A subscription that streams large values as fast as they are consumed.
fn flood() -> Operation {
    let values = |_: CallContext, _: Value| {
        futures::stream::repeat_with(|| Ok::<_, HandlerError>("x".repeat(VALUE_BYTES)))
    };
    Operation::subscription("flood.values", values).build().unwrap()
}

async fn gateway() -> TestGateway {
    let mut settings = GatewaySettings::default();
    settings.websocket.stall_timeout = Duration::from_millis(500);
    settings.websocket.close_timeout = Duration::from_secs(600);
    TestGateway::start_with([flood()], settings).await
}

/// Makes calls from another peer while one peer does not read.
async fn thousand_calls(gateway: &TestGateway) {
    let client = caller(gateway, None).await;
    for n in 0..1_000 {
        let sum = call_data(&client, "demo.add", json!({"a": n, "b": 1})).await;
        assert_eq!(sum, Ok(json!({"sum": n + 1})));
    }
    client.close(CloseReason::normal());
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_caller_is_closed_with_1013() {
    let gateway = gateway().await;
    let mut slow = RawPeer::connect_with_small_buffer(&gateway).await;
    slow.call("s1", "flood.values", json!({})).await;
    assert_eq!(slow.next_event().await["type"], "call.responded");
    let began = std::time::Instant::now();
    thousand_calls(&gateway).await;
    eprintln!("1000 calls beside a stalled peer: {:?}", began.elapsed());
    let hub = gateway.gateway.hub();
    wait_until("the peer is disconnected", || hub.stats().connections == 0).await;
    wait_until("its stream ends", || gateway.gateway.pipeline().in_flight() == 0).await;
    assert_eq!(slow.close_code().await, 1013);
    assert!(gateway.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_spoke_is_closed_with_1013_and_calls_fail() {
    let gateway = gateway().await;
    let mut slow = RawPeer::connect_with_small_buffer(&gateway).await;
    slow.register("r1", "slow").await;
    let client = caller(&gateway, None).await;
    let large = json!("x".repeat(VALUE_BYTES));
    // More than the sockets and the queue between them can buffer.
    let calls = (0..500).map(|_| call_data(&client, "slow.wire.ask", large.clone()));
    let (responses, ()) = tokio::join!(join_all(calls), thousand_calls(&gateway));
    for response in responses {
        assert_eq!(response, Err("UNAVAILABLE".to_owned()));
    }
    let hub = gateway.gateway.hub();
    wait_until("the spoke is offline", || hub.stats().online_spokes == 0).await;
    assert_eq!(slow.close_code().await, 1013);
    assert_eq!(client.pending_count(), 0);
    assert!(gateway.stop().await.in_time);
}
