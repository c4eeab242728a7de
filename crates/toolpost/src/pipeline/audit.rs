//! audit-enter and audit-exit: the audit sink receives each call exactly twice, including rejected
//! ones.

use std::time::Duration;

use tokio::time::Instant;

use super::hooks::{CallView, HookResult};
use super::observer::CallTimes;
use super::state::CallState;
use crate::error::{CallError, ErrorOrigin};
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::schema::{Issue, Schema};

/// Records the start and the end of every call.
pub trait AuditSink: Send + Sync + 'static {
    /// Records the start of a call. An error rejects the call: a call that cannot be recorded does
    /// not run.
    fn enter(&self, call: &CallView<'_>) -> AuditEntry;

    /// Records the end of a call. The response waits for a [`HookResult::Pending`]. An error
    /// replaces the response: a call that is not recorded is not acknowledged.
    fn exit(
        &self,
        call: &CallView<'_>,
        audit_outcome: &AuditOutcome<'_>,
        took: Duration,
    ) -> HookResult<()>;
}

/// Result of recording the start of a call.
#[must_use]
pub struct AuditEntry {
    /// Returned in [`CallView::audit_id`] when the call ends, even if it was rejected.
    pub id: Option<u64>,
    /// Whether the call may proceed.
    pub result: HookResult<()>,
}

impl From<HookResult<()>> for AuditEntry {
    fn from(hook_result: HookResult<()>) -> Self {
        Self { id: None, result: hook_result }
    }
}

/// How a call ended, as reported to the audit sink.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditOutcome<'a> {
    /// The call returned an envelope.
    Succeeded(&'a Outcome),
    /// The call failed.
    Failed(&'a CallError),
    /// A subscription completed.
    Completed {
        /// Number of values sent.
        values: u64,
        /// Number of warnings about them.
        warnings: u64,
    },
}

impl<'a> AuditOutcome<'a> {
    /// Returns the number of remaining mismatches between the data and the output schema.
    pub fn warnings(&self) -> u64 {
        match self {
            Self::Succeeded(outcome) => outcome.warnings().len() as u64,
            Self::Failed(_) => 0,
            Self::Completed { warnings, .. } => *warnings,
        }
    }

    pub(super) fn from_result(result: &'a Result<Outcome, CallError>) -> Self {
        match result {
            Ok(outcome) => Self::Succeeded(outcome),
            Err(error) => Self::Failed(error),
        }
    }
}

pub(super) async fn enter(call: &mut CallState) -> Result<(), CallError> {
    call.started_at = call.shared.is_timed().then(Instant::now);
    collect_secrets(call);
    if let Some(observer) = &call.shared.observer {
        observer.begin(&call.view());
    }
    let Some(audit) = &call.shared.audit else { return Ok(()) };
    let entry = audit.enter(&call.view());
    call.audit_id = entry.id;
    call.await_hook(entry.result).await
}

/// Registers the secrets in the input of the call, which errors and results may repeat.
fn collect_secrets(call: &CallState) {
    let (Some(operation), Some(input)) = (call.operation().ok(), &call.input) else { return };
    let secrets = operation.spec().input_schema.secrets();
    if secrets.is_empty() {
        return;
    }
    let Ok(mut value) = input.clone().into_value() else { return };
    call.context.add_secrets(|known| {
        secrets.visit(&mut value, &mut |secret| known.add(secret));
    });
}

pub(super) async fn exit(
    call: &CallState,
    audit_outcome: &AuditOutcome<'_>,
) -> Result<(), CallError> {
    let times = call_times(call);
    log(call, audit_outcome, times.total);
    if let Some(observer) = &call.shared.observer {
        observer.end(&call.view(), audit_outcome, times);
    }
    let Some(audit) = &call.shared.audit else { return Ok(()) };
    // Not cancellable: the end of every call must be recorded.
    let recorded = match audit.exit(&call.view(), audit_outcome, times.total) {
        HookResult::Ready(result) => result,
        HookResult::Pending(future) => future.await,
    };
    if let Err(error) = &recorded {
        tracing::error!(request_id = %call.view().request_id, %error, "failed to record audit exit");
    }
    recorded
}

fn call_times(call: &CallState) -> CallTimes {
    let Some(started_at) = call.started_at else {
        return CallTimes { total: Duration::ZERO, handler: None };
    };
    let now = Instant::now();
    CallTimes { total: now - started_at, handler: call.dispatched_at.map(|at| now - at) }
}

/// Logs every repair of a response or stream value, and one event for its warnings. Warning messages
/// can quote the value, so they are logged at debug level only.
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
    if let [first, ..] = outcome.warnings() {
        let (path, warnings) = (&first.path, outcome.warnings().len());
        tracing::warn!(%request_id, operation, path, warnings, "output does not match its schema");
    }
    for warning in outcome.warnings() {
        let (path, problem) = (&warning.path, &warning.message);
        tracing::debug!(%request_id, operation, path, problem, "output does not match its schema");
    }
}

