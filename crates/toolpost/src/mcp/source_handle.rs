//! State shared by the handlers of a source, including the current session.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::elicitation;
use super::error::RequestError;
use super::protocol_version;
use super::request::{ClientRequest, Timeouts};
use super::rpc::{RequestParams, RpcError};
use super::session::ClientSession;
use super::settings::McpSettings;
use super::subscriptions::ResourceSubscriptions;
use crate::error::CallError;
use crate::handler::{CallContext, LogMessage, Progress, ProgressObserver, ProgressSender};
use crate::source::{CurrentHooks, SourceContext, SourceStatus};

/// How long a call waits for a server that is connecting or about to reconnect.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// How long a call that can be retried waits for the server to reconnect.
const RECONNECT_WAIT: Duration = Duration::from_secs(5);
/// Time reserved before the deadline, so that a waiting call returns the cause, not a timeout.
const ERROR_MARGIN: Duration = Duration::from_micros(200);

/// State shared by the handlers of a source.
pub(super) struct SourceHandle {
    pub(super) name: Arc<str>,
    pub(super) settings: Arc<McpSettings>,
    status: watch::Receiver<SourceStatus>,
    hooks: Arc<CurrentHooks>,
    /// Resource subscriptions of the source.
    pub(super) subscriptions: Arc<ResourceSubscriptions>,
    session: ArcSwapOption<ClientSession>,
    /// Why the source was last down.
    down_reason: ArcSwapOption<String>,
    /// Canceled when there will be no further session.
    closed: CancellationToken,
    /// Calls in flight; awaited when the source drains.
    pub(super) calls: TaskTracker,
}

/// Forwards the progress and log messages of a call to its context.
struct ContextObserver(CallContext);

impl ProgressObserver for ContextObserver {
    fn progress(&self, progress: Progress) {
        self.0.report(progress);
    }

    fn log(&self, line: LogMessage) {
        self.0.log(line);
    }
}

debug_fields!(handle: SourceHandle, name = handle.name);

impl SourceHandle {
    pub(super) fn new(context: &SourceContext, settings: &Arc<McpSettings>) -> Self {
        Self {
            name: Arc::clone(context.name()),
            settings: Arc::clone(settings),
            status: context.status(),
            hooks: Arc::clone(context.hooks()),
            calls: TaskTracker::new(),
            subscriptions: Arc::default(),
            session: ArcSwapOption::empty(),
            down_reason: ArcSwapOption::empty(),
            closed: CancellationToken::new(),
        }
    }

    /// Returns the maximum time that a call may go without progress.
    pub(super) fn timeout(&self) -> Duration {
        self.hooks.get().timeout.unwrap_or(self.settings.timeout)
    }

    pub(super) fn set_session(&self, session: Arc<ClientSession>) {
        self.session.store(Some(session));
    }

    pub(super) fn set_down_reason(&self, reason: &str) {
        // The other lines are standard error, which may belong to the calls of other callers.
        let reason = reason.lines().next().unwrap_or_default();
        let reason = reason.strip_suffix("; standard error:").unwrap_or(reason);
        self.down_reason.store(Some(Arc::new(reason.to_owned())));
    }

    pub(super) fn take_session(&self) -> Option<Arc<ClientSession>> {
        self.session.swap(None)
    }

    /// Like [`SourceHandle::take_session`], but permanent: waiting for a new session then fails.
    pub(super) fn close(&self) -> Option<Arc<ClientSession>> {
        self.closed.cancel();
        self.take_session()
    }

