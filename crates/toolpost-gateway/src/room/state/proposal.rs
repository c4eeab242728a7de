//! Proposals and their state.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::json_rpc::RawMessage;
use toolpost::{Identity, IdentityKey, IdentityKind};

use super::system_messages::to_raw;
use super::{Effect, GATEWAY_PARTICIPANT, ProposalDecision, Room, RoomError};
use crate::approval::ApprovalAction;
use crate::room::capability::{Capabilities, CapabilityRequest};
use crate::room::message::{
    BaseKind, Draft, McpTarget, MessageKind, Protocol, RejectionCode, ResponseContext, RoomMessage,
    quoted,
};

const MAX_OPEN: usize = 500;
const MAX_OPEN_PER_PARTICIPANT: usize = 50;
/// Maximum total payload size of the open proposals, in bytes.
const MAX_OPEN_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of tracked proposals, including open ones.
const MAX_TRACKED: usize = 2_000;

#[derive(Debug, Default)]
pub(super) struct Proposals {
    by_id: HashMap<Box<str>, Proposal>,
    order: VecDeque<Box<str>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    pub(crate) target: McpTarget,
    pub(crate) from: Arc<str>,
    /// The chain of invitations of a guest, which cannot approve the proposal.
    inviters: Vec<IdentityKey<'static>>,
    pub(crate) to: Vec<Box<str>>,
    pub(crate) payload: Option<Box<RawValue>>,
    /// Time of creation in milliseconds since the Unix epoch.
    pub(crate) created_at: i64,
    pub(crate) expires_at: i64,
    /// How the proposal was closed, as in "has expired".
    closed: Option<String>,
}

impl Proposals {
    pub(super) fn get(&self, id: &str) -> Option<&Proposal> {
        self.by_id.get(id)
    }

    /// Returns the first proposal among these ids.
    pub(super) fn find<'a>(&self, ids: &'a [Box<str>]) -> Option<(&'a str, &Proposal)> {
        ids.iter().find_map(|id| Some((&**id, self.get(id)?)))
    }

    pub(super) fn open_proposals(&self) -> Vec<(Box<str>, Proposal)> {
        let tracked = self.order.iter().filter_map(|id| Some((id, self.by_id.get(id)?)));
        let open = tracked.filter(|(_, proposal)| proposal.is_open());
        open.map(|(id, proposal)| (id.clone(), proposal.clone())).collect()
    }

    pub(super) fn check_capacity(&self, proposer: &str) -> Result<(), RoomError> {
        let open = || self.by_id.values().filter(|proposal| proposal.is_open());
        let payloads = open().filter_map(|proposal| proposal.payload.as_ref());
        let bytes: usize = payloads.map(|payload| payload.get().len()).sum();
        let of_proposer = open().filter(|proposal| &*proposal.from == proposer).count();
        let detail = if open().count() >= MAX_OPEN {
            format!("this room has {MAX_OPEN} open proposals")
        } else if of_proposer >= MAX_OPEN_PER_PARTICIPANT {
            format!("you have {MAX_OPEN_PER_PARTICIPANT} open proposals")
        } else if bytes >= MAX_OPEN_BYTES {
            format!("the open proposals have {MAX_OPEN_BYTES} bytes in total")
        } else {
            return Ok(());
        };
        Err(RejectionCode::LimitExceeded.error(format!("proposal limit reached: {detail}")))
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.by_id.get(id).is_some_and(Proposal::is_open)
    }

    pub(super) fn has_open(&self) -> bool {
        self.by_id.values().any(Proposal::is_open)
    }

    pub(super) fn add(
        &mut self,
        message: &RoomMessage,
        inviters: Vec<IdentityKey<'static>>,
        since: i64,
        expires: i64,
    ) {
        let Some(target) = message.kind.target().cloned() else { return };
        let proposal = Proposal {
            target,
            from: Arc::clone(&message.from),
            inviters,
            to: message.to.clone(),
            payload: message.payload.clone(),
            created_at: since,
            expires_at: expires,
            closed: None,
        };
        if self.by_id.insert(message.id.clone(), proposal).is_none() {
            self.order.push_back(message.id.clone());
        }
        // Open proposals are never evicted; their number is limited.
        if self.order.len() > MAX_TRACKED
            && let Some(at) = self.order.iter().position(|id| !self.is_open(id))
            && let Some(oldest) = self.order.remove(at)
        {
            self.by_id.remove(&oldest);
        }
    }

    /// Closes the proposals that an accepted message fulfills, rejects or withdraws.
    pub(super) fn record(&mut self, message: &RoomMessage) {
        let by = &message.from;
        let fulfilled = || format!("was fulfilled by `{by}` with `{}`", message.id);
        let how = match message.kind.base() {
            // The request was checked against every proposal that it correlates to.
            Some(BaseKind::McpRequest) => {
                for id in &message.correlation {
                    self.close(id, fulfilled());
                }
                return;
            }
            Some(BaseKind::McpResponse) => fulfilled(),
            Some(BaseKind::McpReject) if &**by == GATEWAY_PARTICIPANT => "has expired".to_owned(),
            Some(BaseKind::McpReject) => format!("was rejected by `{by}`"),
            Some(BaseKind::McpWithdraw) => format!("was withdrawn by `{by}`"),
            _ => return,
        };
        // Other proposals in the correlations stay open.
        if let Some(context) = &message.context_of {
            self.close(&context.request_id, how);
        }
    }

    fn close(&mut self, id: &str, how: String) {
        if let Some(proposal) = self.by_id.get_mut(id).filter(|proposal| proposal.is_open()) {
            proposal.closed = Some(how);
            // A closed proposal no longer needs its payload.
            proposal.payload = None;
        }
    }

    fn expired_ids(&self, now: i64) -> Vec<Box<str>> {
        let is_expired = |proposal: &Proposal| proposal.is_open() && proposal.expires_at <= now;
        let expired = self.by_id.iter().filter(|(_, proposal)| is_expired(proposal));
        expired.map(|(id, _)| id.clone()).collect()
    }
}

