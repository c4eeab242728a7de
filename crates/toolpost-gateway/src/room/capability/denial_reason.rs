//! Formats why a message is denied.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::kind_pattern::MatchDepth;
use super::payload_pattern::{PatternNode, PatternSelector, get_member};
use super::traversal::has_dot_segment;
use super::{Capabilities, Capability, CapabilityRequest};

/// Maximum number of characters in a quoted string.
const MAX_QUOTE_CHARS: usize = 120;

/// Why a message is denied. Formatted on display, in at most about 500 characters.
#[derive(Debug, Clone, Copy)]
pub struct DenialReason<'a> {
    capabilities: &'a Capabilities,
    request: &'a CapabilityRequest<'a>,
}

impl<'a> DenialReason<'a> {
    pub(super) fn new(capabilities: &'a Capabilities, request: &'a CapabilityRequest<'a>) -> Self {
        Self { capabilities, request }
    }

    /// Returns the first capability with the deepest match, and its depth.
    fn closest(&self) -> Option<(MatchDepth, &'a Capability)> {
        let fits = self
            .capabilities
            .iter()
            .map(|capability| (capability.match_depth(self.request), capability));
        fits.reduce(|best, next| if next.0 > best.0 { next } else { best })
    }
}

impl fmt::Display for DenialReason<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = Quoted(self.request.kind());
        if self.request.is_reserved() {
            return write!(
                formatter,
                "{kind} is reserved for the gateway; no capability covers it"
            );
        }
        match self.closest() {
            None => write!(formatter, "there are no capabilities, so nothing can be sent"),
            Some((MatchDepth::Kind, capability)) => self.write_kind_mismatch(formatter, capability),
            Some((MatchDepth::Payload, capability)) => {
                self.write_payload_mismatch(formatter, capability)
            }
            Some((fit, capability)) => self.write_part_mismatch(formatter, fit, capability),
        }
    }
}

impl DenialReason<'_> {
    fn write_kind_mismatch(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        first: &Capability,
    ) -> fmt::Result {
        let kind = Quoted(self.request.kind());
        match (self.capabilities.len(), first.unknown_member()) {
            (1, Some(member)) => {
                let (own, member) = (Quoted(&first.to_string()), Quoted(member));
                write!(formatter, "{own} allows nothing: its member {member} is unknown")
            }
            (1, None) => {
                write!(formatter, "{} does not cover the kind {kind}", Quoted(&first.to_string()))
            }
            (several, _) => {
                write!(formatter, "none of the {several} capabilities covers the kind {kind}")
            }
        }
    }

    fn write_part_mismatch(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        fit: MatchDepth,
        closest: &Capability,
    ) -> fmt::Result {
        let method = self.request.method();
        let (what, part) = match fit {
            MatchDepth::Method => ("method", method),
            _ => (context_noun(method.unwrap_or_default()), self.request.context()),
        };
        let own = closest.to_string();
        let own = Quoted(&own);
        match part {
            None => write!(formatter, "{own} does not cover a message without a {what}"),
            Some(part) if has_dot_segment(part) => {
                let part = Quoted(part);
                write!(
                    formatter,
                    "{own} does not cover the {what} {part}: it has a `.` or `..` segment"
                )
            }
            Some(part) => write!(formatter, "{own} does not cover the {what} {}", Quoted(part)),
        }
    }

    fn write_payload_mismatch(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        closest: &Capability,
    ) -> fmt::Result {
        write!(formatter, "{} does not match: ", Quoted(&closest.to_string()))?;
        let Some(payload) = self.request.payload() else {
            let unread = self.request.has_payload();
            let why = if unread { "the payload cannot be read" } else { "there is no payload" };
            return formatter.write_str(why);
        };
        match closest.0.payload.iter().find(|node| !node.matches(payload)) {
            Some(node) => write_mismatch(formatter, node, payload, "payload".to_owned()),
            None => formatter.write_str("the payload differs"),
        }
    }
}

/// Writes the innermost mismatch between a pattern and a value.
fn write_mismatch(
    formatter: &mut fmt::Formatter<'_>,
    node: &PatternNode,
    value: &Value,
    path: String,
) -> fmt::Result {
    match (node, value) {
        (PatternNode::Object(nodes), Value::Object(_)) => {
            match nodes.iter().find(|node| !node.matches(value)) {
                Some(node) => write_mismatch(formatter, node, value, path),
                None => write!(formatter, "{} matches", Quoted(&path)),
            }
        }
        (PatternNode::Select(PatternSelector::Key(key), node), Value::Object(members)) => {
            let path = format!("{path}.{key}");
            match get_member(members, key) {
                Some(value) => write_mismatch(formatter, node, value, path),
                None => write!(formatter, "{} is missing", Quoted(&path)),
            }
        }
        (PatternNode::Select(..), _) => {
            write!(formatter, "no value that the pattern requires is in {}", Quoted(&path))
        }
        (_, Value::Object(_)) => write!(formatter, "{} is an object", Quoted(&path)),
        (_, Value::Array(_)) => write!(formatter, "{} is a list", Quoted(&path)),
        (_, Value::String(text)) if has_dot_segment(text) => {
            write!(
                formatter,
                "{} is {}, which has a `.` or `..` segment",
                Quoted(&path),
                Quoted(text)
            )
        }
        (_, Value::String(text)) => write!(formatter, "{} is {}", Quoted(&path), Quoted(text)),
        _ => write!(formatter, "{} is {value}", Quoted(&path)),
    }
}

/// Returns the noun for the CONTEXT of a method.
fn context_noun(method: &str) -> &'static str {
    match method.split('/').next() {
        Some("tools") => "tool",
        Some("resources") => "resource",
        Some("prompts") => "prompt",
        Some("completion") => "completion",
        _ => "context",
    }
}

/// A string in backticks, truncated and with control characters escaped.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.char_indices().nth(MAX_QUOTE_CHARS);
        let (quoted, rest) = self.0.split_at(cut.map_or(self.0.len(), |(at, _)| at));
        let dots = if rest.is_empty() { "" } else { "…" };
        formatter.write_str("`")?;
        for letter in quoted.chars() {
            match letter.is_control() {
                true => write!(formatter, "{}", letter.escape_debug())?,
                false => formatter.write_char(letter)?,
            }
        }
        write!(formatter, "{dots}`")
    }
}
