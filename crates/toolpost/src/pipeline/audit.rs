//! audit-enter and audit-exit: whoever writes down what happens hears of every call, refused ones
//! too, exactly twice.

use std::time::Duration;

use tokio::time::Instant;

use super::observe::Times;
use super::seam::{CallView, Step};
use super::state::CallState;
use crate::error::{CallError, Origin};
use crate::operation::Operation;
use crate::outcome::Outcome;

/// Writes down what happens.
pub trait AuditSink: Send + Sync + 'static {
    /// A call begins. An error refuses it, since what cannot be recorded must not run.
    fn enter(&self, call: &CallView<'_>) -> Entered;

    /// A call ends. The answer waits for a [`Step::Later`]; an error takes the place of the answer,
    /// since what is not recorded must not be acknowledged.
    fn exit(&self, call: &CallView<'_>, ending: &Ending<'_>, took: Duration) -> Step<()>;
}

/// What is known of a record of a call that begins.
#[must_use]
pub struct Entered {
    /// Comes back in [`CallView::mark`] when the call ends, also where it never came to run.
    pub mark: Option<u64>,
    /// Whether the call may go on.
    pub step: Step<()>,
}

impl From<Step<()>> for Entered {
    fn from(step: Step<()>) -> Self {
        Self { mark: None, step }
    }
}

/// How a call ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ending<'a> {
    /// With an envelope.
    Answered(&'a Outcome),
    /// With an error.
    Failed(&'a CallError),
    /// A subscription, after this many values.
    Completed {
        /// How many there were.
        values: u64,
    },
}

impl<'a> Ending<'a> {
    pub(super) fn of(result: &'a Result<Outcome, CallError>) -> Self {
        match result {
            Ok(outcome) => Self::Answered(outcome),
            Err(error) => Self::Failed(error),
        }
    }
}

pub(super) async fn enter(call: &mut CallState) -> Result<(), CallError> {
    call.began = call.shared.is_timed().then(Instant::now);
    if let Some(observer) = &call.shared.observer {
        observer.begin(&call.view());
    }
    let Some(audit) = &call.shared.audit else { return Ok(()) };
    let Entered { mark, step } = audit.enter(&call.view());
    call.mark = mark;
    call.wait_for(step).await
}

pub(super) async fn exit(call: &CallState, ending: &Ending<'_>) -> Result<(), CallError> {
    let times = times(call);
    let took = times.total;
    log(call, ending, took);
    if let Some(observer) = &call.shared.observer {
        observer.end(&call.view(), ending, times);
    }
    let Some(audit) = &call.shared.audit else { return Ok(()) };
    // Not cancellable: the record of the end is part of every end.
    let recorded = match audit.exit(&call.view(), ending, took) {
        Step::Now(result) => result,
        Step::Later(future) => future.await,
    };
    if let Err(error) = &recorded {
        tracing::error!(request_id = %call.view().request_id, %error, "exit was not recorded");
    }
    recorded
}

fn times(call: &CallState) -> Times {
    let Some(began) = call.began else { return Times::new(Duration::ZERO, None) };
    let now = Instant::now();
    Times::new(now - began, call.dispatched_at.map(|at| now - at))
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
fn log(call: &CallState, ending: &Ending<'_>, took: Duration) {
    let view = call.view();
    let (request_id, operation, door) = (view.request_id, view.operation_id, view.door);
    // Only looked at by lines that are written.
    let who = || view.identity.map_or("", |identity| &identity.id);
    let trace_id = || view.trace_id().unwrap_or_default();
    let ms = || took.as_secs_f64() * 1_000.0;
    match ending {
        Ending::Answered(outcome) => {
            let outcome = if outcome.envelope.is_error() { "isError" } else { "ok" };
            tracing::debug!(%request_id, trace_id = trace_id(), operation, door, who = who(), outcome, ms = ms(), "call answered");
        }
        Ending::Failed(error) if error.code().origin() == Origin::Caller => {
            let outcome = error.code().as_str();
            tracing::debug!(%request_id, trace_id = trace_id(), operation, door, who = who(), outcome, ms = ms(), error = error.to_string(), "call refused");
        }
        Ending::Failed(error) => {
            let outcome = error.code().as_str();
            let (words, causes) = match may_quote_secrets(&view, error) {
                true => (None, None),
                false => (Some(error.to_string()), Some(causes(error))),
            };
            tracing::info!(%request_id, trace_id = trace_id(), operation, door, who = who(), outcome, ms = ms(), error = words, causes, "call failed");
        }
        Ending::Completed { values } => {
            tracing::debug!(%request_id, trace_id = trace_id(), operation, door, who = who(), outcome = "ok", ms = ms(), values, "subscription completed");
        }
    }
}

/// Whether an error may be in words of a source about something that belongs into no log. One out of
/// a call inside this one is told of there.
fn may_quote_secrets(call: &CallView<'_>, error: &CallError) -> bool {
    error.is_crossed() || call.operation.is_some_and(Operation::has_secrets)
}

/// What lies behind an error, from the outside in, without the words that the error says itself.
fn causes(error: &CallError) -> String {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(error_below) = cause {
        let words = error_below.to_string();
        if words != error.message() {
            causes.push(words);
        }
        cause = error_below.source();
    }
    causes.join(": ")
}
