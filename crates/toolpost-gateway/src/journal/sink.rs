//! A call as it is written down: once when it begins, once when it ends.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolpost::{
    Approval, AuditSink, CallError, CallView, Ending, Entered, ErrorCode, Kind, Outcome, Payload,
    Registry, Step, epoch_ms,
};

use super::queue::{Taken, Wait, Written};
use super::record::{DETAILS, Facts, INPUT, Members, OUTPUT, What};
use super::{Inner, Journal, Mode, mask};

thread_local! {
    /// Where a record is written before it is handed over; kept, so that its memory is.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Operations whose results are about other calls, and stand in their records.
const RELAYS: [&str; 4] =
    [mask::HUB_CALL, "gateway.approvals", "gateway.journal", "gateway.replay"];

/// What the pipeline tells of calls.
pub(super) struct Sink {
    journal: Arc<Inner>,
    /// Knows the schema of what is called by its id.
    registry: Registry,
}

impl Journal {
    /// Writes down the calls of a pipeline over this registry.
    pub fn sink(&self, registry: &Registry) -> impl AuditSink + use<> {
        Sink { journal: Arc::clone(&self.0), registry: registry.clone() }
    }
}

impl AuditSink for Sink {
    fn enter(&self, call: &CallView<'_>) -> Entered {
        let time = epoch_ms();
        let facts = self.facts(call, time, What::Enter);
        let is_sync = self.journal.settings.mode == Mode::Sync;
        if is_sync && let Some(trouble) = self.journal.shared.queue.trouble() {
            return Step::Now(Err(unwritten(&trouble))).into();
        }
        let taken = SCRATCH.with_borrow_mut(|out| {
            self.write_enter(call, time, out);
            self.journal.shared.queue.add(&facts, out, self.wait())
        });
        match taken {
            Some(Taken { seq, written }) => {
                Entered { mark: Some(seq), step: step(written, is_sync) }
            }
            None if is_sync => {
                Step::Now(Err(unwritten("too much is waiting to be written"))).into()
            }
            None => {
                self.journal.shared.lose();
                Step::Now(Ok(())).into()
            }
        }
    }

    fn exit(&self, call: &CallView<'_>, ending: &Ending<'_>, took: Duration) -> Step<()> {
        // A call whose beginning was not recorded has no end either.
        let Some(enter) = call.mark else { return Step::Now(Ok(())) };
        let time = epoch_ms();
        let what = What::Exit { enter, failed: has_failed(call, ending) };
        let facts = self.facts(call, time, what);
        let is_sync = self.journal.settings.mode == Mode::Sync;
        let taken = SCRATCH.with_borrow_mut(|out| {
            self.write_exit(call, (enter, time, took), ending, out);
            self.journal.shared.queue.add(&facts, out, self.wait())
        });
        match taken {
            Some(Taken { written, .. }) => step(written, is_sync),
            None => {
                self.journal.shared.lose();
                match is_sync {
                    true => Step::Now(Err(unwritten("too much is waiting to be written"))),
                    false => Step::Now(Ok(())),
                }
            }
        }
    }
}

impl Sink {
    fn wait(&self) -> Wait {
        match self.journal.settings.mode {
            Mode::Sync => Wait::ForDisk,
            _ => Wait::Never,
        }
    }

    fn facts<'a>(&self, call: &CallView<'a>, time: i64, what: What) -> Facts<'a> {
        let who = call.identity.map_or("", |identity| identity.id.as_str());
        Facts { time, what, operation: call.operation_id, who }
    }

    fn write_enter(&self, call: &CallView<'_>, time: i64, out: &mut Vec<u8>) {
        let mut members = Members::begin(out, "enter", time);
        members.add("id", call.request_id);
        if let Some(parent) = call.parent_request_id {
            members.add("parent", parent);
        }
        members.add("door", call.door);
        members.add("operation", call.operation_id);
        if let Some(identity) = call.identity {
            members.add("who", &identity.id);
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
        members.end();
    }

    fn masked_input(&self, call: &CallView<'_>, input: &Payload) -> Option<Value> {
        mask::input(|| self.registry.catalog(), call.operation, input)
    }

    fn write_exit(
        &self,
        call: &CallView<'_>,
        (enter, time, took): (u64, i64, Duration),
        ending: &Ending<'_>,
        out: &mut Vec<u8>,
    ) {
        let mut members = Members::begin(out, "exit", time);
        members.add("enter", &enter);
        members.add("id", call.request_id);
        members.add("operation", call.operation_id);
        if let Some(identity) = call.identity {
            members.add("who", &identity.id);
        }
        members.add("tookUs", &u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if let Some(Approval { id, by }) = call.approval {
            members.add("approval", &json!({"id": id, "by": by}));
        }
        let is_relay = RELAYS.contains(&call.operation_id);
        match ending {
            Ending::Answered(outcome) => self.write_answer(call, outcome, is_relay, &mut members),
            Ending::Failed(error) => self.write_error(call, error, is_relay, &mut members),
            Ending::Completed { values } => {
                members.add("outcome", "completed");
                members.add("values", values);
            }
            _ => members.add("outcome", "ok"),
        }
        members.end();
    }

    fn write_answer(
        &self,
        call: &CallView<'_>,
        outcome: &Outcome,
        is_relay: bool,
        members: &mut Members<'_>,
    ) {
        // A tool that ran and failed has answered, and is looked for among the failures.
        members.add("outcome", if is_tool_error(outcome) { "error" } else { "ok" });
        if !outcome.repairs().is_empty() {
            members.add("repairs", &findings(outcome));
        }
        if !outcome.warnings().is_empty() {
            let places: Vec<&str> = outcome.warnings().iter().map(|issue| &*issue.path).collect();
            members.add("warnings", &places);
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
        members: &mut Members<'_>,
    ) {
        members.add("outcome", if was_left(call, error) { "left" } else { "error" });
        members.add("code", error.code().as_str());
        members.add("message", mask::message(call.operation, error));
        if !is_relay && let Some(details) = mask::details(call.operation, error) {
            members.add_body(DETAILS, self.journal.settings.body_limit, &details);
        }
    }
}

/// What was changed and where; the values stand in the output, as far as they may be seen.
fn findings(outcome: &Outcome) -> Vec<Map<String, Value>> {
    let finding = |repair: &toolpost::Repair| {
        let action = serde_json::to_value(repair.action).unwrap_or_default();
        let path = Value::from(repair.path.as_str());
        Map::from_iter([("path".to_owned(), path), ("action".to_owned(), action)])
    };
    outcome.repairs().iter().map(finding).collect()
}

fn has_failed(call: &CallView<'_>, ending: &Ending<'_>) -> bool {
    match ending {
        Ending::Answered(outcome) => is_tool_error(outcome),
        Ending::Failed(error) => !was_left(call, error),
        _ => false,
    }
}

/// Whoever has seen enough of a subscription leaves it; that is how most of them end.
fn was_left(call: &CallView<'_>, error: &CallError) -> bool {
    let kind = call.operation.map(|operation| operation.spec().kind);
    kind == Some(Kind::Subscription) && *error.code() == ErrorCode::Aborted
}

fn is_tool_error(outcome: &Outcome) -> bool {
    matches!(&outcome.envelope.meta, toolpost::Meta::Mcp(meta) if meta.is_error)
}

/// Whoever waits only because much is waiting goes on whatever becomes of it.
fn step(written: Option<Written>, is_sync: bool) -> Step<()> {
    let Some(written) = written else { return Step::Now(Ok(())) };
    Step::Later(Box::pin(async move {
        match written.await {
            Ok(Err(trouble)) if is_sync => Err(unwritten(&trouble)),
            Err(_) if is_sync => Err(unwritten("the journal was closed")),
            _ => Ok(()),
        }
    }))
}

fn unwritten(trouble: &str) -> CallError {
    tracing::debug!(trouble, "a call is refused: the journal cannot be written");
    CallError::unavailable(
        "the journal cannot be written, and no call is answered that is not in it",
    )
}
