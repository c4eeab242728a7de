//! `gateway.approvals`, `gateway.approve`, `gateway.reject`: the side of those who decide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use toolpost::{
    AccessControl, CallContext, CallError, DomainError, ErrorDefinition, HandlerError, Operation,
};

use super::Approvals;
use super::book::Undecided;
use super::proposal::{Proposal, Shown, Verdict};
use super::rooms::{self, Said};
use crate::admin::scope;

pub(super) const NOT_WAITING: &str = "NOT_WAITING";
pub(super) const OTHER_INPUT: &str = "OTHER_INPUT";

/// The operations by which calls that wait are decided about: deciding needs `toolpost:approve`, and
/// looking that or `toolpost:read`.
pub fn operations(approvals: &Approvals) -> Vec<Operation> {
    let (mut looks, mut decides) = (AccessControl::default(), AccessControl::default());
    looks.required_scopes_any = [scope::READ, scope::APPROVE].map(str::to_owned).into();
    decides.required_scopes.push(scope::APPROVE.to_owned());
    let (listing, approving, rejecting) = (approvals.clone(), approvals.clone(), approvals.clone());
    let builders = [
        Operation::query("gateway.approvals", move |_: Nothing| {
            let listing = listing.clone();
            async move { Ok::<_, HandlerError>(list(&listing).await) }
        })
        .title("Calls that wait for approval")
        .description("Lists the calls that wait for somebody's word, the oldest first."),
        Operation::mutation("gateway.approve", move |context: CallContext, input: Approve| {
            let approving = approving.clone();
            async move { approve(&approving, &context, &input).await }
        })
        .title("Approve a call")
        .description("Lets a call run that waits for approval: this one, once, with this input."),
        Operation::mutation("gateway.reject", move |context: CallContext, input: Reject| {
            let rejecting = rejecting.clone();
            async move { reject(&rejecting, &context, input).await }
        })
        .title("Reject a call")
        .description("Refuses a call that waits for approval, and tells its caller why."),
    ];
    let [list, approve, reject] = builders;
    let not_waiting =
        ErrorDefinition::new(NOT_WAITING, "No call waits under this id, or not any more.")
            .with_http_status(404);
    let other_input =
        ErrorDefinition::new(OTHER_INPUT, "The call has another input than was looked at.")
            .with_http_status(409);
    let approve = approve.raises(not_waiting.clone()).raises(other_input);
    let reject = reject.raises(not_waiting);
    let built = [(list, looks), (approve, decides.clone()), (reject, decides)]
        .map(|(builder, access)| builder.access(access).build());
    built.map(|operation| operation.expect("the operations are well formed")).into()
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    /// The oldest first.
    approvals: Vec<Shown>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Approve {
    /// Which call, as `gateway.approvals` names it.
    id: String,
    /// The `inputDigest` that was looked at; a call with another input is left alone.
    #[serde(default)]
    input_digest: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Reject {
    /// Which call, as `gateway.approvals` names it.
    id: String,
    /// What its caller is told.
    #[serde(default)]
    #[schemars(length(max = 1_000))]
    reason: Option<String>,
}

/// What was decided about.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Decided {
    pub(super) id: String,
    /// `approved` or `rejected`
    pub(super) status: String,
    /// `namespace.name`, or what was proposed in a room
    pub(super) operation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) caller: Option<String>,
    pub(super) input_digest: String,
    /// The id of the call, or of the proposal.
    pub(super) request_id: String,
}

async fn list(approvals: &Approvals) -> Listed {
    let of_rooms = approvals.of_rooms().await;
    let now = Instant::now();
    let book = approvals.book();
    let shown = book.waiting(now).map(|(id, proposal)| Shown::of(id, proposal, now));
    Listed { approvals: shown.chain(of_rooms).collect() }
}

async fn approve(
    approvals: &Approvals,
    context: &CallContext,
    input: &Approve,
) -> Result<Decided, HandlerError> {
    let approver = approver(context)?;
    let seen = input.input_digest.as_deref();
    if let Some(place) = rooms::place(&input.id) {
        return approvals.decide_in_room(context, place, seen, Said::Approved).await;
    }
    let verdict = Verdict::Approved { by: approver.clone() };
    let decided = approvals.decide(&input.id, &approver, seen, verdict);
    let proposal = decided.map_err(|undecided| refused(&undecided))?;
    tracing::info!(id = input.id, approver, operation = proposal.operation, "a call was approved");
    Ok(Decided::of(&input.id, "approved", proposal))
}

async fn reject(
    approvals: &Approvals,
    context: &CallContext,
    input: Reject,
) -> Result<Decided, HandlerError> {
    let approver = approver(context)?;
    let reason = input.reason.filter(|reason| !reason.trim().is_empty());
    if let Some(place) = rooms::place(&input.id) {
        let said = Said::Rejected { reason };
        return approvals.decide_in_room(context, place, None, said).await;
    }
    let verdict = Verdict::Rejected { by: approver.clone(), reason };
    let decided = approvals.decide(&input.id, &approver, None, verdict);
    let proposal = decided.map_err(|undecided| refused(&undecided))?;
    tracing::info!(id = input.id, approver, operation = proposal.operation, "a call was rejected");
    Ok(Decided::of(&input.id, "rejected", proposal))
}

/// Who decides. Looked at once more, because a call out of a handler is trusted with everything else:
/// no operation lends its own rights to somebody who wants to approve.
fn approver(context: &CallContext) -> Result<String, CallError> {
    let needs = "approving needs a token with the scope `toolpost:approve`";
    let identity = context.identity().ok_or_else(|| CallError::access_denied(needs))?;
    match identity.scopes.iter().any(|held| held == scope::APPROVE) {
        true => Ok(identity.id.clone()),
        false => Err(CallError::access_denied(needs)),
    }
}

fn refused(undecided: &Undecided) -> HandlerError {
    let message = undecided.to_string();
    match undecided {
        Undecided::Own(_) => CallError::access_denied(message).into(),
        Undecided::Unknown | Undecided::Ended(_) => DomainError::new(NOT_WAITING, message).into(),
        Undecided::OtherInput => DomainError::new(OTHER_INPUT, message).into(),
    }
}

impl Decided {
    fn of(id: &str, status: &str, proposal: Proposal) -> Self {
        Self {
            id: id.to_owned(),
            status: status.to_owned(),
            operation: proposal.operation,
            caller: proposal.caller,
            input_digest: proposal.input_digest,
            request_id: proposal.request_id,
        }
    }
}
