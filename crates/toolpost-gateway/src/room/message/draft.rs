//! A message as received from its sender.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use toolpost::json::RawObject;
use toolpost::{Payload, PayloadError};

use super::kind::MessageKind;
use super::protocol::Protocol;
use super::rejection_code::RejectionCode;
use super::room_message::RoomMessage;
use super::timestamp::parse_timestamp;

/// Maximum size of an id or a name, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Maximum size of a timestamp, in bytes.
const MAX_TIMESTAMP_BYTES: usize = 64;
/// Maximum number of entries in `to` and `correlation_id`.
const MAX_NAMES: usize = 256;
/// Maximum number of unknown members in a message.
const MAX_EXTRA_MEMBERS: usize = 64;
/// Maximum bytes of the received kind that an error repeats.
const MAX_QUOTED_BYTES: usize = 256;

/// A message as received, before the gateway completes it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Draft {
    /// Protocol of the sender.
    pub protocol: Option<Protocol>,
    /// Message id, which responses refer to.
    pub id: Option<Box<str>>,
    /// Time of sending, by the sender's clock.
    pub ts: Option<Box<str>>,
    /// Sender id as claimed by the client.
    pub from: Option<Box<str>>,
    /// Addressees; empty for all participants.
    pub to: Vec<Box<str>>,
    /// Kind as declared by the sender.
    pub kind: MessageKind,
    /// Ids of the messages that it responds to or belongs to, most relevant first.
    pub correlation: Vec<Box<str>>,
    /// Thread of the message, as received.
    pub context: Option<Box<RawValue>>,
    /// Payload, byte for byte.
    pub payload: Option<Box<RawValue>>,
    /// Unknown members, which are forwarded.
    pub extra: Extra,
}

/// Unknown members in the order received.
pub type Extra = Vec<(Box<str>, Box<RawValue>)>;

/// Error returned when a string is not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct MessageParseError {
    /// Error code.
    pub code: RejectionCode,
    /// Human-readable description of the error.
    pub message: String,
    /// Id of the message, if it has a valid one.
    pub id: Option<String>,
    /// Declared kind, truncated for display.
    pub kind: Option<String>,
}

impl MessageParseError {
    pub(crate) fn new(code: RejectionCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), id: None, kind: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(RejectionCode::InvalidMessage, message)
    }

    /// Adds the id and the kind of the rejected text, if it is a JSON object.
    pub(crate) fn with_source(mut self, text: &str) -> Self {
        if let Ok(mut members) = parse_object(text) {
            let id = members.take("id").and_then(parse_string);
            self.id = id.filter(|id| check_name("id", id, MAX_NAME_BYTES).is_ok()).map(Into::into);
            let kind = members.take("kind").and_then(parse_string);
            self.kind = kind.map(|kind| truncate(&kind, MAX_QUOTED_BYTES).into_owned());
        }
        self
    }
}

impl Draft {
    /// Parses one message: a JSON object without duplicate keys at any depth, nested at most 128
    /// levels.
    ///
    /// `ts` is a timestamp as in RFC 3339. Members that are `null` count as absent. `to` and `correlation_id` can be a string or a
    /// list. `context_of` is dropped, because only the gateway sets it.
    ///
    /// # Errors
    ///
    /// `unsupported_protocol` if the protocol is not supported. `invalid_message` for any other
    /// error; the message names the member.
    pub fn parse(text: &str) -> Result<Self, MessageParseError> {
        let parse = || {
            check_json(text).map_err(|error| MessageParseError::invalid(error.to_string()))?;
            let mut members = parse_object(text)
                .map_err(|_| MessageParseError::invalid("a message is a JSON object"))?;
            members.take("context_of");
            let draft = Self::from_members(members)?;
            if let Some(ts) = draft.ts.as_ref().filter(|ts| parse_timestamp(ts).is_none()) {
                let message = format!(
                    "`ts` is {}, which is not an RFC 3339 timestamp such as `2026-11-18T04:00:00.000Z`",
                    quoted(ts)
                );
                return Err(MessageParseError::invalid(message));
            }
            for (member, names) in [("to", &draft.to), ("correlation_id", &draft.correlation)] {
                if names.len() > MAX_NAMES {
                    let message = format!("`{member}` has more than {MAX_NAMES} entries");
                    return Err(MessageParseError::invalid(message));
                }
            }
            Ok(draft)
        };
        parse().map_err(|error: MessageParseError| error.with_source(text))
    }

