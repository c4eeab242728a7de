//! A complete room message and its encodings.

use std::sync::Arc;

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde::{Deserialize, Serialize as DeriveSerialize};
use serde_json::value::RawValue;
use toolpost::json::error_message;
use toolpost::json_rpc::RawMessage;

use super::base_kind::BaseKind;
use super::draft::{self, Draft, Extra, MessageParseError};
use super::kind::MessageKind;
use super::protocol::Protocol;

/// Minimum size of a payload in bytes that is shared instead of copied.
const MIN_SHARED_BYTES: usize = 4 * 1024;

/// Members with a defined meaning, in encoding order.
const KNOWN_MEMBERS: [&str; 10] = [
    "protocol",
    "id",
    "ts",
    "from",
    "to",
    "kind",
    "correlation_id",
    "context",
    "context_of",
    "payload",
];

/// A complete message with its full kind.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RoomMessage {
    /// Protocol of the sender.
    pub protocol: Protocol,
    /// Message id, which responses refer to.
    pub id: Box<str>,
    /// Time of sending.
    pub ts: Box<str>,
    /// Authenticated sender.
    pub from: Arc<str>,
    /// Addressees; empty for all participants.
    pub to: Vec<Box<str>>,
    /// The full kind.
    pub kind: MessageKind,
    /// Ids of the messages that it responds to or belongs to, most relevant first.
    pub correlation: Vec<Box<str>>,
    /// Thread of the message, as received.
    pub context: Option<Box<RawValue>>,
    /// The request that a response belongs to.
    pub context_of: Option<ResponseContext>,
    /// Payload, byte for byte.
    pub payload: Option<Box<RawValue>>,
    /// Unknown members. They never replace a known member.
    pub extra: Extra,
}

/// The request of a response, so that the response is self-contained.
#[derive(Debug, Clone, PartialEq, Eq, DeriveSerialize, Deserialize)]
#[non_exhaustive]
pub struct ResponseContext {
    /// The requested method.
    pub method: Box<str>,
    /// The requested tool, resource, prompt or completion reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// The id of the request.
    pub request_id: Box<str>,
    /// Participant that sent the request.
    pub from: Arc<str>,
    /// The proposal that the request fulfilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_id: Option<Box<str>>,
    /// Participant that made the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposer: Option<Arc<str>>,
    /// The outcome of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ResponseOutcome>,
}

impl ResponseContext {
    /// Sets the outcome from the payload of the response.
    #[must_use]
    pub fn with_outcome(mut self, payload: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        struct NamedToolResult {
            #[serde(default, rename = "isError")]
            is_error: bool,
        }
        let response = payload.and_then(|payload| RawMessage::parse(payload.get()));
        let Some(RawMessage { error, result, .. }) = response else { return self };
        // A failed tool call reports `isError` in its result.
        let tool: Option<NamedToolResult> =
            result.and_then(|result| serde_json::from_str(result.get()).ok());
        let has_failed = error.is_some() || tool.unwrap_or_default().is_error;
        self.outcome =
            Some(if has_failed { ResponseOutcome::Error } else { ResponseOutcome::Result });
        self
    }
}

impl ResponseOutcome {
    /// The encoded name, `result` or `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
        }
    }
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DeriveSerialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResponseOutcome {
    /// The response has a `result`.
    Result,
    /// The response has an `error`, or its result has `isError`.
    Error,
}

impl RoomMessage {
    /// Encodes the message for a protocol family. `mcpx` uses the full kind and one correlation,
    /// `mew` the short kind and a list. The payload is copied unchanged, except that `mcpx`
    /// requests get missing `jsonrpc` and `id` members and an absent payload becomes `{}`.
    pub fn encode(&self, protocol: Protocol) -> String {
        let (is_stored, without_payload) = (false, false);
        MessageEncoder { message: self, protocol, is_stored, without_payload }.to_json()
    }

