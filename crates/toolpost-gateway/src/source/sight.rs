//! How a source is doing, for those who ask and for the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolpost::connection::Status;
use toolpost::hub::Standing;
use toolpost::{epoch_ms, mcp, openapi};

use super::entry::Body;
use crate::app::Parts;
use crate::config::SourceKind;

/// How a source is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SourceSight {
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
    /// Whether it failed again and again and is left alone, whatever its state: its calls fail at once
    /// until one of them finds it well. Of an HTTP service, whether one of its hosts is.
    pub left_alone: bool,
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
pub(crate) struct Seen {
    kind: SourceKind,
    /// The hosts of an HTTP service.
    hosts: Option<openapi::ServiceHosts>,
    moment: Mutex<Moment>,
}

#[derive(Debug, Clone)]
struct Moment {
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
pub(crate) struct Board(Mutex<BTreeMap<String, Weak<Seen>>>);

impl Board {
    pub(super) fn put(&self, name: &str, seen: &Arc<Seen>) {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|_, seen| seen.strong_count() > 0);
        sources.insert(name.to_owned(), Arc::downgrade(seen));
    }

    /// All of them by name.
    pub(crate) fn all(&self) -> BTreeMap<String, Arc<Seen>> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = sources.iter().filter_map(|(name, seen)| Some((name.clone(), seen.upgrade()?)));
        there.collect()
    }
}

impl Seen {
    pub(super) fn new(kind: &SourceKind, body: &Result<Body, String>) -> Self {
        let reason = body.as_ref().err().cloned();
        let state = if reason.is_some() { SourceState::Disabled } else { SourceState::Starting };
        let hosts = match body {
            Ok(Body::Service(service)) => Some(service.hosts()),
            _ => None,
        };
        let (since, retry_at, operations, last_error) = (epoch_ms(), None, None, None);
        let moment = Moment { state, reason, since, retry_at, operations, last_error };
        Self { kind: kind.clone(), hosts, moment: Mutex::new(moment) }
    }

    /// How the source is doing. Whether a spoke is there, the hub knows.
    pub(crate) fn sight(&self, gateway: &Parts, name: &str) -> SourceSight {
        let Moment { state, reason, since, retry_at, operations, last_error } = self.lock().clone();
        let in_namespace = || gateway.pipeline.registry().catalog().namespace(name).len();
        let mut sight = SourceSight {
            name: name.to_owned(),
            kind: self.kind.word().to_owned(),
            about: self.kind.describe(),
            state,
            reason,
            since,
            retry_at,
            left_alone: self.is_left_alone(gateway, name),
            operations: operations.unwrap_or_else(in_namespace),
            last_error,
        };
        if let SourceKind::Spoke { .. } = self.kind {
            sight.see_spoke(gateway.hub.standing(name));
        }
        sight
    }

    /// Whether the source, or a host of it, is left alone for now.
    fn is_left_alone(&self, gateway: &Parts, name: &str) -> bool {
        let has_closed_gate = || gateway.limiter.as_ref().is_some_and(|it| it.leaves_alone(name));
        self.hosts.as_ref().is_some_and(|hosts| hosts.is_any_left_alone()) || has_closed_gate()
    }

    fn starts(&self) {
        self.enter(SourceState::Starting, None, None);
    }

    /// An HTTP service was read, and has so many operations.
    fn has_read(&self, counts: &openapi::Counts) {
        self.is_ready();
        let operations = counts.queries + counts.mutations + counts.subscriptions;
        self.lock().operations = Some(operations);
    }

    fn is_ready(&self) {
        self.enter(SourceState::Ready, None, None);
    }

    fn is_down(&self, reason: &str, again_in: Option<Duration>) {
        let again_in = again_in.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let now = epoch_ms();
        let retry_at = again_in.map(|time| now.saturating_add(time));
        self.enter(SourceState::Down, Some(reason.to_owned()), retry_at);
        self.lock().last_error = Some(LastError { message: reason.to_owned(), at: now });
    }

    fn enter(&self, state: SourceState, reason: Option<String>, retry_at: Option<i64>) {
        let mut moment = self.lock();
        if moment.state != state {
            (moment.state, moment.since) = (state, epoch_ms());
        }
        (moment.reason, moment.retry_at, moment.operations) = (reason, retry_at, None);
    }

    fn lock(&self) -> MutexGuard<'_, Moment> {
        self.moment.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SourceSight {
    fn see_spoke(&mut self, standing: Option<Standing>) {
        self.since = standing.as_ref().map_or(self.since, |standing| standing.since);
        if standing.is_some_and(|standing| standing.is_online) {
            self.state = SourceState::Ready;
        } else {
            self.state = SourceState::Down;
            self.reason = Some("it is not connected".to_owned());
        }
    }
}

/// Notes and logs what becomes of a source; its task ends when the source does.
pub(super) fn watch(name: &str, body: &Body, seen: &Arc<Seen>) -> Option<JoinHandle<()>> {
    let (name, seen) = (name.to_owned(), Arc::clone(seen));
    Some(match body {
        Body::Server(server) => {
            tokio::spawn(follow(server.status(), move |status| see_server(&name, &seen, status)))
        }
        Body::Service(service) => {
            tokio::spawn(follow(service.status(), move |status| see_service(&seen, status)))
        }
        Body::Hub(hub) => {
            tokio::spawn(follow(hub.status(), move |status| see_hub(&name, &seen, status)))
        }
        Body::Spoke | Body::Nothing => return None,
    })
}

async fn follow<T>(mut status: watch::Receiver<T>, see: impl Fn(&T)) {
    loop {
        see(&status.borrow_and_update());
        if status.changed().await.is_err() {
            return;
        }
    }
}

fn see_server(source: &str, seen: &Seen, status: &mcp::SourceStatus) {
    match status {
        mcp::SourceStatus::Ready(found) => {
            seen.is_ready();
            let (server, version) = (&found.server, &found.server_version);
            let (protocol, tools) = (&found.protocol, found.tools.len());
            tracing::info!(source, server, version, protocol, tools, "source ready");
        }
        mcp::SourceStatus::Down { reason, again_in } => seen.is_down(reason, Some(*again_in)),
        _ => seen.starts(),
    }
}

fn see_service(seen: &Seen, status: &openapi::SourceStatus) {
    match status {
        openapi::SourceStatus::Ready(found) => seen.has_read(&found.counts),
        openapi::SourceStatus::Down { reason, again_in } => seen.is_down(reason, Some(*again_in)),
        _ => seen.starts(),
    }
}

fn see_hub(source: &str, seen: &Seen, status: &Status) {
    match status {
        Status::Connected(_) => {
            seen.is_ready();
            tracing::info!(source, "source ready");
        }
        Status::Connecting(Some(reason)) => {
            seen.is_down(reason, None);
            tracing::warn!(source, reason, "source down");
        }
        _ => seen.starts(),
    }
}
