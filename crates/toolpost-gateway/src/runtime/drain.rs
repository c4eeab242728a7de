//! Graceful drain: streams and calls in flight can finish until the deadline, then are aborted.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Components;

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
pub(super) async fn drain(
    components: &Components,
    mut connections: JoinSet<()>,
    timeout: Duration,
) -> DrainReport {
    let Components { pipeline, hub, rooms, http, pending_handshakes, stopping, .. } = components;
    // The timeout is capped at one day, so that the deadline does not overflow.
    let drain = timeout.min(Duration::from_secs(86_400));
    let deadline = Instant::now() + drain;
    stopping.cancel();
    pending_handshakes.close();
    let ended = async { while connections.join_next().await.is_some() {} };
    let (ended, hub_drained) =
        tokio::join!(tokio::time::timeout_at(deadline, ended), hub.drain(drain));
    let aborted = connections.len();
    connections.shutdown().await;
    http.drain().await;
    let _ = tokio::time::timeout_at(deadline, rooms.shutdown()).await;
    let calls_ended = pipeline.drain(deadline.saturating_duration_since(Instant::now())).await;
    // Hub connections are closed last: calls in flight may need them.
    hub.close().await;
    // Closing the hub handed the running calls of its peers to the pipeline.
    let remaining_ended = pipeline.drain(Duration::ZERO).await;
    pending_handshakes.wait().await;
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