    /// Encodes a message in segments, of which a large payload is shared with the message and not
    /// copied.
    pub fn encode_segments(message: &Arc<Self>, protocol: Protocol) -> Vec<Bytes> {
        let encoder = MessageEncoder { message, protocol, is_stored: false, without_payload: true };
        let is_large =
            message.payload.as_ref().is_some_and(|payload| payload.get().len() >= MIN_SHARED_BYTES);
        if !is_large || encoder.with_jsonrpc_fields().is_some() {
            return vec![message.encode(protocol).into()];
        }
        let mut head = encoder.to_json();
        head.truncate(head.len() - 1);
        head.push_str(r#","payload":"#);
        let payload = Bytes::from_owner(SharedPayload(Arc::clone(message)));
        vec![head.into(), payload, Bytes::from_static(b"}")]
    }

    /// Approximate memory size in bytes.
    pub fn approximate_size(&self) -> usize {
        let raw = |raw: &Option<Box<RawValue>>| raw.as_ref().map_or(0, |raw| raw.get().len());
        let extra: usize = self.extra.iter().map(|(key, raw)| key.len() + raw.get().len()).sum();
        let names = self.to.iter().chain(&self.correlation).map(|name| name.len() + 16);
        let rest = self.kind.full().len() + names.sum::<usize>() + 512;
        raw(&self.payload) + raw(&self.context) + extra + rest
    }

    /// Encodes the complete message for storage. Line breaks in the payload are preserved.
    pub fn to_stored(&self) -> String {
        let (protocol, is_stored, without_payload) = (self.protocol, true, false);
        MessageEncoder { message: self, protocol, is_stored, without_payload }.to_json()
    }

    /// Decodes a stored message.
    ///
    /// # Errors
    ///
    /// The text was not produced by [`RoomMessage::to_stored`].
    pub fn from_stored(text: &str) -> Result<Self, MessageParseError> {
        let corrupt = |error: serde_json::Error| MessageParseError::invalid(error_message(&error));
        let mut members = draft::parse_object(text).map_err(corrupt)?;
        let context_of = members.take("context_of").map(|raw| serde_json::from_str(raw.get()));
        let mut draft = Draft::from_members(members)?;
        let (Some(protocol), Some(id), Some(ts), Some(from)) =
            (draft.protocol, draft.id.take(), draft.ts.take(), draft.from.take())
        else {
            let message = "a stored message must have `protocol`, `id`, `ts` and `from`";
            return Err(MessageParseError::invalid(message));
        };
        let context_of = context_of.transpose().map_err(corrupt)?;
        Ok(Self { context_of, ..draft.complete(from.into(), protocol, id, ts) })
    }
}

/// A message with the parameters of its encoding.
struct MessageEncoder<'a> {
    message: &'a RoomMessage,
    protocol: Protocol,
    /// Whether the encoding is for storage, not for a participant.
    is_stored: bool,
    /// Whether the payload is omitted because it follows separately.
    without_payload: bool,
}

/// The payload of a shared message as bytes.
struct SharedPayload(Arc<RoomMessage>);

impl AsRef<[u8]> for SharedPayload {
    fn as_ref(&self) -> &[u8] {
        self.0.payload.as_ref().map_or(&[], |payload| payload.get().as_bytes())
    }
}

impl MessageEncoder<'_> {
    fn is_for_mcpx(&self) -> bool {
        !self.is_stored && !self.protocol.is_mew()
    }

    /// Whether the message is progress or another notification of a request. `mcpx` clients take
    /// every message that correlates to their request as its response; here `context_of` names it.
    fn is_notification_of_request(&self) -> bool {
        let RoomMessage { kind, context_of, .. } = self.message;
        kind.base() == Some(BaseKind::McpNotification) && context_of.is_some()
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and raw JSON always serialize")
    }

    /// Returns the payload of a request for `mcpx` clients, with `jsonrpc` and `id` added. These
    /// clients treat a request without them as a notification and send no response. `None` if the
    /// payload needs no change.
    fn with_jsonrpc_fields(&self) -> Option<Box<RawValue>> {
        let RoomMessage { kind, payload, id, .. } = self.message;
        let is_request = kind.method().is_some_and(|it| !it.starts_with("notifications/"));
        let needs_jsonrpc_fields = self.is_for_mcpx() && is_request;
        let payload = payload
            .as_ref()
            .filter(|_| needs_jsonrpc_fields && kind.base() == Some(BaseKind::McpRequest))?;
        let frame = RawMessage::parse(payload.get())?;
        let rest = payload.get().trim_start().strip_prefix('{')?;
        let version = if frame.jsonrpc.is_none() { "\"jsonrpc\":\"2.0\"," } else { "" };
        let id = match frame.id {
            None => format!("\"id\":{},", serde_json::Value::from(&**id)),
            Some(_) if version.is_empty() => return None,
            Some(_) => String::new(),
        };
        RawValue::from_string(format!("{{{version}{id}{rest}")).ok()
    }
}

