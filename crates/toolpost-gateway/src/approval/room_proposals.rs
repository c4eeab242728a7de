//! Open room proposals, listed with the pending calls. A decision here is applied as if the approver
//! had sent it in the room.

use std::sync::Arc;

use serde_json::Value;
use toolpost::{CallContext, CallError, DomainError, Endpoint, HandlerError, Identity, epoch_ms};

use super::Approvals;
use super::operation::{DecisionResult, INPUT_MISMATCH, NOT_PENDING};
use super::pending_call::ApprovalEntry;
use crate::app::Gateway;
use crate::endpoint::room_capabilities;
use crate::room::{OpenProposal, ProposalAction, RoomError, RoomHandle};

/// A decision on a room proposal.
pub(super) enum RoomDecision {
    Approve,
    Reject { reason: Option<String> },
}

/// Splits `room/proposal` into the room and the proposal id.
pub(super) fn split_room_proposal_id(id: &str) -> Option<(&str, &str)> {
    id.split_once('/')
}

impl Approvals {
    fn gateway(&self) -> Option<Gateway> {
        self.0.gateway.get()?.upgrade().map(Gateway)
    }

    /// Returns the open proposals of all open rooms, oldest first within a room.
    pub(super) async fn room_entries(&self) -> Vec<ApprovalEntry> {
        let Some(gateway) = self.gateway() else { return Vec::new() };
        let mut entries = Vec::new();
        for room in gateway.0.rooms.open_rooms() {
            let proposals = room.inspect(|room| room.open_proposals()).await.unwrap_or_default();
            entries
                .extend(proposals.iter().filter_map(|proposal| self.room_entry(&room, proposal)));
        }
        entries
    }

    fn room_entry(&self, room: &RoomHandle, proposal: &OpenProposal) -> Option<ApprovalEntry> {
        let input = proposal_input(proposal);
        let now = epoch_ms();
        let millis = |time: i64| u64::try_from(time).unwrap_or_default();
        Some(ApprovalEntry {
            id: format!("{}/{}", room.name(), proposal.id),
            operation: operation_label(proposal),
            caller: Some(proposal.from.to_string()),
            room: Some(room.name().to_string()),
            input_digest: self.0.digester.digest(&input).ok()?,
            input,
            endpoint: Endpoint::Rooms,
            request_id: proposal.id.to_string(),
            parent_request_id: None,
            waited_ms: millis(now - proposal.created_at),
            expires_in_ms: millis(proposal.expires_at - now),
        })
    }

    /// Decides as the caller, who needs the capability for the proposed action in the room.
    pub(super) async fn decide_in_room(
        &self,
        context: &CallContext,
        (room, id): (&str, &str),
        reviewed_digest: Option<&str>,
        decision: RoomDecision,
    ) -> Result<DecisionResult, HandlerError> {
        let not_pending = || DomainError::new(NOT_PENDING, "no open proposal has this id");
        let gateway = self.gateway().ok_or_else(not_pending)?;
        let rooms = gateway.0.rooms.open_rooms();
        let room = rooms.into_iter().find(|open| &**open.name() == room);
        let room = room.ok_or_else(not_pending)?;
        let open_proposal = room.inspect(|room| room.open_proposals()).await.unwrap_or_default();
        let open_proposal = open_proposal
            .into_iter()
            .find(|proposal| &*proposal.id == id)
            .ok_or_else(not_pending)?;
        let input_digest = self.0.digester.digest(&proposal_input(&open_proposal))?;
        if reviewed_digest.is_some_and(|reviewed_digest| reviewed_digest != input_digest) {
            let message = "the input digest does not match the proposal";
            return Err(DomainError::new(INPUT_MISMATCH, message).into());
        }
        let identity = context.identity().cloned().map(Arc::new);
        let identity = identity.ok_or_else(|| CallError::access_denied("a token is required"))?;
        let (action, status) = match decision {
            RoomDecision::Approve => (ProposalAction::Approve, "approved"),
            RoomDecision::Reject { reason } => (ProposalAction::Reject { reason }, "rejected"),
        };
        decide_proposal(&gateway, &room, identity, id, action).await?;
        Ok(DecisionResult {
            id: format!("{}/{id}", room.name()),
            status: status.to_owned(),
            operation: operation_label(&open_proposal),
            caller: Some(open_proposal.from.to_string()),
            input_digest,
            request_id: id.to_owned(),
        })
    }
}

async fn decide_proposal(
    gateway: &Gateway,
    room: &RoomHandle,
    identity: Arc<Identity>,
    id: &str,
    action: ProposalAction,
) -> Result<(), HandlerError> {
    let capabilities = room_capabilities(gateway, &identity, true);
    let decided = room.decide_proposal(identity, capabilities, id, action).await;
    decided.map_err(|RoomError { code: error, message, .. }| match error {
        "capability_violation" | "own_proposal" | "not_a_member" | "kicked" => {
            CallError::access_denied(message).into()
        }
        "unavailable" => CallError::unavailable(message).into(),
        _ => DomainError::new(NOT_PENDING, message).into(),
    })
}

fn operation_label(proposal: &OpenProposal) -> String {
    match &proposal.target.name {
        Some(name) => format!("{}:{name}", proposal.target.method),
        None => proposal.target.method.to_string(),
    }
}

/// Returns the arguments of a proposed tool call, or all params of another method.
fn proposal_input(proposal: &OpenProposal) -> Value {
    let payload = proposal.payload.as_ref().map_or("{}", |payload| payload.get());
    let payload: Value = serde_json::from_str(payload).unwrap_or_default();
    let params = payload.get("params").cloned().unwrap_or_default();
    params.get("arguments").cloned().unwrap_or(params)
}
