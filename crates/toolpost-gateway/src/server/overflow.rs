//! Who finds no seat is told so, and does not wait for ever.

use std::io::Result;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::door;

/// How long everybody may be served before newcomers are turned away: a moment without a seat is
/// nothing to speak of.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many are told at the same time; the others wait in the system's queue until it is their turn.
const MOST: usize = 64;
/// How long somebody may take to say something and to hear that there is no room.
const FAREWELL: Duration = Duration::from_secs(2);

/// The newcomers that are being told.
#[derive(Debug, Default)]
pub(super) struct Overflow {
    told: JoinSet<()>,
    /// Since when there was no seat, and when that was last seen.
    full: Option<(Instant, Instant)>,
}

impl Overflow {
    /// Whether there was no seat for so long that a newcomer is turned away.
    pub(super) fn turns_away(&mut self) -> bool {
        while self.told.try_join_next().is_some() {}
        let now = Instant::now();
        // What was not looked at for a while may have ended in between.
        let known = self.full.filter(|(_, seen)| now - *seen < PATIENCE);
        let since = known.map_or(now, |(since, _)| since);
        self.full = Some((since, now));
        now - since >= PATIENCE && self.told.len() < MOST
    }

    /// There is a seat.
    pub(super) fn ended(&mut self) {
        self.full = None;
    }

    pub(super) fn turn_away(&mut self, stream: TcpStream) {
        tracing::debug!("every seat is in use, and somebody is turned away");
        self.told.spawn(async move {
            let _ = tokio::time::timeout(FAREWELL, tell(stream)).await;
        });
    }
}

/// Answers the first request, whatever it is. Clients take an answer that comes before they have asked
/// for a mistake, and one on a connection that is closed at once may be lost.
async fn tell(mut stream: TcpStream) -> Result<()> {
    stream.readable().await?;
    let words = "every connection that there may be is in use";
    stream.write_all(&door::last_words(StatusCode::SERVICE_UNAVAILABLE, words)).await?;
    stream.shutdown().await?;
    let mut scratch = [0; 8 * 1024];
    while stream.read(&mut scratch).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_moment_without_a_seat_turns_nobody_away() {
        let mut overflow = Overflow::default();
        for (millis, expected) in
            [(0, false), (400, false), (400, false), (400, true), (50, true), (2_000, false)]
        {
            tokio::time::advance(Duration::from_millis(millis)).await;
            assert_eq!(overflow.turns_away(), expected, "{millis}");
        }
        tokio::time::advance(Duration::from_millis(900)).await;
        assert!(!overflow.turns_away());
        overflow.ended();
        tokio::time::advance(Duration::from_millis(900)).await;
        assert!(!overflow.turns_away());
    }
}
