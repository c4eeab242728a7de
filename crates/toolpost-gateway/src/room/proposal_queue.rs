//! Open room proposals, listed with the calls pending approval. A decision there is applied as if
//! the approver had sent it in the room.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use toolpost::{CallError, DomainError, Endpoint, HandlerError, Identity, epoch_ms};

use super::capability::Capabilities;
use super::message::RejectionCode;
use super::rooms::{RoomHandle, Rooms};
use super::state::{Proposal, ProposalDecision, RoomError};
use crate::approval::{ApprovalAction, ApprovalEntry, NOT_PENDING, ProposalQueue};

impl ProposalQueue for Rooms {
    /// Lists the open proposals of all open rooms, oldest first within a room.
    fn list(&self) -> BoxFuture<'_, Vec<ApprovalEntry>> {
        async {
            let mut entries = Vec::new();
            for room in self.open_rooms() {
                let proposals = room.inspect(|room| room.open_proposals()).await;
                let proposals = proposals.unwrap_or_default();
                entries.extend(proposals.iter().map(|(id, proposal)| entry(&room, id, proposal)));
            }
            entries
        }
        .boxed()
    }

    /// Decides as the identity, which needs the capability for the proposed action in the room.
    fn decide<'a>(
        &'a self,
        id: &'a str,
        identity: Arc<Identity>,
        action: ApprovalAction,
    ) -> BoxFuture<'a, Result<(), HandlerError>> {
        async move {
            let not_pending = || DomainError::new(NOT_PENDING, "no open proposal has this id");
            let (room, id) = id.split_once('/').ok_or_else(not_pending)?;
            let room = self.open_rooms().into_iter().find(|open| &**open.name() == room);
            let room = room.ok_or_else(not_pending)?;
            let decision = ProposalDecision {
                proposal: id.into(),
                by: identity.id.as_str().into(),
                token_capabilities: Capabilities::of_identity(&identity),
                identity,
                action,
            };
            let decided = room.decide_proposal(decision).await;
            decided.map_err(|RoomError { code, message, .. }| match code {
                RejectionCode::CapabilityViolation
                | RejectionCode::OwnProposal
                | RejectionCode::NotAMember
                | RejectionCode::Kicked => CallError::access_denied(message).into(),
                RejectionCode::Unavailable => CallError::unavailable(message).into(),
                _ => DomainError::new(NOT_PENDING, message).into(),
            })
        }
        .boxed()
    }
}

fn entry(room: &RoomHandle, id: &str, proposal: &Proposal) -> ApprovalEntry {
    let now = epoch_ms();
    let millis = |time: i64| u64::try_from(time).unwrap_or_default();
    let target = &proposal.target;
    ApprovalEntry {
        id: format!("{}/{id}", room.name()),
        operation: match &target.name {
            Some(name) => format!("{}:{name}", target.method),
            None => target.method.to_string(),
        },
        caller: Some(proposal.from.to_string()),
        room: Some(room.name().to_string()),
        input: proposal_input(proposal),
        input_digest: String::new(),
        endpoint: Endpoint::Rooms,
        request_id: id.to_owned(),
        parent_request_id: None,
        waited_ms: millis(now - proposal.created_at),
        expires_in_ms: millis(proposal.expires_at - now),
    }
}

/// Returns the arguments of a proposed tool call, or all params of another method.
fn proposal_input(proposal: &Proposal) -> Value {
    let payload = proposal.payload.as_ref().map_or("{}", |payload| payload.get());
    let payload: Value = serde_json::from_str(payload).unwrap_or_default();
    let params = payload.get("params").cloned().unwrap_or_default();
    params.get("arguments").cloned().unwrap_or(params)
}
