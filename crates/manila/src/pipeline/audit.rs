//! audit-enter and audit-exit: whoever writes down what happens hears of every call, refused ones
//! too, exactly twice.

use std::time::Duration;

use tokio::time::Instant;

use super::seam::{CallView, Step};
use super::state::CallState;
use crate::error::{CallError, Origin};
use crate::outcome::Outcome;

/// Writes down what happens.
pub trait AuditSink: Send + Sync + 'static {
    /// A call begins. An error refuses it, since what cannot be recorded must not run.
    fn enter(&self, call: &CallView<'_>) -> Step<()>;

    /// A call ends. The answer waits for a [`Step::Later`]; an error is logged.
    fn exit(&self, call: &CallView<'_>, ending: &Ending<'_>, took: Duration) -> Step<()>;
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
    let Some(audit) = &call.shared.audit else { return Ok(()) };
    call.began = Some(Instant::now());
    let step = audit.enter(&call.view());
    call.wait_for(step).await
}

pub(super) async fn exit(call: &CallState, ending: &Ending<'_>) {
    log(call, ending);
    let Some(audit) = &call.shared.audit else { return };
    let took = call.began.map(|began| began.elapsed()).unwrap_or_default();
    // Not cancellable: the record of the end is part of every end.
    let recorded = match audit.exit(&call.view(), ending, took) {
        Step::Now(result) => result,
        Step::Later(future) => future.await,
    };
    if let Err(error) = recorded {
        tracing::error!(request_id = %call.view().request_id, %error, "exit was not recorded");
    }
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

/// Words of others are recorded as text, which whoever writes the log quotes and escapes: nobody
/// outside can write log lines of his own.
fn log(call: &CallState, ending: &Ending<'_>) {
    let (request_id, operation) = (call.context.request_id(), call.context.operation());
    match ending {
        Ending::Answered(_) => {}
        Ending::Failed(error) if error.code().origin() == Origin::Caller => {
            tracing::debug!(%request_id, operation, error = error.to_string(), "call refused");
        }
        Ending::Failed(error) => {
            let causes = causes(error);
            tracing::info!(%request_id, operation, error = error.to_string(), causes, "call failed");
        }
        Ending::Completed { values } => {
            tracing::debug!(%request_id, operation, values, "subscription completed");
        }
    }
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
