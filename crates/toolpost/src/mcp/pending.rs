//! Pending requests with their progress and server requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::error::RequestError;
use super::request::{ClientRequest, Timeouts, deadline_after};
use crate::handler::{ClientChannel, LogMessage, Progress, ProgressSender};

/// Maximum number of open server requests for one pending request.
const MAX_SERVER_REQUESTS: usize = 16;

pub(super) type RequestResult = Result<Box<RawValue>, RequestError>;

/// Requests that wait for a response.
#[derive(Debug, Default)]
pub(super) struct McpPendingRequests {
    last_id: AtomicU64,
    state: Mutex<PendingState>,
}

#[derive(Debug, Default)]
struct PendingState {
    requests: HashMap<u64, PendingEntry>,
    /// Why no further requests can be registered.
    closed: Option<RequestError>,
}

impl PendingState {
    fn only_upstream_call(&self) -> Option<u64> {
        let mut upstream_calls = self.requests.iter().filter(|(_, entry)| entry.is_upstream_call);
        upstream_calls.next().filter(|_| upstream_calls.next().is_none()).map(|(id, _)| *id)
    }
}

#[derive(Debug)]
struct PendingEntry {
    sender: oneshot::Sender<RequestResult>,
    progress: ProgressSender,
    activity: Arc<Activity>,
    /// Whether the request was made for an operation call.
    is_upstream_call: bool,
    /// Channel to the client for forwarded server requests.
    client_channel: Option<ClientChannel>,
    /// Async tasks that forward server requests; aborted with the request.
    server_requests: Vec<AbortOnDropHandle<()>>,
}

/// The client that a server request is forwarded to.
#[derive(Debug)]
pub(super) struct ServerRequestTarget {
    /// Id of the pending request that the server request belongs to.
    pub(super) request_id: u64,
    pub(super) client_channel: ClientChannel,
    activity: Arc<Activity>,
}

impl ServerRequestTarget {
    /// Pauses the idle timeout while a server request is open.
    pub(super) async fn track<F: Future>(self, response_future: F) -> F::Output {
        self.activity.open_server_requests.fetch_add(1, Ordering::Relaxed);
        let _closed = OpenRequestGuard(self.activity);
        response_future.await
    }
}

/// Marks a server request as closed when dropped.
struct OpenRequestGuard(Arc<Activity>);

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        self.0.touch();
        self.0.open_server_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Handle to a pending request. Dropping it removes the request.
#[derive(Debug)]
pub(super) struct PendingRequest<'a> {
    pub(super) id: u64,
    pub(super) response: oneshot::Receiver<RequestResult>,
    pub(super) activity: Arc<Activity>,
    pending: &'a McpPendingRequests,
}

/// The last activity of a pending request.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    last_ms: AtomicU64,
    /// Number of open server requests.
    open_server_requests: AtomicU64,
}

impl Activity {
    fn touch(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Returns the instant at which the idle timeout expires.
    fn idle_deadline(&self, timeout: Duration) -> Instant {
        let last = match self.open_server_requests.load(Ordering::Relaxed) {
            0 => self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)),
            _ => Instant::now(),
        };
        deadline_after(last, timeout)
    }

    /// Waits for the idle timeout or the deadline, and returns the matching error.
    pub(super) async fn timed_out(&self, timeout: Timeouts) -> RequestError {
        let Timeouts { idle: silence, deadline: end } = timeout;
        loop {
            let next = self.idle_deadline(silence).min(end);
            if next <= Instant::now() {
                break;
            }
            tokio::time::sleep_until(next).await;
        }
        RequestError::TimedOut(if Instant::now() >= end {
            let allowed = end.saturating_duration_since(self.start);
            let tenths = (allowed.as_secs_f64() * 10.0).round();
            let waited = Duration::from_secs_f64(tenths / 10.0);
            format!("no response within {waited:?}, the maximum allowed")
        } else {
            format!("no response and no progress for {silence:?}, the `timeout` of the source")
        })
    }
}

