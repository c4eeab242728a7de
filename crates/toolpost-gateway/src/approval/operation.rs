//! The approver's operations: `gateway.approvals`, `gateway.approve` and `gateway.reject`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use toolpost::{
    AccessControl, CallContext, CallError, DomainError, ErrorDefinition, HandlerError, Operation,
};

use super::Approvals;
use super::pending_call::{ApprovalDecision, ApprovalEntry, PendingCall};
use super::queue::DecisionError;
use super::room_proposals::{self, RoomDecision};
use crate::admin::scope;

pub(super) const NOT_PENDING: &str = "NOT_PENDING";
pub(super) const INPUT_MISMATCH: &str = "INPUT_MISMATCH";

/// Returns the operations that list and decide pending calls. Deciding requires the scope
/// `toolpost:approve`; listing requires that scope or `toolpost:read`.
pub fn operations(approvals: &Approvals) -> Vec<Operation> {
    let (mut read_access, mut decide_access) = (AccessControl::default(), AccessControl::default());
    read_access.required_scopes_any = [scope::READ, scope::APPROVE].map(str::to_owned).into();
    decide_access.required_scopes.push(scope::APPROVE.to_owned());
    let (listing, approving, rejecting) = (approvals.clone(), approvals.clone(), approvals.clone());
    let builders = [
        Operation::query("gateway.approvals", move |_: ListApprovalsInput| {
            let listing = listing.clone();
            async move { Ok::<_, HandlerError>(list_approvals(&listing).await) }
        })
        .title("Calls pending approval")
        .description("Lists the calls pending approval, oldest first."),
        Operation::mutation("gateway.approve", move |context: CallContext, input: ApproveInput| {
            let approving = approving.clone();
            async move { approve(&approving, &context, &input).await }
        })
        .title("Approve a call")
        .description("Approves a pending call, which then runs once with the listed input."),
        Operation::mutation("gateway.reject", move |context: CallContext, input: RejectInput| {
            let rejecting = rejecting.clone();
            async move { reject(&rejecting, &context, input).await }
        })
        .title("Reject a call")
        .description("Rejects a pending call and returns the reason to its caller."),
    ];
    let [list, approve, reject] = builders;
    let not_pending =
        ErrorDefinition::new(NOT_PENDING, "No call with this id is pending approval.")
            .with_http_status(404);
    let input_mismatch =
        ErrorDefinition::new(INPUT_MISMATCH, "The input digest does not match the pending call.")
            .with_http_status(409);
    let approve = approve.raises(not_pending.clone()).raises(input_mismatch);
    let reject = reject.raises(not_pending);
    let built = [(list, read_access), (approve, decide_access.clone()), (reject, decide_access)]
        .map(|(builder, access)| builder.access(access).build());
    built.map(|operation| operation.expect("the operations are well formed")).into()
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ListApprovalsInput {}

#[derive(Debug, Serialize, JsonSchema)]
struct ApprovalList {
    /// The pending calls, oldest first.
    approvals: Vec<ApprovalEntry>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ApproveInput {
    /// The id of the call, from `gateway.approvals`.
    id: String,
    /// The reviewed `inputDigest`; a call with a different input is not approved.
    #[serde(default)]
    input_digest: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct RejectInput {
    /// The id of the call, from `gateway.approvals`.
    id: String,
    /// The reason returned to the caller.
    #[serde(default)]
    #[schemars(length(max = 1_000))]
    reason: Option<String>,
}

/// The call or proposal that was decided.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DecisionResult {
    pub(super) id: String,
    /// `approved` or `rejected`.
    pub(super) status: String,
    /// `namespace.name`, or the method and name proposed in a room.
    pub(super) operation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) caller: Option<String>,
    pub(super) input_digest: String,
    /// The id of the call, or of the proposal.
    pub(super) request_id: String,
}

async fn list_approvals(approvals: &Approvals) -> ApprovalList {
    let room_entries = approvals.room_entries().await;
    let now = Instant::now();
    let queue = approvals.queue();
    let entries =
        queue.pending(now).map(|(id, pending_call)| ApprovalEntry::new(id, pending_call, now));
    ApprovalList { approvals: entries.chain(room_entries).collect() }
}

async fn approve(
    approvals: &Approvals,
    context: &CallContext,
    input: &ApproveInput,
) -> Result<DecisionResult, HandlerError> {
    let approver = approver(context)?;
    let reviewed_digest = input.input_digest.as_deref();
    if let Some(room_proposal) = room_proposals::split_room_proposal_id(&input.id) {
        return approvals
            .decide_in_room(context, room_proposal, reviewed_digest, RoomDecision::Approve)
            .await;
    }
    let approval_decision = ApprovalDecision::Approved { by: approver.clone() };
    let decided = approvals.decide(&input.id, &approver, reviewed_digest, approval_decision);
    let pending_call = decided.map_err(|error| decision_error(&error))?;
    tracing::info!(id = input.id, approver, operation = pending_call.operation, "call approved");
    Ok(DecisionResult::new(&input.id, "approved", pending_call))
}

async fn reject(
    approvals: &Approvals,
    context: &CallContext,
    input: RejectInput,
) -> Result<DecisionResult, HandlerError> {
    let approver = approver(context)?;
    let reason = input.reason.filter(|reason| !reason.trim().is_empty());
    if let Some(room_proposal) = room_proposals::split_room_proposal_id(&input.id) {
        let decision = RoomDecision::Reject { reason };
        return approvals.decide_in_room(context, room_proposal, None, decision).await;
    }
    let approval_decision = ApprovalDecision::Rejected { by: approver.clone(), reason };
    let decided = approvals.decide(&input.id, &approver, None, approval_decision);
    let pending_call = decided.map_err(|error| decision_error(&error))?;
    tracing::info!(id = input.id, approver, operation = pending_call.operation, "call rejected");
    Ok(DecisionResult::new(&input.id, "rejected", pending_call))
}

/// Returns the id of the approving identity. The scope is checked again, because calls made by a
/// handler are otherwise trusted: no operation may lend its own rights to an approver.
fn approver(context: &CallContext) -> Result<String, CallError> {
    let needs = "approving needs a token with the scope `toolpost:approve`";
    let identity = context.identity().ok_or_else(|| CallError::access_denied(needs))?;
    match identity.scopes.iter().any(|held| held == scope::APPROVE) {
        true => Ok(identity.id.clone()),
        false => Err(CallError::access_denied(needs)),
    }
}

fn decision_error(error: &DecisionError) -> HandlerError {
    let message = error.to_string();
    match error {
        DecisionError::OwnCall(_) => CallError::access_denied(message).into(),
        DecisionError::Unknown | DecisionError::Closed(_) => {
            DomainError::new(NOT_PENDING, message).into()
        }
        DecisionError::InputMismatch => DomainError::new(INPUT_MISMATCH, message).into(),
    }
}

impl DecisionResult {
    fn new(id: &str, status: &str, pending_call: PendingCall) -> Self {
        Self {
            id: id.to_owned(),
            status: status.to_owned(),
            operation: pending_call.operation,
            caller: pending_call.caller,
            input_digest: pending_call.input_digest,
            request_id: pending_call.request_id,
        }
    }
}
