//! The approval stage of a pending call. The call leaves the queue when the stage ends.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};
use toolpost::{
    Approval, ApprovalGate, CallError, CallView, HookResult, OperationSpec, Progress,
    ProgressSender,
};

use super::pending_call::{ApprovalAction, ApprovalDecision, PendingCall};
use super::queue::Capacity;
use super::{ApprovalSettings, Approvals};

/// Interval between progress notifications to the caller of a pending call.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum size, in bytes, of an input that can be approved.
const MAX_INPUT_BYTES: usize = 256 * 1024;

impl ApprovalGate for Approvals {
    fn obtain(&self, call: &CallView<'_>) -> HookResult<Option<Approval>> {
        let settings = self.settings();
        if !requires_approval(&settings, call) {
            return HookResult::Ready(Ok(None));
        }
        // The consent to a room proposal is the approval.
        if let Some(approval) = call.approval {
            return HookResult::Ready(Ok(Some(approval.clone())));
        }
        match ApprovalWait::start(self, &settings, call) {
            Ok(waiting) => HookResult::Pending(Box::pin(waiting.wait())),
            Err(error) => HookResult::Ready(Err(error)),
        }
    }
}

/// An approval gate for processes without approvers. It rejects every call that requires approval.
#[derive(Debug, Clone, Default)]
pub struct RejectingGate(ApprovalSettings);

impl RejectingGate {
    /// Creates a gate with these settings.
    pub fn new(settings: ApprovalSettings) -> Self {
        Self(settings)
    }
}

impl ApprovalGate for RejectingGate {
    fn obtain(&self, call: &CallView<'_>) -> HookResult<Option<Approval>> {
        if !requires_approval(&self.0, call) {
            return HookResult::Ready(Ok(None));
        }
        let id = call.operation_id;
        HookResult::Ready(Err(CallError::access_denied(format!(
            "{id} requires approval; call it through a running gateway"
        ))))
    }
}

fn requires_approval(settings: &ApprovalSettings, call: &CallView<'_>) -> bool {
    let Some(operation) = call.operation else { return false };
    operation.spec().approval
        || settings.requires_approval(call.operation_id) && !is_list_operation(operation.spec())
}

/// Whether an operation reads a list of an MCP server. Clients list frequently and change nothing,
/// so patterns and blanket approval rules do not apply.
pub fn is_list_operation(spec: &OperationSpec) -> bool {
    toolpost::mcp::method_of(spec).is_some_and(|method| method.ends_with("/list"))
}

/// A pending call; dropping it removes the call from the queue.
struct ApprovalWait {
    approvals: Approvals,
    id: String,
    operation: String,
    submitted_at: Instant,
    deadline: Instant,
    timeout: Duration,
    decision: oneshot::Receiver<ApprovalDecision>,
    progress: ProgressSender,
}

impl ApprovalWait {
    fn start(
        approvals: &Approvals,
        settings: &ApprovalSettings,
        call: &CallView<'_>,
    ) -> Result<Self, CallError> {
        let submitted = Instant::now();
        let pending_call = build_pending_call(approvals, settings, call, submitted)?;
        let (operation, expires_at) = (pending_call.operation.clone(), pending_call.deadline);
        let (sender, decision_receiver) = oneshot::channel();
        let id = submit(approvals, settings, pending_call, sender)?;
        tracing::info!(id, operation, "call pending approval");
        let wait = Self {
            approvals: approvals.clone(),
            id,
            operation,
            submitted_at: submitted,
            deadline: expires_at,
            timeout: settings.expires,
            decision: decision_receiver,
            progress: call.progress.clone(),
        };
        // The identity may have been revoked after the endpoint authenticated it.
        if approvals.is_valid_identity(call.identity) {
            Ok(wait)
        } else {
            Err(wait.revoked_error())
        }
    }

