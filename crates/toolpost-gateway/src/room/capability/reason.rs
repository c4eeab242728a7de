//! Why a message may not be sent, in words.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::kind::Fit;
use super::node::{Find, Node, member};
use super::traversal::climbs;
use super::{Capabilities, Capability, Subject};

/// The most characters of anything that is quoted.
const LONGEST_QUOTE: usize = 120;

/// Why a message is refused. It is worded when it is shown, in at most about 500 characters.
#[derive(Debug, Clone, Copy)]
pub struct Reason<'a> {
    capabilities: &'a Capabilities,
    subject: &'a Subject<'a>,
}

impl<'a> Reason<'a> {
    pub(super) fn new(capabilities: &'a Capabilities, subject: &'a Subject<'a>) -> Self {
        Self { capabilities, subject }
    }

    /// The capability that came nearest, the first of them, and how near it came.
    fn nearest(&self) -> Option<(Fit, &'a Capability)> {
        let fits =
            self.capabilities.iter().map(|capability| (capability.fit(self.subject), capability));
        fits.reduce(|best, next| if next.0 > best.0 { next } else { best })
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = Quote(self.subject.kind());
        if self.subject.is_reserved() {
            return write!(formatter, "{kind} is the gateway's own; no capability reaches it");
        }
        match self.nearest() {
            None => write!(formatter, "there is no capability, so nothing may be sent"),
            Some((Fit::Kind, capability)) => self.of_kind(formatter, capability),
            Some((Fit::Payload, capability)) => self.of_payload(formatter, capability),
            Some((fit, capability)) => self.of_part(formatter, fit, capability),
        }
    }
}

impl Reason<'_> {
    fn of_kind(&self, formatter: &mut fmt::Formatter<'_>, first: &Capability) -> fmt::Result {
        let kind = Quote(self.subject.kind());
        match (self.capabilities.len(), first.unknown_member()) {
            (1, Some(member)) => {
                let (own, member) = (Quote(&first.to_string()), Quote(member));
                write!(formatter, "{own} allows nothing: its member {member} is not known")
            }
            (1, None) => {
                write!(formatter, "{} does not cover the kind {kind}", Quote(&first.to_string()))
            }
            (several, _) => {
                write!(formatter, "none of the {several} capabilities covers the kind {kind}")
            }
        }
    }

    fn of_part(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        fit: Fit,
        nearest: &Capability,
    ) -> fmt::Result {
        let method = self.subject.method();
        let (what, part) = match fit {
            Fit::Method => ("method", method),
            _ => (noun(method.unwrap_or_default()), self.subject.context()),
        };
        let own = nearest.to_string();
        let own = Quote(&own);
        match part {
            None => write!(formatter, "{own} does not cover a message that names no {what}"),
            Some(part) if climbs(part) => {
                let part = Quote(part);
                write!(
                    formatter,
                    "{own} does not cover the {what} {part}: it has a segment of dots"
                )
            }
            Some(part) => write!(formatter, "{own} does not cover the {what} {}", Quote(part)),
        }
    }

    fn of_payload(&self, formatter: &mut fmt::Formatter<'_>, nearest: &Capability) -> fmt::Result {
        write!(formatter, "{} does not fit: ", Quote(&nearest.to_string()))?;
        let Some(payload) = self.subject.payload() else {
            let unread = self.subject.has_payload();
            let why = if unread { "the payload cannot be read" } else { "there is no payload" };
            return formatter.write_str(why);
        };
        match nearest.0.payload.iter().find(|node| !node.matches(payload)) {
            Some(node) => say(formatter, node, payload, "payload".to_owned()),
            None => formatter.write_str("the payload is another one"),
        }
    }
}

/// Says what does not fit, as deep inside as it can be told.
fn say(
    formatter: &mut fmt::Formatter<'_>,
    node: &Node,
    value: &Value,
    place: String,
) -> fmt::Result {
    match (node, value) {
        (Node::Object(nodes), Value::Object(_)) => {
            match nodes.iter().find(|node| !node.matches(value)) {
                Some(node) => say(formatter, node, value, place),
                None => write!(formatter, "{} fits", Quote(&place)),
            }
        }
        (Node::Find(Find::Key(key), node), Value::Object(members)) => {
            let place = format!("{place}.{key}");
            match member(members, key) {
                Some(value) => say(formatter, node, value, place),
                None => write!(formatter, "{} is missing", Quote(&place)),
            }
        }
        (Node::Find(..), _) => {
            write!(formatter, "nothing that is asked for is in {}", Quote(&place))
        }
        (_, Value::Object(_)) => write!(formatter, "{} is an object", Quote(&place)),
        (_, Value::Array(_)) => write!(formatter, "{} is a list", Quote(&place)),
        (_, Value::String(text)) if climbs(text) => {
            write!(formatter, "{} is {}, with a segment of dots", Quote(&place), Quote(text))
        }
        (_, Value::String(text)) => write!(formatter, "{} is {}", Quote(&place), Quote(text)),
        _ => write!(formatter, "{} is {value}", Quote(&place)),
    }
}

/// What the CONTEXT of a method is.
fn noun(method: &str) -> &'static str {
    match method.split('/').next() {
        Some("tools") => "tool",
        Some("resources") => "resource",
        Some("prompts") => "prompt",
        Some("completion") => "completion",
        _ => "context",
    }
}

/// Something that was said, in quotes and not too long.
struct Quote<'a>(&'a str);

impl fmt::Display for Quote<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.char_indices().nth(LONGEST_QUOTE);
        let (shown, rest) = self.0.split_at(cut.map_or(self.0.len(), |(at, _)| at));
        let dots = if rest.is_empty() { "" } else { "…" };
        formatter.write_str("`")?;
        for letter in shown.chars() {
            match letter.is_control() {
                true => write!(formatter, "{}", letter.escape_debug())?,
                false => formatter.write_char(letter)?,
            }
        }
        write!(formatter, "{dots}`")
    }
}
