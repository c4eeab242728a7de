//! Kinds such as `chat` and `mcp/request:tools/call:read_file`, and their parts.

use std::borrow::Cow;
use std::fmt;

use super::base_kind::BaseKind;
use super::target::McpTarget;

/// A parsed kind: `BASE[:METHOD[:CONTEXT]]`.
///
/// Only `mcp/request`, `mcp/response`, `mcp/proposal` and `mcp/notification` have a METHOD; any
/// other kind is a base as a whole. All text after the second `:` is the CONTEXT, so it can be a
/// URI.
///
/// ```
/// use toolpost_gateway::room::message::MessageKind;
///
/// let kind = MessageKind::parse("mcp/response:resources/read:file:///a%2Ab").unwrap();
/// assert_eq!(kind.short(), "mcp/response");
/// assert_eq!(kind.method(), Some("resources/read"));
/// assert_eq!(kind.context(), Some("file:///a*b"));
/// assert_eq!(kind.full(), "mcp/response:resources/read:file:///a%2Ab");
/// ```
#[derive(Debug, Clone)]
pub struct MessageKind {
    /// The full kind, with `*` and `%` in the CONTEXT encoded as `%2A` and `%25`.
    full: Box<str>,
    /// The base, if the gateway interprets it.
    base: Option<BaseKind>,
    /// End of the base in `full`.
    base_end: usize,
    /// The METHOD and the decoded CONTEXT.
    target: Option<McpTarget>,
    /// The CONTEXT as written, if it differs from the decoded one. Whether the sender encoded it is
    /// known only after comparison with a payload.
    raw_context: Option<Box<str>>,
}

/// Error returned when a string is not a valid kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KindError {
    /// The kind is empty.
    #[error("the kind is empty")]
    Empty,
    /// The kind is too long.
    #[error("the kind has more than {} bytes", MessageKind::MAX_BYTES)]
    TooLong,
    /// The kind contains a control character.
    #[error("the kind has a control character")]
    ControlCharacter,
    /// The METHOD is empty or contains `:`, `*` or `%`.
    #[error("the METHOD of a kind must not be empty or contain `:`, `*` or `%`")]
    InvalidMethod,
}

impl MessageKind {
    /// Maximum size of an encoded kind, in bytes.
    pub const MAX_BYTES: usize = 4 * 1024;

    /// Parses a kind. The CONTEXT can be percent-encoded or literal.
    ///
    /// # Errors
    ///
    /// The kind is empty, longer than [`MessageKind::MAX_BYTES`], contains control characters, or
    /// has an invalid METHOD.
    pub fn parse(text: &str) -> Result<Self, KindError> {
        check_kind_text(text)?;
        let is_extended = |base| BaseKind::parse(base).is_some_and(BaseKind::is_extended);
        let Some((base, rest)) = text.split_once(':').filter(|(base, _)| is_extended(base)) else {
            return Self::build(text, None);
        };
        let (method, written) =
            rest.split_once(':').map_or((rest, None), |(method, written)| (method, Some(written)));
        let name = written.map(decode_context);
        let raw_context = written.filter(|written| name.as_deref() != Some(*written));
        let target = McpTarget { method: method.into(), name: name.as_deref().map(Into::into) };
        let raw_context = raw_context.map(Into::into);
        Ok(Self { raw_context, ..Self::build(base, Some(target))? })
    }

    /// The full kind, with `*` and `%` in the CONTEXT percent-encoded.
    pub fn full(&self) -> &str {
        &self.full
    }

    /// The kind without METHOD and CONTEXT.
    pub fn short(&self) -> &str {
        &self.full[..self.base_end]
    }

    /// The kind without METHOD and CONTEXT, if the gateway interprets it.
    pub fn base(&self) -> Option<BaseKind> {
        self.base
    }

    /// The METHOD and the decoded CONTEXT: the MCP method and the tool, resource, prompt or
    /// completion reference.
    pub fn target(&self) -> Option<&McpTarget> {
        self.target.as_ref()
    }

    /// The MCP method, such as `tools/call`.
    pub fn method(&self) -> Option<&str> {
        self.target().map(|target| &*target.method)
    }

    /// The decoded CONTEXT.
    pub fn context(&self) -> Option<&str> {
        self.target()?.name.as_deref()
    }

    /// Returns the same kind with this method and name.
    ///
    /// # Errors
    ///
    /// The method or the name is not valid in a kind.
    pub fn with_target(&self, target: &McpTarget) -> Result<Self, KindError> {
        Self::build(self.short(), Some(target.clone()))
    }

    /// Builds a kind with this base. The target is from a valid kind; if the result is invalid
    /// nevertheless, returns the base alone.
    pub(crate) fn for_target(base: BaseKind, target: &McpTarget) -> Self {
        let plain = Self::from(base);
        plain.with_target(target).unwrap_or(plain)
    }

    /// Whether this kind, as sent, lacks a METHOD or CONTEXT that the full kind of its message has.
    pub(crate) fn is_shorter_than(&self, full: &Self) -> bool {
        let is_missing = |own: Option<&str>, full: Option<&str>| own.is_none() && full.is_some();
        is_missing(self.method(), full.method()) || is_missing(self.context(), full.context())
    }

    /// Whether the CONTEXT, decoded or as written, equals `name`.
    pub(super) fn matches_name(&self, name: &str) -> bool {
        self.context() == Some(name) || self.raw_context.as_deref() == Some(name)
    }

