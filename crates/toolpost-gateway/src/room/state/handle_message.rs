//! Handling of a message: sender, kind, capability and limits, then delivery and effects.

use std::sync::Arc;

use serde_json::Value;

use super::handle_grant::{GrantPayload, RevokePayload};
use super::membership::{Invite, KickPayload};
use super::parse_message::ParsedMessage;
use super::stream::{StreamAccessChange, StreamRequestPayload};
use super::{ConnectionId, DisconnectCause, Effect, Room, RoomError};
use crate::room::capability::CapabilityRequest;
use crate::room::message::{
    BaseKind, Draft, MessageKind, MessageParseError, Protocol, RejectionCode, ResponseContext,
    ResponseOutcome, RoomMessage, quoted,
};

enum MessageAction {
    Nothing,
    /// The proposal of another participant that the request repeats.
    Request {
        consents_to: Option<Box<str>>,
    },
    Cancel(Box<str>),
    Grant(GrantPayload),
    Revoke(RevokePayload),
    Invite(Invite),
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
                let (id, kind) = (draft.id.clone(), draft.kind.clone());
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

    fn handle(&mut self, sender: &Arc<str>, draft: Draft) -> Result<(), RoomError> {
        self.update_protocol(sender, draft.protocol);
        check_sender(sender, &draft)?;
        // Keepalive messages of clients are ignored.
        if let Some(BaseKind::SystemHeartbeat | BaseKind::SystemPong) = draft.kind.base() {
            return Ok(());
        }
        check_kind(&draft.kind)?;
        let parsed = self.parse_message(sender, draft)?;
        let of_kind = |error: RoomError| error.of_kind(&parsed.draft.kind);
        self.check_short_kind(&parsed).map_err(of_kind)?;
        let allowed_by = self.check_capability(sender, &parsed.draft).map_err(of_kind)?;
        self.check_limits(sender, &parsed.draft).map_err(of_kind)?;
        self.send_short_kind_notice(sender, &parsed);
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

    fn check_capability(&self, sender: &str, draft: &Draft) -> Result<Option<Value>, RoomError> {
        let Some(participant) = self.participants.get(sender) else { return Ok(None) };
        let (kind, payload) = (draft.kind.full(), draft.payload.as_deref());
        let request = CapabilityRequest::new(kind, payload).with_addressees(&draft.to);
        match participant.capabilities.check(&request) {
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
                self.history.iter().any(|message| is_control(&message))
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
        let action = self.plan_action(sender, &parsed);
        let action = action.map_err(|error| error.of_kind(&parsed.draft.kind))?;
        let rpc_id = parsed.rpc_id;
        let mut message = self.build_message(sender, parsed.draft, parsed.context);
        let connection =
            self.participants.get(sender).map_or(0, |participant| participant.connection);
        self.message_ids.add(&message.id, sender, connection);
        if let MessageAction::ChangeStreamAccess(change) = &action {
            self.apply_stream_access_change(change, (sender, &message.id));
            return Ok(());
        }
        self.complete_response(&mut message, &action);
        self.track_message(&message, rpc_id);
        let snapshot = self.apply_grant_changes(&action, &message);
        let message = self.deliver(message, allowed_by, snapshot);
        self.run_action(action, &message);
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

    /// Completes `correlation_id` and the addressees of a response. Otherwise some clients would
    /// ignore the message.
    fn complete_response(&self, message: &mut RoomMessage, action: &MessageAction) {
        if let MessageAction::CloseStream(id) = action
            && message.correlation.is_empty()
        {
            message.correlation.extend(self.open_message_id(id));
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

    /// Returns the document to store.
    fn apply_grant_changes(
        &mut self,
        action: &MessageAction,
        message: &RoomMessage,
    ) -> Option<String> {
        match action {
            MessageAction::Grant(grant) => self.grant(grant.clone(), &message.id, &message.from),
            MessageAction::Revoke(revoke) => self.revoke(revoke),
            MessageAction::Invite(invite) => self.invite(invite, &message.from),
            MessageAction::Kick(kick) => self.kick(kick, &message.from),
            _ => return None,
        }
        Some(self.grants.snapshot(&message.id))
    }

    fn run_action(&mut self, action: MessageAction, message: &Arc<RoomMessage>) {
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
                self.announce_invitation(&invite, (&message.from, &message.id));
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
