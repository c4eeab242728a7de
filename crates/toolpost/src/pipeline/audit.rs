//! audit-enter and audit-exit: whoever writes down what happens hears of every call, refused ones
//! too, exactly twice.

use std::time::Duration;

use tokio::time::Instant;

use super::hooks::{CallView, HookResult};
use super::observer::CallTimes;
use super::state::CallState;
use crate::error::{CallError, ErrorOrigin};
use crate::operation::Operation;
use crate::outcome::Outcome;

/// Writes down what happens.
pub trait AuditSink: Send + Sync + 'static {
    /// A call begins. An error refuses it, since what cannot be recorded must not run.
    fn enter(&self, call: &CallView<'_>) -> AuditEntry;

    /// A call ends. The answer waits for a [`HookResult::Pending`]; an error takes the place of the answer,
    /// since what is not recorded must not be acknowledged.
    fn exit(
        &self,
        call: &CallView<'_>,
        audit_outcome: &AuditOutcome<'_>,
        took: Duration,
    ) -> HookResult<()>;
}

/// What is known of a record of a call that begins.
#[must_use]
pub struct AuditEntry {
    /// Comes back in [`CallView::audit_id`] when the call ends, also where it never came to run.
    pub id: Option<u64>,
    /// Whether the call may go on.
    pub result: HookResult<()>,
}

impl From<HookResult<()>> for AuditEntry {
    fn from(hook_result: HookResult<()>) -> Self {
        Self { id: None, result: hook_result }
    }
}

/// How a call ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditOutcome<'a> {
    /// With an envelope.
    Succeeded(&'a Outcome),
    /// With an error.
    Failed(&'a CallError),
    /// A subscription, after this many values.
    Completed {
        /// How many there were.
        values: u64,
    },
}

impl<'a> AuditOutcome<'a> {
    pub(super) fn from_result(result: &'a Result<Outcome, CallError>) -> Self {
        match result {
            Ok(outcome) => Self::Succeeded(outcome),
            Err(error) => Self::Failed(error),
        }
    }
}

pub(super) async fn enter(call: &mut CallState) -> Result<(), CallError> {
    call.started_at = call.shared.is_timed().then(Instant::now);
    if let Some(observer) = &call.shared.observer {
        observer.begin(&call.view());
    }
    let Some(audit) = &call.shared.audit else { return Ok(()) };
    let AuditEntry { id: mark, result: step } = audit.enter(&call.view());
    call.audit_id = mark;
    call.await_hook(step).await
}

pub(super) async fn exit(
    call: &CallState,
    audit_outcome: &AuditOutcome<'_>,
) -> Result<(), CallError> {
    let times = call_times(call);
    let took = times.total;
    log(call, audit_outcome, took);
    if let Some(observer) = &call.shared.observer {
        observer.end(&call.view(), audit_outcome, times);
    }
    let Some(audit) = &call.shared.audit else { return Ok(()) };
    // Not cancellable: the record of the end is part of every end.
    let recorded = match audit.exit(&call.view(), audit_outcome, took) {
        HookResult::Ready(result) => result,
        HookResult::Pending(future) => future.await,
    };
    if let Err(error) = &recorded {
        tracing::error!(request_id = %call.view().request_id, %error, "failed to record audit exit");
    }
    recorded
}

fn call_times(call: &CallState) -> CallTimes {
    let Some(started_at) = call.started_at else { return CallTimes::new(Duration::ZERO, None) };
    let now = Instant::now();
    CallTimes::new(now - started_at, call.dispatched_at.map(|at| now - at))
}

/// Nothing is repaired in silence, neither in an answer nor in a value of a stream. What is wrong is
/// said with its place; the words may quote the value, so they are for debugging only.
pub(super) fn log_findings(call: &CallState, outcome: &Outcome) {
    let (request_id, operation) = (call.context.request_id(), call.context.operation());
    for repair in outcome.repairs() {
        let (path, action) = (repair.path.as_str(), repair.action);
        if action.is_warning() {
            tracing::warn!(%request_id, operation, path, ?action, "output repaired");
        } else {
            tracing::debug!(%request_id, operation, path, ?action, "output repaired");
        }
    }
    for warning in outcome.warnings() {
        let (path, problem) = (&warning.path, &warning.message);
        tracing::warn!(%request_id, operation, path, "output does not fit its schema");
        tracing::debug!(%request_id, operation, path, problem, "output does not fit its schema");
    }
}

/// One line for each call, without a word of what it carried. Words of others are recorded as text,
/// which whoever writes the log quotes and escapes: nobody outside can write log lines of his own.
fn log(call: &CallState, audit_outcome: &AuditOutcome<'_>, took: Duration) {
    let view = call.view();
    let (request_id, operation, endpoint) = (view.request_id, view.operation_id, view.endpoint);
    // Only looked at by lines that are written.
    let identity = || view.identity.map_or("", |identity| &identity.id);
    let trace_id = || view.trace_id().unwrap_or_default();
    let ms = || took.as_secs_f64() * 1_000.0;
    match audit_outcome {
        AuditOutcome::Succeeded(outcome) => {
            let outcome = if outcome.envelope.is_error() { "isError" } else { "ok" };
            tracing::debug!(%request_id, trace_id = trace_id(), operation, endpoint, identity = identity(), outcome, ms = ms(), "call completed");
        }
        AuditOutcome::Failed(error) if error.code().origin() == ErrorOrigin::Caller => {
            let outcome = error.code().as_str();
            tracing::debug!(%request_id, trace_id = trace_id(), operation, endpoint, identity = identity(), outcome, ms = ms(), error = error.to_string(), "call rejected");
        }
        AuditOutcome::Failed(error) => {
            let outcome = error.code().as_str();
            let (error_message, causes) = match may_contain_secrets(&view, error) {
                true => (None, None),
                false => (Some(error.to_string()), Some(causes(error))),
            };
            tracing::info!(%request_id, trace_id = trace_id(), operation, endpoint, identity = identity(), outcome, ms = ms(), error = error_message, causes, "call failed");
        }
        AuditOutcome::Completed { values } => {
            tracing::debug!(%request_id, trace_id = trace_id(), operation, endpoint, identity = identity(), outcome = "ok", ms = ms(), values, "subscription completed");
        }
    }
}

/// Whether an error may be in words of a source about something that belongs into no log. One out of
/// a call inside this one is told of there.
fn may_contain_secrets(call: &CallView<'_>, error: &CallError) -> bool {
    error.is_nested() || call.operation.is_some_and(Operation::has_secrets)
}

/// What lies behind an error, from the outside in, without the words that the error says itself.
fn causes(error: &CallError) -> String {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(error_below) = cause {
        let cause_text = error_below.to_string();
        if cause_text != error.message() {
            causes.push(cause_text);
        }
        cause = error_below.source();
    }
    causes.join(": ")
}
