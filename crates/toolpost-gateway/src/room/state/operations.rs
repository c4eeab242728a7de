//! The operations of the registry as a participant: what they are asked, answer and tell, and what is
//! canceled.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::effect::Call;
use super::{Effect, Room, TOOLPOST};
use crate::room::message::{Draft, Kind, Message, upgraded};

impl Room {
    /// Hands a request to the operations of the registry where it is meant for them, and answers for
    /// those who do not know the question.
    pub(super) fn ask(&mut self, message: &Arc<Message>) {
        let (Some(method), Some(payload)) = (message.kind.method(), &message.payload) else {
            return;
        };
        if method.starts_with("notifications/") {
            return;
        }
        if method == "initialize" && self.greets_for(&message.to) {
            return self.greet(message);
        }
        let of_participant = || Some(Arc::clone(&self.present.get(&message.from)?.identity));
        let Some(identity) = self.deciding.clone().or_else(of_participant) else { return };
        if self.is_for_toolpost(&message.to) {
            self.effects.push(Effect::Call(Call {
                request: message.id.clone(),
                identity,
                payload: payload.clone(),
                is_addressed: !message.to.is_empty(),
            }));
        }
    }

    /// One family begins conversations with a handshake that the other has never heard of.
    fn greets_for(&self, to: &[Box<str>]) -> bool {
        let [one] = to else { return false };
        self.present.get(&**one).is_some_and(|participant| participant.protocol.is_mew())
    }

    fn greet(&mut self, request: &Message) {
        let name = request.to.first().cloned().unwrap_or_default();
        let result = json!({"result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "0"},
        }});
        let Ok(payload) = serde_json::value::to_raw_value(&result) else { return };
        let id = request.id.clone();
        self.answer(&id, super::GATEWAY, payload);
    }

    /// The operations of the registry have answered.
    pub(super) fn answered(&mut self, request: &str, payload: Box<RawValue>) {
        self.answer(request, TOOLPOST, payload);
    }

    fn answer(&mut self, request: &str, from: &str, payload: Box<RawValue>) {
        let Some(asked) = self.requests.get(request) else { return };
        let payload = self.bounded_answer(asked.rpc_id.as_deref(), payload);
        let context = asked.context(request).ending(Some(&payload));
        let kind = Kind::response(&asked.asked);
        let mut to = vec![Box::from(&*asked.from)];
        to.extend(
            context
                .proposer
                .as_ref()
                .filter(|who| **who != asked.from)
                .map(|who| Box::from(&**who)),
        );
        let message = Message {
            kind,
            from: from.into(),
            context_of: Some(context),
            payload: Some(payload),
            ..self.own("mcp/response", to, vec![request.into()], &Value::Null)
        };
        self.requests.answered(&message);
        let message = self.deliver(message, None, None);
        self.follow_kind(&message, None);
    }

    /// Whoever asked the operations of a process that has ended is told so.
    pub(super) fn answer_for_those_who_ended(&mut self) {
        for request in std::mem::take(&mut self.unanswered) {
            let id = self.requests.get(&request).and_then(|request| request.rpc_id.clone());
            let words = "the gateway ended before it had answered; ask again";
            let error = json!({"code": -32_000, "message": words});
            let error = json!({"jsonrpc": "2.0", "id": id, "error": error});
            if let Ok(payload) = serde_json::value::to_raw_value(&error) {
                self.answer(&request, TOOLPOST, payload);
            }
        }
    }

    /// An answer that is a message as any other may be; else that it is too large.
    fn bounded_answer(&self, id: Option<&RawValue>, payload: Box<RawValue>) -> Box<RawValue> {
        let (bytes, most) = (payload.get().len(), self.settings.message_bytes);
        if bytes <= most {
            return payload;
        }
        let words =
            format!("the answer has {bytes} bytes, and a message of this room at most {most}");
        let error =
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32_000, "message": words}});
        serde_json::value::to_raw_value(&error).unwrap_or(payload)
    }

    /// They tell something while they work: to the one who asked, and it is not kept.
    pub(super) fn noted(&mut self, request: &str, payload: Box<RawValue>) {
        let Some(asked) = self.requests.get(request) else { return };
        let who = Arc::clone(&asked.from);
        let Some(to) = self.present.get(&who).map(super::Participant::alone) else { return };
        let kind = upgraded(Kind::plain("mcp/notification"), Some(&payload));
        let message = Message {
            kind: kind.unwrap_or_else(|_| Kind::plain("mcp/notification")),
            from: TOOLPOST.into(),
            payload: Some(payload),
            ..self.own(
                "mcp/notification",
                vec![Box::from(&*who)],
                vec![request.into()],
                &Value::Null,
            )
        };
        self.tell(message, to);
    }

    /// The request that somebody does not want to be answered any more, if it is his.
    pub(super) fn cancelled(&self, who: &str, draft: &Draft) -> Option<Box<str>> {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow)]
            params: Option<Params<'a>>,
        }
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "requestId")]
            request_id: Option<&'a RawValue>,
        }
        if draft.kind.method() != Some("notifications/cancelled") {
            return None;
        }
        let is_own = |id: &str| self.requests.get(id).is_some_and(|it| &*it.from == who);
        if let Some(id) = draft.correlation.iter().find(|id| is_own(id)) {
            return Some(id.clone());
        }
        let payload: Cancelled<'_> = serde_json::from_str(draft.payload.as_ref()?.get()).ok()?;
        let rpc_id = payload.params?.request_id?;
        self.requests.find(who, rpc_id).map(Into::into)
    }
}
