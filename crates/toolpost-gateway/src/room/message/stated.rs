//! A message as the room has it, and the forms in which it is shown and kept.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde::{Deserialize, Serialize as DeriveSerialize};
use serde_json::value::RawValue;

use super::draft::Extra;
use super::kind::Kind;
use super::member::{self, Members};
use super::protocol::Protocol;

/// The members that have a meaning here, in the order in which they are written.
const OURS: [&str; 10] = [
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

/// A message as the room has it: complete, and with a kind that says what it is about.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message {
    /// What its sender speaks.
    pub protocol: Protocol,
    /// What answers refer to.
    pub id: Box<str>,
    /// When it was sent.
    pub ts: Box<str>,
    /// Who sent it, as the gateway knows him.
    pub from: Arc<str>,
    /// Whom it is for; everybody where it is empty.
    pub to: Vec<Box<str>>,
    /// What it is, in full.
    pub kind: Kind,
    /// The messages that it answers or belongs to, the one that matters first.
    pub correlation: Vec<Box<str>>,
    /// The thread that it belongs to, as it came.
    pub context: Option<Box<RawValue>>,
    /// What was asked, for answers.
    pub context_of: Option<ContextOf>,
    /// What it carries, byte for byte.
    pub payload: Option<Box<RawValue>>,
    /// Members that nobody here knows. None of them takes the place of one that is known.
    pub extra: Extra,
}

/// What an answer is about, so that nobody needs its request to understand it.
#[derive(Debug, Clone, PartialEq, Eq, DeriveSerialize, Deserialize)]
#[non_exhaustive]
pub struct ContextOf {
    /// The method that was asked for.
    pub method: Box<str>,
    /// The tool, the resource, the prompt or the completion's reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// The id of the request.
    pub request_id: Box<str>,
    /// Who asked.
    #[serde(with = "shared")]
    pub from: Arc<str>,
    /// The proposal that the request fulfilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_id: Option<Box<str>>,
    /// Who proposed it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "shared_option")]
    pub proposer: Option<Arc<str>>,
    /// How it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl ContextOf {
    /// The same, with how it went, as the payload of the answer says.
    #[must_use]
    pub fn ending(mut self, payload: Option<&RawValue>) -> Self {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow, default)]
            error: Option<&'a RawValue>,
            #[serde(borrow, default)]
            result: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        struct Tool {
            #[serde(default, rename = "isError")]
            is_error: bool,
        }
        let answer = payload.and_then(|payload| serde_json::from_str(payload.get()).ok());
        let Some(Answer { error, result }) = answer else { return self };
        // A tool that ran and failed says so in its result.
        let tool: Option<Tool> = result.and_then(|result| serde_json::from_str(result.get()).ok());
        let has_failed = error.is_some() || tool.unwrap_or_default().is_error;
        self.outcome = Some(if has_failed { Outcome::Error } else { Outcome::Result });
        self
    }
}

impl Outcome {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
        }
    }
}

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DeriveSerialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// There is a `result`.
    Result,
    /// There is an `error`.
    Error,
}

/// A stored text that is no message; it is not from here, or damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored message is damaged: {0}")]
pub struct StoredError(String);

impl Message {
    /// The message in the form of a family: for `mcpx` the full kind and one correlation, for `mew` the
    /// short kind and a list. The payload is written as it came.
    pub fn write(&self, protocol: Protocol) -> String {
        let form = match protocol.is_mew() {
            true => {
                let kind = self.kind.short();
                Form { message: self, protocol, kind, correlations: None, is_shown: true }
            }
            false => {
                let first = self.correlation.first();
                let (kind, correlations) = (self.kind.full(), Some(first));
                Form { message: self, protocol, kind, correlations, is_shown: true }
            }
        };
        form.text()
    }

    /// About how many bytes it takes to keep it.
    pub fn size(&self) -> usize {
        let raw = |raw: &Option<Box<RawValue>>| raw.as_ref().map_or(0, |raw| raw.get().len());
        let extra: usize = self.extra.iter().map(|(key, raw)| key.len() + raw.get().len()).sum();
        let names = self.to.iter().chain(&self.correlation).map(|name| name.len() + 16);
        let rest = self.kind.full().len() + names.sum::<usize>() + 512;
        raw(&self.payload) + raw(&self.context) + extra + rest
    }

    /// The message with everything that is known of it. A payload that has line breaks keeps them.
    pub fn stored(&self) -> String {
        let (protocol, kind) = (self.protocol, self.kind.full());
        Form { message: self, protocol, kind, correlations: None, is_shown: false }.text()
    }

