//! Shutdown: calls in flight finish, streams are notified, and what exceeds the timeout is aborted.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost_gateway::{Gateway, GatewayError, GatewaySettings};

use super::{TestGateway, client};

#[tokio::test]
async fn drain_finishes_calls_and_rejects_new_connections() {
    let gateway = TestGateway::start().await;
    let url = gateway.url("/api/demo/slow");
    let call = tokio::spawn(client().post(&url).json(&json!({"ms": 300})).send());
    while gateway.gateway.pipeline().in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    let (drained, response) = tokio::join!(gateway.stop(), call);
    assert!(drained.in_time);
    let response: Value = response.unwrap().unwrap().json().await.unwrap();
    assert_eq!(response, json!({"sleptMs": 300}));
    assert!(client().post(&url).json(&json!({"ms": 1})).send().await.is_err());
}

#[tokio::test]
async fn stream_receives_error_on_shutdown() {
    let gateway = TestGateway::start().await;
    let request = client().post(gateway.url("/api/demo/clock"));
    let response = request.json(&json!({"count": 1_000, "everyMs": 10})).send().await.unwrap();
    let mut body = response.bytes_stream();
    body.next().await.unwrap().unwrap();
    let rest =
        body.map(|chunk| String::from_utf8(chunk.unwrap().to_vec()).unwrap()).collect::<String>();
    let (drained, rest) = tokio::join!(gateway.stop(), rest);
    assert!(drained.in_time);
    let last = rest.split_terminator("\n\n").last().unwrap();
    assert!(last.starts_with("event: error\n") && last.contains("UNAVAILABLE"), "{last}");
}

#[tokio::test]
async fn drain_deadline_aborts_remaining_connections() {
    let mut settings = GatewaySettings::default();
    settings.drain_timeout = Duration::from_millis(100);
    let gateway = TestGateway::start_with([], settings).await;
    let request = client().post(gateway.url("/api/demo/slow")).json(&json!({"ms": 600_000}));
    let call = tokio::spawn(request.send());
    while gateway.gateway.pipeline().in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    let pipeline = gateway.gateway.pipeline().clone();
    let drained = gateway.stop().await;
    assert!(!drained.in_time);
    assert_eq!(drained.aborted_connections, 1);
    assert!(call.await.unwrap().is_err(), "the connection was cut");
    assert_eq!(pipeline.in_flight(), 0, "the handler was stopped");
}

#[tokio::test]
async fn unauthenticated_gateway_binds_loopback_only() {
    let gateway = Gateway::builder(toolpost_gateway::builtin::registry()).build().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let rejected = gateway.bind(address.parse().unwrap()).await;
        assert!(matches!(rejected, Err(GatewayError::NotLoopback(_))), "{address}");
    }
    let everywhere = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let rejected = gateway.serve(everywhere, std::future::pending()).await;
    assert!(matches!(rejected, Err(GatewayError::NotLoopback(_))), "the same for a bound listener");
}