impl Proposal {
    fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// Returns the key of a guest, or the participant name of another proposer.
    pub(crate) fn caller_key(&self, room: &str) -> IdentityKey<'_> {
        let kind = match self.inviters.as_slice() {
            [] => IdentityKind::Token,
            _ => IdentityKind::Guest { room: room.into(), inviters: [].into() },
        };
        IdentityKey::new(&kind, &self.from)
    }

    fn is_invited_by(&self, identity: &Identity) -> bool {
        self.inviters.contains(&identity.key())
    }

    fn has_params_of(&self, draft: &Draft) -> bool {
        let params = |payload: &Option<Box<RawValue>>| -> Option<Value> {
            let params = RawMessage::parse(payload.as_ref()?.get())?.params;
            params.map_or(Some(Value::Null), |params| serde_json::from_str(params.get()).ok())
        };
        params(&self.payload).is_some_and(|own| params(&draft.payload) == Some(own))
    }

    /// Checks that the proposal is open. The error describes how it was closed.
    pub(super) fn check_open(&self) -> Result<(), RoomError> {
        match &self.closed {
            None => Ok(()),
            Some(how) => Err(RejectionCode::ProposalClosed.error(format!("the proposal {how}"))),
        }
    }

    pub(super) fn response_context(&self, id: &str) -> ResponseContext {
        ResponseContext {
            method: self.target.method.clone(),
            name: self.target.name.clone(),
            request_id: id.into(),
            from: Arc::clone(&self.from),
            proposal_id: Some(id.into()),
            proposer: Some(Arc::clone(&self.from)),
            outcome: None,
        }
    }

    pub(super) fn check_allowed(&self, capabilities: &Capabilities) -> Result<(), RoomError> {
        let kind = MessageKind::for_target(BaseKind::McpRequest, &self.target);
        let request = CapabilityRequest::new(kind.full(), self.payload.as_deref());
        capabilities.check(&request.with_addressees(&self.to))?;
        Ok(())
    }
}

impl Room {
    /// Checks that every proposal that the request correlates to is open and has the same target.
    /// Returns the proposal of another participant whose params the request repeats.
    pub(super) fn check_fulfillment(
        &self,
        sender: &str,
        draft: &Draft,
    ) -> Result<Option<Box<str>>, RoomError> {
        let mut consents_to = None;
        for id in &draft.correlation {
            let Some(proposal) = self.proposals.get(id) else { continue };
            proposal.check_open()?;
            if draft.kind.target() != Some(&proposal.target) {
                let detail = format!(
                    "the request does not match the proposal, which is for {}",
                    quoted(MessageKind::for_target(BaseKind::McpRequest, &proposal.target).full())
                );
                return Err(RejectionCode::ProposalMismatch.error(detail));
            }
            let is_independent =
                self.identity_of(sender).is_some_and(|by| !proposal.is_invited_by(by));
            if &*proposal.from != sender && is_independent && proposal.has_params_of(draft) {
                consents_to = Some(id.clone());
            }
        }
        Ok(consents_to)
    }

    /// Returns the context of the proposal that a message closes. Fails if the proposal is unknown
    /// or already closed.
    pub(super) fn closing_proposal_context(
        &self,
        draft: &Draft,
    ) -> Result<ResponseContext, RoomError> {
        let Some((id, proposal)) = self.proposals.find(&draft.correlation) else {
            let detail = "`correlation_id` names no known proposal";
            return Err(RejectionCode::UnknownProposal.error(detail));
        };
        proposal.check_open()?;
        Ok(proposal.response_context(id))
    }

