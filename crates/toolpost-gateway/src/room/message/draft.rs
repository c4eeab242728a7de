//! A message as somebody sent it.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::kind::Kind;
use super::member::{self, Members};
use super::protocol::Protocol;
use super::stated::Message;

/// How many bytes an id or a name may have.
const LONGEST_NAME: usize = 256;
/// How many bytes a time may have.
const LONGEST_TIME: usize = 64;
/// How many names `to` and `correlation_id` may have.
const MOST_NAMES: usize = 256;
/// How many members a message may have that nobody here knows.
const MOST_EXTRA: usize = 64;
/// How much of what was sent is repeated in an error.
const REPEATED: usize = 256;

/// A message as somebody sent it, before the gateway has filled anything in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Draft {
    /// What its sender speaks.
    pub protocol: Option<Protocol>,
    /// What answers refer to.
    pub id: Option<Box<str>>,
    /// When it was sent, by the clock of its sender.
    pub ts: Option<Box<str>>,
    /// Who its sender says he is.
    pub from: Option<Box<str>>,
    /// Whom it is for; everybody where it is empty.
    pub to: Vec<Box<str>>,
    /// What it is, as its sender says.
    pub kind: Kind,
    /// The messages that it answers or belongs to, the one that matters first.
    pub correlation: Vec<Box<str>>,
    /// The thread that it belongs to, as it came.
    pub context: Option<Box<RawValue>>,
    /// What it carries, byte for byte.
    pub payload: Option<Box<RawValue>>,
    /// Members that nobody here knows; they are handed on.
    pub extra: Extra,
}

/// Members that nobody here knows, in the order in which they came.
pub type Extra = Vec<(Box<str>, Box<RawValue>)>;

/// Why a text is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ReadError {
    /// `invalid_message` or `unsupported_protocol`.
    pub error: &'static str,
    /// What is wrong, for a person.
    pub message: String,
    /// The id of the message, where it has one that can be answered.
    pub id: Option<String>,
    /// The kind that it says it has, not longer than can be shown.
    pub kind: Option<String>,
}

impl ReadError {
    /// `invalid_message`, in these words.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::invalid(message.into())
    }
}

