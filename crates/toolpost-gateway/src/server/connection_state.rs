//! What a connection is doing, as seen by whoever has to choose one that makes room.
//!
//! A seat is written a few times for each request and read only when every seat is taken, so it is
//! one number without a lock: the phase in the upper bits, and below it since when. The lower the
//! number, the sooner the connection has to leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// The client owes the head of a request, perhaps its first, perhaps the next.
const AWAITING_HEAD: u64 = 0;
/// The client owes the rest of a request, or has to take note that nobody wants it.
const AWAITING_BODY: u64 = 1 << 62;
/// It is our turn: a call runs, a stream is open, an answer is being written.
const SERVING: u64 = 2 << 62;
/// The answer is made, and not yet written.
const RESPONDED: u64 = 3 << 62;
/// Somebody else has the seat. No time can make another phase look like it.
const EVICTED: u64 = u64::MAX;

/// The place of one connection; its clones are the same place.
#[derive(Debug, Clone)]
pub(super) struct ConnectionState(Arc<ConnectionStateInner>);

#[derive(Debug)]
struct ConnectionStateInner {
    state: AtomicU64,
    /// The beginning of time, the same for all seats of a server.
    epoch: Instant,
}

/// A seat whose client keeps us waiting, as it was at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdleSnapshot(u64);

impl ConnectionState {
    pub(super) fn new(epoch: Instant) -> Self {
        let connection =
            Self(Arc::new(ConnectionStateInner { state: AtomicU64::new(AWAITING_HEAD), epoch }));
        connection.0.state.store(AWAITING_HEAD | connection.now_micros(), Ordering::Relaxed);
        connection
    }

    /// The head of a request is complete. False if the seat was given away before.
    pub(super) fn on_head_received(&self) -> bool {
        let now = self.now_micros();
        self.update(|state| (state != EVICTED).then_some(AWAITING_BODY | now))
    }

    /// The request is complete, or nobody wants the rest of it.
    pub(super) fn on_body_received(&self) {
        self.update(|state| (phase(state) == AWAITING_BODY).then_some(SERVING));
    }

    /// The answer is complete.
    pub(super) fn on_response_finished(&self) {
        self.update(|state| (state != EVICTED).then_some(RESPONDED));
    }

    /// Everything that was to be written is written.
    pub(super) fn on_flushed(&self) {
        if self.0.state.load(Ordering::Relaxed) == RESPONDED {
            let now = self.now_micros();
            self.update(|state| (state == RESPONDED).then_some(AWAITING_HEAD | now));
        }
    }

    /// Nothing more is served; what the client still sends is read and dropped.
    pub(super) fn begin_linger(&self) {
        let now = self.now_micros();
        self.update(|state| (state != EVICTED).then_some(AWAITING_BODY | now));
    }

    /// Whether the client owes the head of a request, so that nobody answers it.
    pub(super) fn is_awaiting_head(&self) -> bool {
        phase(self.0.state.load(Ordering::Relaxed)) == AWAITING_HEAD
    }

    /// Whether the client keeps us waiting; the least of several waits for a head the longest.
    pub(super) fn idle_snapshot(&self) -> Option<IdleSnapshot> {
        let state = self.0.state.load(Ordering::Relaxed);
        (state < SERVING).then_some(IdleSnapshot(state))
    }

    /// Gives the seat away, if nothing has happened since it was looked at. A request that comes at
    /// this very moment is then not begun, so its client knows that nothing was done.
    pub(super) fn try_evict(&self, snapshot: IdleSnapshot) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.0.state.compare_exchange(snapshot.0, EVICTED, success, failure).is_ok()
    }

    /// Gives the seat up, if nothing has been asked for.
    pub(super) fn try_close(&self) -> bool {
        self.update(|state| (phase(state) == AWAITING_HEAD).then_some(EVICTED))
    }

    fn update(&self, next: impl FnMut(u64) -> Option<u64>) -> bool {
        self.0.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Microseconds; there is room for more years than a server runs.
    fn now_micros(&self) -> u64 {
        u64::try_from(self.0.epoch.elapsed().as_micros()).unwrap_or(u64::MAX) & !RESPONDED
    }
}

fn phase(state: u64) -> u64 {
    state & RESPONDED
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn advance_clock() {
        tokio::time::advance(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn longest_waiting_connection_is_evicted_first() {
        let epoch = Instant::now();
        let [uploading, silent, idle, streaming] =
            std::array::from_fn(|_| ConnectionState::new(epoch));
        advance_clock().await;
        assert!(
            uploading.on_head_received() && idle.on_head_received() && streaming.on_head_received()
        );
        streaming.on_body_received();
        advance_clock().await;
        idle.on_body_received();
        idle.on_response_finished();
        assert_eq!(idle.idle_snapshot(), None, "an answer is still to be written");
        idle.on_flushed();
        let order =
            [&silent, &idle, &uploading].map(|connection| connection.idle_snapshot().unwrap());
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(streaming.idle_snapshot(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn evicted_connection_accepts_no_request() {
        let connection = ConnectionState::new(Instant::now());
        let snapshot = connection.idle_snapshot().unwrap();
        advance_clock().await;
        assert!(connection.on_head_received());
        assert!(!connection.try_evict(snapshot), "a request came in between");
        connection.on_body_received();
        connection.on_response_finished();
        connection.on_flushed();
        assert!(connection.try_evict(connection.idle_snapshot().unwrap()));
        assert!(!connection.on_head_received());
        connection.on_response_finished();
        connection.begin_linger();
        assert_eq!(connection.idle_snapshot(), None);
    }
}