/// Logs the warnings about a schema of an operation that were not logged before.
pub(super) fn log_schema_warnings(operation: &Operation, kind: &'static str, schema: &Schema) {
    for Issue { path, message } in schema.take_warnings() {
        let operation = operation.id().as_str();
        tracing::warn!(operation, schema = kind, path, problem = message, "schema warning");
    }
}

/// Logs one line per call, without its input or output. Untrusted text is recorded as a string
/// field, which the subscriber quotes and escapes, so it cannot inject log lines.
fn log(call: &CallState, audit_outcome: &AuditOutcome<'_>, took: Duration) {
    let view = call.view();
    let (request_id, operation, endpoint) =
        (view.request_id, view.operation_id, view.endpoint.as_str());
    // Closures, so that the values are computed only for enabled log levels.
    let identity = || view.identity.map(|identity| identity.key().to_string()).unwrap_or_default();
    let trace_id = || view.trace_id().unwrap_or_default();
    let ms = || took.as_secs_f64() * 1_000.0;
    // Absent without warnings.
    let warnings = Some(audit_outcome.warnings()).filter(|warnings| *warnings > 0);
    match audit_outcome {
        AuditOutcome::Succeeded(outcome) => {
            let outcome = if outcome.envelope.is_error() { "isError" } else { "ok" };
            tracing::debug!(%request_id, trace_id = trace_id(), operation, endpoint, identity = identity(), outcome, warnings, ms = ms(), "call completed");
        }
        AuditOutcome::Failed(error) if error.code().origin() == ErrorOrigin::Caller => {
            let outcome = error.code().as_str();
            tracing::debug!(%request_id, trace_id = trace_id(), operation, endpoint, identity = identity(), outcome, ms = ms(), error = &*view.mask_text(&error.to_string()), "call rejected");
        }
        AuditOutcome::Failed(error) => {
            let outcome = error.code().as_str();
            let (error_message, causes) = match may_contain_secrets(&view, error) {
                true => (None, None),
                false => (Some(error.to_string()), Some(causes(error))),
            };
            tracing::info!(%request_id, trace_id = trace_id(), operation, endpoint, identity = identity(), outcome, ms = ms(), error = error_message, causes, "call failed");
        }
        AuditOutcome::Completed { values, .. } => {
            tracing::debug!(%request_id, trace_id = trace_id(), operation, endpoint, identity = identity(), outcome = "ok", warnings, ms = ms(), values, "subscription completed");
        }
    }
}

/// Whether the error message may contain data that must not be logged. An error of a nested call is
/// logged by that call.
fn may_contain_secrets(call: &CallView<'_>, error: &CallError) -> bool {
    error.is_nested() || call.operation.is_some_and(Operation::has_secrets)
}

/// Returns the source chain of an error, outermost first, without causes that repeat its message.
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