    /// The message that was stored.
    ///
    /// # Errors
    ///
    /// The text was not made by [`Message::stored`].
    pub fn from_stored(text: &str) -> Result<Self, StoredError> {
        let damaged = |error: serde_json::Error| StoredError(error.to_string());
        let mut members = Members::read(text).map_err(damaged)?;
        let protocol = needed(&mut members, "protocol")?;
        let kind = needed(&mut members, "kind")?;
        let context_of = members.take("context_of").map(|raw| serde_json::from_str(raw.get()));
        Ok(Self {
            protocol: Protocol::parse(&protocol).ok_or_else(|| lacks("protocol"))?,
            id: needed(&mut members, "id")?,
            ts: needed(&mut members, "ts")?,
            from: needed(&mut members, "from")?.into(),
            to: list(&mut members, "to")?,
            kind: Kind::parse(&kind).map_err(|error| StoredError(error.to_string()))?,
            correlation: list(&mut members, "correlation_id")?,
            context: members.take("context").map(ToOwned::to_owned),
            context_of: context_of.transpose().map_err(damaged)?,
            payload: members.take("payload").map(ToOwned::to_owned),
            extra: members.0.into_iter().map(|(key, raw)| (key.into(), raw.to_owned())).collect(),
        })
    }
}

fn lacks(member: &str) -> StoredError {
    StoredError(format!("it has no `{member}` that can be read"))
}

fn needed(members: &mut Members<'_>, name: &str) -> Result<Box<str>, StoredError> {
    members.take(name).and_then(member::text).ok_or_else(|| lacks(name))
}

fn list(members: &mut Members<'_>, name: &str) -> Result<Vec<Box<str>>, StoredError> {
    let Some(raw) = members.take(name) else { return Ok(Vec::new()) };
    member::texts(raw).ok_or_else(|| lacks(name))
}

/// A message and what differs between its forms.
struct Form<'a> {
    message: &'a Message,
    protocol: Protocol,
    kind: &'a str,
    /// The one correlation of a family that has one; all of them as a list otherwise.
    correlations: Option<Option<&'a Box<str>>>,
    /// Whether it is for a participant, and not to be kept.
    is_shown: bool,
}

#[derive(DeriveSerialize)]
struct Empty {}

impl Form<'_> {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON have a JSON form")
    }

    /// The payload of a request as the one family has to see it: for its clients a request without
    /// `jsonrpc` and `id` is a notification, which nobody answers.
    fn framed(&self) -> Option<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Frame<'a> {
            #[serde(borrow, default, deserialize_with = "present")]
            jsonrpc: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            id: Option<&'a RawValue>,
        }
        let Message { kind, payload, id, .. } = self.message;
        let is_question = kind.method().is_some_and(|it| !it.starts_with("notifications/"));
        let is_wanted = self.is_shown && !self.protocol.is_mew() && is_question;
        let payload = payload.as_ref().filter(|_| is_wanted && kind.short() == "mcp/request")?;
        let frame: Frame<'_> = serde_json::from_str(payload.get()).ok()?;
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

/// What is there, even if it is `null`.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Serialize for Form<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = self.message;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("protocol", self.protocol.as_str())?;
        map.serialize_entry("id", &message.id)?;
        map.serialize_entry("ts", &message.ts)?;
        map.serialize_entry("from", &*message.from)?;
        list_entry(&mut map, "to", &message.to)?;
        map.serialize_entry("kind", self.kind)?;
        match self.correlations {
            Some(one) => entry(&mut map, "correlation_id", one)?,
            None => list_entry(&mut map, "correlation_id", &message.correlation)?,
        }
        entry(&mut map, "context", message.context.as_ref())?;
        entry(&mut map, "context_of", message.context_of.as_ref())?;
        match self.framed() {
            Some(framed) => map.serialize_entry("payload", &framed)?,
            // Every client takes it for an object that is there.
            None => match &message.payload {
                Some(payload) => map.serialize_entry("payload", payload)?,
                None if self.is_shown => map.serialize_entry("payload", &Empty {})?,
                None => {}
            },
        }
        for (key, value) in message.extra.iter().filter(|(key, _)| !OURS.contains(&&**key)) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

fn entry<M: SerializeMap>(
    map: &mut M,
    name: &str,
    value: Option<&impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, value))
}

