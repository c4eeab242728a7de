//! Clients that ask and do not read.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolpost::{
    CallContext, Handler, HandlerError, Kind, Operation, OperationSpec, Output, Payload,
};
use toolpost_gateway::GatewaySettings;

use super::super::spokes::eventually;
use super::{Neighbor, Raw, Running, resident};

const MEGABYTE: usize = 1024 * 1024;
/// Soon full, and yet some segments of loopback: with fewer, every read would wait for a probe.
const NARROW: u32 = 512 * 1024;

fn flood() -> Operation {
    let values = |_: CallContext, _: Value| {
        futures::stream::repeat_with(|| Ok::<_, HandlerError>("x".repeat(64 * 1024)))
    };
    Operation::subscription("flood.values", values).build().unwrap()
}

/// An answer that is made already, so that only sending it takes time.
fn large(id: &str, bytes: usize) -> Operation {
    let text = RawValue::from_string(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap();
    let answer = Handler::once_fn(move |_, _| {
        let text = text.clone();
        async { Ok(Output::Dynamic(Payload::from(text))) }
    });
    let spec = OperationSpec::new(&id.parse().unwrap(), Kind::Query);
    Operation::from_spec(spec).handler(answer).build().unwrap()
}

async fn gateway(patience: Duration) -> Running {
    let mut settings = GatewaySettings::default();
    settings.write_timeout = patience;
    // Those who were cut off do not return.
    settings.http.return_time = Duration::ZERO;
    let large = [large("flood.large", 8 * MEGABYTE), large("flood.some", MEGABYTE / 8)];
    Running::with(large.into_iter().chain([flood()]), settings).await
}

fn ask(operation: &str) -> String {
    format!(
        "POST /api/flood/{operation} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}"
    )
}

/// Asks, reads nothing, and waits until the gateway has had enough.
async fn be_deaf(address: SocketAddr, request: String) {
    let mut raw = Raw::narrow(address, NARROW).await;
    // Whoever is not read from cannot write for ever either.
    let _ = raw.0.write_all(request.as_bytes()).await;
    raw.is_cut().await;
}

/// Each row: what is asked for, and nobody reads.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_takes_is_given_up() {
    let gateway = gateway(Duration::from_millis(500)).await;
    let neighbor = Neighbor::start(&gateway);
    for (what, request) in [
        ("a stream", ask("values")),
        ("a large answer", ask("large")),
        ("some large answers", ask("large").repeat(4)),
        ("many answers", ask("some").repeat(64)),
    ] {
        let before = resident();
        let deaf = (0..10).map(|_| tokio::spawn(be_deaf(gateway.address, request.clone())));
        for ended in join_all(deaf).await {
            ended.unwrap();
        }
        eprintln!("10 times {what}, not read: {before} KiB before, {} KiB after", resident());
    }
    eprintln!("{} calls beside them", neighbor.stop().await);
    let pipeline = gateway.gateway.pipeline();
    eventually("nothing runs", || pipeline.in_flight() == 0).await;
    assert!(gateway.stop().await.in_time);
}

/// It takes longer than the patience for a client that does not read, and yet it is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_served_to_the_end() {
    let gateway = gateway(Duration::from_secs(2)).await;
    let mut raw = Raw::narrow(gateway.address, NARROW).await;
    raw.say(ask("large")).await;
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
