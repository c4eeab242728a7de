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
use super::state::{Proposal, ProposalDecision, RoomError, is_for_registry};
use crate::approval::{ApprovalAction, ApprovalEntry, NOT_PENDING, ProposalQueue};
use crate::journal::mask_tokens;

impl ProposalQueue for Rooms {
    /// Lists the open proposals of all open rooms, oldest first within a room.
    fn list(&self) -> BoxFuture<'_, Vec<ApprovalEntry>> {
        async {
            let mut entries = Vec::new();
            for room in self.open_rooms() {
                let proposals = room.inspect(|room| room.open_proposals()).await;
                let proposals = proposals.unwrap_or_default();
                let entry = |(id, proposal)| self.entry(&room, id, proposal);
                entries.extend(proposals.iter().map(|(id, proposal)| (&**id, proposal)).map(entry));
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
            let room = self.open_rooms().into_iter().find(|open| **open.name() == *room);
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

impl Rooms {
    fn entry(&self, room: &RoomHandle, id: &str, proposal: &Proposal) -> ApprovalEntry {
        let now = epoch_ms();
        let millis = |time: i64| u64::try_from(time).unwrap_or_default();
        let target = &proposal.target;
        ApprovalEntry {
            id: format!("{}/{id}", room.name()),
            operation: match &target.name {
                Some(name) => format!("{}:{name}", target.method),
                None => target.method.to_string(),
            },
            caller: Some(proposal.caller_key(room.name()).to_string()),
            room: Some(room.name().to_string()),
            input: self.masked_input(proposal),
            input_digest: String::new(),
            endpoint: Endpoint::Rooms,
            request_id: id.to_owned(),
            parent_request_id: None,
            waited_ms: millis(now - proposal.created_at),
            expires_in_ms: millis(proposal.expires_at - now),
        }
    }

    /// Returns the arguments of a proposed tool call, or all params of another method, masked as in
    /// the journal.
    fn masked_input(&self, proposal: &Proposal) -> Value {
        let Some(payload) = &proposal.payload else { return Value::Null };
        let masked = is_for_registry(&proposal.to)
            .then(|| self.0.mask_secrets(&proposal.target, payload, false))
            .flatten();
        let mut text = masked.as_ref().unwrap_or(payload).get().as_bytes().to_vec();
        mask_tokens(&mut text);
        let payload: Value = serde_json::from_slice(&text).unwrap_or_default();
        let params = payload.get("params").cloned().unwrap_or_default();
        params.get("arguments").cloned().unwrap_or(params)
    }
}
