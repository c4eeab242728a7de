//! How a source is doing, for those who ask and for the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolpost::connection::ConnectionStatus;
use toolpost::hub::SpokeStatus;
use toolpost::{epoch_ms, mcp, openapi};

use super::running::SourceConnection;
use crate::app::GatewayState;
use crate::config::SourceKind;
use crate::limits::BreakerState;

/// How a source is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SourceStatus {
    /// The namespace of its operations.
    pub name: String,
    /// `mcp`, `openapi`, `spoke` or `hub`.
    pub kind: String,
    /// What it is, for people, without anything that may be secret.
    pub about: String,
    /// How it is doing.
    pub state: SourceState,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when it is in this state, in milliseconds since 1970.
    pub since: i64,
    /// When it is tried again, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// The state of its circuit breaker: while it is not `closed`, calls fail at once until a test call
    /// succeeds. Of an HTTP service, `open` if the breaker of one of its hosts is.
    pub breaker: BreakerState,
    /// How many operations it has here, offline ones too.
    pub operations: usize,
    /// What went wrong last, also if all is well now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LastError {
    /// What.
    pub message: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

/// How a source is doing, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SourceState {
    /// It is being connected.
    Starting,
    /// Its operations can be called.
    Ready,
    /// It is not there, and is tried again.
    Down,
    /// It cannot be started as it is configured.
    Disabled,
}

/// What was last seen of a source.
#[derive(Debug)]
pub(crate) struct SourceStatusTracker {
    kind: SourceKind,
    /// The hosts of an HTTP service.
    hosts: Option<openapi::ServiceHosts>,
    current: Mutex<StatusSnapshot>,
}

#[derive(Debug, Clone)]
struct StatusSnapshot {
    state: SourceState,
    reason: Option<String>,
    since: i64,
    retry_at: Option<i64>,
    /// How many operations an HTTP service has, in whatever namespaces they stand.
    operations: Option<usize>,
    last_error: Option<LastError>,
}

/// The sources of the configuration that are there, for those who only want to know how they are. One
/// that ends is not among them any more.
#[derive(Debug, Default)]
pub(crate) struct SourceStatuses(Mutex<BTreeMap<String, Weak<SourceStatusTracker>>>);

impl SourceStatuses {
    pub(super) fn insert(&self, name: &str, tracker: &Arc<SourceStatusTracker>) {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|_, tracker| tracker.strong_count() > 0);
        sources.insert(name.to_owned(), Arc::downgrade(tracker));
    }

    /// All of them by name.
    pub(crate) fn all(&self) -> BTreeMap<String, Arc<SourceStatusTracker>> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// How the source is doing. Whether a spoke is there, the hub knows.
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

    /// The state of the circuit breaker of the source, or of its hosts.
    fn breaker_state(&self, gateway: &GatewayState, name: &str) -> BreakerState {
        let limiter = gateway.limiter.as_ref();
        let state = limiter.map_or(BreakerState::Closed, |limits| limits.breaker_state(name));
        let has_open_host = self.hosts.as_ref().is_some_and(|hosts| hosts.has_open_breaker());
        if has_open_host { BreakerState::Open } else { state }
    }

    fn set_starting(&self) {
        self.set_state(SourceState::Starting, None, None);
    }

    /// An HTTP service was read, and has so many operations.
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
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Notes and logs what becomes of a source; its task ends when the source does.
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
