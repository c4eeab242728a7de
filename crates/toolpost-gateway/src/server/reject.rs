//! Who finds no seat is told so, and does not wait for ever.

use std::io::Result;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::endpoint;

/// How long everybody may be served before newcomers are turned away: a moment without a seat is
/// nothing to speak of.
const FULL_GRACE_PERIOD: Duration = Duration::from_secs(1);
/// How many are told at the same time; the others wait in the system's queue until it is their turn.
const MAX_CONCURRENT_REJECTIONS: usize = 64;
/// How long somebody may take to say something and to hear that there is no room.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The newcomers that are being told.
#[derive(Debug, Default)]
pub(super) struct ConnectionRejector {
    tasks: JoinSet<()>,
    /// Since when there was no seat, and when that was last seen.
    full_interval: Option<(Instant, Instant)>,
}

impl ConnectionRejector {
    /// Whether there was no seat for so long that a newcomer is turned away.
    pub(super) fn observe_full(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        let now = Instant::now();
        // What was not looked at for a while may have ended in between.
        let known = self.full_interval.filter(|(_, seen)| now - *seen < FULL_GRACE_PERIOD);
        let since = known.map_or(now, |(since, _)| since);
        self.full_interval = Some((since, now));
        now - since >= FULL_GRACE_PERIOD && self.tasks.len() < MAX_CONCURRENT_REJECTIONS
    }

    /// There is a seat.
    pub(super) fn observe_free(&mut self) {
        self.full_interval = None;
    }

    pub(super) fn reject(&mut self, stream: TcpStream) {
        tracing::debug!("connection limit reached; rejecting new connection");
        self.tasks.spawn(async move {
            let _ = tokio::time::timeout(REJECTION_TIMEOUT, write_rejection(stream)).await;
        });
    }
}

/// Answers the first request, whatever it is. Clients take an answer that comes before they have asked
/// for a mistake, and one on a connection that is closed at once may be lost.
async fn write_rejection(mut stream: TcpStream) -> Result<()> {
    stream.readable().await?;
    let detail = "connection limit reached";
    stream
        .write_all(&endpoint::raw_problem_response(StatusCode::SERVICE_UNAVAILABLE, detail))
        .await?;
    stream.shutdown().await?;
    let mut scratch = [0; 8 * 1024];
    while stream.read(&mut scratch).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn short_pool_exhaustion_rejects_no_connection() {
        let mut overflow = ConnectionRejector::default();
        for (millis, expected) in
            [(0, false), (400, false), (400, false), (400, true), (50, true), (2_000, false)]
        {
            tokio::time::advance(Duration::from_millis(millis)).await;
            assert_eq!(overflow.observe_full(), expected, "{millis}");
        }
        tokio::time::advance(Duration::from_millis(900)).await;
        assert!(!overflow.observe_full());
        overflow.observe_free();
        tokio::time::advance(Duration::from_millis(900)).await;
        assert!(!overflow.observe_full());
    }
}