    /// Waits until the call is decided, expires or is canceled by shutdown. Dropping the future
    /// removes the call from the queue.
    async fn wait(mut self) -> Result<Option<Approval>, CallError> {
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                decided = &mut self.decision => return self.resolve(decided.ok()),
                () = self.approvals.0.stopping.cancelled() => {
                    if self.approvals.queue().cancel_for_shutdown(&self.id) {
                        return Err(CallError::unavailable("the gateway is stopping"));
                    }
                    return self.await_decision().await;
                }
                () = tokio::time::sleep_until(self.deadline) => {
                    if self.approvals.queue().expire(&self.id) {
                        return Err(self.expired_error());
                    }
                    return self.await_decision().await;
                }
                _ = ticks.tick() => self.report_progress(),
            }
        }
    }

    /// Waits for a decision that was made concurrently and has not arrived yet.
    async fn await_decision(&mut self) -> Result<Option<Approval>, CallError> {
        let decided = (&mut self.decision).await;
        self.resolve(decided.ok())
    }

    /// Reports that the call is pending. The progress value grows by one millionth per second,
    /// because the values that the operation reports later must be greater.
    fn report_progress(&self) {
        let now = Instant::now();
        let waited = now.saturating_duration_since(self.submitted_at).as_secs_f64();
        let remaining = self.deadline.saturating_duration_since(now);
        let message = format!(
            "pending approval, expires in {}; approve with `toolpost approve {}`",
            format_duration(Duration::from_secs(remaining.as_secs_f64().ceil() as u64)),
            self.id
        );
        self.progress.send(Progress::new(waited / 1e6).with_message(message));
    }

    fn resolve(&self, decision: Option<ApprovalDecision>) -> Result<Option<Approval>, CallError> {
        match decision {
            Some(ApprovalDecision::Decided { by, decision: ApprovalAction::Approve }) => {
                Ok(Some(Approval { id: self.id.clone(), approver: by }))
            }
            Some(ApprovalDecision::Decided { by, decision: ApprovalAction::Reject { reason } }) => {
                Err(self.rejected_error(&by, reason))
            }
            Some(ApprovalDecision::IdentityRevoked) => Err(self.revoked_error()),
            None => Err(CallError::unavailable("approvals are no longer available")),
        }
    }

    fn rejected_error(&self, by: &str, reason: Option<String>) -> CallError {
        let suffix = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let message = format!("the call to {} was rejected by `{by}`{suffix}", self.operation);
        let mut details = self.details("rejected");
        details["approval"]["by"] = by.into();
        if let Some(reason) = reason {
            details["approval"]["reason"] = reason.into();
        }
        CallError::access_denied(message).with_details(details)
    }

    fn revoked_error(&self) -> CallError {
        let message = format!(
            "the call to {} was not run: the caller's token was revoked or reissued",
            self.operation
        );
        CallError::access_denied(message).with_details(self.details("revoked"))
    }

    fn expired_error(&self) -> CallError {
        tracing::info!(id = self.id, operation = self.operation, "approval expired");
        let message = format!(
            "the call to {} was not approved within {} and was not run; call again to request approval",
            self.operation,
            format_duration(self.timeout)
        );
        CallError::timeout(message).with_details(self.details("expired"))
    }

    fn details(&self, status: &str) -> Value {
        json!({"approval": {"id": self.id, "status": status}})
    }
}

impl Drop for ApprovalWait {
    fn drop(&mut self) {
        self.approvals.queue().withdraw(&self.id);
    }
}

fn build_pending_call(
    approvals: &Approvals,
    settings: &ApprovalSettings,
    call: &CallView<'_>,
    now: Instant,
) -> Result<PendingCall, CallError> {
    let unreadable = |_| CallError::validation("the input cannot be read", &[]);
    let value = call.input.cloned().map(toolpost::Payload::into_value).transpose();
    let mut value = value.map_err(unreadable)?.unwrap_or_default();
    if value.to_string().len() > MAX_INPUT_BYTES {
        let message = format!("an input of more than {MAX_INPUT_BYTES} bytes cannot be approved");
        return Err(CallError::validation(message, &[]));
    }
    let input_digest = approvals.0.digester.hex_digest(&value)?;
    if let Some(operation) = call.operation {
        operation.spec().input_schema.secrets().mask(&mut value);
    }
    Ok(PendingCall {
        request_id: call.request_id.to_string(),
        parent_request_id: call.parent_request_id.map(ToString::to_string),
        endpoint: call.endpoint,
        operation: call.operation_id.to_owned(),
        caller: call.identity.cloned(),
        input: value,
        input_digest,
        submitted_at: now,
        deadline: now + settings.expires,
    })
}

/// Adds a call to the queue under a random id. Ids are random rather than sequential, so
/// that an approver with a list from before a restart cannot decide on a different call.
fn submit(
    approvals: &Approvals,
    settings: &ApprovalSettings,
    pending_call: PendingCall,
    sender: oneshot::Sender<ApprovalDecision>,
) -> Result<String, CallError> {
    let capacity =
        Capacity { max: settings.max_pending, max_per_caller: settings.max_pending_per_caller };
    let (id, now) = (generate_id()?, pending_call.submitted_at);
    let submitted = approvals.queue().submit(now, capacity, id.clone(), pending_call, sender);
    submitted.map(|()| id).map_err(|error| CallError::overloaded(error.to_string()))
}

/// Generates an id of 40 random bits in lowercase base32.
fn generate_id() -> Result<String, CallError> {
    let mut bytes = [0; 5];
    getrandom::fill(&mut bytes).map_err(|error| {
        CallError::unknown("the system random number generator failed").with_cause(error)
    })?;
    Ok(data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
}

/// Formats a duration, such as `10m` or `1m 30s`.
fn format_duration(duration: Duration) -> String {
    format!("{:#}", SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
}
