//! Resolution of what a message is about: its full kind, its addressees and its context.

use serde::Deserialize;
use serde_json::value::RawValue;
use toolpost::json_rpc::{RawMessage, RpcId};

use super::handle_grant::parse_payload;
use super::short_kinds::is_short_kind;
use super::{Room, RoomError};
use crate::room::message::{
    BaseKind, Draft, MessageKind, RejectionCode, ResponseContext, ResponseOutcome, quoted,
    upgrade_kind, upgrade_response_kind,
};

/// A message with its full kind and its addressees.
pub(super) struct ParsedMessage {
    pub(super) draft: Draft,
    pub(super) context: Option<ResponseContext>,
    pub(super) rpc_id: Option<RpcId>,
    /// The kind as sent, if it is a deprecated short kind.
    pub(super) short_kind: Option<MessageKind>,
}

impl Room {
    /// Resolves the full kind, the addressees and the context, and checks the kind against the
    /// payload.
    pub(super) fn parse_message(
        &self,
        sender: &str,
        mut draft: Draft,
    ) -> Result<ParsedMessage, RoomError> {
        if draft.kind.base() == Some(BaseKind::Mcp) {
            draft.kind = infer_mcp_kind(draft.payload.as_deref()).into();
        }
        check_payload(&draft)?;
        let sent_kind = self.deprecates_short_kinds(sender).then(|| draft.kind.clone());
        let (mut draft, context) = self.resolve_kind(sender, draft)?;
        let short_kind = sent_kind.filter(|sent| is_short_kind(sent, &draft.kind));
        self.complete_addressees(&mut draft);
        let payload = draft.payload.as_ref().and_then(|payload| RawMessage::parse(payload.get()));
        let rpc_id = payload.and_then(|payload| RpcId::from_raw(payload.id?));
        Ok(ParsedMessage { draft, context, rpc_id, short_kind })
    }

    /// Replaces the kind with the full kind and returns what the message belongs to.
    fn resolve_kind(
        &self,
        sender: &str,
        mut draft: Draft,
    ) -> Result<(Draft, Option<ResponseContext>), RoomError> {
        let mut context = None;
        match draft.kind.base() {
            Some(
                base @ (BaseKind::McpRequest | BaseKind::McpProposal | BaseKind::McpNotification),
            ) => {
                draft.kind = upgrade_kind(draft.kind, draft.payload.as_deref())?;
                if base != BaseKind::McpNotification && draft.kind.method().is_none() {
                    let detail = "the payload of a request or a proposal must have a `method`";
                    return Err(RoomError::invalid(detail));
                }
                if base == BaseKind::McpNotification {
                    context = self.notification_context(&draft);
                }
            }
            Some(BaseKind::McpResponse) => {
                let (kind, resolved) = self.resolve_response(sender, &draft)?;
                (draft.kind, context) = (kind, Some(resolved));
            }
            Some(BaseKind::McpReject | BaseKind::McpWithdraw) => {
                context = Some(self.closing_proposal_context(&draft)?);
            }
            _ => {}
        }
        Ok((draft, context))
    }

    /// Returns the context of the request that a notification, such as progress, belongs to.
    fn notification_context(&self, draft: &Draft) -> Option<ResponseContext> {
        let mut requests = draft.correlation.iter().map(|id| Some((id, self.requests.get(id)?)));
        let (id, request) = requests.find_map(|found| found)?;
        Some(request.response_context(id))
    }

    /// Completes `to`, before capabilities are checked. A request that fulfills a proposal inherits
    /// the addressees of the proposal, unless it names its own. A message that changes a participant
    /// is addressed to it: otherwise every client would apply it, and a capability for other
    /// addressees would allow it.
    fn complete_addressees(&self, draft: &mut Draft) {
        match draft.kind.base() {
            Some(BaseKind::McpRequest) if draft.to.is_empty() => {
                if let Some((_, proposal)) = self.proposals.find(&draft.correlation) {
                    draft.to.clone_from(&proposal.to);
                }
            }
            Some(
                BaseKind::CapabilityGrant
                | BaseKind::CapabilityRevoke
                | BaseKind::SpaceInvite
                | BaseKind::SpaceKick,
            ) => draft.to = changed_participant(draft).into_iter().collect(),
            _ => {}
        }
    }

