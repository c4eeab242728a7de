//! A gateway that stops while peers are connected.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolpost::{CallContext, CallRequest, HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use super::{Raw, Running, caller, data, eventually, in_time, last_code, spoke};

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_finish_streams_end_and_peers_hear_1001() {
    let mut settings = GatewaySettings::default();
    // Whoever says goodbye is not waited for.
    settings.websocket.farewell = Duration::from_secs(600);
    let gateway = Running::with([], settings).await;
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let wait = move |_: CallContext, _: Value| {
        let opened = Arc::clone(&opened);
        async move { Ok::<_, HandlerError>(opened.acquire().await.is_ok()) }
    };
    let wait = Operation::query("work.wait", wait).build().unwrap();
    let session = spoke(&gateway, None, "box", [wait]).await;
    let mut idle = Raw::connect(&gateway, None).await;
    idle.ask("r1", "demo.add", json!({"a": 1, "b": 1})).await;
    idle.next().await;

    let client = caller(&gateway, None).await;
    let call = tokio::spawn(client.call(CallRequest::new("box.work.wait", json!({}))));
    let ticking = json!({"count": 100_000, "everyMs": 5});
    let mut ticks = client.subscribe(CallRequest::new("demo.clock", ticking));
    ticks.next().await.unwrap().unwrap();
    eventually("the call is at the spoke", || session.pipeline().in_flight() == 1).await;

    let hub = gateway.gateway.hub().clone();
    let pipeline = gateway.gateway.pipeline().clone();
    let stopping = tokio::spawn(gateway.stop());
    assert_eq!(last_code(ticks).await.as_deref(), Some("UNAVAILABLE"));
    let late = data(&client, "demo.add", json!({"a": 1, "b": 1})).await;
    assert_eq!(late, Err("UNAVAILABLE".to_owned()), "nothing new begins");
    assert!(!call.is_finished(), "what has begun goes on");

    gate.add_permits(1);
    let answer = in_time("the call finishes", call).await.unwrap().unwrap();
    assert_eq!(answer.envelope.into_value().unwrap().data, true);
    assert_eq!(idle.close_code().await, 1001);
    let drained = in_time("the gateway stops", stopping).await.unwrap();
    assert!(drained.in_time, "{drained:?}");
    in_time("the caller hears it", client.closed()).await;
    assert_eq!(client.close_reason().unwrap().code, 1001);
    assert_eq!((hub.census().peers, pipeline.in_flight()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_says_goodbye_hears_it_back() {
    let gateway = Running::start().await;
    let mut peer = Raw::connect(&gateway, None).await;
    peer.register("r1", "brief").await;
    peer.close().await;
    assert_eq!(peer.close_code().await, 1000);
    eventually("it is gone", || gateway.gateway.hub().census().peers == 0).await;
    assert!(gateway.stop().await.in_time);
}
