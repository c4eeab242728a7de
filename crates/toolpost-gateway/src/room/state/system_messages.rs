//! Messages of the gateway itself, and message delivery.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::capability_format::format_capabilities;
use super::{
    Effect, GATEWAY_PARTICIPANT, Participant, REGISTRY_PARTICIPANT, Recipients, Room, RoomError,
};
use crate::room::capability::Capabilities;
use crate::room::message::{BaseKind, Protocol, RejectionCode, RoomMessage};

impl Room {
    pub(super) fn gateway_message(
        &mut self,
        kind: BaseKind,
        to: &[&str],
        correlation: &[&str],
        payload: &Value,
    ) -> RoomMessage {
        RoomMessage {
            protocol: Protocol::default(),
            id: self.next_message_id(),
            ts: toolpost::timestamp(self.now).into(),
            from: GATEWAY_PARTICIPANT.into(),
            to: to.iter().copied().map(Box::from).collect(),
            kind: kind.into(),
            correlation: correlation.iter().copied().map(Box::from).collect(),
            context: None,
            context_of: None,
            payload: Some(to_raw(payload)),
            extra: Vec::new(),
        }
    }

    /// Stores a message and delivers it to all participants that receive its kind, including the
    /// sender.
    pub(super) fn deliver(
        &mut self,
        message: RoomMessage,
        allowed_by: Option<Value>,
        snapshot: Option<String>,
    ) -> Arc<RoomMessage> {
        let message = Arc::new(message);
        self.history.add(Arc::clone(&message), &self.settings);
        let (outgoing, to) = (Arc::clone(&message), self.recipients_of(&message.kind));
        let sender = self.sender_key(&message.from);
        self.effects.push(Effect::Deliver { message: outgoing, sender, to, allowed_by, snapshot });
        message
    }

    pub(super) fn send(&mut self, message: RoomMessage, to: Recipients) {
        if !to.is_empty() {
            self.effects.push(Effect::Send { message: Arc::new(message), to });
        }
    }

    pub(super) fn send_to_addressees(&mut self, message: RoomMessage) {
        let present = message.to.iter().filter_map(|id| self.participants.get(&**id));
        let to = present.map(Participant::recipient).collect();
        self.send(message, to);
    }

    pub(super) fn other_recipients(&self, participant_id: &str) -> Recipients {
        let others = self.participants.iter().filter(|(id, _)| &***id != participant_id);
        others.map(|(_, participant)| participant.recipient()).collect()
    }

    /// Sends a participant its id, its capabilities and the other participants.
    pub(super) fn send_welcome(&mut self, participant_id: &str, history: Option<usize>) {
        let Some(participant) = self.participants.get(participant_id) else { return };
        let protocol = participant.protocol;
        let others = self.participants.iter().filter(|(id, _)| &***id != participant_id);
        let mut participants: Vec<Value> = others
            .map(|(id, other)| describe_participant(id, &other.capabilities, protocol))
            .collect();
        let registry = Capabilities::parse_all(&["mcp/response"]);
        participants.push(describe_participant(REGISTRY_PARTICIPANT, &registry, protocol));
        let mut payload = json!({
            "you": describe_participant(participant_id, &participant.capabilities, protocol),
            "participants": participants,
            "active_streams": self.streams.describe(),
        });
        let (max_bytes, kinds) = (self.settings.max_welcome_bytes, participant.kinds.as_ref());
        let history = history.and_then(|limit| {
            let (messages, is_truncated) = self.history.last(limit, max_bytes, kinds);
            if is_truncated {
                payload["history_truncated"] = true.into();
            }
            payload_with_history(&messages, protocol, &payload)
        });
        let mut message =
            self.gateway_message(BaseKind::SystemWelcome, &[participant_id], &[], &payload);
        message.payload = history.or(message.payload);
        self.send_to_addressees(message);
    }

    /// Announces a join or leave to the other participants, in the format of each protocol family.
    pub(super) fn announce_presence(
        &mut self,
        event: &str,
        participant_id: &str,
        capabilities: &Capabilities,
    ) {
        let others = self.other_recipients(participant_id);
        for is_mew in [true, false] {
            let to: Recipients = others
                .iter()
                .copied()
                .filter(|recipient| recipient.protocol.is_mew() == is_mew)
                .collect();
            let Some(protocol) = to.first().map(|recipient| recipient.protocol) else { continue };
            let payload = json!({"event": event, "participant": describe_participant(participant_id, capabilities, protocol)});
            let message = self.gateway_message(BaseKind::SystemPresence, &[], &[], &payload);
            self.send(message, to);
        }
    }

    /// Sends an error to the participant whose message was rejected, and to no other. `kind` is the
    /// kind as sent, which the error repeats for `mew`; `mcpx` and the journal get the full kind.
    pub(super) fn reject(
        &mut self,
        participant_id: &Arc<str>,
        id: Option<Box<str>>,
        kind: &str,
        rejection: RoomError,
    ) {
        let rejection = self.rate_limit_rejection(participant_id, rejection);
        let Some(participant) = self.participants.get(participant_id) else { return };
        let Participant { protocol, capabilities: may, .. } = participant;
        let RoomError { code: error, message, kind: full, details } = rejection;
        let full = full.unwrap_or_else(|| kind.into());
        let kind = if protocol.is_mew() { kind } else { &full };
        let mut payload =
            json!({"error": error.as_str(), "attempted_kind": kind, "message": message});
        if error == RejectionCode::CapabilityViolation {
            payload["your_capabilities"] = format_capabilities(*protocol, may).into();
        }
        if let Some(payload) = payload.as_object_mut() {
            payload.extend(details);
        }
        let about: &[&str] = match &id {
            Some(id) => &[id],
            None => &[],
        };
        let outgoing =
            self.gateway_message(BaseKind::SystemError, &[participant_id], about, &payload);
        self.send_to_addressees(outgoing);
        // Rate-limited messages are not journaled, so that they cannot flood the journal.
        if error != RejectionCode::RateLimited {
            self.effects.push(Effect::RecordRejection {
                sender: self.sender_key(participant_id),
                id,
                kind: full,
                error,
                reason: message,
            });
        }
    }

    /// Returns the error, or `rate_limited` if too many messages of the participant were rejected.
    fn rate_limit_rejection(&mut self, participant_id: &str, rejection: RoomError) -> RoomError {
        let (now, per_minute) = (self.now, self.settings.messages_per_minute);
        let Some(participant) = self.participants.get_mut(participant_id) else { return rejection };
        if rejection.code == RejectionCode::RateLimited {
            return rejection;
        }
        participant.usage.rejections.acquire(now, per_minute).err().unwrap_or(rejection)
    }
}

/// Returns the payload with the messages, which are newest first, added as `history`, oldest first
/// and encoded for the protocol.
fn payload_with_history(
    messages: &[Arc<RoomMessage>],
    protocol: Protocol,
    payload: &Value,
) -> Option<Box<RawValue>> {
    let texts: Vec<String> =
        messages.iter().rev().map(|message| message.encode(protocol)).collect();
    let payload = payload.to_string();
    let open = payload.strip_suffix('}')?;
    RawValue::from_string(format!(r#"{open},"history":[{}]}}"#, texts.join(","))).ok()
}

fn describe_participant(id: &str, capabilities: &Capabilities, protocol: Protocol) -> Value {
    json!({"id": id, "capabilities": format_capabilities(protocol, capabilities)})
}

pub(super) fn to_raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value is JSON")
}