    fn build(base: &str, target: Option<McpTarget>) -> Result<Self, KindError> {
        let mut full = base.to_owned();
        if let Some(McpTarget { method, name }) = &target {
            let name = name.as_deref().map(|name| format!(":{}", encode_context(name)));
            full = format!("{base}:{method}{}", name.unwrap_or_default());
        }
        check_kind_text(&full)?;
        let is_invalid = |target: &McpTarget| {
            target.method.is_empty() || target.method.contains([':', '*', '%'])
        };
        if target.as_ref().is_some_and(is_invalid) {
            return Err(KindError::InvalidMethod);
        }
        let (base, base_end) = (BaseKind::parse(base), base.len());
        Ok(Self { full: full.into(), base, base_end, target, raw_context: None })
    }
}

impl From<BaseKind> for MessageKind {
    fn from(base: BaseKind) -> Self {
        let full: Box<str> = base.as_str().into();
        Self { base_end: full.len(), full, base: Some(base), target: None, raw_context: None }
    }
}

/// Kinds are equal if their full forms are equal, regardless of how the CONTEXT was written.
impl PartialEq for MessageKind {
    fn eq(&self, other: &Self) -> bool {
        self.full == other.full
    }
}

impl Eq for MessageKind {}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

fn check_kind_text(text: &str) -> Result<(), KindError> {
    if text.is_empty() {
        Err(KindError::Empty)
    } else if text.len() > MessageKind::MAX_BYTES {
        Err(KindError::TooLong)
    } else if text.contains(char::is_control) {
        Err(KindError::ControlCharacter)
    } else {
        Ok(())
    }
}

fn encode_context(context: &str) -> String {
    context.replace('%', "%25").replace('*', "%2A")
}

/// Decodes a CONTEXT if it is fully encoded, and returns it unchanged otherwise, since other `%`
/// belong to URIs.
fn decode_context(written: &str) -> Cow<'_, str> {
    let is_encoded = |code: &&str| ["25", "2A", "2a"].iter().any(|ours| code.starts_with(ours));
    let mut codes = written.split('%').skip(1).peekable();
    if codes.peek().is_none() || written.contains('*') || !codes.all(|code| is_encoded(&code)) {
        return written.into();
    }
    written.replace("%2A", "*").replace("%2a", "*").replace("%25", "%").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_parse_and_format_round_trip() {
        let uri = "file:///a:b?c=d";
        for (text, short, method, context, full) in [
            ("chat", "chat", None, None, "chat"),
            ("mcp/reject", "mcp/reject", None, None, "mcp/reject"),
            ("custom:a:b", "custom:a:b", None, None, "custom:a:b"),
            ("mcp/requests:a", "mcp/requests:a", None, None, "mcp/requests:a"),
            ("mcp/request", "mcp/request", None, None, "mcp/request"),
            ("mcp/request:x", "mcp/request", Some("x"), None, "mcp/request:x"),
            ("mcp/proposal:x:", "mcp/proposal", Some("x"), Some(""), "mcp/proposal:x:"),
            ("mcp/response:x:y:z", "mcp/response", Some("x"), Some("y:z"), "mcp/response:x:y:z"),
            (
                "mcp/request:resources/read:file:///a:b?c=d",
                "mcp/request",
                Some("resources/read"),
                Some(uri),
                "mcp/request:resources/read:file:///a:b?c=d",
            ),
            ("mcp/request:x:a*", "mcp/request", Some("x"), Some("a*"), "mcp/request:x:a%2A"),
            ("mcp/request:x:a%2a", "mcp/request", Some("x"), Some("a*"), "mcp/request:x:a%2A"),
            ("mcp/request:x:%252A", "mcp/request", Some("x"), Some("%2A"), "mcp/request:x:%252A"),
            ("mcp/request:x:a%20", "mcp/request", Some("x"), Some("a%20"), "mcp/request:x:a%2520"),
            ("mcp/request:x:%", "mcp/request", Some("x"), Some("%"), "mcp/request:x:%25"),
        ] {
            let kind = MessageKind::parse(text).unwrap();
            let parts = (kind.short(), kind.method(), kind.context(), kind.full());
            assert_eq!(parts, (short, method, context, full), "{text}");
            assert_eq!(MessageKind::parse(full).unwrap().context(), context, "{text}");
        }
    }

    #[test]
    fn ambiguous_kind_is_rejected() {
        let long = "x".repeat(MessageKind::MAX_BYTES + 1);
        for (text, error) in [
            ("", KindError::Empty),
            (&long, KindError::TooLong),
            ("chat\u{7f}", KindError::ControlCharacter),
            ("mcp/request:tools/call:a\r", KindError::ControlCharacter),
            ("mcp/request:", KindError::InvalidMethod),
            ("mcp/request::a", KindError::InvalidMethod),
            ("mcp/request:*", KindError::InvalidMethod),
            ("mcp/request:tools%2Fcall:a", KindError::InvalidMethod),
        ] {
            assert_eq!(MessageKind::parse(text).unwrap_err(), error);
        }
        // A kind within the limit can exceed it once encoded.
        let stars = format!("mcp/request:x:{}", "*".repeat(MessageKind::MAX_BYTES / 2));
        assert_eq!(MessageKind::parse(&stars).unwrap_err(), KindError::TooLong);
    }
}
