//! A call that waits: it tells its caller so, and takes its proposal along when it ends.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};
use toolpost::{
    Approval, ApprovalGate, CallError, CallView, OperationSpec, Progress, ProgressSender, Step,
};

use super::book::{Refused, Room};
use super::proposal::{Proposal, Verdict};
use super::{ApprovalSettings, Approvals};

/// How often a caller hears that his call still waits.
const EVERY: Duration = Duration::from_secs(10);

/// The largest input that somebody can agree to.
const MOST_SHOWN: usize = 256 * 1024;

impl ApprovalGate for Approvals {
    fn obtain(&self, call: &CallView<'_>) -> Step<Option<Approval>> {
        let settings = self.settings();
        if !is_needed(&settings, call) {
            return Step::Now(Ok(None));
        }
        match Waiting::begin(self, &settings, call) {
            Ok(waiting) => Step::Later(Box::pin(waiting.end())),
            Err(error) => Step::Now(Err(error)),
        }
    }
}

/// The gate of a process in which nobody can be asked: what needs approval is refused.
#[derive(Debug, Clone, Default)]
pub struct Unattended(ApprovalSettings);

impl Unattended {
    /// By these settings.
    pub fn new(settings: ApprovalSettings) -> Self {
        Self(settings)
    }
}

impl ApprovalGate for Unattended {
    fn obtain(&self, call: &CallView<'_>) -> Step<Option<Approval>> {
        if !is_needed(&self.0, call) {
            return Step::Now(Ok(None));
        }
        let id = call.operation_id;
        Step::Now(Err(CallError::access_denied(format!(
            "{id} needs approval, and nobody can be asked here; call it at a running gateway"
        ))))
    }
}

fn is_needed(settings: &ApprovalSettings, call: &CallView<'_>) -> bool {
    let Some(operation) = call.operation else { return false };
    operation.spec().approval || settings.name(call.operation_id) && !is_listing(operation.spec())
}

/// Whether an operation is how the list of an MCP server is read, which happens whenever a client
/// looks around and changes nothing; it waits only where it is named itself.
pub fn is_listing(spec: &OperationSpec) -> bool {
    toolpost::mcp::method_of(spec).is_some_and(|method| method.ends_with("/list"))
}

/// One call and its place in the book, given back when this is dropped.
struct Waiting {
    approvals: Approvals,
    id: String,
    operation: String,
    since: Instant,
    until: Instant,
    expires: Duration,
    verdict: oneshot::Receiver<Verdict>,
    progress: ProgressSender,
}

impl Waiting {
    fn begin(
        approvals: &Approvals,
        settings: &ApprovalSettings,
        call: &CallView<'_>,
    ) -> Result<Self, CallError> {
        let since = Instant::now();
        let proposal = proposal(approvals, settings, call, since)?;
        let (operation, until) = (proposal.operation.clone(), proposal.until);
        let (sender, verdict) = oneshot::channel();
        let id = submit(approvals, settings, proposal, sender)?;
        tracing::info!(id, operation, "a call waits for approval");
        let waiting = Self {
            approvals: approvals.clone(),
            id,
            operation,
            since,
            until,
            expires: settings.expires,
            verdict,
            progress: call.progress.clone(),
        };
        // Whoever was let in before his name was taken away from him, and came here only now.
        if approvals.knows(call.identity) { Ok(waiting) } else { Err(waiting.dismissed()) }
    }

