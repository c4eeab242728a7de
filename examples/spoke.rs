//! A spoke: a process that registers operations with a hub and reconnects after a disconnect.
//!
//! Start a gateway with `cargo run -- serve`, then run `cargo run --example spoke`. The hub URL is
//! the first argument or `TOOLPOST_URL`; the token is read from `TOOLPOST_TOKEN`. Ctrl-C stops the
//! process.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt};
use schemars::JsonSchema;
use serde::Deserialize;
use toolpost::connection::ConnectionStatus;
use toolpost::hub::Spoke;
use toolpost::protocol::Secret;
use toolpost::transport::WsConnector;
use toolpost::{CallContext, CallError, HandlerError, Operation, Progress};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

async fn add(Add { a, b }: Add) -> Result<i64, HandlerError> {
    a.checked_add(b).ok_or_else(|| CallError::execution("the sum is too large").into())
}

/// Reports progress every second and stops when the call is canceled.
async fn nap(context: CallContext, seconds: u32) -> Result<String, HandlerError> {
    for second in 1..=seconds {
        tokio::select! {
            () = context.canceled() => return Err(CallError::aborted("woken up").into()),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        context.report(Progress::new(f64::from(second)).with_total(f64::from(seconds)));
    }
    Ok(format!("slept for {seconds} s"))
}

/// A mutation: it runs to completion even if the caller disconnects.
async fn increment(by: u64) -> Result<u64, HandlerError> {
    static TOTAL: AtomicU64 = AtomicU64::new(0);
    Ok(TOTAL.fetch_add(by, Ordering::Relaxed).wrapping_add(by))
}

fn ticks(count: u32) -> impl Stream<Item = Result<u32, HandlerError>> {
    futures::stream::iter(1..=count).then(async |tick| {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(tick)
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).or_else(|| std::env::var("TOOLPOST_URL").ok());
    let url = url.unwrap_or_else(|| "ws://127.0.0.1:7411".to_owned());
    let token = std::env::var("TOOLPOST_TOKEN").ok().map(Secret::new);

    let session = Spoke::new("box")
        .operation(Operation::query("math.add", add).description("Adds two numbers").build()?)?
        .operation(Operation::query("work.nap", nap).description("Takes its time").build()?)?
        .operation(Operation::mutation("counter.increment", increment).build()?)?
        .operation(Operation::subscription("clock.ticks", ticks).build()?)?
        .connect(WsConnector::new(&url, token)?);

    let mut status = session.client().status();
    loop {
        match &*status.borrow_and_update() {
            ConnectionStatus::Connected(_) => println!("registered as `box` at {url}"),
            ConnectionStatus::Connecting(Some(reason)) => println!("no hub yet: {reason}"),
            _ => {}
        }
        tokio::select! {
            _ = status.changed() => {}
            stop = tokio::signal::ctrl_c() => {
                stop?;
                session.close().await;
                return Ok(());
            }
        }
    }
}
