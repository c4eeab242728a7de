//! The operations of the registry as a participant: requests, responses, notifications and
//! cancellation.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use toolpost::json_rpc::{RawMessage, RpcError, RpcId, encode_response};

use super::{Effect, GATEWAY_PARTICIPANT, REGISTRY_PARTICIPANT, Room};
use crate::room::ToolResponse;
use crate::room::message::{
    BaseKind, Draft, MessageKind, RejectionCode, RoomMessage, quoted, upgrade_kind,
};

impl Room {
    /// Forwards a request to the registry if it is addressed to it or to all participants. Responds
    /// to `initialize` on behalf of `mew` participants, and to a request that no addressee can
    /// receive.
    pub(super) fn call_registry(
        &mut self,
        message: &Arc<RoomMessage>,
        consents_to: Option<Box<str>>,
    ) {
        let Some(method) = message.kind.method() else { return };
        if method.starts_with("notifications/") {
            return;
        }
        if method == "initialize"
            && let Some(result) = self.initialize_result(&message.to)
        {
            return self.send_response(&message.id, GATEWAY_PARTICIPANT, &Ok(result));
        }
        if let Err(error) = self.check_addressee_present(&message.to) {
            return self.send_response(&message.id, GATEWAY_PARTICIPANT, &Err(error));
        }
        let Some(identity) = self.identity_of(&message.from).cloned() else { return };
        if message.payload.is_some() && is_for_registry(&message.to) {
            self.effects.push(Effect::Call { message: Arc::clone(message), identity, consents_to });
        }
    }

    /// Checks that an addressee is in the room; otherwise the requester would wait for a response
    /// until its timeout.
    fn check_addressee_present(&self, to: &[Box<str>]) -> Result<(), RpcError> {
        if is_for_registry(to) || to.iter().any(|id| self.participants.contains_key(&**id)) {
            return Ok(());
        }
        let names: Vec<String> = to.iter().take(5).map(|id| quoted(id)).collect();
        let verb = if to.len() == 1 { "is" } else { "are" };
        let message = format!("{} {verb} not in the room; retry later", names.join(", "));
        let data = json!({"error": RejectionCode::ParticipantNotFound.as_str()});
        let error = RpcError::new(RpcError::OVERLOADED, message);
        Err(RpcError { data: Some(data), ..error })
    }

    /// Returns the result of `initialize` on behalf of a single addressee.
    fn initialize_result(&self, to: &[Box<str>]) -> Option<Box<RawValue>> {
        let [name] = to else { return None };
        self.participants.get(&**name)?.protocol.initialize_result(name)
    }

    /// Sends the response to a request, in the name of a participant of the gateway.
    pub(super) fn send_response(&mut self, request: &str, from: &str, result: &ToolResponse) {
        let Some(pending) = self.requests.get(request) else { return };
        let id = pending.rpc_id.clone().unwrap_or_else(|| request.into());
        let Some(payload) = self.encode_response(&id, result) else { return };
        let context = pending.response_context(request).with_outcome(Some(&payload));
        let kind = MessageKind::for_target(BaseKind::McpResponse, &pending.target);
        let mut to = vec![Box::from(&*pending.from)];
        let proposer = context.proposer.iter().filter(|proposer| **proposer != pending.from);
        to.extend(proposer.map(|proposer| Box::from(&**proposer)));
        let message = RoomMessage {
            kind,
            from: from.into(),
            to,
            context_of: Some(context),
            payload: Some(payload),
            ..self.gateway_message(BaseKind::McpResponse, &[], &[request], &Value::Null)
        };
        self.requests.record_response(&message);
        let message = self.deliver(message, None, None);
        self.run_kind_action(&message);
    }

    /// Fails the registry requests that an earlier process left without a response.
    pub(super) fn fail_orphaned_requests(&mut self) {
        for request in std::mem::take(&mut self.orphaned_requests) {
            let detail = "the gateway stopped before it responded; send the request again";
            let error = RpcError::new(RpcError::OVERLOADED, detail);
            self.send_response(&request, REGISTRY_PARTICIPANT, &Err(error));
        }
    }

    /// Encodes a response. One that exceeds the message size limit is replaced with an error.
    fn encode_response(&self, id: &RpcId, result: &ToolResponse) -> Option<Box<RawValue>> {
        let mut text = encode_response(id.as_json(), result.as_ref());
        let (bytes, max) = (text.len(), self.settings.max_message_bytes);
        if bytes > max {
            let detail =
                format!("the response has {bytes} bytes, and messages of this room at most {max}");
            let error = RpcError::new(RpcError::OVERLOADED, detail);
            text = encode_response(id.as_json(), Err::<&str, _>(&error));
        }
        RawValue::from_string(text).ok()
    }

    /// Sends a notification of a running call to its requester; it is not stored.
    pub(super) fn handle_call_notification(&mut self, request: &str, payload: Box<RawValue>) {
        let Some(pending) = self.requests.get(request) else { return };
        let (requester, context) = (Arc::clone(&pending.from), pending.response_context(request));
        let kind = upgrade_kind(MessageKind::from(BaseKind::McpNotification), Some(&payload));
        let message = RoomMessage {
            kind: kind.unwrap_or_else(|_| MessageKind::from(BaseKind::McpNotification)),
            from: REGISTRY_PARTICIPANT.into(),
            context_of: Some(context),
            payload: Some(payload),
            ..self.gateway_message(
                BaseKind::McpNotification,
                &[&requester],
                &[request],
                &Value::Null,
            )
        };
        self.send_to_addressees(message);
    }

    pub(super) fn canceled_request(&self, participant_id: &str, draft: &Draft) -> Option<Box<str>> {
        #[derive(Deserialize)]
        struct CancelParams<'a> {
            #[serde(borrow, rename = "requestId")]
            request_id: Option<&'a RawValue>,
        }
        if draft.kind.method() != Some("notifications/cancelled") {
            return None;
        }
        let is_own = |id: &str| {
            self.requests.get(id).is_some_and(|request| &*request.from == participant_id)
        };
        if let Some(id) = draft.correlation.iter().find(|id| is_own(id)) {
            return Some(id.clone());
        }
        let params = RawMessage::parse(draft.payload.as_ref()?.get())?.params?;
        let rpc_id = serde_json::from_str::<CancelParams<'_>>(params.get()).ok()?.request_id?;
        self.requests.find_by_rpc_id(participant_id, rpc_id).map(Into::into)
    }
}

/// Whether a message is addressed to the registry or to all participants.
pub(crate) fn is_for_registry(to: &[Box<str>]) -> bool {
    to.is_empty() || to.iter().any(|id| &**id == REGISTRY_PARTICIPANT)
}