    /// Waits for the end of the waiting.
    ///
    /// # Cancellation
    ///
    /// Dropping it withdraws the proposal.
    async fn end(mut self) -> Result<Option<Approval>, CallError> {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                said = &mut self.verdict => return self.said(said.ok()),
                () = self.approvals.stopped() => {
                    if self.approvals.book().stop(&self.id) {
                        return Err(CallError::unavailable("the gateway is stopping"));
                    }
                    return self.was_quicker().await;
                }
                () = tokio::time::sleep_until(self.until) => {
                    if self.approvals.book().expire(&self.id) {
                        return Err(self.expired());
                    }
                    return self.was_quicker().await;
                }
                _ = ticks.tick() => self.tell(),
            }
        }
    }

    /// Somebody decided in this very moment, and his word is on its way.
    async fn was_quicker(&mut self) -> Result<Option<Approval>, CallError> {
        let said = (&mut self.verdict).await;
        self.said(said.ok())
    }

    /// What the caller sees counts up by as little as can be: what the operation reports after it
    /// has to be more.
    fn tell(&self) {
        let now = Instant::now();
        let waited = now.saturating_duration_since(self.since).as_secs_f64();
        let left = self.until.saturating_duration_since(now);
        let words = format!(
            "waiting for approval as {}; it expires in {}",
            self.id,
            in_words(Duration::from_secs(left.as_secs_f64().ceil() as u64))
        );
        self.progress.send(Progress::new(waited / 1e6).with_message(words));
    }

    fn said(&self, verdict: Option<Verdict>) -> Result<Option<Approval>, CallError> {
        match verdict {
            Some(Verdict::Approved { by }) => Ok(Some(Approval { id: self.id.clone(), by })),
            Some(Verdict::Rejected { by, reason }) => Err(self.rejected(&by, reason)),
            Some(Verdict::Dismissed) => Err(self.dismissed()),
            None => Err(CallError::unavailable("nobody is there any more who could approve")),
        }
    }

    fn rejected(&self, by: &str, reason: Option<String>) -> CallError {
        let said = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let message = format!("the call of {} was rejected by `{by}`{said}", self.operation);
        let mut details = self.details("rejected");
        details["approval"]["by"] = by.into();
        if let Some(reason) = reason {
            details["approval"]["reason"] = reason.into();
        }
        CallError::access_denied(message).with_details(details)
    }

    fn dismissed(&self) -> CallError {
        let message = format!(
            "the call of {} was not run: who called is not known any more, or as somebody else",
            self.operation
        );
        CallError::access_denied(message).with_details(self.details("dismissed"))
    }

    fn expired(&self) -> CallError {
        tracing::info!(id = self.id, operation = self.operation, "nobody decided about a call");
        let message = format!(
            "nobody approved the call of {} within {}, so it was not run; call again to ask again",
            self.operation,
            in_words(self.expires)
        );
        CallError::timeout(message).with_details(self.details("expired"))
    }

    fn details(&self, status: &str) -> Value {
        json!({"approval": {"id": self.id, "status": status}})
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.approvals.book().withdraw(&self.id);
    }
}

fn proposal(
    approvals: &Approvals,
    settings: &ApprovalSettings,
    call: &CallView<'_>,
    since: Instant,
) -> Result<Proposal, CallError> {
    let unreadable = |_| CallError::validation("the input cannot be read", &[]);
    let value = call.input.cloned().map(toolpost::Payload::into_value).transpose();
    let mut value = value.map_err(unreadable)?.unwrap_or_default();
    if value.to_string().len() > MOST_SHOWN {
        let message = format!("an input of more than {MOST_SHOWN} bytes is not waited for");
        return Err(CallError::validation(message, &[]));
    }
    let input_digest = approvals.0.digests.of(&value)?;
    if let Some(operation) = call.operation {
        operation.spec().input_schema.secrets().mask(&mut value);
    }
    Ok(Proposal {
        request_id: call.request_id.to_string(),
        parent_request_id: call.parent_request_id.map(ToString::to_string),
        door: call.door,
        operation: call.operation_id.to_owned(),
        caller: call.identity.map(|identity| identity.id.clone()),
        input: value,
        input_digest,
        since,
        until: since + settings.expires,
    })
}

/// Draws an id until one is free. It is drawn and not counted, so that nobody who decides by a list
/// from before a restart decides about another call.
fn submit(
    approvals: &Approvals,
    settings: &ApprovalSettings,
    proposal: Proposal,
    sender: oneshot::Sender<Verdict>,
) -> Result<String, CallError> {
    let room = Room { most: settings.most, most_per_caller: settings.most_per_caller };
    let mut book = approvals.book();
    let id = loop {
        let id = draw()?;
        if !book.knows(&id) {
            break id;
        }
    };
    let submitted = book.submit(proposal.since, room, id.clone(), proposal, sender);
    submitted.map(|()| id).map_err(|refused: Refused| CallError::overloaded(refused.to_string()))
}

/// Letters that can be read out: 40 random bits.
fn draw() -> Result<String, CallError> {
    let mut bytes = [0; 5];
    getrandom::fill(&mut bytes).map_err(|error| {
        CallError::unknown("the system has no randomness to give").with_cause(error)
    })?;
    Ok(data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
}

/// `10m`, `90s`, `1m 30s`: as it is written in the configuration.
fn in_words(duration: Duration) -> String {
    match (duration.as_secs(), duration.subsec_millis()) {
        (0, millis) => format!("{millis}ms"),
        (seconds, _) if seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
        (seconds, _) if seconds % 60 == 0 => format!("{}m", seconds / 60),
        (seconds, _) if seconds > 60 => format!("{}m {}s", seconds / 60, seconds % 60),
        (seconds, _) => format!("{seconds}s"),
    }
}
