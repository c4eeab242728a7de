//! The approver's operations: `gateway.approvals`, `gateway.approve` and `gateway.reject`.

use std::sync::Arc;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use toolpost::{
    AccessControl, CallContext, CallError, DomainError, ErrorDefinition, HandlerError, Identity,
    Operation,
};

use super::pending_call::{ApprovalAction, ApprovalEntry};
use super::queue::DecisionError;
use super::{Approvals, can_approve};
use crate::admin::scope;

pub(crate) const NOT_PENDING: &str = "NOT_PENDING";
const INPUT_MISMATCH: &str = "INPUT_MISMATCH";

/// Proposals that are listed and decided with the pending calls. Their ids contain a slash.
pub(crate) trait ProposalQueue: Send + Sync {
    /// Returns the open proposals, without input digests.
    fn list(&self) -> BoxFuture<'_, Vec<ApprovalEntry>>;

    /// Decides on a proposal as an identity.
    fn decide<'a>(
        &'a self,
        id: &'a str,
        identity: Arc<Identity>,
        action: ApprovalAction,
    ) -> BoxFuture<'a, Result<(), HandlerError>>;
}

/// State shared by the operations.
#[derive(Clone)]
struct Approver {
    approvals: Approvals,
    proposals: Arc<dyn ProposalQueue>,
}

/// Returns the operations that list and decide pending calls and proposals. Deciding requires the
/// scope `toolpost:approve`; listing requires that scope or `toolpost:read`.
pub(crate) fn operations(
    approvals: &Approvals,
    proposals: Arc<dyn ProposalQueue>,
) -> Vec<Operation> {
    let (mut read_access, mut decide_access) = (AccessControl::default(), AccessControl::default());
    read_access.required_scopes_any = [scope::READ, scope::APPROVE].map(str::to_owned).into();
    decide_access.required_scopes.push(scope::APPROVE.to_owned());
    let listing = Approver { approvals: approvals.clone(), proposals };
    let (approving, rejecting) = (listing.clone(), listing.clone());
    let not_pending =
        ErrorDefinition::new(NOT_PENDING, "No call with this id is pending approval.")
            .with_http_status(404);
    let input_mismatch =
        ErrorDefinition::new(INPUT_MISMATCH, "The input digest does not match the pending call.")
            .with_http_status(409);
    let builders = [
        Operation::query("gateway.approvals", move |_: ListApprovalsInput| {
            let listing = listing.clone();
            async move { Ok::<_, HandlerError>(ApprovalList { approvals: listing.list().await }) }
        })
        .title("Calls pending approval")
        .description("Lists the calls pending approval, oldest first.")
        .access(read_access),
        Operation::mutation("gateway.approve", move |context: CallContext, input: ApproveInput| {
            let approver = approving.clone();
            async move {
                let digest = input.input_digest.as_deref();
                approver.decide(&context, &input.id, digest, ApprovalAction::Approve).await
            }
        })
        .title("Approve a call")
        .description("Approves a pending call, which then runs once with the listed input.")
        .access(decide_access.clone())
        .raises(not_pending.clone())
        .raises(input_mismatch),
        Operation::mutation("gateway.reject", move |context: CallContext, input: RejectInput| {
            let approver = rejecting.clone();
            async move {
                let reason = input.reason.filter(|reason| !reason.trim().is_empty());
                let action = ApprovalAction::Reject { reason };
                approver.decide(&context, &input.id, None, action).await
            }
        })
        .title("Reject a call")
        .description("Rejects a pending call and returns the reason to its caller.")
        .access(decide_access)
        .raises(not_pending),
    ];
    builders.map(|builder| builder.build().expect("the operations are well formed")).into()
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
struct DecisionResult {
    id: String,
    /// `approved` or `rejected`.
    status: String,
    /// `namespace.name`, or the method and name proposed in a room.
    operation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
    input_digest: String,
    /// The id of the call, or of the proposal.
    request_id: String,
}

impl Approver {
    async fn list(&self) -> Vec<ApprovalEntry> {
        let proposals = self.proposals().await;
        let now = Instant::now();
        let queue = self.approvals.queue();
        let calls = queue.pending(now).map(|(id, call)| ApprovalEntry::new(id, call, now));
        calls.chain(proposals).collect()
    }

    async fn proposals(&self) -> Vec<ApprovalEntry> {
        let mut entries = self.proposals.list().await;
        entries.retain_mut(|entry| {
            let digest = self.approvals.0.digester.hex_digest(&entry.input);
            digest.map(|digest| entry.input_digest = digest).is_ok()
        });
        entries
    }

    async fn decide(
        &self,
        context: &CallContext,
        id: &str,
        reviewed_digest: Option<&str>,
        action: ApprovalAction,
    ) -> Result<DecisionResult, HandlerError> {
        let approver = approver(context)?;
        let (id, status) = (id.to_owned(), action.as_str().to_owned());
        let (operation, caller, input_digest, request_id) = if id.contains('/') {
            let proposal = self.decide_proposal(approver, &id, reviewed_digest, action).await?;
            (proposal.operation, proposal.caller, proposal.input_digest, proposal.request_id)
        } else {
            let decided = self.approvals.decide(&id, approver, reviewed_digest, action);
            let call = decided.map_err(|error| decision_error(&error))?;
            let (approver, operation) = (&*approver.key(), &call.operation);
            tracing::info!(id, approver, operation, status, "approval decided");
            let caller = call.caller_key();
            (call.operation, caller, call.input_digest, call.request_id)
        };
        Ok(DecisionResult { id, status, operation, caller, input_digest, request_id })
    }

    async fn decide_proposal(
        &self,
        approver: &Identity,
        id: &str,
        reviewed_digest: Option<&str>,
        action: ApprovalAction,
    ) -> Result<ApprovalEntry, HandlerError> {
        let not_pending = || DomainError::new(NOT_PENDING, "no open proposal has this id");
        let open = self.proposals().await.into_iter().find(|proposal| proposal.id == id);
        let open = open.ok_or_else(not_pending)?;
        if reviewed_digest.is_some_and(|digest| digest != open.input_digest) {
            let message = "the input digest does not match the proposal";
            return Err(DomainError::new(INPUT_MISMATCH, message).into());
        }
        self.proposals.decide(id, Arc::new(approver.clone()), action).await?;
        Ok(open)
    }
}

/// Returns the approving identity. The scope is checked again, because calls made by a handler are
/// trusted and a handler must not approve calls for a caller without the scope.
fn approver(context: &CallContext) -> Result<&Identity, CallError> {
    let needs = "approving needs a token with the scope `toolpost:approve`";
    context
        .identity()
        .filter(|identity| can_approve(identity))
        .ok_or_else(|| CallError::access_denied(needs))
}

fn decision_error(error: &DecisionError) -> HandlerError {
    let message = error.to_string();
    match error {
        DecisionError::OwnCall(_) | DecisionError::InvitedCaller(_) => {
            CallError::access_denied(message).into()
        }
        DecisionError::Unknown | DecisionError::Closed(_) => {
            DomainError::new(NOT_PENDING, message).into()
        }
        DecisionError::InputMismatch => DomainError::new(INPUT_MISMATCH, message).into(),
    }
}