impl McpPendingRequests {
    /// Registers a request under a new id; fails if the connection is closed.
    pub(super) fn register(
        &self,
        request: &ClientRequest<'_>,
    ) -> Result<PendingRequest<'_>, RequestError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, reply) = oneshot::channel();
        let activity = Arc::new(Activity {
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
            open_server_requests: AtomicU64::new(0),
        });
        let mut waiting = self.lock();
        if let Some(failure) = &waiting.closed {
            return Err(RequestError::unreachable(failure.to_string()));
        }
        let entry = PendingEntry {
            sender,
            progress: request.progress.clone().unwrap_or_default(),
            activity: Arc::clone(&activity),
            is_upstream_call: request.is_upstream_call(),
            client_channel: request.client_channel.cloned(),
            server_requests: Vec::new(),
        };
        waiting.requests.insert(id, entry);
        Ok(PendingRequest { id, response: reply, activity, pending: self })
    }

    /// Delivers the response to the pending request; returns whether one was waiting.
    pub(super) fn complete(&self, id: u64, reply: RequestResult) -> bool {
        let entry = self.lock().requests.remove(&id);
        entry.is_some_and(|entry| entry.sender.send(reply).is_ok())
    }

    /// Whether a request with this id is pending.
    pub(super) fn is_pending(&self, id: u64) -> bool {
        self.lock().requests.contains_key(&id)
    }

    /// Handles `notifications/progress`.
    pub(super) fn handle_progress(&self, params: &RawValue) {
        let Ok(report) = serde_json::from_str::<ProgressParams>(params.get()) else { return };
        let token = &report.token;
        let Some(id) = token.as_u64().or_else(|| token.as_str()?.parse().ok()) else { return };
        // The progress observer is called without holding the lock.
        let progress_sender = self.lock().requests.get(&id).map(|entry| {
            entry.activity.touch();
            entry.progress.clone()
        });
        if let Some(progress_sender) = progress_sender {
            let ProgressParams { progress, total, message, .. } = report;
            let mut progress = Progress::new(progress);
            (progress.total, progress.message) = (total, message);
            progress_sender.send(progress);
        }
    }

    /// Forwards a log line to the pending request.
    pub(super) fn forward_log(&self, id: u64, line: LogMessage) {
        let progress_sender = self.lock().requests.get(&id).map(|entry| entry.progress.clone());
        if let Some(progress_sender) = progress_sender {
            progress_sender.log(line);
        }
    }

    /// Returns the client to forward a server request to. Without a request id, it is the client of
    /// the only pending upstream call. With several pending calls it is `None`, so that a caller
    /// never receives a request that belongs to another caller.
    ///
    /// # Errors
    ///
    /// Returns an error if too many server requests are open for that request.
    pub(super) fn server_request_target(
        &self,
        request_id: Option<u64>,
    ) -> Result<Option<ServerRequestTarget>, String> {
        let mut waiting = self.lock();
        let id = request_id.or_else(|| waiting.only_upstream_call());
        let entry = id.and_then(|id| waiting.requests.get_mut(&id));
        let Some((id, entry)) = id.zip(entry) else { return Ok(None) };
        entry.server_requests.retain(|server_request| !server_request.is_finished());
        if entry.server_requests.len() >= MAX_SERVER_REQUESTS {
            return Err(format!("{MAX_SERVER_REQUESTS} server requests are already open"));
        }
        let activity = Arc::clone(&entry.activity);
        Ok(entry.client_channel.clone().map(|client_channel| ServerRequestTarget {
            request_id: id,
            client_channel,
            activity,
        }))
    }

    /// Spawns an async task that is aborted with the pending request.
    pub(super) fn spawn_for(
        &self,
        id: u64,
        request_future: impl Future<Output = ()> + Send + 'static,
    ) {
        if let Some(entry) = self.lock().requests.get_mut(&id) {
            entry.server_requests.push(AbortOnDropHandle::new(tokio::spawn(request_future)));
        }
    }

    /// Fails all pending requests and rejects new ones.
    pub(super) fn fail_all(&self, failure: &RequestError) {
        let calls = {
            let mut waiting = self.lock();
            waiting.closed.get_or_insert_with(|| failure.clone());
            std::mem::take(&mut waiting.requests)
        };
        for entry in calls.into_values() {
            let _ = entry.sender.send(Err(failure.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock()
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.pending.lock().requests.remove(&self.id);
    }
}

#[derive(Deserialize)]
struct ProgressParams {
    #[serde(rename = "progressToken")]
    token: serde_json::Value,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn request(progress: ProgressSender) -> ClientRequest<'static> {
        let mut request = ClientRequest::new("tools/call", &[], Timeouts::total(Duration::ZERO));
        request.progress = Some(progress);
        request
    }

    #[tokio::test]
    async fn pending_request_completes_only_once() {
        let pending = McpPendingRequests::default();
        let pending_request = pending.register(&request(ProgressSender::default())).unwrap();
        let other = pending.register(&request(ProgressSender::default())).unwrap();
        assert_ne!(pending_request.id, other.id);
        assert!(pending.complete(pending_request.id, Ok(raw("1"))));
        assert!(!pending.complete(pending_request.id, Ok(raw("2"))));
        assert!(!pending.complete(99, Ok(raw("3"))));
        let mut pending_request = pending_request;
        assert_eq!((&mut pending_request.response).await.unwrap().unwrap().get(), "1");
        let dropped_id = other.id;
        drop(other);
        assert!(!pending.complete(dropped_id, Ok(raw("4"))));
    }

    #[tokio::test]
    async fn fail_all_fails_pending_and_rejects_new_requests() {
        let pending = McpPendingRequests::default();
        let mut pending_request = pending.register(&request(ProgressSender::default())).unwrap();
        pending.fail_all(&RequestError::disconnected("gone"));
        assert!(matches!(
            (&mut pending_request.response).await,
            Ok(Err(RequestError::Disconnected { sent: true, .. }))
        ));
        let late = pending.register(&request(ProgressSender::default()));
        assert!(matches!(late, Err(RequestError::Disconnected { sent: false, .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_extends_idle_timeout_up_to_deadline() {
        let pending = McpPendingRequests::default();
        let (sender, mut reports) = tokio::sync::mpsc::channel(8);
        let pending_request = pending.register(&request(ProgressSender::new(sender))).unwrap();
        let (silence, max) = (Duration::from_secs(10), Duration::from_secs(25));
        let activity = Arc::clone(&pending_request.activity);
        let timeout = Timeouts::new(silence, max);
        let waiting = tokio::spawn(async move { activity.timed_out(timeout).await.to_string() });
        for second in [6, 6, 6] {
            tokio::time::sleep(Duration::from_secs(second)).await;
            assert!(!waiting.is_finished());
            let text =
                format!(r#"{{"progressToken":{},"progress":1,"total":2}}"#, pending_request.id);
            pending.handle_progress(&raw(&text));
        }
        assert_eq!(reports.recv().await, Some(Progress::new(1.0).with_total(2.0)));
        assert!(waiting.await.unwrap().contains("the maximum allowed"));
        assert_eq!(pending_request.activity.start.elapsed(), max);
        for odd in ["{}", "1", r#"{"progressToken":[],"progress":1}"#, r#"{"progressToken":1}"#] {
            pending.handle_progress(&raw(odd));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn open_server_request_pauses_idle_timeout_and_is_limited() {
        let pending = McpPendingRequests::default();
        let client_channel = ClientChannel::MultiRoundTrip(Arc::default());
        let mut client_request = request(ProgressSender::default());
        client_request.client_channel = Some(&client_channel);
        let pending_request = pending.register(&client_request).unwrap();
        let activity = Arc::clone(&pending_request.activity);
        let timeout = Timeouts::new(Duration::from_secs(10), Duration::from_secs(100));
        let waiting = tokio::spawn(async move { activity.timed_out(timeout).await.to_string() });
        let target = pending.server_request_target(None).unwrap().unwrap();
        target.track(tokio::time::sleep(Duration::from_secs(50))).await;
        assert!(!waiting.is_finished());
        assert!(waiting.await.unwrap().contains("no progress"));
        assert!(pending_request.activity.start.elapsed() < Duration::from_secs(80));

        // The number of open server requests is limited, and an ambiguous one has no target.
        for _ in 0..MAX_SERVER_REQUESTS {
            assert!(pending.server_request_target(Some(pending_request.id)).unwrap().is_some());
            pending.spawn_for(pending_request.id, std::future::pending());
        }
        assert!(
            pending
                .server_request_target(Some(pending_request.id))
                .unwrap_err()
                .contains("already open")
        );
        let other = pending.register(&client_request).unwrap();
        assert!(pending.server_request_target(None).unwrap().is_none());
        assert_eq!(
            pending.server_request_target(Some(other.id)).unwrap().unwrap().request_id,
            other.id
        );
    }
}
