//! Graceful drain: stop accepting, let streams and calls in flight finish, abort what is left.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::app::GatewayState;

/// How a gateway stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainReport {
    /// Whether everything had ended before the deadline.
    pub in_time: bool,
    /// How many connections had to be cut.
    pub aborted_connections: usize,
}

/// Drains connections, hub, rooms and pipeline within `timeout`, and logs whether it was met.
pub(crate) async fn drain(
    gateway: &GatewayState,
    mut connections: JoinSet<()>,
    timeout: Duration,
) -> DrainReport {
    // A deadline beyond the range of the clock is capped at a day.
    let drain = timeout.min(Duration::from_secs(86_400));
    let deadline = Instant::now() + drain;
    gateway.stopping.cancel();
    gateway.pending_handshakes.close();
    let ended = async { while connections.join_next().await.is_some() {} };
    let (ended, hub_drained) =
        tokio::join!(tokio::time::timeout_at(deadline, ended), gateway.hub.drain(drain));
    let aborted = connections.len();
    connections.shutdown().await;
    gateway.sse_streams.drain().await;
    let _ = tokio::time::timeout_at(deadline, gateway.rooms.shutdown()).await;
    let calls_ended =
        gateway.pipeline.drain(deadline.saturating_duration_since(Instant::now())).await;
    // Hub connections are closed last: calls in flight may need them.
    gateway.hub.close().await;
    // Calls of hub peers that are still running were handed to the pipeline by the close.
    let remaining_ended = gateway.pipeline.drain(Duration::ZERO).await;
    gateway.pending_handshakes.wait().await;
    let drained = DrainReport {
        in_time: ended.is_ok() && hub_drained && calls_ended && remaining_ended,
        aborted_connections: aborted,
    };
    if drained.in_time {
        tracing::info!("drained");
    } else {
        tracing::warn!(aborted_connections = aborted, "drain deadline passed; connections aborted");
    }
    drained
}