    /// Completes the message with the authenticated sender. `protocol`, `id` and `ts` are used
    /// where the draft has none; the kind is unchanged.
    pub fn complete(
        self,
        from: Arc<str>,
        protocol: Protocol,
        id: Box<str>,
        ts: Box<str>,
    ) -> RoomMessage {
        RoomMessage {
            protocol: self.protocol.unwrap_or(protocol),
            id: self.id.unwrap_or(id),
            ts: self.ts.unwrap_or(ts),
            from,
            to: self.to,
            kind: self.kind,
            correlation: self.correlation,
            context: self.context,
            context_of: None,
            payload: self.payload,
            extra: self.extra,
        }
    }

    pub(super) fn from_members(mut members: RawObject<'_>) -> Result<Self, MessageParseError> {
        Ok(Self {
            protocol: members.take("protocol").map(parse_protocol).transpose()?,
            id: take_name(&mut members, "id", MAX_NAME_BYTES)?,
            ts: take_name(&mut members, "ts", MAX_TIMESTAMP_BYTES)?,
            from: take_name(&mut members, "from", MAX_NAME_BYTES)?,
            to: take_names(&mut members, "to")?,
            kind: parse_kind(members.take("kind"))?,
            correlation: take_names(&mut members, "correlation_id")?,
            context: members.take("context").map(ToOwned::to_owned),
            payload: members.take("payload").map(ToOwned::to_owned),
            extra: to_extra(members)?,
        })
    }
}

/// Parses an object; members that are `null` count as absent.
pub(super) fn parse_object(text: &str) -> serde_json::Result<RawObject<'_>> {
    RawObject::parse(text).map(RawObject::without_nulls)
}

/// Validates an untrusted JSON document. Duplicate keys are rejected, so that the gateway and the
/// recipients read the same values.
pub(super) fn check_json(text: &str) -> Result<(), PayloadError> {
    Payload::from_untrusted_text(text.as_bytes()).map(drop)
}

pub(super) fn parse_string(raw: &RawValue) -> Option<Box<str>> {
    serde_json::from_str(raw.get()).ok()
}

/// Quotes untrusted text in an error message.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", truncate(text, 100))
}

fn truncate(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(max_bytes)]).into()
}

fn required_type(member: &str, expected: &str) -> MessageParseError {
    MessageParseError::invalid(format!("`{member}` must be {expected}"))
}

pub(super) fn parse_protocol(raw: &RawValue) -> Result<Protocol, MessageParseError> {
    let text = parse_string(raw).ok_or_else(|| required_type("protocol", "a string"))?;
    Protocol::parse(&text).ok_or_else(|| {
        let supported = Protocol::ALL.map(|protocol| format!("`{protocol}`")).join(", ");
        let message =
            format!("the protocol {} is not supported; supported: {supported}", quoted(&text));
        MessageParseError::new(RejectionCode::UnsupportedProtocol, message)
    })
}

fn parse_kind(raw: Option<&RawValue>) -> Result<MessageKind, MessageParseError> {
    let raw = raw.ok_or_else(|| MessageParseError::invalid("a message must have a `kind`"))?;
    let text = parse_string(raw).ok_or_else(|| required_type("kind", "a string"))?;
    MessageKind::parse(&text).map_err(|error| MessageParseError::invalid(error.to_string()))
}

