//! What a connection is doing, as seen by whoever has to choose one that makes room.
//!
//! A seat is written a few times for each request and read only when every seat is taken, so it is
//! one number without a lock: the phase in the upper bits, and below it since when. The lower the
//! number, the sooner the connection has to leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// The client owes the head of a request, perhaps its first, perhaps the next.
const HEAD: u64 = 0;
/// The client owes the rest of a request, or has to take note that nobody wants it.
const BODY: u64 = 1 << 62;
/// It is our turn: a call runs, a stream is open, an answer is being written.
const SERVING: u64 = 2 << 62;
/// The answer is made, and not yet written.
const ANSWERED: u64 = 3 << 62;
/// Somebody else has the seat. No time can make another phase look like it.
const GONE: u64 = u64::MAX;

/// The place of one connection; its clones are the same place.
#[derive(Debug, Clone)]
pub(super) struct Seat(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: AtomicU64,
    /// The beginning of time, the same for all seats of a server.
    epoch: Instant,
}

/// A seat whose client keeps us waiting, as it was at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting(u64);

impl Seat {
    pub(super) fn new(epoch: Instant) -> Self {
        let seat = Self(Arc::new(Inner { state: AtomicU64::new(HEAD), epoch }));
        seat.0.state.store(HEAD | seat.now(), Ordering::Relaxed);
        seat
    }

    /// The head of a request is complete. False if the seat was given away before.
    pub(super) fn head_came(&self) -> bool {
        let now = self.now();
        self.change(|state| (state != GONE).then_some(BODY | now))
    }

    /// The request is complete, or nobody wants the rest of it.
    pub(super) fn body_came(&self) {
        self.change(|state| (phase(state) == BODY).then_some(SERVING));
    }

    /// The answer is complete.
    pub(super) fn answered(&self) {
        self.change(|state| (state != GONE).then_some(ANSWERED));
    }

    /// Everything that was to be written is written.
    pub(super) fn flushed(&self) {
        if self.0.state.load(Ordering::Relaxed) == ANSWERED {
            let now = self.now();
            self.change(|state| (state == ANSWERED).then_some(HEAD | now));
        }
    }

    /// Nothing more is served; what the client still sends is read and dropped.
    pub(super) fn lingering(&self) {
        let now = self.now();
        self.change(|state| (state != GONE).then_some(BODY | now));
    }

    /// Whether the client owes the head of a request, so that nobody answers it.
    pub(super) fn owes_head(&self) -> bool {
        phase(self.0.state.load(Ordering::Relaxed)) == HEAD
    }

    /// Whether the client keeps us waiting; the least of several waits for a head the longest.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let state = self.0.state.load(Ordering::Relaxed);
        (state < SERVING).then_some(Waiting(state))
    }

    /// Gives the seat away, if nothing has happened since it was looked at. A request that comes at
    /// this very moment is then not begun, so its client knows that nothing was done.
    pub(super) fn give_away(&self, seen: Waiting) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.0.state.compare_exchange(seen.0, GONE, success, failure).is_ok()
    }

    /// Gives the seat up, if nothing has been asked for.
    pub(super) fn leave(&self) -> bool {
        self.change(|state| (phase(state) == HEAD).then_some(GONE))
    }

    fn change(&self, next: impl FnMut(u64) -> Option<u64>) -> bool {
        self.0.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Microseconds; there is room for more years than a server runs.
    fn now(&self) -> u64 {
        u64::try_from(self.0.epoch.elapsed().as_micros()).unwrap_or(u64::MAX) & !ANSWERED
    }
}

fn phase(state: u64) -> u64 {
    state & ANSWERED
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn later() {
        tokio::time::advance(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_head_the_longest_leaves_first() {
        let epoch = Instant::now();
        let [uploading, silent, idle, streaming] = std::array::from_fn(|_| Seat::new(epoch));
        later().await;
        assert!(uploading.head_came() && idle.head_came() && streaming.head_came());
        streaming.body_came();
        later().await;
        idle.body_came();
        idle.answered();
        assert_eq!(idle.waiting(), None, "an answer is still to be written");
        idle.flushed();
        let order = [&silent, &idle, &uploading].map(|seat| seat.waiting().unwrap());
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(streaming.waiting(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_seat_that_was_given_away_serves_nothing() {
        let seat = Seat::new(Instant::now());
        let seen = seat.waiting().unwrap();
        later().await;
        assert!(seat.head_came());
        assert!(!seat.give_away(seen), "a request came in between");
        seat.body_came();
        seat.answered();
        seat.flushed();
        assert!(seat.give_away(seat.waiting().unwrap()));
        assert!(!seat.head_came());
        seat.answered();
        seat.lingering();
        assert_eq!(seat.waiting(), None);
    }
}
