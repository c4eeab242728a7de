//! Writes the records of calls: one when a call starts and one when it ends.

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use toolpost::{
    Approval, AuditEntry, AuditOutcome, AuditSink, CallError, CallView, ErrorCode, HookResult,
    Identity, OperationKind, Outcome, Payload, Registry, RequestId, epoch_ms,
};

use super::queue::{Durability, QueuedRecord, WriteReceipt};
use super::record::{CallOutcome, RecordKind, RecordSummary, RecordWriter};
use super::{Journal, JournalInner, JournalMode, mask};

/// Operations, besides forwarding ones, whose results repeat the records of other calls. Their outputs are not recorded.
const RELAY_OPERATIONS: [&str; 3] = ["gateway.approvals", "gateway.journal", "gateway.replay"];

/// The audit sink that records the calls of a pipeline.
pub(super) struct JournalSink {
    journal: Arc<JournalInner>,
    /// Resolves the schemas of operations called through `hub.call`.
    registry: Registry,
}

impl Journal {
    /// Returns an audit sink that records the calls of a pipeline over this registry.
    pub fn sink(&self, registry: &Registry) -> impl AuditSink + use<> {
        JournalSink { journal: Arc::clone(&self.0), registry: registry.clone() }
    }
}

impl AuditSink for JournalSink {
    fn enter(&self, call: &CallView<'_>) -> AuditEntry {
        let is_sync = self.is_sync();
        if is_sync && let Some(reason) = self.journal.shared.queue.write_error() {
            return HookResult::Ready(Err(write_failed(&reason))).into();
        }
        let durability = if is_sync { Durability::Synced } else { Durability::Async };
        let (id, result) = self.record(call, RecordKind::Enter, durability, |members| {
            self.write_enter(call, members);
        });
        if id.is_none() && !is_sync {
            self.journal.shared.count_lost_record();
        }
        AuditEntry { id, result }
    }

    fn exit(
        &self,
        call: &CallView<'_>,
        audit_outcome: &AuditOutcome<'_>,
        took: Duration,
    ) -> HookResult<()> {
        // A call without an enter record gets no exit record.
        let Some(enter) = call.audit_id else { return HookResult::Ready(Ok(())) };
        let outcome = call_outcome(call, audit_outcome);
        let kind = RecordKind::Exit { enter, failed: outcome == CallOutcome::Error };
        let durability = if self.is_sync() { Durability::Synced } else { Durability::Written };
        let (id, result) = self.record(call, kind, durability, |members| {
            members.add("enter", &enter);
            self.write_exit(call, took, outcome, audit_outcome, members);
        });
        if id.is_none() {
            self.journal.shared.count_lost_record();
        }
        result
    }
}

impl JournalSink {
    fn is_sync(&self) -> bool {
        self.journal.settings.mode == JournalMode::Sync
    }

