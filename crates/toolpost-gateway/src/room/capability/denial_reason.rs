//! Formats why a message is denied.

use std::fmt;

use serde_json::Value;

use super::kind_pattern::MatchDepth;
use super::payload_pattern::{PatternNode, PatternSelector, get_member};
use super::traversal::has_dot_segment;
use super::{Capabilities, Capability, CapabilityRequest};

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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = quoted(self.request.kind());
        if self.request.is_reserved() {
            return write!(f, "{kind} is reserved for the gateway; no capability covers it");
        }
        let Some((depth, closest)) = self.closest() else {
            return f.write_str("the sender has no capabilities");
        };
        let own = quoted(&closest.to_string());
        match (depth, self.capabilities.len(), closest.unknown_member()) {
            (MatchDepth::Kind, 1, Some(member)) => {
                write!(f, "{own} allows nothing: its member {} is unknown", quoted(member))
            }
            (MatchDepth::Kind, 1, None) => write!(f, "{own} does not cover the kind {kind}"),
            (MatchDepth::Kind, several, _) => {
                write!(f, "none of the {several} capabilities covers the kind {kind}")
            }
            (MatchDepth::Payload, ..) => {
                write!(f, "{own} does not match: {}", self.payload_mismatch(closest))
            }
            (MatchDepth::Addressees, ..) => {
                write!(f, "{own} does not cover {}", self.uncovered_addressee(closest))
            }
            (depth, ..) => write!(f, "{own} does not cover {}", self.uncovered_part(depth)),
        }
    }
}

impl DenialReason<'_> {
    fn uncovered_part(&self, depth: MatchDepth) -> String {
        let method = self.request.method();
        let (what, part) = match depth {
            MatchDepth::Method => ("method", method),
            _ => (context_noun(method.unwrap_or_default()), self.request.context()),
        };
        match part {
            None => format!("a message without a {what}"),
            Some(part) if has_dot_segment(part) => {
                format!("the {what} {}: it has a `.` or `..` segment", quoted(part))
            }
            Some(part) => format!("the {what} {}", quoted(part)),
        }
    }

    fn uncovered_addressee(&self, closest: &Capability) -> String {
        let pattern = closest.0.to.as_ref();
        match pattern.and_then(|pattern| pattern.first_uncovered(self.request.to())) {
            Some(name) => format!("messages to {}", quoted(name)),
            None => "a message without `to`, which is for all participants".to_owned(),
        }
    }

    fn payload_mismatch(&self, closest: &Capability) -> String {
        let Some(payload) = self.request.payload() else {
            let is_unreadable = self.request.has_payload();
            let what =
                if is_unreadable { "the payload cannot be read" } else { "there is no payload" };
            return what.to_owned();
        };
        match closest.0.payload.iter().find(|node| !node.matches(payload)) {
            Some(node) => mismatch(node, payload, "payload"),
            None => "the payload differs".to_owned(),
        }
    }
}

/// Describes the innermost mismatch between a pattern and a value.
fn mismatch(node: &PatternNode, value: &Value, path: &str) -> String {
    let at = quoted(path);
    match (node, value) {
        (PatternNode::Object(nodes), Value::Object(_)) => {
            match nodes.iter().find(|node| !node.matches(value)) {
                Some(node) => mismatch(node, value, path),
                None => format!("{at} matches"),
            }
        }
        (PatternNode::Select(PatternSelector::Key(key), node), Value::Object(members)) => {
            let path = format!("{path}.{key}");
            match get_member(members, key) {
                Some(value) => mismatch(node, value, &path),
                None => format!("{} is missing", quoted(&path)),
            }
        }
        (PatternNode::Select(..), _) => format!("no value that the pattern requires is in {at}"),
        (_, Value::Object(_)) => format!("{at} is an object"),
        (_, Value::Array(_)) => format!("{at} is a list"),
        (_, Value::String(text)) if has_dot_segment(text) => {
            format!("{at} is {}, which has a `.` or `..` segment", quoted(text))
        }
        (_, Value::String(text)) => format!("{at} is {}", quoted(text)),
        _ => format!("{at} is {value}"),
    }
}

fn context_noun(method: &str) -> &'static str {
    match method.split('/').next() {
        Some("tools") => "tool",
        Some("resources") => "resource",
        Some("prompts") => "prompt",
        Some("completion") => "completion",
        _ => "context",
    }
}

/// Quotes a string in backticks, truncated and with control characters escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("`");
    for letter in text.chars().take(MAX_QUOTE_CHARS) {
        match letter.is_control() {
            true => quoted.extend(letter.escape_debug()),
            false => quoted.push(letter),
        }
    }
    let is_truncated = text.chars().nth(MAX_QUOTE_CHARS).is_some();
    quoted.push_str(if is_truncated { "…`" } else { "`" });
    quoted
}
