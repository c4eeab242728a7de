//! Clients that send requests and do not read the responses.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolpost::{
    CallContext, Handler, HandlerError, HandlerOutput, Operation, OperationKind, OperationSpec,
    Payload,
};
use toolpost_gateway::GatewaySettings;

use super::super::spokes::wait_until;
use super::{BackgroundClient, RawClient, TestGateway, resident_kib};

const MEGABYTE: usize = 1024 * 1024;
/// Small enough to fill quickly, but several loopback segments: with fewer, every read would wait
/// for a window probe.
const RECV_BUFFER_BYTES: u32 = 512 * 1024;

fn flood() -> Operation {
    let values = |_: CallContext, _: Value| {
        futures::stream::repeat_with(|| Ok::<_, HandlerError>("x".repeat(64 * 1024)))
    };
    Operation::subscription("flood.values", values).build().unwrap()
}

/// An operation with a prepared result, so that only sending it takes time.
fn large_result(id: &str, bytes: usize) -> Operation {
    let text = RawValue::from_string(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap();
    let response = Handler::once_fn(move |_, _| {
        let text = text.clone();
        async { Ok(HandlerOutput::Dynamic(Payload::from(text))) }
    });
    let spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
    Operation::from_spec(spec).handler(response).build().unwrap()
}

async fn start_gateway(timeout: Duration) -> TestGateway {
    let mut settings = GatewaySettings::default();
    settings.write_timeout = timeout;
    // Disconnected clients do not resume.
    settings.http.resume_window = Duration::ZERO;
    let large =
        [large_result("flood.large", 8 * MEGABYTE), large_result("flood.some", MEGABYTE / 8)];
    TestGateway::start_with(large.into_iter().chain([flood()]), settings).await
}

fn request_for(operation: &str) -> String {
    format!(
        "POST /api/flood/{operation} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}"
    )
}

/// Sends a request, reads nothing, and waits until the gateway disconnects.
async fn request_without_reading(address: SocketAddr, request: String) {
    let mut raw = RawClient::connect_with_recv_buffer(address, RECV_BUFFER_BYTES).await;
    // The write fails if the gateway disconnects first.
    let _ = raw.0.write_all(request.as_bytes()).await;
    raw.wait_for_disconnect().await;
}

/// Each row: requests whose responses are not read.
#[tokio::test(flavor = "multi_thread")]
async fn unread_response_hits_write_timeout() {
    let gateway = start_gateway(Duration::from_millis(500)).await;
    let healthy_client = BackgroundClient::start(&gateway);
    for (what, request) in [
        ("a stream", request_for("values")),
        ("a large response", request_for("large")),
        ("several large responses", request_for("large").repeat(4)),
        ("many responses", request_for("some").repeat(64)),
    ] {
        let before = resident_kib();
        let deaf = (0..10)
            .map(|_| tokio::spawn(request_without_reading(gateway.address, request.clone())));
        for ended in join_all(deaf).await {
            ended.unwrap();
        }
        eprintln!("10 times {what}, not read: {before} KiB before, {} KiB after", resident_kib());
    }
    eprintln!("{} calls beside them", healthy_client.stop().await);
    let pipeline = gateway.gateway.pipeline();
    wait_until("nothing runs", || pipeline.in_flight() == 0).await;
    assert!(gateway.stop().await.in_time);
}

/// Reading takes longer than the write timeout, but never stalls, so the response completes.
#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_receives_complete_response() {
    let gateway = start_gateway(Duration::from_secs(2)).await;
    let mut raw = RawClient::connect_with_recv_buffer(gateway.address, RECV_BUFFER_BYTES).await;
    raw.send(request_for("large")).await;
    let mut piece = vec![0; 64 * 1024];
    let mut all = 0;
    for _ in 0..60 {
        raw.0.read_exact(&mut piece).await.unwrap();
        all += piece.len();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut rest = vec![0; 8 * MEGABYTE - all];
    raw.0.read_exact(&mut rest).await.unwrap();
    assert!(gateway.stop().await.in_time);
}
