//! Rejects connections beyond the limit instead of letting them wait forever.

use std::io::Result;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::either::Either;

use super::ClientStream;
use crate::endpoint::ProblemDetails;

/// How long the pool may be full before new connections are rejected. Shorter peaks are tolerated.
const FULL_GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of concurrent rejections. Further connections wait in the kernel's queue.
const MAX_CONCURRENT_REJECTIONS: usize = 64;
/// Maximum time to receive a request and to send the rejection.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The rejections in progress.
#[derive(Debug, Default)]
pub(super) struct ConnectionRejector {
    tasks: JoinSet<()>,
    /// When the pool became full, and when that was last observed.
    full_interval: Option<(Instant, Instant)>,
}

impl ConnectionRejector {
    /// Records that the pool is full. Returns whether to reject a new connection.
    pub(super) fn observe_full(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        let now = Instant::now();
        // The pool may have had room if it was not observed for a while.
        let known = self.full_interval.filter(|(_, seen)| now - *seen < FULL_GRACE_PERIOD);
        let since = known.map_or(now, |(since, _)| since);
        self.full_interval = Some((since, now));
        now - since >= FULL_GRACE_PERIOD && self.tasks.len() < MAX_CONCURRENT_REJECTIONS
    }

    /// Records that the pool has room.
    pub(super) fn observe_free(&mut self) {
        self.full_interval = None;
    }

    pub(super) fn reject(&mut self, stream: ClientStream) {
        tracing::debug!("connection limit reached; rejecting new connection");
        self.tasks.spawn(async move {
            let _ = tokio::time::timeout(REJECTION_TIMEOUT, write_rejection(stream)).await;
        });
    }
}

/// Rejects the first request. Clients treat a response before their request as an error, and an
/// immediate close may lose the response.
async fn write_rejection(mut stream: ClientStream) -> Result<()> {
    match &stream {
        Either::Left(stream) => stream.readable().await?,
        Either::Right(stream) => stream.readable().await?,
    }
    let problem =
        ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, "connection limit reached").to_json();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         retry-after: 1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        problem.len()
    );
    stream.write_all(&[head.as_bytes(), &problem].concat()).await?;
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