impl Serialize for MessageEncoder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = self.message;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("protocol", self.protocol.as_str())?;
        map.serialize_entry("id", &message.id)?;
        map.serialize_entry("ts", &message.ts)?;
        map.serialize_entry("from", &*message.from)?;
        serialize_list(&mut map, "to", &message.to)?;
        let is_full = self.is_stored || self.is_for_mcpx();
        let kind = if is_full { message.kind.full() } else { message.kind.short() };
        map.serialize_entry("kind", kind)?;
        match self.is_for_mcpx() {
            true if self.is_notification_of_request() => {}
            true => serialize_optional(&mut map, "correlation_id", message.correlation.first())?,
            false => serialize_list(&mut map, "correlation_id", &message.correlation)?,
        }
        serialize_optional(&mut map, "context", message.context.as_ref())?;
        serialize_optional(&mut map, "context_of", message.context_of.as_ref())?;
        match self.with_jsonrpc_fields().as_ref().or(message.payload.as_ref()) {
            _ if self.without_payload => {}
            Some(payload) => map.serialize_entry("payload", payload)?,
            None if self.is_stored => {}
            // Clients expect `payload` to be present and an object.
            None => map.serialize_entry("payload", &serde_json::Map::new())?,
        }
        for (key, value) in message.extra.iter().filter(|(key, _)| !KNOWN_MEMBERS.contains(&&**key))
        {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

fn serialize_optional<M: SerializeMap>(
    map: &mut M,
    name: &str,
    value: Option<&impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, value))
}

