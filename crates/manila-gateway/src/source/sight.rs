//! How a source is doing, for those who ask and for the log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use manila::connection::Status;
use manila::{epoch_ms, mcp, openapi};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::entry::Body;
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
pub(super) struct Seen(Mutex<Moment>);

#[derive(Debug, Clone)]
struct Moment {
    state: SourceState,
    reason: Option<String>,
    since: i64,
    retry_at: Option<i64>,
    last_error: Option<LastError>,
}

impl Seen {
    pub(super) fn new(body: &Result<Body, String>) -> Self {
        let reason = body.as_ref().err().cloned();
        let state = if reason.is_some() { SourceState::Disabled } else { SourceState::Starting };
        let (since, retry_at, last_error) = (epoch_ms(), None, None);
        Self(Mutex::new(Moment { state, reason, since, retry_at, last_error }))
    }

    pub(super) fn sight(&self, name: &str, kind: &SourceKind, operations: usize) -> SourceSight {
        let Moment { state, reason, since, retry_at, last_error } = self.lock().clone();
        SourceSight {
            name: name.to_owned(),
            kind: kind.word().to_owned(),
            about: kind.describe(),
            state,
            reason,
            since,
            retry_at,
            operations,
            last_error,
        }
    }

    fn starts(&self) {
        self.enter(SourceState::Starting, None, None);
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
        (moment.reason, moment.retry_at) = (reason, retry_at);
    }

    fn lock(&self) -> MutexGuard<'_, Moment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        openapi::SourceStatus::Ready(_) => seen.is_ready(),
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
