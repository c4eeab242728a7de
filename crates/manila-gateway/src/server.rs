//! Connections: accepted up to a bound, each owned here, all of them drained in the end.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app::Parts;

/// How a gateway stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Whether everything had ended before the deadline.
    pub in_time: bool,
    /// How many connections had to be cut.
    pub cut: usize,
}

pub(crate) async fn serve(
    parts: &Parts,
    router: Router,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Drained {
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            stream = accept(&listener), if connections.len() < parts.settings.connections => {
                connections.spawn(connection(
                    stream,
                    router.clone(),
                    parts.settings.header_timeout,
                    parts.stopping.clone(),
                ));
            }
        }
    }
    drop(listener);
    drain(parts, connections).await
}

pub(crate) async fn drain(parts: &Parts, mut connections: JoinSet<()>) -> Drained {
    // A time beyond the end of the clock is as good as a day.
    let drain = parts.settings.drain.min(Duration::from_secs(86_400));
    let deadline = Instant::now() + drain;
    parts.stopping.cancel();
    parts.arriving.close();
    let ended = async { while connections.join_next().await.is_some() {} };
    let (ended, peers_answered) =
        tokio::join!(tokio::time::timeout_at(deadline, ended), parts.hub.drain(drain));
    let cut = connections.len();
    connections.shutdown().await;
    let calls_ended =
        parts.pipeline.drain(deadline.saturating_duration_since(Instant::now())).await;
    // Links go last: calls in flight may have needed them.
    parts.hub.close().await;
    // What peers had asked for and is still running was left to the pipeline just now.
    let left_ended = parts.pipeline.drain(Duration::ZERO).await;
    parts.arriving.wait().await;
    let drained =
        Drained { in_time: ended.is_ok() && peers_answered && calls_ended && left_ended, cut };
    if drained.in_time {
        tracing::info!("drained");
    } else {
        tracing::warn!(cut, "drain deadline passed; what was left has been cut");
    }
    drained
}

/// A failed accept is about one connection, or about descriptors that will come back.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    header_timeout: Duration,
    stopping: CancellationToken,
) {
    // Without it the small frames of a stream wait for an acknowledgement that is itself delayed.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY refused");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
