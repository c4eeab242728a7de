//! Writes the records of calls: one when a call starts and one when it ends.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolpost::{
    Approval, AuditEntry, AuditOutcome, AuditSink, CallError, CallView, ErrorCode, HookResult,
    OperationKind, Outcome, Payload, Registry, epoch_ms,
};

use super::queue::{Durability, QueuedRecord, WriteReceipt};
use super::record::{DETAILS, INPUT, OUTPUT, RecordKind, RecordSummary, RecordWriter};
use super::{Journal, JournalInner, JournalMode, mask};

thread_local! {
    /// Buffer for encoding a record before it is queued; reused to avoid allocations.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Operations whose results repeat the records of other calls. Their outputs are not recorded.
const RELAY_OPERATIONS: [&str; 4] =
    [mask::HUB_CALL, "gateway.approvals", "gateway.journal", "gateway.replay"];

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
        let time = epoch_ms();
        let summary = self.summary(call, time, RecordKind::Enter);
        let is_sync = self.journal.settings.mode == JournalMode::Sync;
        if is_sync && let Some(reason) = self.journal.shared.queue.write_error() {
            return HookResult::Ready(Err(write_failed(&reason))).into();
        }
        let taken = SCRATCH.with_borrow_mut(|out| {
            self.write_enter(call, time, out);
            self.journal.shared.queue.push(&summary, out, self.durability())
        });
        match taken {
            Some(QueuedRecord { seq, receipt: written }) => {
                AuditEntry { id: Some(seq), result: hook_result(written, is_sync) }
            }
            None if is_sync => {
                HookResult::Ready(Err(write_failed("the journal queue is full"))).into()
            }
            None => {
                self.journal.shared.count_lost_record();
                HookResult::Ready(Ok(())).into()
            }
        }
    }

    fn exit(
        &self,
        call: &CallView<'_>,
        audit_outcome: &AuditOutcome<'_>,
        took: Duration,
    ) -> HookResult<()> {
        // A call without an enter record gets no exit record.
        let Some(enter) = call.audit_id else { return HookResult::Ready(Ok(())) };
        let time = epoch_ms();
        let what = RecordKind::Exit { enter, failed: has_failed(call, audit_outcome) };
        let summary = self.summary(call, time, what);
        let is_sync = self.journal.settings.mode == JournalMode::Sync;
        let taken = SCRATCH.with_borrow_mut(|out| {
            self.write_exit(call, (enter, time, took), audit_outcome, out);
            self.journal.shared.queue.push(&summary, out, self.durability())
        });
        match taken {
            Some(QueuedRecord { receipt: written, .. }) => hook_result(written, is_sync),
            None => {
                self.journal.shared.count_lost_record();
                match is_sync {
                    true => HookResult::Ready(Err(write_failed("the journal queue is full"))),
                    false => HookResult::Ready(Ok(())),
                }
            }
        }
    }
}

impl JournalSink {
    fn durability(&self) -> Durability {
        match self.journal.settings.mode {
            JournalMode::Sync => Durability::Synced,
            _ => Durability::Async,
        }
    }

