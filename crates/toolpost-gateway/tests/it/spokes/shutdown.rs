//! Shutdown of a gateway with connected peers.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolpost::{CallContext, CallRequest, HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use super::{
    RawPeer, TestGateway, call_data, caller, final_error_code, spoke, wait_until, with_timeout,
};

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_calls_and_closes_with_1001() {
    let mut settings = GatewaySettings::default();
    // Longer than the test: the shutdown must not wait for the close timeout.
    settings.websocket.close_timeout = Duration::from_secs(600);
    let gateway = TestGateway::start_with([], settings).await;
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let wait = move |_: CallContext, _: Value| {
        let opened = Arc::clone(&opened);
        async move { Ok::<_, HandlerError>(opened.acquire().await.is_ok()) }
    };
    let wait = Operation::query("work.wait", wait).build().unwrap();
    let session = spoke(&gateway, None, "box", [wait]).await;
    let mut idle = RawPeer::connect(&gateway, None).await;
    idle.call("r1", "demo.add", json!({"a": 1, "b": 1})).await;
    idle.next_event().await;

    let client = caller(&gateway, None).await;
    let call = tokio::spawn(client.call(CallRequest::new("box.work.wait", json!({}))));
    let ticking = json!({"count": 100_000, "everyMs": 5});
    let mut ticks = client.subscribe(CallRequest::new("demo.clock", ticking));
    ticks.next().await.unwrap().unwrap();
    wait_until("the spoke receives the call", || session.pipeline().in_flight() == 1).await;

    let hub = gateway.gateway.hub().clone();
    let pipeline = gateway.gateway.pipeline().clone();
    let stopping = tokio::spawn(gateway.stop());
    assert_eq!(final_error_code(ticks).await.as_deref(), Some("UNAVAILABLE"));
    let late = call_data(&client, "demo.add", json!({"a": 1, "b": 1})).await;
    assert_eq!(late, Err("UNAVAILABLE".to_owned()), "new calls are rejected");
    assert!(!call.is_finished(), "started calls continue");

    gate.add_permits(1);
    let response = with_timeout("the call finishes", call).await.unwrap().unwrap();
    assert_eq!(response.envelope.into_value().unwrap().data, true);
    assert_eq!(idle.close_code().await, 1001);
    let drained = with_timeout("the gateway stops", stopping).await.unwrap();
    assert!(drained.in_time, "{drained:?}");
    with_timeout("the client is disconnected", client.closed()).await;
    assert_eq!(client.close_reason().unwrap().code, 1001);
    assert_eq!((hub.stats().connections, pipeline.in_flight()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_close_frame_is_acknowledged() {
    let gateway = TestGateway::start().await;
    let mut peer = RawPeer::connect(&gateway, None).await;
    peer.register("r1", "brief").await;
    peer.close().await;
    assert_eq!(peer.close_code().await, 1000);
    wait_until("the peer is disconnected", || gateway.gateway.hub().stats().connections == 0).await;
    assert!(gateway.stop().await.in_time);
}
