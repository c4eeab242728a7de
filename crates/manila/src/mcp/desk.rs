//! Where the handlers of a source find the session of the moment.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::ask::{Ask, Patience};
use super::failure::Failure;
use super::rpc::{Params, RpcError};
use super::session::Session;
use super::settings::McpSettings;
use super::source::SourceStatus;
use crate::error::CallError;
use crate::handler::{CallContext, ProgressSender};

/// How long a call waits for a server that is just being connected.
const CONNECTING: Duration = Duration::from_secs(2);
/// How long a call that may be repeated waits for the server to come back.
const RETURN: Duration = Duration::from_secs(10);

/// What the handlers of a source share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) name: Arc<str>,
    pub(super) settings: Arc<McpSettings>,
    pub(super) status: watch::Sender<SourceStatus>,
    current: ArcSwapOption<Session>,
}

/// A request of a handler.
#[derive(Debug)]
pub(super) struct Errand<'a> {
    pub(super) method: &'a str,
    pub(super) params: &'a Params<'a>,
    pub(super) subject: Option<&'a str>,
    pub(super) headers: Vec<(&'a str, String)>,
    /// Whether doing it twice is the same as doing it once.
    pub(super) is_repeatable: bool,
}

impl Desk {
    pub(super) fn new(name: &str, settings: McpSettings) -> Self {
        Self {
            name: name.into(),
            settings: Arc::new(settings),
            status: watch::Sender::new(SourceStatus::Connecting),
            current: ArcSwapOption::empty(),
        }
    }

    pub(super) fn put(&self, session: Arc<Session>) {
        self.current.store(Some(session));
    }

    pub(super) fn take(&self) -> Option<Arc<Session>> {
        self.current.swap(None)
    }

    /// Runs an errand; if the server was lost over it, and it may be repeated, once more on the next
    /// session.
    pub(super) async fn run(
        &self,
        context: &CallContext,
        errand: Errand<'_>,
    ) -> Result<Box<RawValue>, CallError> {
        let reports = context.clone();
        let progress = ProgressSender::from_fn(move |progress| reports.report(progress));
        let remaining = context.remaining().unwrap_or(Duration::MAX);
        let settings = &self.settings;
        let ask = Ask {
            method: errand.method,
            params: errand.params,
            subject: errand.subject,
            headers: errand.headers,
            progress: Some(progress),
            patience: Patience {
                silence: settings.timeout,
                most: settings.max_timeout.min(remaining),
            },
        };
        let session = self.session().await?;
        let failure = match session.request(&ask).await {
            Err(failure) if failure.is_loss() => failure,
            Err(failure) if failure.rpc().is_some_and(RpcError::is_header_mismatch) => {
                // The tool wants other headers than it did when it was listed.
                session.tools_changed().notify_one();
                return Err(failure.into_call_error(&self.name));
            }
            ended => return ended.map_err(|failure| failure.into_call_error(&self.name)),
        };
        if failure.is_before_sending() {
            session.lose(&failure.to_string());
        }
        if failure.is_before_sending() || errand.is_repeatable {
            let patience = RETURN.min(context.remaining().unwrap_or(RETURN));
            if let Some(next) = self.session_after(&session, patience).await {
                let again = next.request(&ask).await;
                return again.map_err(|failure| failure.into_call_error(&self.name));
            }
        }
        Err(failure.into_call_error(&self.name))
    }

    /// The session of the moment; one that is just being made is waited for.
    async fn session(&self) -> Result<Arc<Session>, CallError> {
        if let Some(session) = self.current.load_full() {
            return Ok(session);
        }
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| !matches!(status, SourceStatus::Connecting));
        let _ = tokio::time::timeout(CONNECTING, settled).await;
        self.current.load_full().ok_or_else(|| {
            let why = match &*self.status.borrow() {
                SourceStatus::Down { reason, .. } => reason.clone(),
                _ => "it is being connected".to_owned(),
            };
            Failure::unreachable(format!("offline: {why}")).into_call_error(&self.name)
        })
    }

    /// The session that comes after one that was lost.
    async fn session_after(&self, lost: &Arc<Session>, patience: Duration) -> Option<Arc<Session>> {
        let mut status = self.status.subscribe();
        let next = async {
            loop {
                match self.current.load_full() {
                    Some(session) if !Arc::ptr_eq(&session, lost) => return Some(session),
                    _ => status.changed().await.ok()?,
                }
            }
        };
        tokio::time::timeout(patience, next).await.ok().flatten()
    }
}