    fn summary<'a>(
        &self,
        call: &CallView<'a>,
        time: i64,
        record_kind: RecordKind,
    ) -> RecordSummary<'a> {
        let caller = call.identity.map_or("", |identity| identity.id.as_str());
        RecordSummary { time, kind: record_kind, operation: call.operation_id, identity: caller }
    }

    fn write_enter(&self, call: &CallView<'_>, time: i64, out: &mut Vec<u8>) {
        let mut members = RecordWriter::start(out, "enter", time);
        members.add("id", call.request_id);
        if let Some(parent) = call.parent_request_id {
            members.add("parent", parent);
        }
        members.add("endpoint", call.endpoint.as_str());
        members.add("operation", call.operation_id);
        if let Some(identity) = call.identity {
            members.add("identity", &identity.id);
        }
        if let Some(via) = call.operation.and_then(|operation| operation.via()) {
            members.add("via", via);
        }
        let limit = self.journal.settings.body_limit;
        match call.input.map(|input| (input, self.masked_input(call, input))) {
            Some((_, Some(masked))) => {
                members.add("masked", &true);
                members.add_body(INPUT, limit, &masked);
            }
            Some((input, None)) => members.add_body(INPUT, limit, input),
            None => {}
        }
        members.finish();
    }

    fn masked_input(&self, call: &CallView<'_>, input: &Payload) -> Option<Value> {
        mask::input(|| self.registry.catalog(), call.operation, input)
    }

    fn write_exit(
        &self,
        call: &CallView<'_>,
        (enter, time, took): (u64, i64, Duration),
        audit_outcome: &AuditOutcome<'_>,
        out: &mut Vec<u8>,
    ) {
        let mut members = RecordWriter::start(out, "exit", time);
        members.add("enter", &enter);
        members.add("id", call.request_id);
        members.add("operation", call.operation_id);
        if let Some(identity) = call.identity {
            members.add("identity", &identity.id);
        }
        members.add("tookUs", &u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if let Some(Approval { id, approver: by }) = call.approval {
            members.add("approval", &json!({"id": id, "by": by}));
        }
        let is_relay = RELAY_OPERATIONS.contains(&call.operation_id);
        match audit_outcome {
            AuditOutcome::Succeeded(outcome) => {
                self.write_result(call, outcome, is_relay, &mut members);
            }
            AuditOutcome::Failed(error) => self.write_error(call, error, is_relay, &mut members),
            AuditOutcome::Completed { values } => {
                members.add("outcome", "completed");
                members.add("values", values);
            }
            _ => members.add("outcome", "ok"),
        }
        members.finish();
    }

    fn write_result(
        &self,
        call: &CallView<'_>,
        outcome: &Outcome,
        is_relay: bool,
        members: &mut RecordWriter<'_>,
    ) {
        // A tool result with `isError` counts as a failed call.
        members.add("outcome", if is_tool_error(outcome) { "error" } else { "ok" });
        if !outcome.repairs().is_empty() {
            members.add("repairs", &repair_list(outcome));
        }
        if !outcome.warnings().is_empty() {
            let paths: Vec<&str> = outcome.warnings().iter().map(|issue| &*issue.path).collect();
            members.add("warnings", &paths);
        }
        if is_relay {
            return;
        }
        let limit = self.journal.settings.body_limit;
        match mask::output(call.operation, &outcome.envelope) {
            Some(masked) => members.add_body(OUTPUT, limit, &masked),
            None => members.add_body(OUTPUT, limit, &outcome.envelope),
        }
    }

    fn write_error(
        &self,
        call: &CallView<'_>,
        error: &CallError,
        is_relay: bool,
        members: &mut RecordWriter<'_>,
    ) {
        members.add("outcome", if was_canceled(call, error) { "canceled" } else { "error" });
        members.add("code", error.code().as_str());
        members.add("message", mask::error_message(call.operation, error));
        if !is_relay && let Some(details) = mask::error_details(call.operation, error) {
            members.add_body(DETAILS, self.journal.settings.body_limit, &details);
        }
    }
}

/// Returns the actions and paths of the repairs. The values are in the output, subject to masking.
fn repair_list(outcome: &Outcome) -> Vec<Map<String, Value>> {
    let repair_entry = |repair: &toolpost::Repair| {
        let action = serde_json::to_value(repair.action).unwrap_or_default();
        let path = Value::from(repair.path.as_str());
        Map::from_iter([("path".to_owned(), path), ("action".to_owned(), action)])
    };
    outcome.repairs().iter().map(repair_entry).collect()
}

fn has_failed(call: &CallView<'_>, audit_outcome: &AuditOutcome<'_>) -> bool {
    match audit_outcome {
        AuditOutcome::Succeeded(outcome) => is_tool_error(outcome),
        AuditOutcome::Failed(error) => !was_canceled(call, error),
        _ => false,
    }
}

/// Whether the caller ended a subscription, which is the normal way for most of them to end.
fn was_canceled(call: &CallView<'_>, error: &CallError) -> bool {
    let kind = call.operation.map(|operation| operation.spec().kind);
    kind == Some(OperationKind::Subscription) && *error.code() == ErrorCode::Aborted
}

fn is_tool_error(outcome: &Outcome) -> bool {
    matches!(&outcome.envelope.meta, toolpost::Meta::Mcp(meta) if meta.is_error)
}

/// Converts a receipt into a hook result. Outside of `sync` mode a caller waits only because of
/// backpressure, and write errors are ignored.
fn hook_result(receipt: Option<WriteReceipt>, is_sync: bool) -> HookResult<()> {
    let Some(receipt) = receipt else { return HookResult::Ready(Ok(())) };
    HookResult::Pending(Box::pin(async move {
        match receipt.await {
            Ok(Err(reason)) if is_sync => Err(write_failed(&reason)),
            Err(_) if is_sync => Err(write_failed("the journal was closed")),
            _ => Ok(()),
        }
    }))
}

fn write_failed(reason: &str) -> CallError {
    tracing::debug!(reason, "call rejected: journal write failed");
    CallError::unavailable(
        "the journal cannot be written; in sync mode calls are rejected until it can",
    )
}