impl Draft {
    /// Reads one message: an object in which no key stands twice at any depth, at most 128 deep.
    ///
    /// Members that are `null` count as absent. `to` and `correlation_id` may be one text or a list. A
    /// `context_of` is left out, because it is the gateway's word and nobody else's.
    ///
    /// # Errors
    ///
    /// `unsupported_protocol`: it is in a protocol that is not spoken here. `invalid_message`: anything
    /// else, in words that name the member.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        let wrong = |(error, message)| ReadError { error, message, ..ReadError::about(text) };
        member::check(text).map_err(|error| wrong(invalid(error.to_string())))?;
        let mut members = Members::read(text)
            .map_err(|_| wrong(invalid("a message is a JSON object".to_owned())))?;
        Self::of(&mut members).map_err(wrong)
    }

    /// The message, with what the gateway knows of its sender. `id` and `ts` are for those who said
    /// none, and the kind is still the one that was said.
    pub fn complete(
        self,
        from: Arc<str>,
        protocol: Protocol,
        id: Box<str>,
        ts: Box<str>,
    ) -> Message {
        Message {
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

    fn of(members: &mut Members<'_>) -> Result<Self, Wrong> {
        members.take("context_of");
        Ok(Self {
            protocol: members.take("protocol").map(protocol).transpose()?,
            id: name(members, "id", LONGEST_NAME)?,
            ts: name(members, "ts", LONGEST_TIME)?,
            from: name(members, "from", LONGEST_NAME)?,
            to: names(members, "to")?,
            kind: kind(members.take("kind"))?,
            correlation: names(members, "correlation_id")?,
            context: members.take("context").map(ToOwned::to_owned),
            payload: members.take("payload").map(ToOwned::to_owned),
            extra: extra(members)?,
        })
    }
}

impl ReadError {
    /// An error about a text of which no more can be said.
    pub(super) fn invalid(message: String) -> Self {
        Self { error: "invalid_message", message, id: None, kind: None }
    }

    /// What can be known about a text that is no message, if it is JSON at all.
    pub(crate) fn about(text: &str) -> Self {
        let mut found = Self::invalid(String::new());
        let Ok(mut members) = Members::read(text) else { return found };
        let id = members.take("id").and_then(member::text);
        found.id = id.filter(|id| check_name("id", id, LONGEST_NAME).is_ok()).map(Into::into);
        let kind = members.take("kind").and_then(member::text);
        found.kind = kind.map(|kind| member::cut(&kind, REPEATED).into_owned());
        found
    }
}

/// A code and what is wrong in words.
type Wrong = (&'static str, String);

fn invalid(message: String) -> Wrong {
    ("invalid_message", message)
}

pub(super) fn protocol(raw: &RawValue) -> Result<Protocol, Wrong> {
    let text = member::text(raw).ok_or_else(|| invalid("`protocol` must be a text".to_owned()))?;
    Protocol::parse(&text).ok_or_else(|| {
        let spoken = Protocol::ALL.map(|protocol| format!("`{protocol}`")).join(", ");
        let said = member::cut(&text, 100);
        ("unsupported_protocol", format!("the protocol `{said}` is not spoken here: {spoken} are"))
    })
}

fn kind(raw: Option<&RawValue>) -> Result<Kind, Wrong> {
    let raw = raw.ok_or_else(|| invalid("a message has a `kind`".to_owned()))?;
    let text = member::text(raw).ok_or_else(|| invalid("`kind` must be a text".to_owned()))?;
    Kind::parse(&text).map_err(|error| invalid(error.to_string()))
}

/// A member that is one name, if it is there.
pub(super) fn name(
    members: &mut Members<'_>,
    member: &str,
    longest: usize,
) -> Result<Option<Box<str>>, Wrong> {
    let Some(raw) = members.take(member) else { return Ok(None) };
    let text = member::text(raw).ok_or_else(|| invalid(format!("`{member}` must be a text")))?;
    check_name(member, &text, longest)?;
    Ok(Some(text))
}

fn names(members: &mut Members<'_>, member: &str) -> Result<Vec<Box<str>>, Wrong> {
    let Some(raw) = members.take(member) else { return Ok(Vec::new()) };
    let texts = member::texts(raw)
        .ok_or_else(|| invalid(format!("`{member}` must be a text or a list of texts")))?;
    if texts.len() > MOST_NAMES {
        return Err(invalid(format!("`{member}` has more than {MOST_NAMES} entries")));
    }
    texts.iter().try_for_each(|text| check_name(member, text, LONGEST_NAME))?;
    Ok(texts)
}

fn check_name(member: &str, text: &str, longest: usize) -> Result<(), Wrong> {
    let wrong = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > longest {
        format!("has more than {longest} bytes")
    } else if text.contains(char::is_control) {
        "has a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(invalid(format!("`{member}` {wrong}")))
}

fn extra(members: &mut Members<'_>) -> Result<Extra, Wrong> {
    if members.0.len() > MOST_EXTRA {
        return Err(invalid(format!("the message has more than {MOST_EXTRA} unknown members")));
    }
    let owned = |(key, value): (_, &RawValue)| (Box::from(key), value.to_owned());
    Ok(members.0.drain(..).map(owned).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_simple_senders_say_is_read_and_what_is_null_is_absent() {
        let text = r#" {"kind":"mcp/response","correlation_id":"a","to":"b","id":null,"ts":null,
            "protocol":null,"from":null,"context":{"topic": 1},"payload":{"b" : 1.0},
            "context_of":{"method":"forged"},"mood":[ 1 ],"empty":null} "#;
        let draft = Draft::read(text).unwrap();
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
    fn the_gateway_fills_in_what_was_not_said() {
        let complete = |text| {
            let draft = Draft::read(text).unwrap();
            draft.complete("me".into(), Protocol::Mew04, "new".into(), "now".into())
        };
        let filled = complete(r#"{"kind":"chat"}"#);
        assert_eq!((filled.protocol, &*filled.id, &*filled.ts), (Protocol::Mew04, "new", "now"));
        let said =
            complete(r#"{"kind":"chat","protocol":"mcpx/v0.1","id":"i","ts":"t","from":"x"}"#);
        assert_eq!((said.protocol, &*said.id, &*said.ts), (Protocol::Mcpx01, "i", "t"));
        assert_eq!(&*said.from, "me");
    }

    #[test]
    fn what_is_no_message_is_refused_with_words_that_name_the_member() {
        let with = |member: &str, value: serde_json::Value| {
            let mut message = json!({"id": "1", "kind": "chat"});
            message[member] = value;
            message.to_string()
        };
        let many = |most: usize| json!(vec!["x"; most]);
        let long = |bytes: usize| json!("x".repeat(bytes));
        let extra = |most: usize| {
            let members: Vec<_> = (0..most).map(|n| format!("\"x{n}\":1")).collect();
            format!("{{\"kind\":\"chat\",{}}}", members.join(","))
        };
        for (text, said) in [
            (String::new(), "EOF"),
            ("[]".to_owned(), "JSON object"),
            ("7".to_owned(), "JSON object"),
            (
                r#"{"kind":"chat","payload":{"a":{"b":1,"b":2}}}"#.to_owned(),
                "`b` stands there twice",
            ),
            (r#"{"kind":"chat","\u006bind":"x"}"#.to_owned(), "`kind` stands there twice"),
            (format!("{{\"kind\":\"chat\",\"payload\":{}", "[".repeat(9_999)), "recursion limit"),
            (r#"{"id":"1"}"#.to_owned(), "has a `kind`"),
            (with("kind", json!(1)), "`kind` must be a text"),
            (with("kind", json!("")), "the kind is empty"),
            (with("kind", json!("a\nb")), "control character"),
            (with("kind", long(5_000)), "more than 4096 bytes"),
            (with("kind", json!("mcp/request:")), "METHOD"),
            (with("id", json!(5)), "`id` must be a text"),
            (with("id", json!("")), "`id` is empty"),
            (with("id", long(257)), "`id` has more than 256 bytes"),
            (with("id", json!("a\u{1b}")), "`id` has a control character"),
            (with("ts", long(65)), "`ts` has more than 64 bytes"),
            (with("from", json!({})), "`from` must be a text"),
            (with("to", json!([1])), "`to` must be a text or a list of texts"),
            (with("to", json!({"a": "b"})), "`to` must be a text or a list of texts"),
            (with("to", many(257)), "`to` has more than 256 entries"),
            (with("correlation_id", json!([""])), "`correlation_id` is empty"),
            (with("correlation_id", json!(7)), "`correlation_id` must be"),
            (with("protocol", json!(1)), "`protocol` must be a text"),
            (with("protocol", json!("mew/v9")), "`mew/v9` is not spoken here: `mcpx/v0.1`"),
            (extra(65), "more than 64 unknown members"),
        ] {
            let error = Draft::read(&text).unwrap_err();
            let start = &text[..text.len().min(80)];
            assert!(error.message.contains(said), "{start}: {error}");
            assert!(error.message.len() < 300, "{start}: {error}");
            let is_protocol = error.error == "unsupported_protocol";
            assert_eq!(is_protocol, said.contains("spoken"), "{start}");
        }
        for text in [with("id", long(256)), with("to", many(256)), with("to", json!([])), extra(64)]
        {
            Draft::read(&text).unwrap();
        }
    }

    #[test]
    fn an_error_knows_the_message_where_there_is_one() {
        for (text, id, kind) in [
            (r#"{"id":"7","kind":"chat","to":5}"#, Some("7"), Some("chat")),
            (r#"{"id":"7","kind":"chat","payload":{"a":1,"a":2}}"#, Some("7"), Some("chat")),
            (r#"{"id":7,"kind":"mcp/request:"}"#, None, Some("mcp/request:")),
            (r#"{"id":"7","kind":"chat","#, None, None),
            ("[]", None, None),
        ] {
            let error = Draft::read(text).unwrap_err();
            assert_eq!((error.id.as_deref(), error.kind.as_deref()), (id, kind), "{text}");
        }
    }
}
