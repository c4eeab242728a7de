//! Status of sources, for operations, metrics and the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use toolpost::hub::SpokeStatus;
use toolpost::openapi::ServiceHosts;
use toolpost::{BreakerState, SourceMonitor, epoch_ms};

use super::SourceContext;
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
    /// The error message.
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

/// Observes the status of a source.
#[derive(Debug)]
pub(crate) struct SourceStatusTracker {
    pub(super) kind: SourceKind,
    /// Hosts of an HTTP service.
    pub(super) hosts: Option<ServiceHosts>,
    /// `None` for a spoke, whose status the hub provides.
    pub(super) monitor: Option<SourceMonitor>,
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
    /// Returns the current status.
    pub(crate) fn status(&self, context: &SourceContext, name: &str) -> SourceStatus {
        let mut status = SourceStatus {
            name: name.to_owned(),
            kind: self.kind.as_str().to_owned(),
            about: self.kind.describe(),
            state: SourceState::Down,
            reason: None,
            since: 0,
            retry_at: None,
            breaker: self.breaker_state(context, name),
            operations: context.registry.catalog().namespace(name).len(),
            last_error: None,
        };
        match &self.monitor {
            Some(monitor) => status.set_from(monitor),
            None => status.set_from_spoke(context.hub.spoke_status(name)),
        }
        status
    }

    /// Returns the state of the worst circuit breaker of the source and its hosts.
    fn breaker_state(&self, context: &SourceContext, name: &str) -> BreakerState {
        let state = context.limiter.breaker_state(name);
        self.hosts.as_ref().map_or(state, |hosts| state.max(hosts.breaker_state()))
    }
}

impl SourceStatus {
    fn set_from(&mut self, monitor: &SourceMonitor) {
        let history = monitor.history();
        self.since = history.since;
        self.last_error = history.last_error.map(|(message, at)| LastError { message, at });
        match &*monitor.status().borrow() {
            toolpost::SourceStatus::Ready(info) => {
                (self.state, self.operations) = (SourceState::Ready, info.operations);
            }
            toolpost::SourceStatus::Down { reason, retry_in } => {
                self.reason = Some(reason.clone());
                let retry_in = i64::try_from(retry_in.as_millis()).unwrap_or(i64::MAX);
                self.retry_at =
                    self.last_error.as_ref().map(|last| last.at.saturating_add(retry_in));
            }
            toolpost::SourceStatus::Disabled(reason) => {
                (self.state, self.reason) = (SourceState::Disabled, Some(reason.clone()));
            }
            _ => self.state = SourceState::Starting,
        }
    }

    fn set_from_spoke(&mut self, spoke: Option<SpokeStatus>) {
        self.since = spoke.map_or_else(epoch_ms, |spoke| spoke.since);
        match spoke {
            Some(spoke) if spoke.is_online => self.state = SourceState::Ready,
            _ => self.reason = Some("it is not connected".to_owned()),
        }
    }
}
