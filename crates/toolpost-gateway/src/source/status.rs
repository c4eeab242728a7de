//! Status of sources, for operations, metrics and the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolpost::connection::ConnectionStatus;
use toolpost::hub::SpokeStatus;
use toolpost::{BreakerState, epoch_ms, mcp, openapi};

use super::running::SourceConnection;
use crate::app::GatewayState;
use crate::config::SourceKind;

/// Status of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SourceStatus {
    /// Name of the source, and namespace of its operations.
    pub name: String,
    /// `mcp`, `openapi`, `spoke` or `hub`.
    pub kind: String,
    /// A description without secrets.
    pub about: String,
    /// Current state.
    pub state: SourceState,
    /// The reason why the source is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Start of the current state, in milliseconds since the Unix epoch.
    pub since: i64,
    /// Time of the next connection attempt, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// State of the circuit breaker. While it is not `closed`, calls fail immediately until a probe
    /// call succeeds. For an HTTP service, `open` if the breaker of any of its hosts is open.
    pub breaker: BreakerState,
    /// Number of registered operations, including offline ones.
    pub operations: usize,
    /// The most recent error, even if the source is ready now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

/// An error of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LastError {
    /// What.
    pub message: String,
    /// Time of the error, in milliseconds since the Unix epoch.
    pub at: i64,
}

/// State of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SourceState {
    /// The connection is being established.
    Starting,
    /// The operations can be called.
    Ready,
    /// The source is not available; the gateway tries to connect again.
    Down,
    /// The source cannot be started with its configuration.
    Disabled,
}

/// The last known status of a source.
#[derive(Debug)]
pub(crate) struct SourceStatusTracker {
    kind: SourceKind,
    /// Hosts of an HTTP service.
    hosts: Option<openapi::ServiceHosts>,
    current: Mutex<StatusSnapshot>,
}

#[derive(Debug, Clone)]
struct StatusSnapshot {
    state: SourceState,
    reason: Option<String>,
    since: i64,
    retry_at: Option<i64>,
    /// Number of operations of an HTTP service, in all namespaces.
    operations: Option<usize>,
    last_error: Option<LastError>,
}

/// Status trackers of the configured sources. An entry disappears when its source is dropped.
#[derive(Debug, Default)]
pub(crate) struct SourceStatuses(Mutex<BTreeMap<String, Weak<SourceStatusTracker>>>);

impl SourceStatuses {
    pub(super) fn insert(&self, name: &str, tracker: &Arc<SourceStatusTracker>) {
        let mut sources = self.0.lock();
        sources.retain(|_, tracker| tracker.strong_count() > 0);
        sources.insert(name.to_owned(), Arc::downgrade(tracker));
    }

    /// Returns the trackers of all running sources, by name.
    pub(crate) fn all(&self) -> BTreeMap<String, Arc<SourceStatusTracker>> {
        let sources = self.0.lock();
        let trackers =
            sources.iter().filter_map(|(name, tracker)| Some((name.clone(), tracker.upgrade()?)));
        trackers.collect()
    }
}

impl SourceStatusTracker {
    pub(super) fn new(kind: &SourceKind, connection: &Result<SourceConnection, String>) -> Self {
        let reason = connection.as_ref().err().cloned();
        let state = if reason.is_some() { SourceState::Disabled } else { SourceState::Starting };
        let hosts = match connection {
            Ok(SourceConnection::OpenApi(service)) => Some(service.hosts()),
            _ => None,
        };
        let (since, retry_at, operations, last_error) = (epoch_ms(), None, None, None);
        let snapshot = StatusSnapshot { state, reason, since, retry_at, operations, last_error };
        Self { kind: kind.clone(), hosts, current: Mutex::new(snapshot) }
    }

    /// Returns the current status. The hub provides that of a spoke.
    pub(crate) fn status(&self, gateway: &GatewayState, name: &str) -> SourceStatus {
        let StatusSnapshot { state, reason, since, retry_at, operations, last_error } =
            self.lock().clone();
        let in_namespace = || gateway.pipeline.registry().catalog().namespace(name).len();
        let mut source_status = SourceStatus {
            name: name.to_owned(),
            kind: self.kind.as_str().to_owned(),
            about: self.kind.describe(),
            state,
            reason,
            since,
            retry_at,
            breaker: self.breaker_state(gateway, name),
            operations: operations.unwrap_or_else(in_namespace),
            last_error,
        };
        if let SourceKind::Spoke { .. } = self.kind {
            source_status.set_spoke_status(gateway.hub.spoke_status(name));
        }
        source_status
    }

