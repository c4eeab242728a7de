//! The state of a connection, by which the pool selects one to evict.
//!
//! The state is written a few times for each request and read only when the pool is full, so it is
//! one atomic number: the phase in the upper bits, and its start time below. The connection with
//! the lowest number is evicted first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use toolpost::shares::{Holder, SharePermit};

/// The connection waits for a request head, the first or a later one.
const AWAITING_HEAD: u64 = 0;
/// The rest of a request is missing, or the client is still sending after the last response.
const AWAITING_BODY: u64 = 1 << 62;
/// A call runs, a stream is open, or a response is being written.
const SERVING: u64 = 2 << 62;
/// The response is complete but not flushed.
const RESPONDED: u64 = 3 << 62;
/// The connection is evicted. No timestamp makes another phase equal to it.
const EVICTED: u64 = u64::MAX;

/// The state of one connection. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct ConnectionState(Arc<ConnectionStateInner>);

#[derive(Debug)]
struct ConnectionStateInner {
    state: AtomicU64,
    /// Reference time of timestamps, shared by all connections of a server.
    epoch: Instant,
    /// Counts the connection for its last caller, or for its address before the first request.
    owner: Mutex<SharePermit>,
    /// Permits of finished requests whose responses are not written completely. A client that reads
    /// nothing keeps them.
    unflushed: Mutex<Vec<SharePermit>>,
}

/// The state of a connection that waits for its client, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdleSnapshot(u64);

impl ConnectionState {
    pub(super) fn new(epoch: Instant, owner: SharePermit) -> Self {
        let connection = Self(Arc::new(ConnectionStateInner {
            state: AtomicU64::new(AWAITING_HEAD),
            epoch,
            owner: Mutex::new(owner),
            unflushed: Mutex::default(),
        }));
        connection.0.state.store(AWAITING_HEAD | connection.now_micros(), Ordering::Relaxed);
        connection
    }

    /// Records a complete request head. Returns false if the connection was already evicted.
    pub(super) fn on_head_received(&self) -> bool {
        let now = self.now_micros();
        self.update(|state| (state != EVICTED).then_some(AWAITING_BODY | now))
    }

    /// Records a complete request body, or that the rest of it is not needed.
    pub(super) fn on_body_received(&self) {
        self.update(|state| (phase(state) == AWAITING_BODY).then_some(SERVING));
    }

    /// Records a complete response. The permit of its request is released when it is written.
    pub(super) fn on_response_finished(&self, permit: Option<SharePermit>) {
        self.0.unflushed.lock().extend(permit);
        self.update(|state| (state != EVICTED).then_some(RESPONDED));
    }

    /// Records that all pending output is written.
    pub(super) fn on_flushed(&self) {
        if self.0.state.load(Ordering::Relaxed) == RESPONDED {
            let now = self.now_micros();
            self.update(|state| (state == RESPONDED).then_some(AWAITING_HEAD | now));
            self.0.unflushed.lock().clear();
        }
    }

    /// Records that no further request is served. Input is read and discarded.
    pub(super) fn begin_linger(&self) {
        self.on_head_received();
    }

    /// Returns the state if the connection waits for its client; the lowest waited longest.
    pub(super) fn idle_snapshot(&self) -> Option<IdleSnapshot> {
        let state = self.0.state.load(Ordering::Relaxed);
        (state < SERVING).then_some(IdleSnapshot(state))
    }

    /// Counts the connection for another caller.
    pub(super) fn set_owner(&self, holder: &Holder) {
        // Connections of an owner are counted without a limit.
        let _ = self.0.owner.lock().transfer(holder);
    }

    /// Returns the number of connections with the same owner.
    pub(super) fn connections_of_owner(&self) -> usize {
        self.0.owner.lock().used_by_holder()
    }

    /// Evicts the connection if its state is unchanged since the snapshot. A request that arrives
    /// concurrently is then not started, so it has no effect.
    pub(super) fn try_evict(&self, snapshot: IdleSnapshot) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.0.state.compare_exchange(snapshot.0, EVICTED, success, failure).is_ok()
    }

    /// Closes the connection if it waits for a request head.
    pub(super) fn try_close(&self) -> bool {
        self.update(|state| (phase(state) == AWAITING_HEAD).then_some(EVICTED))
    }

    fn update(&self, next: impl FnMut(u64) -> Option<u64>) -> bool {
        self.0.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Returns microseconds since the epoch. 62 bits are enough for any uptime.
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

    use super::super::connection_pool::{owner_permit, owners};
    use super::*;

    fn connection(epoch: Instant) -> ConnectionState {
        ConnectionState::new(epoch, owner_permit(&owners(), &Holder::of_unknown_address()))
    }

    async fn advance_clock() {
        tokio::time::advance(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn longest_waiting_connection_is_evicted_first() {
        let epoch = Instant::now();
        let [uploading, silent, idle, streaming] = std::array::from_fn(|_| connection(epoch));
        advance_clock().await;
        assert!(
            uploading.on_head_received() && idle.on_head_received() && streaming.on_head_received()
        );
        streaming.on_body_received();
        advance_clock().await;
        idle.on_body_received();
        idle.on_response_finished(None);
        assert_eq!(idle.idle_snapshot(), None, "a response is still to be written");
        idle.on_flushed();
        let order =
            [&silent, &idle, &uploading].map(|connection| connection.idle_snapshot().unwrap());
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(streaming.idle_snapshot(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn evicted_connection_accepts_no_request() {
        let connection = connection(Instant::now());
        let snapshot = connection.idle_snapshot().unwrap();
        advance_clock().await;
        assert!(connection.on_head_received());
        assert!(!connection.try_evict(snapshot), "a request arrived in between");
        connection.on_body_received();
        connection.on_response_finished(None);
        connection.on_flushed();
        assert!(connection.try_evict(connection.idle_snapshot().unwrap()));
        assert!(!connection.on_head_received());
        connection.on_response_finished(None);
        connection.begin_linger();
        assert_eq!(connection.idle_snapshot(), None);
    }
}
