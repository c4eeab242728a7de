//! The state of a connection, by which the pool selects one to evict.
//!
//! The state is written a few times for each request and read only when the pool is full, so it is
//! one atomic number: the phase in the upper bits, and its start time below. The connection with
//! the lowest number is evicted first. It is derived from the requests in progress: at most one with
//! HTTP/1.1, several with HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolpost::shares::{Holder, SharePermit};

/// The connection waits for a request head, the first or a later one.
const AWAITING_HEAD: u64 = 0;
/// The rest of a request is missing, or the client is still sending after the last response.
const AWAITING_BODY: u64 = 1 << 62;
/// A call runs, a stream is open, or a response is being written.
const SERVING: u64 = 2 << 62;
/// The responses are complete but not flushed.
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
    requests: Mutex<Requests>,
}

/// The requests in progress.
#[derive(Debug, Default)]
struct Requests {
    /// Number of requests whose body is incomplete.
    receiving: usize,
    /// Number of other requests.
    serving: usize,
    /// Bodies of HTTP/2 responses whose next part waits until the client reads, by number of the
    /// request, and since when.
    stalled: Vec<(u64, Instant)>,
    /// Number of requests so far.
    count: u64,
}

/// The state of one request. The request is finished when it is dropped.
#[derive(Debug)]
pub(super) struct RequestState {
    connection: ConnectionState,
    number: u64,
    phase: Mutex<RequestPhase>,
    /// The permit of an admitted request.
    permit: Mutex<Option<SharePermit>>,
    is_http2: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestPhase {
    /// The body is incomplete.
    Receiving,
    /// The body was received to its end.
    Received,
    /// The rest of the body is not read.
    Discarded,
    Finished,
}

/// The state of a connection that waits for its client, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdleSnapshot(u64);

impl ConnectionState {
    pub(super) fn new(epoch: Instant, owner: SharePermit) -> Self {
        let inner = ConnectionStateInner {
            state: AtomicU64::new(AWAITING_HEAD),
            epoch,
            owner: Mutex::new(owner),
            unflushed: Mutex::default(),
            requests: Mutex::default(),
        };
        let connection = Self(Arc::new(inner));
        connection.0.state.store(AWAITING_HEAD | connection.now_micros(), Ordering::Relaxed);
        connection
    }

