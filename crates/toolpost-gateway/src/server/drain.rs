//! Graceful drain: stop accepting, let streams and calls in flight finish, abort what is left.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::app::GatewayState;

/// The result of draining a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainReport {
    /// Whether everything ended before the deadline.
    pub in_time: bool,
    /// Number of aborted connections.
    pub aborted_connections: usize,
}

/// Drains connections, hub, rooms and pipeline within `timeout`, and logs whether it was met.
pub(crate) async fn drain(
    gateway: &GatewayState,
    mut connections: JoinSet<()>,
    timeout: Duration,
) -> DrainReport {
    // The timeout is capped at one day, so that the deadline does not overflow.
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
    // Closing the hub handed the running calls of its peers to the pipeline.
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