    /// Returns the state of the source's circuit breaker, or of a host of the service if that is
    /// worse.
    fn breaker_state(&self, gateway: &GatewayState, name: &str) -> BreakerState {
        let limiter = gateway.limiter.as_ref();
        let state = limiter.map_or(BreakerState::Closed, |limits| limits.breaker_state(name));
        self.hosts.as_ref().map_or(state, |hosts| state.max(hosts.breaker_state()))
    }

    fn set_starting(&self) {
        self.set_state(SourceState::Starting, None, None);
    }

    /// Marks an HTTP service as ready, with the number of its operations.
    fn set_ready_with_counts(&self, counts: &openapi::OperationCounts) {
        self.set_ready();
        let operations = counts.queries + counts.mutations + counts.subscriptions;
        self.lock().operations = Some(operations);
    }

    fn set_ready(&self) {
        self.set_state(SourceState::Ready, None, None);
    }

    fn set_down(&self, reason: &str, retry_in: Option<Duration>) {
        let retry_in = retry_in.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let now = epoch_ms();
        let retry_at = retry_in.map(|time| now.saturating_add(time));
        self.set_state(SourceState::Down, Some(reason.to_owned()), retry_at);
        self.lock().last_error = Some(LastError { message: reason.to_owned(), at: now });
    }

    fn set_state(&self, state: SourceState, reason: Option<String>, retry_at: Option<i64>) {
        let mut snapshot = self.lock();
        if snapshot.state != state {
            (snapshot.state, snapshot.since) = (state, epoch_ms());
        }
        (snapshot.reason, snapshot.retry_at, snapshot.operations) = (reason, retry_at, None);
    }

    fn lock(&self) -> MutexGuard<'_, StatusSnapshot> {
        self.current.lock()
    }
}

impl SourceStatus {
    fn set_spoke_status(&mut self, spoke_status: Option<SpokeStatus>) {
        self.since = spoke_status.as_ref().map_or(self.since, |spoke_status| spoke_status.since);
        if spoke_status.is_some_and(|spoke_status| spoke_status.is_online) {
            self.state = SourceState::Ready;
        } else {
            self.state = SourceState::Down;
            self.reason = Some("it is not connected".to_owned());
        }
    }
}

/// Spawns an async task that tracks and logs the status of a source. The task ends when the source
/// does.
pub(super) fn spawn_watcher(
    name: &str,
    connection: &SourceConnection,
    tracker: &Arc<SourceStatusTracker>,
) -> Option<JoinHandle<()>> {
    let (name, tracker) = (name.to_owned(), Arc::clone(tracker));
    Some(match connection {
        SourceConnection::Mcp(server) => {
            tokio::spawn(watch_status(server.status(), move |status| {
                update_from_mcp(&name, &tracker, status);
            }))
        }
        SourceConnection::OpenApi(service) => {
            tokio::spawn(watch_status(service.status(), move |status| {
                update_from_openapi(&tracker, status);
            }))
        }
        SourceConnection::Hub(hub) => tokio::spawn(watch_status(hub.status(), move |status| {
            update_from_hub(&name, &tracker, status);
        })),
        SourceConnection::Spoke | SourceConnection::Disabled => return None,
    })
}

async fn watch_status<T>(mut status: watch::Receiver<T>, update: impl Fn(&T)) {
    loop {
        update(&status.borrow_and_update());
        if status.changed().await.is_err() {
            return;
        }
    }
}

fn update_from_mcp(source: &str, tracker: &SourceStatusTracker, status: &mcp::McpSourceStatus) {
    match status {
        mcp::McpSourceStatus::Ready(found) => {
            tracker.set_ready();
            let (server, version) = (&found.server, &found.server_version);
            let (protocol, tools) = (&found.protocol, found.tools.len());
            tracing::info!(source, server, version, protocol, tools, "source ready");
        }
        mcp::McpSourceStatus::Down { reason, retry_in: again_in } => {
            tracker.set_down(reason, Some(*again_in));
        }
        _ => tracker.set_starting(),
    }
}

fn update_from_openapi(tracker: &SourceStatusTracker, status: &openapi::OpenApiStatus) {
    match status {
        openapi::OpenApiStatus::Ready(found) => tracker.set_ready_with_counts(&found.counts),
        openapi::OpenApiStatus::Down { reason, retry_in: again_in } => {
            tracker.set_down(reason, Some(*again_in));
        }
        _ => tracker.set_starting(),
    }
}

fn update_from_hub(source: &str, tracker: &SourceStatusTracker, status: &ConnectionStatus) {
    match status {
        ConnectionStatus::Connected(_) => {
            tracker.set_ready();
            tracing::info!(source, "source ready");
        }
        ConnectionStatus::Connecting(Some(reason)) => {
            tracker.set_down(reason, None);
            tracing::warn!(source, reason, "source down");
        }
        _ => tracker.set_starting(),
    }
}