fn serialize_list<M: SerializeMap>(
    map: &mut M,
    name: &str,
    list: &Vec<Box<str>>,
) -> Result<(), M::Error> {
    serialize_optional(map, name, Some(list).filter(|list| !list.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::message::upgrade_kind;

    fn response_message() -> RoomMessage {
        let text = r#"{"protocol":"mew/v0.4","id":"R","ts":"2026-11-18T04:00:00Z","to":["human"],"kind":"mcp/response",
            "correlation_id":["F","P"],"context":"thread","payload":{ "result" : 1.0 },
            "mood":"good"}"#;
        let draft = Draft::parse(text).unwrap();
        let mut message =
            draft.complete("fs".into(), Protocol::Mew04, Box::default(), Box::default());
        message.kind = MessageKind::parse("mcp/response:tools/call:a%2A").unwrap();
        message.context_of = Some(ResponseContext {
            method: "tools/call".into(),
            name: Some("a*".into()),
            request_id: "F".into(),
            from: "human".into(),
            proposal_id: Some("P".into()),
            proposer: Some("agent".into()),
            outcome: Some(ResponseOutcome::Result),
        });
        message
    }

    /// The members that every encoding of the response shares.
    const COMMON_SUFFIX: &str = r#""context":"thread","context_of":{"method":"tools/call","name":"a*","request_id":"F","from":"human","proposal_id":"P","proposer":"agent","outcome":"result"},"payload":{ "result" : 1.0 },"mood":"good"}"#;

    #[test]
    fn message_encodes_per_protocol_family() {
        let start = r#""id":"R","ts":"2026-11-18T04:00:00Z","from":"fs","to":["human"],"kind":"mcp/response"#;
        for (protocol, rest) in [
            (Protocol::Mcpx01, r#":tools/call:a%2A","correlation_id":"F""#),
            (Protocol::Mew03, r#"","correlation_id":["F","P"]"#),
            (Protocol::Mew04, r#"","correlation_id":["F","P"]"#),
        ] {
            let expected = format!(r#"{{"protocol":"{protocol}",{start}{rest},{COMMON_SUFFIX}"#);
            assert_eq!(response_message().encode(protocol), expected);
        }
        let stored = format!(
            r#"{{"protocol":"mew/v0.4",{start}:tools/call:a%2A","correlation_id":["F","P"],{COMMON_SUFFIX}"#
        );
        assert_eq!(response_message().to_stored(), stored);
        assert_eq!(RoomMessage::from_stored(&stored).unwrap().to_stored(), stored);
    }

    #[test]
    fn absent_members_are_omitted_and_extras_never_override() {
        let mut message = Draft::parse(r#"{"kind":"chat"}"#).unwrap().complete(
            "me".into(),
            Protocol::Mcpx01,
            "1".into(),
            "t".into(),
        );
        for name in KNOWN_MEMBERS {
            message.extra.push((name.into(), RawValue::from_string("7".to_owned()).unwrap()));
        }
        let stored = r#"{"protocol":"mcpx/v0.1","id":"1","ts":"t","from":"me","kind":"chat"}"#;
        let encoded = stored.replace(r#""chat"}"#, r#""chat","payload":{}}"#);
        assert_eq!(
            message.encode(Protocol::Mcpx01),
            encoded,
            "clients look into a payload unasked"
        );
        assert_eq!(message.to_stored(), stored);
    }

    /// Each row: a payload, and the payload that an `mcpx` client receives.
    #[test]
    fn mcpx_request_gains_jsonrpc_and_id() {
        let list = r#""method":"tools/list"}"#;
        let note = r#"{"method":"notifications/initialized"}"#;
        for (payload, expected) in [
            (format!("{{{list}"), format!(r#"{{"jsonrpc":"2.0","id":"r\"1",{list}"#)),
            (format!(r#"{{"id":7,{list}"#), format!(r#"{{"jsonrpc":"2.0","id":7,{list}"#)),
            (
                format!(r#"{{"jsonrpc":"2.0",{list}"#),
                format!(r#"{{"id":"r\"1","jsonrpc":"2.0",{list}"#),
            ),
            (
                format!(r#"{{"jsonrpc":"2.0","id":7,{list}"#),
                format!(r#"{{"jsonrpc":"2.0","id":7,{list}"#),
            ),
            (note.to_owned(), note.to_owned()),
        ] {
            let message_json =
                format!(r#"{{"id":"r\"1","kind":"mcp/request","payload":{payload}}}"#);
            let mut draft = Draft::parse(&message_json).unwrap();
            draft.kind = upgrade_kind(draft.kind, draft.payload.as_deref()).unwrap();
            let message = draft.complete("a".into(), Protocol::Mew04, "".into(), "t".into());
            let encoded_payload =
                |protocol| message.encode(protocol).split_once("payload\":").unwrap().1.to_owned();
            assert_eq!(encoded_payload(Protocol::Mcpx01), format!("{expected}}}"));
            assert_eq!(
                encoded_payload(Protocol::Mew04),
                format!("{payload}}}"),
                "others see what was said"
            );
        }
    }

    #[test]
    fn corrupt_stored_message_fails_to_parse() {
        let stored = response_message().to_stored();
        for (from, to) in [
            (r#""id":"R","#, ""),
            (r#""from":"fs","#, r#""from":1,"#),
            ("mew/v0.4", "mew/v9"),
            (r#""request_id":"F","#, ""),
            (r#"["human"]"#, "7"),
            ("mcp/response:tools/call:a%2A", "mcp/response:"),
        ] {
            let damaged = stored.replacen(from, to, 1);
            assert_ne!(damaged, stored);
            RoomMessage::from_stored(&damaged).unwrap_err();
        }
        RoomMessage::from_stored("[]").unwrap_err();
    }
}