    /// Records a complete request head. Returns `None` if the connection was already evicted.
    pub(super) fn begin_request(&self, is_http2: bool) -> Option<RequestState> {
        let mut requests = self.0.requests.lock();
        requests.receiving += 1;
        requests.count += 1;
        let number = requests.count;
        if !self.derive(&requests) {
            return None;
        }
        drop(requests);
        let phase = Mutex::new(RequestPhase::Receiving);
        let (connection, permit) = (self.clone(), Mutex::default());
        Some(RequestState { connection, number, phase, permit, is_http2 })
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
        let now = self.now_micros();
        self.update(|state| (state != EVICTED).then_some(AWAITING_BODY | now));
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

    /// Returns how long the connection has waited for a request head; zero while it serves.
    pub(super) fn idle_time(&self) -> Duration {
        let state = self.0.state.load(Ordering::Relaxed);
        match phase(state) {
            AWAITING_HEAD => Duration::from_micros(self.now_micros().saturating_sub(state)),
            _ => Duration::ZERO,
        }
    }

    /// Returns how long the client has read nothing of a response that it does not read.
    pub(super) fn stall_time(&self) -> Duration {
        let requests = self.0.requests.lock();
        requests.stalled.iter().map(|(_, since)| since.elapsed()).max().unwrap_or_default()
    }

    /// Derives the state from the requests. Returns false if the connection is evicted.
    fn derive(&self, requests: &Requests) -> bool {
        let state = match requests {
            Requests { serving: 1.., .. } => SERVING,
            Requests { receiving: 1.., .. } => AWAITING_BODY | self.now_micros(),
            _ => RESPONDED,
        };
        self.update(|current| (current != EVICTED).then_some(state))
    }

    fn update(&self, next: impl FnMut(u64) -> Option<u64>) -> bool {
        self.0.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Returns microseconds since the epoch. 62 bits are enough for any uptime.
    fn now_micros(&self) -> u64 {
        u64::try_from(self.0.epoch.elapsed().as_micros()).unwrap_or(u64::MAX) & !RESPONDED
    }
}

impl RequestState {
    /// Keeps the permit until the response is written.
    pub(super) fn hold(&self, permit: Option<SharePermit>) {
        *self.permit.lock() = permit;
    }

    /// Records that the body was received to its end.
    pub(super) fn on_body_received(&self) {
        self.change(RequestPhase::Received);
    }

    /// Records that the rest of the body is not read.
    pub(super) fn on_body_dropped(&self) {
        self.change(RequestPhase::Discarded);
    }

    /// Records a complete response.
    pub(super) fn on_response_finished(&self) {
        self.change(RequestPhase::Finished);
    }

    /// Whether the body was received to its end.
    pub(super) fn is_body_received(&self) -> bool {
        *self.phase.lock() == RequestPhase::Received
    }

    /// Records that a part of an HTTP/2 response was passed on. The next part is requested when the
    /// client has read enough.
    pub(super) fn begin_stall(&self) {
        self.connection.0.requests.lock().stalled.push((self.number, Instant::now()));
    }

    /// Records that the client reads the response.
    pub(super) fn end_stall(&self) {
        self.connection.0.requests.lock().stalled.retain(|(number, _)| *number != self.number);
    }

    /// Releases the permit when the response is written. With HTTP/2, the client has read nearly
    /// all of a response when it is finished.
    fn release_permit(&self) {
        let permit = self.permit.lock().take();
        if !self.is_http2 {
            self.connection.0.unflushed.lock().extend(permit);
        }
    }

    fn change(&self, next: RequestPhase) {
        let mut phase = self.phase.lock();
        let mut requests = self.connection.0.requests.lock();
        match (*phase, next) {
            (RequestPhase::Finished, _) => return,
            (RequestPhase::Receiving, RequestPhase::Finished) => requests.receiving -= 1,
            (RequestPhase::Receiving, _) => {
                requests.receiving -= 1;
                requests.serving += 1;
            }
            (_, RequestPhase::Finished) => requests.serving -= 1,
            _ => return,
        }
        *phase = next;
        if next == RequestPhase::Finished {
            self.release_permit();
        }
        self.connection.derive(&requests);
    }
}

impl Drop for RequestState {
    fn drop(&mut self) {
        self.on_response_finished();
        self.end_stall();
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
        let [_upload, call, stream] = [&uploading, &idle, &streaming]
            .map(|connection| connection.begin_request(false).unwrap());
        stream.on_body_received();
        advance_clock().await;
        call.on_body_received();
        call.on_response_finished();
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
        let request = connection.begin_request(false).unwrap();
        assert!(!connection.try_evict(snapshot), "a request arrived in between");
        request.on_body_received();
        drop(request);
        connection.on_flushed();
        assert!(connection.try_evict(connection.idle_snapshot().unwrap()));
        assert!(connection.begin_request(false).is_none());
        connection.begin_linger();
        assert_eq!(connection.idle_snapshot(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_evictable_when_no_request_is_served() {
        let connection = connection(Instant::now());
        let (call, upload) =
            (connection.begin_request(true).unwrap(), connection.begin_request(true).unwrap());
        assert!(connection.idle_snapshot().is_some(), "both bodies are incomplete");
        call.on_body_received();
        assert_eq!(connection.idle_snapshot(), None, "a call runs");
        drop(call);
        assert!(connection.idle_snapshot().is_some(), "one body is incomplete");
        upload.on_body_dropped();
        upload.begin_stall();
        advance_clock().await;
        assert_eq!(connection.stall_time(), Duration::from_millis(1));
        drop(upload);
        assert_eq!((connection.stall_time(), connection.idle_snapshot()), (Duration::ZERO, None));
        connection.on_flushed();
        advance_clock().await;
        assert_eq!(connection.idle_time(), Duration::from_millis(1));
    }
}