fn list_entry<M: SerializeMap>(
    map: &mut M,
    name: &str,
    list: &Vec<Box<str>>,
) -> Result<(), M::Error> {
    entry(map, name, Some(list).filter(|list| !list.is_empty()))
}

/// Names that many messages share.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(name: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Arc<str>, D::Error> {
        Box::<str>::deserialize(from).map(Into::into)
    }
}

mod shared_option {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        name: &Option<Arc<str>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        name.as_deref().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Option<Arc<str>>, D::Error> {
        Ok(Option::<Box<str>>::deserialize(from)?.map(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::message::{Draft, upgraded};

    fn answer() -> Message {
        let text = r#"{"protocol":"mew/v0.4","id":"R","ts":"t","to":["human"],"kind":"mcp/response",
            "correlation_id":["F","P"],"context":"thread","payload":{ "result" : 1.0 },
            "mood":"good"}"#;
        let draft = Draft::read(text).unwrap();
        let mut message =
            draft.complete("fs".into(), Protocol::Mew04, Box::default(), Box::default());
        message.kind = Kind::parse("mcp/response:tools/call:a%2A").unwrap();
        message.context_of = Some(ContextOf {
            method: "tools/call".into(),
            name: Some("a*".into()),
            request_id: "F".into(),
            from: "human".into(),
            proposal_id: Some("P".into()),
            proposer: Some("agent".into()),
            outcome: Some(Outcome::Result),
        });
        message
    }

    /// What every form of the answer has in the same words.
    const ABOUT: &str = r#""context":"thread","context_of":{"method":"tools/call","name":"a*","request_id":"F","from":"human","proposal_id":"P","proposer":"agent","outcome":"result"},"payload":{ "result" : 1.0 },"mood":"good"}"#;

    #[test]
    fn each_family_has_its_form() {
        let start = r#""id":"R","ts":"t","from":"fs","to":["human"],"kind":"mcp/response"#;
        for (protocol, rest) in [
            (Protocol::Mcpx01, r#":tools/call:a%2A","correlation_id":"F""#),
            (Protocol::Mew03, r#"","correlation_id":["F","P"]"#),
            (Protocol::Mew04, r#"","correlation_id":["F","P"]"#),
        ] {
            let expected = format!(r#"{{"protocol":"{protocol}",{start}{rest},{ABOUT}"#);
            assert_eq!(answer().write(protocol), expected);
        }
        let stored = format!(
            r#"{{"protocol":"mew/v0.4",{start}:tools/call:a%2A","correlation_id":["F","P"],{ABOUT}"#
        );
        assert_eq!(answer().stored(), stored);
        assert_eq!(Message::from_stored(&stored).unwrap().stored(), stored);
    }

    #[test]
    fn what_is_not_there_is_not_written_and_nothing_takes_the_place_of_what_is_known() {
        let mut message = Draft::read(r#"{"kind":"chat"}"#).unwrap().complete(
            "me".into(),
            Protocol::Mcpx01,
            "1".into(),
            "t".into(),
        );
        for name in OURS {
            message.extra.push((name.into(), RawValue::from_string("7".to_owned()).unwrap()));
        }
        let stored = r#"{"protocol":"mcpx/v0.1","id":"1","ts":"t","from":"me","kind":"chat"}"#;
        let shown = stored.replace(r#""chat"}"#, r#""chat","payload":{}}"#);
        assert_eq!(message.write(Protocol::Mcpx01), shown, "clients look into a payload unasked");
        assert_eq!(message.stored(), stored);
    }

    /// Each row: a payload, and what a client sees of it for whom a request has an id.
    #[test]
    fn a_request_is_shown_as_one_to_those_who_would_take_it_for_a_notification() {
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
            let said = format!(r#"{{"id":"r\"1","kind":"mcp/request","payload":{payload}}}"#);
            let mut draft = Draft::read(&said).unwrap();
            draft.kind = upgraded(draft.kind, draft.payload.as_deref()).unwrap();
            let message = draft.complete("a".into(), Protocol::Mew04, "".into(), "t".into());
            let shown =
                |protocol| message.write(protocol).split_once("payload\":").unwrap().1.to_owned();
            assert_eq!(shown(Protocol::Mcpx01), format!("{expected}}}"));
            assert_eq!(shown(Protocol::Mew04), format!("{payload}}}"), "others see what was said");
        }
    }

    #[test]
    fn what_was_not_stored_here_is_damaged() {
        let stored = answer().stored();
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
            Message::from_stored(&damaged).unwrap_err();
        }
        Message::from_stored("[]").unwrap_err();
    }
}
