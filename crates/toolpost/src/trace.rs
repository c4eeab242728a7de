//! W3C trace context of a call: `traceparent` and `tracestate` in the call metadata. It is
//! propagated with every call, whether or not this process records traces.

use std::fmt;

use serde_json::{Map, Value};

/// Name of the trace context in HTTP headers, MCP `_meta` and call metadata.
pub const TRACE_PARENT: &str = "traceparent";
/// Name of the vendor-specific trace state that accompanies [`TRACE_PARENT`].
pub const TRACE_STATE: &str = "tracestate";

/// Maximum length of a forwarded `tracestate`, in bytes.
const MAX_STATE_LEN: usize = 512;
/// Flag bit of a sampled trace.
const SAMPLED: u8 = 1;

/// Trace context: the trace id, the span id and the sampled flag.
///
/// ```
/// use toolpost::TraceContext;
///
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let context = TraceContext::parse(text).unwrap();
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), text);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace id, shared by all spans of the trace; never zero.
    pub trace_id: u128,
    /// Parent span of subsequent work; never zero.
    pub span_id: u64,
    /// Trace flags as a bit field; bit 0 is the sampled flag.
    pub flags: u8,
}

/// Spans of one call: the call itself and the dispatch to its source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSpan {
    /// The call.
    pub call: TraceContext,
    /// Span that caused the call.
    pub parent: Option<u64>,
    /// Span of the work done by the source, if it has its own span.
    pub dispatch: Option<u64>,
}

impl TraceContext {
    /// Parses `version-trace-span-flags`. For an unknown version, only these four fields are read.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain =
            text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-' | b'.'..=b'~'));
        let version = text.get(..2).filter(|version| is_plain && *version != "ff")?;
        let rest = text.get(55..)?;
        let is_complete = rest.is_empty() || version != "00" && rest.starts_with('-');
        let has_dashes = [2, 35, 52].iter().all(|at| text.as_bytes()[*at] == b'-');
        hex_digits(version)?;
        let trace_id = u128::from_str_radix(hex_digits(&text[3..35])?, 16).ok()?;
        let span_id = u64::from_str_radix(hex_digits(&text[36..52])?, 16).ok()?;
        let flags = u8::from_str_radix(hex_digits(&text[53..55])?, 16).ok()?;
        let is_valid = trace_id != 0 && span_id != 0;
        (is_complete && has_dashes && is_valid).then_some(Self { trace_id, span_id, flags })
    }

    /// Returns the trace context in the metadata of a call.
    pub fn from_metadata(metadata: &Map<String, Value>) -> Option<Self> {
        Self::parse(metadata.get(TRACE_PARENT)?.as_str()?)
    }

    /// Whether the trace is sampled.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the context of another span in the same trace.
    #[must_use]
    pub fn with_span(self, span_id: u64) -> Self {
        Self { span_id, ..self }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl CallSpan {
    /// Creates the span of a call with its parent and dispatch spans.
    pub fn new(call: TraceContext, parent: Option<u64>, dispatch: Option<u64>) -> Self {
        Self { call, parent, dispatch }
    }

    /// Returns the parent context for work done by the call.
    pub fn child_context(&self) -> TraceContext {
        self.call.with_span(self.dispatch.unwrap_or(self.call.span_id))
    }
}

/// Builds call metadata from trace headers. Returns `None` if `parent` is not a valid
/// `traceparent`; a `state` over the length limit is omitted.
pub fn trace_metadata(parent: Option<&str>, state: Option<&str>) -> Option<Map<String, Value>> {
    let parent = parent.filter(|text| TraceContext::parse(text).is_some())?;
    let mut metadata = Map::new();
    metadata.insert(TRACE_PARENT.to_owned(), parent.into());
    if let Some(state) = state.filter(|state| state.len() <= MAX_STATE_LEN) {
        metadata.insert(TRACE_STATE.to_owned(), state.into());
    }
    Some(metadata)
}

/// Returns the `traceparent` and `tracestate` members of call metadata for forwarding; none if
/// `traceparent` is invalid.
#[cfg(any(test, feature = "mcp", feature = "openapi"))]
pub(crate) fn trace_members(
    metadata: Option<&Map<String, Value>>,
) -> impl Iterator<Item = (&'static str, &str)> {
    let valid_metadata =
        metadata.filter(|metadata| TraceContext::from_metadata(metadata).is_some());
    let names = [TRACE_PARENT, TRACE_STATE];
    names.into_iter().filter_map(move |name| Some((name, valid_metadata?.get(name)?.as_str()?)))
}

/// Returns `text` if it consists only of lowercase hex digits. `from_str_radix` would also accept a
/// leading sign.
fn hex_digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_context_parses_valid_traceparent_only() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let newer = format!("cc{}-what-the-future-brings", &good[2..]);
        for (text, expected) in [
            (good, true),
            (&newer, true),
            (&newer[..55], true),
            (&good.replace("-01", "-00"), true),
            (&format!("{good}-more"), false),
            (&good.replace("00-", "ff-"), false),
            (&good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)), false),
            (&good.replace("b7ad6b7169203331", &"0".repeat(16)), false),
            (&good.to_uppercase(), false),
            (&good.replace("-b7", "-+7"), false),
            (&good[..54], false),
            (&format!("{good} "), false),
            (&good.replace("c-b", "cäb"), false),
            ("", false),
            ("00-x-y-01", false),
        ] {
            assert_eq!(TraceContext::parse(text).is_some(), expected, "{text}");
        }
        let read = TraceContext::parse(good).unwrap();
        assert_eq!((read.span_id, read.is_sampled()), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(read.to_string(), good);
        let span = CallSpan::new(read, Some(7), Some(9));
        assert_eq!(
            span.child_context().to_string(),
            good.replace("b7ad6b7169203331", "0000000000000009")
        );
    }

    #[test]
    fn invalid_trace_is_not_propagated() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let long = "x".repeat(513);
        for (parent, state, expected) in [
            (Some(good), Some("a=b"), 2),
            (Some(good), Some(&*long), 1),
            (Some(good), None, 1),
            (Some("odd"), Some("a=b"), 0),
            (None, Some("a=b"), 0),
        ] {
            let metadata = trace_metadata(parent, state);
            assert_eq!(trace_members(metadata.as_ref()).count(), expected, "{parent:?} {state:?}");
        }
    }
}