    /// Resolves what a response belongs to: a request addressed to its sender, or an open proposal
    /// that the sender may fulfill.
    fn resolve_response(
        &self,
        sender: &str,
        draft: &Draft,
    ) -> Result<(MessageKind, ResponseContext), RoomError> {
        let correlation = &draft.correlation;
        let request = correlation.iter().find_map(|id| Some((id, self.requests.get(id)?)));
        if let Some((id, request)) = request {
            if !request.is_addressed_to(sender) {
                let to: Vec<String> = request.to.iter().take(5).map(|to| quoted(to)).collect();
                let (id, to) = (quoted(id), to.join(", "));
                let detail = format!("request {id} is addressed to {to}, not to you");
                return Err(RejectionCode::NotAddressee.error(detail));
            }
            request.check_no_response_from(sender)?;
            let kind = if kind_names_result(draft) {
                BaseKind::McpResponse.into()
            } else {
                draft.kind.clone()
            };
            let kind = upgrade_response_kind(kind, &request.target)?;
            return Ok((kind, request.response_context(id).with_outcome(draft.payload.as_deref())));
        }
        let Some((id, proposal)) = self.proposals.find(correlation) else {
            let detail = "`correlation_id` names no known request";
            return Err(RejectionCode::UnknownRequest.error(detail));
        };
        proposal.check_open()?;
        if &*proposal.from == sender {
            let detail = "you cannot respond to your own proposal";
            return Err(RejectionCode::NotAddressee.error(detail));
        }
        if let Some(participant) = self.participants.get(sender) {
            proposal.check_allowed(&participant.capabilities)?;
        }
        let context = proposal.response_context(id).with_outcome(draft.payload.as_deref());
        // Some clients respond to every message, with an error for unknown ones.
        if context.outcome != Some(ResponseOutcome::Result) {
            let detail =
                "a response to a proposal must contain a result; send `mcp/reject` to decline it";
            return Err(RejectionCode::NotAddressee.error(detail));
        }
        let kind = upgrade_response_kind(draft.kind.clone(), &proposal.target)?;
        Ok((kind, context))
    }
}

/// Checks that the payload is an object and has the members that clients expect.
fn check_payload(draft: &Draft) -> Result<(), RoomError> {
    #[derive(Deserialize)]
    struct ChatPayload {
        text: String,
    }
    if draft.payload.as_ref().is_some_and(|payload| !payload.get().starts_with('{')) {
        return Err(RoomError::invalid("`payload` must be an object"));
    }
    match draft.kind.base() {
        Some(BaseKind::Chat) => {
            let chat: ChatPayload = parse_payload(draft, "`text`")?;
            match chat.text.is_empty() {
                true => Err(RoomError::invalid("the `text` of a chat must not be empty")),
                false => Ok(()),
            }
        }
        Some(BaseKind::McpResponse) if draft.correlation.is_empty() => {
            let detail = "a response must name its request in `correlation_id`";
            Err(RoomError::invalid(detail))
        }
        _ => Ok(()),
    }
}

/// Returns the participant that a grant, a revocation, an invitation or a kick names.
fn changed_participant(draft: &Draft) -> Option<Box<str>> {
    #[derive(Deserialize)]
    struct ParticipantPayload {
        recipient: Option<Box<str>>,
        participant_id: Option<Box<str>>,
    }
    let payload: ParticipantPayload = serde_json::from_str(draft.payload.as_ref()?.get()).ok()?;
    match draft.kind.base() {
        Some(BaseKind::CapabilityGrant | BaseKind::CapabilityRevoke) => payload.recipient,
        _ => payload.participant_id,
    }
}

/// Whether the CONTEXT of a response is the name in its result. Some clients write it there; it
/// does not refer to the request.
fn kind_names_result(draft: &Draft) -> bool {
    #[derive(Deserialize)]
    struct NamedResult {
        name: String,
    }
    let Some(context) = draft.kind.context() else { return false };
    let response = draft.payload.as_ref().and_then(|payload| RawMessage::parse(payload.get()));
    let result = response.and_then(|response| response.result);
    let result = result.and_then(|raw| serde_json::from_str::<NamedResult>(raw.get()).ok());
    result.is_some_and(|result| result.name == context)
}

/// Infers the kind from the payload for the oldest clients, which send the kind `mcp`.
fn infer_mcp_kind(payload: Option<&RawValue>) -> BaseKind {
    match payload.and_then(|payload| RawMessage::parse(payload.get())) {
        Some(RawMessage { method: None, .. }) => BaseKind::McpResponse,
        _ => BaseKind::McpRequest,
    }
}
