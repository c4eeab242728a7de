//! What the gateway itself says, and how things are handed over.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::shown::shown_to;
use super::stream::too_fast;
use super::{Effect, GATEWAY, Participant, Recipients, Refusal, Room, TOOLPOST};
use crate::room::capability::{Capabilities, Capability};
use crate::room::message::{Kind, Message, Protocol};

impl Room {
    /// A message of the gateway.
    pub(super) fn own(
        &mut self,
        kind: &str,
        to: Vec<Box<str>>,
        correlation: Vec<Box<str>>,
        payload: &Value,
    ) -> Message {
        Message {
            protocol: Protocol::Mew04,
            id: self.next_id(),
            ts: toolpost::timestamp(self.now).into(),
            from: GATEWAY.into(),
            to,
            kind: Kind::plain(kind),
            correlation,
            context: None,
            context_of: None,
            payload: Some(raw(payload)),
            extra: Vec::new(),
        }
    }

    /// Keeps a message and hands it to everybody, its sender included.
    pub(super) fn deliver(
        &mut self,
        message: Message,
        allowed_by: Option<Value>,
        keep: Option<String>,
    ) -> Arc<Message> {
        let message = Arc::new(message);
        self.history.add(Arc::clone(&message), &self.settings);
        let (told, to) = (Arc::clone(&message), Arc::clone(&self.everyone));
        self.effects.push(Effect::Deliver { message: told, to, allowed_by, keep });
        message
    }

    pub(super) fn tell(&mut self, message: Message, to: Recipients) {
        if !to.is_empty() {
            self.effects.push(Effect::Tell { message: Arc::new(message), to });
        }
    }

    pub(super) fn others(&self, who: &str) -> Recipients {
        let others = self.present.iter().filter(|(id, _)| &***id != who);
        others.map(|(_, one)| one.recipient()).collect()
    }

    /// Tells somebody who he is here and who else is.
    pub(super) fn welcome(&mut self, who: &Arc<str>, history: Option<usize>) {
        let Some(participant) = self.present.get(who) else { return };
        let (protocol, to) = (participant.protocol, participant.alone());
        let others = self.present.iter().filter(|(id, _)| *id != who);
        let mut participants: Vec<Value> =
            others.map(|(id, one)| described(id, &one.may, protocol)).collect();
        participants.push(described(TOOLPOST, &of_toolpost(), protocol));
        let payload = json!({
            "you": described(who, &participant.may, protocol),
            "participants": participants,
            "active_streams": self.streams.shown(),
        });
        let history = history.and_then(|most| self.written(most, protocol, &payload));
        let mut message = self.own("system/welcome", vec![Box::from(&**who)], Vec::new(), &payload);
        message.payload = history.or(message.payload);
        self.tell(message, to);
    }

    /// A payload with the last messages in it, each as it is.
    fn written(&self, most: usize, protocol: Protocol, payload: &Value) -> Option<Box<RawValue>> {
        let texts: Vec<String> = self.history.last(most).map(|it| it.write(protocol)).collect();
        let payload = payload.to_string();
        let open = payload.strip_suffix('}')?;
        RawValue::from_string(format!(r#"{open},"history":[{}]}}"#, texts.join(","))).ok()
    }

    /// Tells the others that somebody has come or gone, each family in its own words.
    pub(super) fn announce(&mut self, event: &str, who: &str, may: &Capabilities) {
        let others = self.others(who);
        for is_mew in [true, false] {
            let to: Recipients =
                others.iter().copied().filter(|one| one.protocol.is_mew() == is_mew).collect();
            let Some(protocol) = to.first().map(|one| one.protocol) else { continue };
            let payload = json!({"event": event, "participant": described(who, may, protocol)});
            let message = self.own("system/presence", Vec::new(), Vec::new(), &payload);
            self.tell(message, to);
        }
    }

    /// Tells somebody that what he said was refused, and nobody else.
    pub(super) fn refuse(
        &mut self,
        who: &Arc<str>,
        id: Option<Box<str>>,
        kind: &str,
        refusal: Refusal,
    ) {
        let refusal = self.bounded(who, refusal);
        let Some(participant) = self.present.get(who) else { return };
        let Participant { protocol, may, .. } = participant;
        let Refusal { error, message, details } = refusal;
        let mut payload = json!({"error": error, "attempted_kind": kind, "message": message});
        if error == "capability_violation" {
            payload["your_capabilities"] = shown_to(*protocol, may).into();
        }
        if let Some(payload) = payload.as_object_mut() {
            payload.extend(details);
        }
        let to = participant.alone();
        let about = id.clone().into_iter().collect();
        let told = self.own("system/error", vec![Box::from(&**who)], about, &payload);
        self.tell(told, to);
        let (who, kind) = (Arc::clone(who), kind.into());
        // A flood is not written down: it would fill the journal with nothing.
        if error != "rate_limited" {
            self.effects.push(Effect::Refused { who, id, kind, error, reason: message });
        }
    }

    /// The same refusal, unless somebody was refused too often: then that is what he is told.
    fn bounded(&mut self, who: &str, refusal: Refusal) -> Refusal {
        let (now, per_minute) = (self.now, self.settings.messages_per_minute);
        let Some(participant) = self.present.get_mut(who) else { return refusal };
        if refusal.error == "rate_limited" {
            return refusal;
        }
        match participant.spent.refusals.take(now, per_minute) {
            Ok(()) => refusal,
            Err(wait) => too_fast(wait, per_minute),
        }
    }
}

/// What the operations of the registry may say in a room: they answer.
fn of_toolpost() -> Capabilities {
    Capabilities::new(Capability::parse("mcp/response"))
}

fn described(id: &str, may: &Capabilities, protocol: Protocol) -> Value {
    json!({"id": id, "capabilities": shown_to(protocol, may)})
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value is JSON")
}
