//! Handling of a message: sender, kind, capability and limits, then delivery and effects.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toolpost::json_rpc::{RawMessage, RpcId};

use super::handle_grant::{GrantPayload, RevokePayload, parse_payload};
use super::membership::{InvitePayload, KickPayload};
use super::stream::{StreamAccessChange, StreamRequestPayload};
use super::{ConnectionId, DisconnectCause, Effect, Room, RoomError};
use crate::auth::Token;
use crate::room::capability::CapabilityRequest;
use crate::room::message::{
    BaseKind, Draft, MessageKind, MessageParseError, Protocol, RejectionCode, ResponseContext,
    ResponseOutcome, RoomMessage, quoted, upgrade_kind, upgrade_response_kind,
};

struct ParsedMessage {
    draft: Draft,
    context: Option<ResponseContext>,
    rpc_id: Option<RpcId>,
}

enum MessageAction {
    Nothing,
    /// The proposal of another participant that the request repeats.
    Request {
        consents_to: Option<Box<str>>,
    },
    Cancel(Box<str>),
    Grant(GrantPayload),
    Revoke(RevokePayload),
    Invite(InvitePayload),
    Kick(KickPayload),
    OpenStream(StreamRequestPayload),
    CloseStream(Box<str>),
    /// The message is not relayed; the gateway announces the result instead.
    ChangeStreamAccess(StreamAccessChange),
}

impl Room {
    pub(super) fn receive(
        &mut self,
        connection: ConnectionId,
        draft: Result<Box<Draft>, MessageParseError>,
    ) {
        // Messages of a replaced connection are ignored.
        let Some(sender) = self.connections.get(&connection).cloned() else { return };
        match draft {
            Ok(draft) => {
                let (id, kind) = (draft.id.clone(), self.attempted_kind(&sender, &draft));
                if let Err(rejection) = self.handle(&sender, *draft) {
                    self.reject(&sender, id, kind.full(), rejection);
                }
            }
            Err(mut error) => {
                let (id, kind) = (error.id.take(), error.kind.take().unwrap_or_default());
                self.reject(&sender, id.map(Into::into), &kind, error.into());
            }
        }
    }

    /// The attempted kind, in the form of the sender's protocol family.
    fn attempted_kind(&self, sender: &str, draft: &Draft) -> MessageKind {
        let participant = self.participants.get(sender);
        let is_mew = participant.is_none_or(|participant| participant.protocol.is_mew());
        if is_mew || draft.kind.method().is_some() {
            return draft.kind.clone();
        }
        let upgraded = upgrade_kind(draft.kind.clone(), draft.payload.as_deref());
        upgraded.unwrap_or_else(|_| draft.kind.clone())
    }

    fn handle(&mut self, sender: &Arc<str>, draft: Draft) -> Result<(), RoomError> {
        self.update_protocol(sender, draft.protocol);
        check_sender(sender, &draft)?;
        // Keepalive messages of clients are ignored.
        if let Some(BaseKind::SystemHeartbeat | BaseKind::SystemPong) = draft.kind.base() {
            return Ok(());
        }
        check_kind(&draft.kind)?;
        let parsed = self.parse_message(sender, draft)?;
        let allowed_by = self.check_capability(sender, &parsed.draft)?;
        self.check_limits(sender, &parsed.draft)?;
        self.apply_message(sender, parsed, allowed_by)
    }

    /// Handles a message on behalf of an approver whose capability was already checked.
    pub(super) fn handle_on_behalf(
        &mut self,
        sender: &Arc<str>,
        draft: Draft,
    ) -> Result<(), RoomError> {
        let parsed = self.parse_message(sender, draft)?;
        self.apply_message(sender, parsed, None)
    }