    /// Creates the request of a call.
    pub(super) fn request<'a>(
        &self,
        context: &'a CallContext,
        method: &'a str,
        params: &'a RequestParams<'a>,
    ) -> ClientRequest<'a> {
        let remaining = context.remaining().unwrap_or(Duration::MAX);
        let timeouts = Timeouts::new(self.timeout(), self.settings.max_timeout.min(remaining));
        ClientRequest {
            progress: Some(ProgressSender::from_observer(Arc::new(ContextObserver(
                context.clone(),
            )))),
            trace: protocol_version::trace_members(context.metadata()),
            client_channel: context
                .client_channel()
                .filter(|_| elicitation::METHODS_WITH_SERVER_REQUESTS.contains(&method)),
            ..ClientRequest::new(method, params, timeouts)
        }
    }

    /// Runs a call. If the call is canceled, also cancels it at the server.
    pub(super) async fn call(
        &self,
        context: &CallContext,
        request: &ClientRequest<'_>,
        is_repeatable: bool,
    ) -> Result<Box<RawValue>, CallError> {
        let _running = self.calls.token();
        tokio::select! {
            biased;
            called = self.send(context, request, is_repeatable) => called,
            () = context.canceled() => Err(CallError::aborted("the call was canceled")),
        }
    }

    /// Sends a request. After a disconnect, retries once if the request was not sent, and once if
    /// it was sent and is repeatable.
    async fn send(
        &self,
        context: &CallContext,
        request: &ClientRequest<'_>,
        is_repeatable: bool,
    ) -> Result<Box<RawValue>, CallError> {
        let mut session = self.current_session().await?;
        let (mut may_retry_sent, mut may_retry_unsent) = (is_repeatable, true);
        loop {
            let failure = match session.request(request).await {
                Err(failure) if failure.is_disconnect() => failure,
                Err(failure) => {
                    if failure.rpc().is_some_and(|error| error.code == RpcError::HEADER_MISMATCH) {
                        // The header parameters of the tool have changed since it was listed.
                        session.tools_changed().notify_one();
                    }
                    return Err(failure.into_call_error(&self.name));
                }
                Ok(response) => return Ok(response),
            };
            let is_allowed = match failure.was_not_sent() {
                true => &mut may_retry_unsent,
                false => &mut may_retry_sent,
            };
            let next = match std::mem::take(is_allowed) {
                true => self.retry_session(context, &session, &failure).await,
                false => None,
            };
            session = next.ok_or_else(|| failure.into_call_error(&self.name))?;
        }
    }

    /// Returns the session on which a call can be retried after a disconnect.
    async fn retry_session(
        &self,
        context: &CallContext,
        session: &Arc<ClientSession>,
        failure: &RequestError,
    ) -> Option<Arc<ClientSession>> {
        if failure.was_not_sent() || matches!(failure, RequestError::SessionNotFound { .. }) {
            session.transport.mark_disconnected(&failure.to_string());
        } else if session.transport.is_http() {
            // Each response has its own connection, so the session continues.
            return Some(Arc::clone(session));
        }
        let remaining = context.remaining().unwrap_or(Duration::MAX);
        let wait = RECONNECT_WAIT.min(remaining.saturating_sub(ERROR_MARGIN));
        self.next_session(session, wait).await
    }

    /// Returns the current session; waits if the source is connecting.
    async fn current_session(&self) -> Result<Arc<ClientSession>, CallError> {
        if let Some(session) = self.session.load_full() {
            return Ok(session);
        }
        let mut status = self.status.clone();
        let resolved = status.wait_for(|status| match status {
            SourceStatus::Starting => false,
            SourceStatus::Down { retry_in, .. } => *retry_in > CONNECT_WAIT,
            _ => true,
        });
        let _ = tokio::time::timeout(CONNECT_WAIT, resolved).await;
        self.session.load_full().ok_or_else(|| {
            let reason = self.down_reason.load();
            let message = match reason.as_deref() {
                _ if self.closed.is_cancelled() => "the source was closed",
                Some(reason) => reason,
                None => "the server is connecting",
            };
            RequestError::unreachable(format!("offline: {message}")).into_call_error(&self.name)
        })
    }

    /// Waits for a session other than `previous`.
    async fn next_session(
        &self,
        previous: &Arc<ClientSession>,
        wait: Duration,
    ) -> Option<Arc<ClientSession>> {
        let mut status = self.status.clone();
        let next = async {
            loop {
                match self.session.load_full() {
                    Some(session) if !Arc::ptr_eq(&session, previous) => return Some(session),
                    _ => status.changed().await.ok()?,
                }
            }
        };
        let next = self.closed.run_until_cancelled(next);
        tokio::time::timeout(wait, next).await.ok().flatten().flatten()
    }
}
