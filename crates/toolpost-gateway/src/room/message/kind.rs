//! Kinds: `chat`, `mcp/request:tools/call:read_file`, and what stands where in them.

use std::borrow::Cow;
use std::fmt;

use super::target::McpTarget;

/// The kinds that say which METHOD and CONTEXT they are about.
const EXTENDED_KINDS: [&str; 4] =
    ["mcp/request", "mcp/response", "mcp/proposal", "mcp/notification"];

/// A kind taken apart: `BASE[:METHOD[:CONTEXT]]`.
///
/// Only `mcp/request`, `mcp/response`, `mcp/proposal` and `mcp/notification` have a METHOD; every other
/// kind is a base as a whole. The text behind the second `:` is the CONTEXT whole, so that URIs survive.
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
    /// The whole kind, in which `*` and `%` of the CONTEXT are written as `%2A` and `%25`.
    full: Box<str>,
    /// Where the base ends in it.
    base_end: usize,
    /// Where the METHOD ends in it, if there is one.
    method_end: Option<usize>,
    /// The CONTEXT, where `full` does not hold it as it is.
    decoded_context: Option<Box<str>>,
    /// The CONTEXT as it was written, where it can be read in another way than `context` does: whether
    /// its author encoded it is known only when it is compared with a payload.
    raw_context: Option<Box<str>>,
}

/// Why a text is no kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KindError {
    /// There is nothing.
    #[error("the kind is empty")]
    Empty,
    /// There is too much.
    #[error("the kind has more than {} bytes", MessageKind::MAX_BYTES)]
    TooLong,
    /// A character that would change how a line is shown.
    #[error("the kind has a control character")]
    ControlCharacter,
    /// A METHOD that could be taken for another one.
    #[error("the METHOD of a kind must not be empty or contain `:`, `*` or `%`")]
    InvalidMethod,
}

impl MessageKind {
    /// How many bytes a kind may have, encoded.
    pub const MAX_BYTES: usize = 4 * 1024;

    /// Takes a kind apart. A CONTEXT may come encoded or as it is.
    ///
    /// # Errors
    ///
    /// It is empty, longer than [`MessageKind::MAX_BYTES`], has control characters, or a METHOD that no method
    /// can have.
    pub fn parse(text: &str) -> Result<Self, KindError> {
        check_kind_text(text)?;
        let (base, rest) = match text.split_once(':') {
            Some((base, rest)) if EXTENDED_KINDS.contains(&base) => (base, Some(rest)),
            _ => (text, None),
        };
        let Some(rest) = rest else { return Self::build(base, None, None) };
        let Some((method, written)) = rest.split_once(':') else {
            return Self::build(base, Some(rest), None);
        };
        let context = decode_context(written);
        let mut kind = Self::build(base, Some(method), Some(&context))?;
        kind.raw_context = (context != written).then(|| written.into());
        Ok(kind)
    }

    /// The whole kind, `*` and `%` of its CONTEXT percent-encoded.
    pub fn full(&self) -> &str {
        &self.full
    }

    /// The kind without METHOD and CONTEXT.
    pub fn short(&self) -> &str {
        &self.full[..self.base_end]
    }

    /// The MCP method, such as `tools/call`.
    pub fn method(&self) -> Option<&str> {
        self.method_end.map(|end| &self.full[self.base_end + 1..end])
    }

    /// The tool, the resource, the prompt or the completion's reference, decoded.
    pub fn context(&self) -> Option<&str> {
        let end = self.method_end?;
        self.decoded_context.as_deref().or_else(|| self.full.get(end + 1..))
    }

    /// Whether it is one of the kinds that say which METHOD they are about.
    pub fn is_extended(&self) -> bool {
        EXTENDED_KINDS.contains(&self.short())
    }

    /// The same kind with this method and name.
    ///
    /// # Errors
    ///
    /// The method or the name cannot stand in a kind.
    pub fn with_target(&self, target: &McpTarget) -> Result<Self, KindError> {
        Self::build(self.short(), Some(&target.method), target.name.as_deref())
    }

    /// A kind of the gateway itself, or of the parts that every message of it has in common.
    pub(crate) fn from_base(base: &str) -> Self {
        let base = if check_kind_text(base).is_ok() { base } else { "mcp" };
        let end = base.len();
        Self {
            full: base.into(),
            base_end: end,
            method_end: None,
            decoded_context: None,
            raw_context: None,
        }
    }

    /// The request that asks this.
    pub(crate) fn request_for(target: &McpTarget) -> Self {
        Self::for_target("mcp/request", target)
    }

    /// The response to the request that asks this.
    pub(crate) fn response_for(target: &McpTarget) -> Self {
        Self::for_target("mcp/response", target)
    }

    /// The method and name came from a valid kind, so they fit into another.
    fn for_target(base: &str, target: &McpTarget) -> Self {
        let plain = Self::from_base(base);
        plain.with_target(target).unwrap_or(plain)
    }

    /// Whether its CONTEXT can be read as `name`.
    pub(super) fn matches_name(&self, name: &str) -> bool {
        self.context() == Some(name) || self.raw_context.as_deref() == Some(name)
    }

    fn build(base: &str, method: Option<&str>, context: Option<&str>) -> Result<Self, KindError> {
        let encoded = context.map(encode_context);
        let parts: Vec<&str> =
            [Some(base), method, encoded.as_deref()].into_iter().flatten().collect();
        let full = parts.join(":");
        check_kind_text(&full)?;
        if method.is_some_and(|method| method.is_empty() || method.contains([':', '*', '%'])) {
            return Err(KindError::InvalidMethod);
        }
        let decoded = context.filter(|context| encoded.as_deref() != Some(*context));
        Ok(Self {
            base_end: base.len(),
            method_end: method.map(|method| base.len() + 1 + method.len()),
            decoded_context: decoded.map(Into::into),
            raw_context: None,
            full: full.into(),
        })
    }
}

/// How a CONTEXT was written does not matter once it is taken apart.
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

fn encode_context(context: &str) -> Cow<'_, str> {
    if !context.contains(['*', '%']) {
        return context.into();
    }
    context.replace('%', "%25").replace('*', "%2A").into()
}

/// The CONTEXT that a text stands for: decoded where all of it is encoded, and as it is otherwise,
/// since other `%` belong to URIs.
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
        // What is short enough may be too long once it is encoded.
        let stars = format!("mcp/request:x:{}", "*".repeat(MessageKind::MAX_BYTES / 2));
        assert_eq!(MessageKind::parse(&stars).unwrap_err(), KindError::TooLong);
    }
}