/// Removes a string member and validates it as a name; `None` if it is absent.
pub(super) fn take_name(
    members: &mut RawObject<'_>,
    member: &str,
    max_bytes: usize,
) -> Result<Option<Box<str>>, MessageParseError> {
    let Some(raw) = members.take(member) else { return Ok(None) };
    let text = parse_string(raw).ok_or_else(|| required_type(member, "a string"))?;
    check_name(member, &text, max_bytes)?;
    Ok(Some(text))
}

/// Removes a list of names. A single string is a list of one.
fn take_names(
    members: &mut RawObject<'_>,
    member: &str,
) -> Result<Vec<Box<str>>, MessageParseError> {
    let Some(raw) = members.take(member) else { return Ok(Vec::new()) };
    let texts = match parse_string(raw) {
        Some(text) => vec![text],
        None => serde_json::from_str(raw.get())
            .map_err(|_| required_type(member, "a string or a list of strings"))?,
    };
    texts.iter().try_for_each(|text| check_name(member, text, MAX_NAME_BYTES))?;
    Ok(texts)
}

fn check_name(member: &str, text: &str, max_bytes: usize) -> Result<(), MessageParseError> {
    let wrong = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > max_bytes {
        format!("has more than {max_bytes} bytes")
    } else if text.contains(char::is_control) {
        "has a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(MessageParseError::invalid(format!("`{member}` {wrong}")))
}

fn to_extra(members: RawObject<'_>) -> Result<Extra, MessageParseError> {
    if members.0.len() > MAX_EXTRA_MEMBERS {
        let message = format!("the message has more than {MAX_EXTRA_MEMBERS} unknown members");
        return Err(MessageParseError::invalid(message));
    }
    Ok(members.0.into_iter().map(|(key, raw)| (key.into(), raw.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn minimal_message_parses_and_null_members_are_absent() {
        let text = r#" {"kind":"mcp/response","correlation_id":"a","to":"b","id":null,"ts":null,
            "protocol":null,"from":null,"context":{"topic": 1},"payload":{"b" : 1.0},
            "context_of":{"method":"forged"},"mood":[ 1 ],"empty":null} "#;
        let draft = Draft::parse(text).unwrap();
        assert_eq!((draft.protocol, draft.id, draft.ts, draft.from), (None, None, None, None));
        assert_eq!((&*draft.to[0], draft.to.len()), ("b", 1));
        assert_eq!((&*draft.correlation[0], draft.correlation.len()), ("a", 1));
        assert_eq!(draft.kind.full(), "mcp/response");
        assert_eq!(draft.context.unwrap().get(), r#"{"topic": 1}"#);
        assert_eq!(draft.payload.unwrap().get(), r#"{"b" : 1.0}"#);
        let extra: Vec<_> = draft.extra.iter().map(|(key, raw)| (&**key, raw.get())).collect();
        assert_eq!(extra, [("mood", "[ 1 ]")]);
    }

    #[test]
    fn complete_fills_missing_protocol_id_and_ts() {
        let complete = |text| {
            let draft = Draft::parse(text).unwrap();
            draft.complete("me".into(), Protocol::Mew04, "new".into(), "now".into())
        };
        let filled = complete(r#"{"kind":"chat"}"#);
        assert_eq!((filled.protocol, &*filled.id, &*filled.ts), (Protocol::Mew04, "new", "now"));
        let explicit = complete(
            r#"{"kind":"chat","protocol":"mcpx/v0.1","id":"i","ts":"1970-01-01T00:00:00Z","from":"x"}"#,
        );
        assert_eq!((explicit.protocol, &*explicit.id), (Protocol::Mcpx01, "i"));
        assert_eq!(&*explicit.ts, "1970-01-01T00:00:00Z");
        assert_eq!(&*explicit.from, "me");
    }

    #[test]
    fn invalid_message_error_names_the_member() {
        let with = |member: &str, value: serde_json::Value| {
            let mut message = json!({"id": "1", "kind": "chat"});
            message[member] = value;
            message.to_string()
        };
        let many = |max: usize| json!(vec!["x"; max]);
        let long = |bytes: usize| json!("x".repeat(bytes));
        let extra = |max: usize| {
            let members: Vec<_> = (0..max).map(|n| format!("\"x{n}\":1")).collect();
            format!("{{\"kind\":\"chat\",{}}}", members.join(","))
        };
        for (text, expected) in [
            (String::new(), "EOF"),
            ("[]".to_owned(), "JSON object"),
            ("7".to_owned(), "JSON object"),
            (r#"{"kind":"chat","payload":{"a":{"b":1,"b":2}}}"#.to_owned(), "duplicate key `b`"),
            (r#"{"kind":"chat","\u006bind":"x"}"#.to_owned(), "duplicate key `kind`"),
            (format!("{{\"kind\":\"chat\",\"payload\":{}", "[".repeat(9_999)), "recursion limit"),
            (r#"{"id":"1"}"#.to_owned(), "must have a `kind`"),
            (with("kind", json!(1)), "`kind` must be a string"),
            (with("kind", json!("")), "the kind is empty"),
            (with("kind", json!("a\nb")), "control character"),
            (with("kind", long(5_000)), "more than 4096 bytes"),
            (with("kind", json!("mcp/request:")), "METHOD"),
            (with("id", json!(5)), "`id` must be a string"),
            (with("id", json!("")), "`id` is empty"),
            (with("id", long(257)), "`id` has more than 256 bytes"),
            (with("id", json!("a\u{1b}")), "`id` has a control character"),
            (with("ts", long(65)), "`ts` has more than 64 bytes"),
            (with("ts", json!("yesterday")), "`ts` is `yesterday`, which is not an RFC 3339"),
            (with("ts", json!("2026-11-18T04:00:00")), "not an RFC 3339 timestamp such as"),
            (with("ts", json!(1_763_000_000)), "`ts` must be a string"),
            (with("from", json!({})), "`from` must be a string"),
            (with("to", json!([1])), "`to` must be a string or a list of strings"),
            (with("to", json!({"a": "b"})), "`to` must be a string or a list of strings"),
            (with("to", many(257)), "`to` has more than 256 entries"),
            (with("correlation_id", json!([""])), "`correlation_id` is empty"),
            (with("correlation_id", json!(7)), "`correlation_id` must be"),
            (with("protocol", json!(1)), "`protocol` must be a string"),
            (
                with("protocol", json!("mew/v9")),
                "`mew/v9` is not supported; supported: `mcpx/v0.1`",
            ),
            (extra(65), "more than 64 unknown members"),
        ] {
            let error = Draft::parse(&text).unwrap_err();
            let start = &text[..text.len().min(80)];
            assert!(error.message.contains(expected), "{start}: {error}");
            assert!(error.message.len() < 300, "{start}: {error}");
            let is_protocol = error.code == RejectionCode::UnsupportedProtocol;
            assert_eq!(is_protocol, expected.contains("supported"), "{start}");
        }
        for text in [with("id", long(256)), with("to", many(256)), with("to", json!([])), extra(64)]
        {
            Draft::parse(&text).unwrap();
        }
    }

    #[test]
    fn parse_error_carries_id_and_kind_when_present() {
        for (text, id, kind) in [
            (r#"{"id":"7","kind":"chat","to":5}"#, Some("7"), Some("chat")),
            (r#"{"id":"7","kind":"chat","payload":{"a":1,"a":2}}"#, Some("7"), Some("chat")),
            (r#"{"id":7,"kind":"mcp/request:"}"#, None, Some("mcp/request:")),
            (r#"{"id":"7","kind":"chat","#, None, None),
            ("[]", None, None),
        ] {
            let error = Draft::parse(text).unwrap_err();
            assert_eq!((error.id.as_deref(), error.kind.as_deref()), (id, kind), "{text}");
        }
    }
}
