//! Where the handlers of a source find the session of the moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ask::{Ask, Patience};
use super::failure::Failure;
use super::follow::Watches;
use super::inquiry;
use super::rpc::{Params, RpcError};
use super::session::Session;
use super::settings::McpSettings;
use super::source::{Adjust, SourceStatus};
use super::speech;
use crate::error::CallError;
use crate::handler::{CallContext, LogLine, Progress, ProgressSender, Watch};

/// How long a call waits for a server that is just being connected, or will be in a moment.
const CONNECTING: Duration = Duration::from_secs(2);
/// How long a call that may be repeated waits for the server to come back.
const RETURN: Duration = Duration::from_secs(5);
/// What is left of the time of a call that waits, so that it can still say why it failed.
const LAST_WORDS: Duration = Duration::from_micros(200);

/// What the handlers of a source share.
pub(super) struct Desk {
    pub(super) name: Arc<str>,
    pub(super) settings: Arc<McpSettings>,
    pub(super) status: watch::Sender<SourceStatus>,
    /// The resources that somebody follows.
    pub(super) watches: Arc<Watches>,
    current: ArcSwapOption<Session>,
    /// Why there was no session when there was last none.
    reason: ArcSwapOption<String>,
    /// Canceled when no session will come any more.
    closed: CancellationToken,
    /// How long a call may go on without a sign of progress, in microseconds; it may be adjusted.
    timeout: AtomicU64,
    /// What is made of operations before they are registered.
    adjust: Mutex<Option<Adjust>>,
    /// Told when that has changed.
    pub(super) adjusted: Notify,
    /// The errands that are being run, for whoever wants to see their end.
    pub(super) errands: TaskTracker,
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

/// Hands what a server says about a call to whoever watches the call.
struct Watching(CallContext);

impl Watch for Watching {
    fn progress(&self, progress: Progress) {
        self.0.report(progress);
    }

    fn log(&self, line: LogLine) {
        self.0.log(line);
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Desk {
    pub(super) fn new(name: &str, settings: McpSettings, adjust: Option<Adjust>) -> Self {
        Self {
            name: name.into(),
            timeout: AtomicU64::new(micros(settings.timeout)),
            adjust: Mutex::new(adjust),
            adjusted: Notify::new(),
            errands: TaskTracker::new(),
            settings: Arc::new(settings),
            status: watch::Sender::new(SourceStatus::Connecting),
            watches: Arc::default(),
            current: ArcSwapOption::empty(),
            reason: ArcSwapOption::empty(),
            closed: CancellationToken::new(),
        }
    }

    /// How long a call may go on without a sign of progress.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_micros(self.timeout.load(Ordering::Relaxed))
    }

    pub(super) fn adjust(&self) -> Option<Adjust> {
        self.adjust.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_adjust(&self, adjust: Option<Adjust>, timeout: Duration) {
        self.timeout.store(micros(timeout), Ordering::Relaxed);
        *self.adjust.lock().unwrap_or_else(PoisonError::into_inner) = adjust;
        self.adjusted.notify_one();
    }

    pub(super) fn put(&self, session: Arc<Session>) {
        self.current.store(Some(session));
    }

    /// Tells everybody that there is no session for now.
    pub(super) fn say_down(&self, reason: String, again_in: Duration) {
        self.reason.store(Some(Arc::new(reason.clone())));
        self.status.send_replace(SourceStatus::Down { reason, again_in });
    }

    pub(super) fn take(&self) -> Option<Arc<Session>> {
        self.current.swap(None)
    }

    /// As [`Desk::take`], for good: whoever waits for a session is told that none will come.
    pub(super) fn close(&self) -> Option<Arc<Session>> {
        self.closed.cancel();
        self.take()
    }

    /// Runs an errand; once more if the server was lost over it and it may be repeated, and once more
    /// if nothing of it had been sent.
    pub(super) async fn run(
        &self,
        context: &CallContext,
        errand: Errand<'_>,
    ) -> Result<Box<RawValue>, CallError> {
        let _running = self.errands.token();
        let progress = ProgressSender::to(Arc::new(Watching(context.clone())));
        let remaining = context.remaining().unwrap_or(Duration::MAX);
        let settings = &self.settings;
        let ask = Ask {
            method: errand.method,
            params: errand.params,
            subject: errand.subject,
            headers: errand.headers,
            progress: Some(progress),
            trace: speech::trace(context.metadata()),
            respondent: context.respondent().filter(|_| inquiry::may_ask(errand.method)),
            patience: Patience::new(self.timeout(), settings.max_timeout.min(remaining)),
            number: None,
        };
        let mut session = self.session().await?;
        let (mut repeats_sent, mut repeats_unsent) = (errand.is_repeatable, true);
        loop {
            let failure = match session.request(&ask).await {
                Err(failure) if failure.is_loss() => failure,
                Err(failure) => {
                    if failure.rpc().is_some_and(RpcError::is_header_mismatch) {
                        // The tool wants other headers than it did when it was listed.
                        session.tools_changed().notify_one();
                    }
                    return Err(failure.into_call_error(&self.name));
                }
                Ok(answer) => return Ok(answer),
            };
            let is_allowed = match failure.is_before_sending() {
                true => &mut repeats_unsent,
                false => &mut repeats_sent,
            };
            let next = match std::mem::take(is_allowed) {
                true => self.session_for_repeating(context, &session, &failure).await,
                false => None,
            };
            session = next.ok_or_else(|| failure.into_call_error(&self.name))?;
        }
    }

    /// Where an errand that was lost can be run again.
    async fn session_for_repeating(
        &self,
        context: &CallContext,
        session: &Arc<Session>,
        failure: &Failure,
    ) -> Option<Arc<Session>> {
        if failure.is_before_sending() || matches!(failure, Failure::SessionGone { .. }) {
            session.lose(&failure.to_string());
        } else if session.outlives_an_answer() {
            return Some(Arc::clone(session));
        }
        let remaining = context.remaining().unwrap_or(Duration::MAX);
        let patience = RETURN.min(remaining.saturating_sub(LAST_WORDS));
        self.session_after(session, patience).await
    }

    /// The session of the moment; one that is just being made is waited for.
    async fn session(&self) -> Result<Arc<Session>, CallError> {
        if let Some(session) = self.current.load_full() {
            return Ok(session);
        }
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| match status {
            SourceStatus::Connecting => false,
            SourceStatus::Ready(_) => true,
            SourceStatus::Down { again_in, .. } => *again_in > CONNECTING,
        });
        let _ = tokio::time::timeout(CONNECTING, settled).await;
        self.current.load_full().ok_or_else(|| {
            let reason = self.reason.load();
            let why = match reason.as_deref() {
                _ if self.closed.is_cancelled() => "the source was closed",
                Some(reason) => reason,
                None => "it is being connected",
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
        let next = self.closed.run_until_cancelled(next);
        tokio::time::timeout(patience, next).await.ok().flatten().flatten()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