    /// Queues a record. Returns its number, unless the queue is full, and what the call waits for.
    fn record(
        &self,
        call: &CallView<'_>,
        kind: RecordKind,
        durability: Durability,
        write: impl FnOnce(&mut RecordWriter<'_>),
    ) -> (Option<u64>, HookResult<()>) {
        let key = call.identity.map(Identity::key);
        let identity = key.as_deref().unwrap_or_default();
        let summary = RecordSummary { time: epoch_ms(), kind, name: call.operation_id, identity };
        let is_sync = self.is_sync();
        match self.journal.shared.record(&summary, durability, write) {
            Some(QueuedRecord { seq, receipt }) => (Some(seq), hook_result(receipt, is_sync)),
            None if is_sync => {
                (None, HookResult::Ready(Err(write_failed("the journal queue is full"))))
            }
            None => (None, HookResult::Ready(Ok(()))),
        }
    }

    fn write_enter(&self, call: &CallView<'_>, members: &mut RecordWriter<'_>) {
        members.add("id", &RecordedId(call, call.request_id));
        let parent = call.parent_request_id.map(|parent| RecordedId(call, parent));
        members.add_some("parent", parent.as_ref());
        members.add("endpoint", call.endpoint.as_str());
        members.add("operation", call.operation_id);
        members.add_some("identity", call.identity.map(Identity::key).as_ref());
        members.add_some("via", call.operation.and_then(|operation| operation.via()));
        if let Some(input) = call.input {
            self.write_input(call, input, members);
        }
    }

    fn write_input(&self, call: &CallView<'_>, input: &Payload, members: &mut RecordWriter<'_>) {
        let limit = self.journal.settings.body_limit;
        match mask::input(|| self.registry.catalog(), call.operation, input) {
            Some(masked) => {
                members.add("masked", &true);
                members.add_body("input", limit, &masked);
            }
            None => members.add_body("input", limit, input),
        }
    }

    fn write_exit(
        &self,
        call: &CallView<'_>,
        took: Duration,
        outcome: CallOutcome,
        audit_outcome: &AuditOutcome<'_>,
        members: &mut RecordWriter<'_>,
    ) {
        members.add("id", &RecordedId(call, call.request_id));
        members.add("operation", call.operation_id);
        members.add_some("identity", call.identity.map(Identity::key).as_ref());
        members.add("tookUs", &u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if let Some(Approval { id, approver: by }) = call.approval {
            members.add("approval", &json!({"id": id, "by": by}));
        }
        members.add_some("replayOf", call.first_call.as_ref());
        members.add("outcome", outcome.as_str());
        if let Some(input) = call.filled_input {
            self.write_input(call, input, members);
        }
        let is_relay = call.operation.is_some_and(|operation| operation.spec().forwards)
            || RELAY_OPERATIONS.contains(&call.operation_id);
        let limit = self.journal.settings.body_limit;
        match audit_outcome {
            AuditOutcome::Succeeded(outcome) => {
                // The text of a failed tool may quote secrets.
                let text = outcome.envelope.error_text();
                let text = text.filter(|_| !mask::has_secrets(call.operation));
                members.add_some("message", text.map(|text| call.mask_text(text)).as_ref());
                write_changes(outcome, members);
                if is_relay {
                    return;
                }
                match mask::output(call, &outcome.envelope) {
                    Some(masked) => members.add_body("output", limit, &masked),
                    None => members.add_body("output", limit, &outcome.envelope),
                }
            }
            AuditOutcome::Failed(error) => {
                members.add("code", error.code().as_str());
                let message = mask::error_message(call.operation, error);
                members.add("message", &call.mask_text(message));
                let details = mask::error_details(call.operation, error).filter(|_| !is_relay);
                if let Some(mut details) = details {
                    call.mask_value(&mut details);
                    members.add_body("details", limit, &details);
                }
            }
            AuditOutcome::Completed { values, warnings } => {
                members.add("values", values);
                members.add_some("warningCount", Some(warnings).filter(|warnings| **warnings > 0));
            }
            _ => {}
        }
    }
}

/// A request id as recorded. An id that the caller chose is preceded by the key of the caller, so that
/// it refers to no call of another identity.
struct RecordedId<'a>(&'a CallView<'a>, &'a RequestId);

impl Serialize for RecordedId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(call, id) = self;
        if id.is_generated() {
            return id.serialize(serializer);
        }
        let key = call.identity.map(Identity::key);
        serializer.collect_str(&format_args!("{}/{id}", key.as_deref().unwrap_or_default()))
    }
}

/// Writes the actions and paths of the repairs, and the paths of the warnings. The values are in
/// the output, subject to masking.
fn write_changes(outcome: &Outcome, members: &mut RecordWriter<'_>) {
    let repair = |repair: &toolpost::Repair| json!({"path": repair.path, "action": repair.action});
    let repairs: Vec<Value> = outcome.repairs().iter().map(repair).collect();
    let warnings: Vec<&str> = outcome.warnings().iter().map(|issue| &*issue.path).collect();
    members.add_some("repairs", Some(&repairs).filter(|repairs| !repairs.is_empty()));
    members.add_some("warnings", Some(&warnings).filter(|warnings| !warnings.is_empty()));
}

/// Returns how a call ended. A tool result with `isError` is an error. A subscription that its
/// caller ends is canceled, not failed.
fn call_outcome(call: &CallView<'_>, audit_outcome: &AuditOutcome<'_>) -> CallOutcome {
    let kind = call.operation.map(|operation| operation.spec().kind);
    let is_subscription = kind == Some(OperationKind::Subscription);
    match audit_outcome {
        AuditOutcome::Succeeded(outcome) if outcome.envelope.is_error() => CallOutcome::Error,
        AuditOutcome::Failed(error) if is_subscription && *error.code() == ErrorCode::Aborted => {
            CallOutcome::Canceled
        }
        AuditOutcome::Failed(_) => CallOutcome::Error,
        AuditOutcome::Completed { .. } => CallOutcome::Completed,
        _ => CallOutcome::Ok,
    }
}

/// Converts a receipt into a hook result. Outside of `sync` mode, write errors are ignored.
fn hook_result(receipt: WriteReceipt, is_sync: bool) -> HookResult<()> {
    let to_result = move |written: Result<(), Arc<str>>| match written {
        Err(reason) if is_sync => Err(write_failed(&reason)),
        _ => Ok(()),
    };
    match receipt {
        WriteReceipt::Ready(written) => HookResult::Ready(to_result(written)),
        waiting => HookResult::Pending(Box::pin(async move { to_result(waiting.await) })),
    }
}

fn write_failed(reason: &str) -> CallError {
    tracing::debug!(reason, "call rejected: journal write failed");
    CallError::unavailable(
        "journal write failed; in sync mode, calls are rejected until writes succeed",
    )
}