    /// Resolves the full kind and checks it against the payload.
    fn parse_message(
        &self,
        sender: &Arc<str>,
        mut draft: Draft,
    ) -> Result<ParsedMessage, RoomError> {
        if draft.kind.base() == Some(BaseKind::Mcp) {
            draft.kind = infer_mcp_kind(draft.payload.as_deref()).into();
        }
        check_payload(&draft)?;
        let mut about = None;
        match draft.kind.base() {
            Some(
                base @ (BaseKind::McpRequest | BaseKind::McpProposal | BaseKind::McpNotification),
            ) => {
                draft.kind = upgrade_kind(draft.kind, draft.payload.as_deref())?;
                if base != BaseKind::McpNotification && draft.kind.method().is_none() {
                    let detail = "the payload of a request or a proposal must have a `method`";
                    return Err(RoomError::invalid(detail));
                }
            }
            Some(BaseKind::McpResponse) => {
                let (kind, context) = self.resolve_response(sender, &draft)?;
                draft.kind = kind;
                about = Some(context);
            }
            Some(BaseKind::McpReject | BaseKind::McpWithdraw) => {
                about = Some(self.closing_proposal_context(&draft)?);
            }
            _ => {}
        }
        let payload = draft.payload.as_ref().and_then(|payload| RawMessage::parse(payload.get()));
        let rpc_id = payload.and_then(|payload| RpcId::from_raw(payload.id?));
        Ok(ParsedMessage { draft, context: about, rpc_id })
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

    fn check_capability(&self, sender: &str, draft: &Draft) -> Result<Option<Value>, RoomError> {
        let Some(participant) = self.participants.get(sender) else { return Ok(None) };
        let (kind, payload) = (draft.kind.full(), draft.payload.as_deref());
        match participant.capabilities.check(&CapabilityRequest::new(kind, payload)) {
            Ok(by) => Ok(Some(by.value().clone())),
            Err(_) if self.is_implicitly_allowed(sender, draft) => Ok(None),
            Err(reason) => Err(reason.into()),
        }
    }

    /// Whether no capability is needed: withdrawing an own proposal, acknowledging a grant, responding to
    /// a status request, closing an own stream.
    fn is_implicitly_allowed(&self, sender: &str, draft: &Draft) -> bool {
        match draft.kind.base() {
            Some(BaseKind::McpWithdraw) => self.is_proposer(sender, draft),
            Some(BaseKind::CapabilityGrantAck) => {
                let grants = self.grants.get(sender).map(|record| record.grants.as_slice());
                let mut grants = grants.unwrap_or_default().iter();
                grants.any(|grant| draft.correlation.contains(&grant.id))
            }
            Some(BaseKind::ParticipantStatus | BaseKind::ParticipantCompactDone) => {
                let is_control = |message: &&Arc<RoomMessage>| {
                    draft.correlation.contains(&message.id)
                        && message.kind.short().starts_with("participant/")
                        && message.to.iter().any(|to| &**to == sender)
                };
                self.history.latest(usize::MAX).any(|message| is_control(&message))
            }
            Some(BaseKind::StreamClose) => self.check_stream_close(sender, draft).is_ok(),
            _ => false,
        }
    }

    fn check_limits(&mut self, sender: &str, draft: &Draft) -> Result<(), RoomError> {
        let (now, per_minute) = (self.now, self.settings.messages_per_minute);
        let Some(participant) = self.participants.get_mut(sender) else { return Ok(()) };
        participant.usage.messages.acquire(now, per_minute)?;
        let connection = participant.connection;
        self.check_not_paused(sender, &draft.kind)?;
        if draft.id.as_deref().is_some_and(|id| self.is_id_in_use(id, sender, connection)) {
            let detail = "a message with this `id` was already sent; ids must be unique";
            return Err(RejectionCode::DuplicateId.error(detail));
        }
        Ok(())
    }

    /// Whether the id is taken: used on this connection, used by another participant, or still
    /// needed by an open proposal or a pending request.
    fn is_id_in_use(&self, id: &str, sender: &str, connection: ConnectionId) -> bool {
        let is_foreign = self.requests.get(id).is_some_and(|request| &*request.from != sender)
            || self.proposals.get(id).is_some_and(|proposal| &*proposal.from != sender);
        let is_needed =
            self.proposals.is_open(id) || self.requests.is_awaiting_response(id, self.now);
        is_foreign || is_needed || self.message_ids.is_in_use(id, sender, connection)
    }

    fn plan_action(
        &self,
        sender: &Arc<str>,
        parsed: &ParsedMessage,
    ) -> Result<MessageAction, RoomError> {
        let draft = &parsed.draft;
        let Some(kind) = draft.kind.base() else { return Ok(MessageAction::Nothing) };
        Ok(match kind {
            BaseKind::McpRequest | BaseKind::McpNotification => {
                let consents_to = self.check_fulfillment(sender, draft)?;
                self.canceled_request(sender, draft)
                    .map_or(MessageAction::Request { consents_to }, MessageAction::Cancel)
            }
            BaseKind::McpProposal => {
                self.proposals.check_capacity(sender)?;
                MessageAction::Nothing
            }
            BaseKind::McpWithdraw if !self.is_proposer(sender, draft) => {
                let detail = "only the proposer can withdraw a proposal; send `mcp/reject` instead";
                return Err(RejectionCode::NotProposer.error(detail));
            }
            BaseKind::CapabilityGrant => MessageAction::Grant(self.check_grant(sender, draft)?),
            BaseKind::CapabilityRevoke => MessageAction::Revoke(self.check_revoke(sender, draft)?),
            BaseKind::SpaceInvite => MessageAction::Invite(self.check_invite(sender, draft)?),
            BaseKind::SpaceKick => MessageAction::Kick(self.check_kick(sender, draft)?),
            BaseKind::StreamRequest => MessageAction::OpenStream(self.check_stream_request(draft)?),
            BaseKind::StreamClose => {
                MessageAction::CloseStream(self.check_stream_close(sender, draft)?)
            }
            BaseKind::StreamGrantWrite
            | BaseKind::StreamRevokeWrite
            | BaseKind::StreamTransferOwnership => MessageAction::ChangeStreamAccess(
                self.check_stream_access_change(sender, kind, draft)?,
            ),
            kind => {
                self.check_control(sender, kind, draft)?;
                MessageAction::Nothing
            }
        })
    }

    fn apply_message(
        &mut self,
        sender: &Arc<str>,
        parsed: ParsedMessage,
        allowed_by: Option<Value>,
    ) -> Result<(), RoomError> {
        let action = self.plan_action(sender, &parsed)?;
        let rpc_id = parsed.rpc_id;
        let mut message = self.build_message(sender, parsed.draft, parsed.context);
        let connection =
            self.participants.get(sender).map_or(0, |participant| participant.connection);
        self.message_ids.add(&message.id, sender, connection);
        if let MessageAction::ChangeStreamAccess(change) = &action {
            self.apply_stream_access_change(change, (sender, &message.id));
            return Ok(());
        }
        self.set_recipients(&mut message, &action);
        self.track_message(&message, rpc_id);
        let (snapshot, token) = self.apply_grant_changes(&action, &message);
        let message = self.deliver(message, allowed_by, snapshot);
        self.run_action(action, &message, token.as_ref());
        Ok(())
    }

    fn build_message(
        &mut self,
        sender: &Arc<str>,
        draft: Draft,
        about: Option<ResponseContext>,
    ) -> RoomMessage {
        let protocol = self
            .participants
            .get(sender)
            .map_or_else(Protocol::default, |participant| participant.protocol);
        let id = if draft.id.is_some() { Box::default() } else { self.next_message_id() };
        let ts = toolpost::timestamp(self.now).into();
        let message = draft.complete(Arc::clone(sender), protocol, id, ts);
        RoomMessage { context_of: about, ..message }
    }

    /// Completes `to` and `correlation_id`. Otherwise some clients would ignore the message, or
    /// every client would apply it.
    fn set_recipients(&self, message: &mut RoomMessage, action: &MessageAction) {
        match action {
            MessageAction::Grant(GrantPayload { recipient, .. })
            | MessageAction::Revoke(RevokePayload { recipient, .. }) => {
                message.to = vec![recipient.clone()];
            }
            MessageAction::CloseStream(id) if message.correlation.is_empty() => {
                message.correlation.extend(self.open_message_id(id));
            }
            _ => {}
        }
        // A response to a fulfilled proposal also goes to the proposer.
        let proposer = message.context_of.as_ref().and_then(|context| context.proposer.as_deref());
        if let Some(proposer) =
            proposer.filter(|_| message.kind.base() == Some(BaseKind::McpResponse))
            && !message.to.is_empty()
            && !message.to.iter().any(|to| &**to == proposer)
        {
            message.to.push(proposer.into());
        }
    }

    /// Returns the document to store and the token of a new invitation.
    fn apply_grant_changes(
        &mut self,
        action: &MessageAction,
        message: &RoomMessage,
    ) -> (Option<String>, Option<Token>) {
        let mut token = None;
        match action {
            MessageAction::Grant(grant) => self.grant(grant.clone(), &message.id, &message.from),
            MessageAction::Revoke(revoke) => self.revoke(revoke),
            MessageAction::Invite(invite) => token = self.invite(invite, &message.from),
            MessageAction::Kick(kick) => self.kick(kick, &message.from),
            _ => return (None, None),
        }
        (Some(self.grants.snapshot(&message.id)), token)
    }

    fn run_action(
        &mut self,
        action: MessageAction,
        message: &Arc<RoomMessage>,
        token: Option<&Token>,
    ) {
        match action {
            MessageAction::Nothing => self.run_kind_action(message),
            MessageAction::Request { consents_to } => {
                if message.kind.base() == Some(BaseKind::McpRequest) {
                    self.call_registry(message, consents_to);
                }
            }
            MessageAction::Cancel(request) => self.effects.push(Effect::Cancel { request }),
            MessageAction::Grant(grant) => self.send_welcome(&grant.recipient, None),
            MessageAction::Revoke(revoke) => {
                self.send_welcome(&revoke.recipient, None);
                self.close_streams_unless_allowed(&revoke.recipient);
            }
            MessageAction::Invite(invite) => {
                self.announce_invitation(&invite, (&message.from, &message.id), token);
            }
            MessageAction::Kick(kick) => {
                // The kick message was delivered to the participant before.
                self.disconnect(&kick.participant_id, DisconnectCause::Kicked);
            }
            MessageAction::OpenStream(stream_request) => self.open_stream(stream_request, message),
            MessageAction::CloseStream(id) => drop(self.close_stream(&id)),
            MessageAction::ChangeStreamAccess(_) => {}
        }
    }

    pub(super) fn run_kind_action(&mut self, message: &RoomMessage) {
        match message.kind.base() {
            Some(BaseKind::McpResponse) => {
                let Some(context) = &message.context_of else { return };
                let outcome = context.outcome.map_or("result", ResponseOutcome::as_str);
                let reply = Some((&*message.id, outcome));
                self.notify_proposer(context, "fulfilled", &message.from, reply);
            }
            Some(BaseKind::McpReject) => {
                let Some(context) = &message.context_of else { return };
                self.notify_proposer(context, "rejected", &message.from, None);
            }
            _ => self.apply_control(message),
        }
    }
}

fn check_sender(sender: &str, draft: &Draft) -> Result<(), RoomError> {
    match &draft.from {
        Some(from) if &**from != sender => {
            let detail = format!("you are `{sender}` and cannot send as {}", quoted(from));
            Err(RejectionCode::AuthViolation.error(detail))
        }
        _ => Ok(()),
    }
}

fn check_kind(kind: &MessageKind) -> Result<(), RoomError> {
    let base = kind.short();
    if base == "system" || base.starts_with("system/") || base.starts_with("system:") {
        let detail = "`system/…` is reserved for the gateway; no capability covers it";
        return Err(RejectionCode::CapabilityViolation.error(detail));
    }
    if kind.base().is_some_and(BaseKind::is_reserved) || base.starts_with("stream/data/") {
        let detail = format!("{} is reserved for the gateway", quoted(base));
        return Err(RejectionCode::CapabilityViolation.error(detail));
    }
    // Clients use single names without a slash for their own events.
    if !base.contains('/') && kind.base().is_none() {
        let detail = format!(
            "{} is not a valid kind; kinds look like `chat` or `mcp/request`",
            quoted(base)
        );
        return Err(RoomError::invalid(detail));
    }
    Ok(())
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