    pub(super) fn is_proposer(&self, proposer: &str, draft: &Draft) -> bool {
        let found = self.proposals.find(&draft.correlation);
        found.is_some_and(|(_, proposal)| &*proposal.from == proposer)
    }

    /// Rejects each expired proposal with a message to all participants, and notifies the proposer.
    pub(super) fn expire_proposals(&mut self) {
        for id in self.proposals.expired_ids(self.now) {
            let Some(proposal) = self.proposals.get(&id) else { continue };
            let context = proposal.response_context(&id);
            let detail = "the proposal expired before it was fulfilled";
            let payload = json!({"reason": "timeout", "message": detail});
            let mut message =
                self.gateway_message(BaseKind::McpReject, &[&context.from], &[&id], &payload);
            message.context_of = Some(context.clone());
            self.track_message(&message, None);
            self.deliver(message, None, None);
            self.notify_proposer(&context, "expired", GATEWAY_PARTICIPANT, None);
        }
    }

    pub(super) fn notify_proposer(
        &mut self,
        context: &ResponseContext,
        state: &str,
        by: &str,
        response: Option<(&str, &str)>,
    ) {
        let (Some(id), Some(proposer)) = (&context.proposal_id, &context.proposer) else { return };
        let mut payload = json!({
            "proposal_id": id,
            "state": state,
            "by": by,
            "method": context.method,
            "name": context.name,
        });
        if let Some((response, outcome)) = response {
            payload["request_id"] = (&*context.request_id).into();
            payload["response_id"] = response.into();
            payload["outcome"] = outcome.into();
            if context.from != *proposer {
                payload["approved_by"] = (&*context.from).into();
            }
        }
        let message = self.gateway_message(BaseKind::SystemProposal, &[proposer], &[id], &payload);
        self.send_to_addressees(message);
    }

    /// Applies a decision made outside the room, as if it had been sent in it.
    pub(crate) fn decide(
        &mut self,
        now: i64,
        decision: ProposalDecision,
    ) -> (Result<(), RoomError>, Vec<Effect>) {
        self.begin(now);
        let ProposalDecision { proposal, by, token_capabilities: own, identity, action } = decision;
        self.deciding_identity = Some(identity);
        let decided = self.apply_decision(&proposal, &by, own.as_ref(), action);
        self.deciding_identity = None;
        (decided, std::mem::take(&mut self.effects))
    }

    fn apply_decision(
        &mut self,
        id: &str,
        by: &Arc<str>,
        own: Option<&Capabilities>,
        action: ApprovalAction,
    ) -> Result<(), RoomError> {
        let identity = self.deciding_identity.as_deref();
        let identity = identity.expect("it is set while a decision is applied");
        self.check_membership(by, identity)?;
        let unknown = || RejectionCode::UnknownProposal.error("unknown proposal");
        let proposal = self.proposals.get(id).ok_or_else(unknown)?;
        proposal.check_open()?;
        if proposal.from == *by {
            let detail = "participants cannot approve their own proposals";
            return Err(RejectionCode::OwnProposal.error(detail));
        }
        if proposal.is_invited_by(identity) {
            let detail = "identities that invited the proposer cannot approve its proposals";
            return Err(RejectionCode::OwnProposal.error(detail));
        }
        let usual = self.default_capabilities_for(by);
        let may = self.grants.effective_capabilities(by, own.unwrap_or(&usual));
        let (kind, to, payload) = match action {
            ApprovalAction::Approve => {
                proposal.check_allowed(&may)?;
                let kind = MessageKind::for_target(BaseKind::McpRequest, &proposal.target);
                (kind, Vec::new(), proposal.payload.clone())
            }
            ApprovalAction::Reject { reason } => {
                // A participant that may make the request may also reject the proposal.
                let (kind, to) = (BaseKind::McpReject, vec![Box::from(&*proposal.from)]);
                if proposal.check_allowed(&may).is_err() {
                    let request = CapabilityRequest::new(kind.as_str(), None);
                    may.check(&request.with_addressees(&to))?;
                }
                let payload = json!({"reason": reason.as_deref().unwrap_or("disagree")});
                (kind.into(), to, Some(to_raw(&payload)))
            }
        };
        let draft = Draft {
            protocol: Some(Protocol::default()),
            id: None,
            ts: None,
            from: None,
            to,
            kind,
            correlation: vec![id.into()],
            context: None,
            payload,
            extra: Vec::new(),
        };
        self.check_not_paused(by, &draft.kind)?;
        self.handle_on_behalf(by, draft)
    }
}
