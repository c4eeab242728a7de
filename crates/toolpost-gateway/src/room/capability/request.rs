//! The message that a capability decision is about: its kind, payload and addressees.

use std::sync::OnceLock;

use serde_json::Value;
use serde_json::value::RawValue;

/// A message to check against capabilities. Its payload is parsed at most once, and only if a
/// capability inspects it.
#[derive(Debug)]
pub struct CapabilityRequest<'a> {
    kind: &'a str,
    /// Ends of the BASE (`base_end`) and the METHOD (`method_end`) in `kind`.
    base_end: usize,
    method_end: usize,
    is_mcp: bool,
    payload: Option<&'a RawValue>,
    to: &'a [Box<str>],
    parsed: OnceLock<Option<Value>>,
}

impl<'a> CapabilityRequest<'a> {
    /// Creates a request. `kind` must be the full kind, with the METHOD and CONTEXT of the payload:
    /// both capability notations are equivalent only if the kind and the payload agree.
    pub fn new(kind: &'a str, payload: Option<&'a RawValue>) -> Self {
        let colon = |from: usize| kind[from..].find(':').map_or(kind.len(), |at| from + at);
        // Only MCP kinds have a METHOD; in other kinds a colon is part of the name.
        let is_mcp = kind.starts_with("mcp/");
        let base_end = if is_mcp { colon(0) } else { kind.len() };
        let method_end = colon((base_end + 1).min(kind.len()));
        let method_end = if base_end == kind.len() { base_end } else { method_end };
        let (to, parsed) = (&[][..], OnceLock::new());
        Self { kind, base_end, method_end, is_mcp, payload, to, parsed }
    }

    /// Sets the addressees. Without any, the message is for all participants.
    #[must_use]
    pub fn with_addressees(self, to: &'a [Box<str>]) -> Self {
        Self { to, ..self }
    }

    /// The full kind.
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// The kind without METHOD and CONTEXT, such as `mcp/request`.
    pub fn base(&self) -> &'a str {
        &self.kind[..self.base_end]
    }

    /// The MCP method, such as `tools/call`.
    pub fn method(&self) -> Option<&'a str> {
        self.kind.get(self.base_end + 1..self.method_end)
    }

    /// The target tool, resource, prompt or completion, percent-encoded as in the kind.
    pub fn context(&self) -> Option<&'a str> {
        self.kind.get(self.method_end + 1..)
    }

    /// The addressees; empty for all participants.
    pub fn to(&self) -> &'a [Box<str>] {
        self.to
    }

    pub(super) fn base_and_method(&self) -> &'a str {
        &self.kind[..self.method_end]
    }

    pub(super) fn is_mcp(&self) -> bool {
        self.is_mcp
    }

    /// Whether the kind is reserved for the gateway.
    pub(super) fn is_reserved(&self) -> bool {
        let first = self.kind.split(['/', ':']).next().unwrap_or_default();
        first.eq_ignore_ascii_case("system")
    }

    pub(super) fn has_payload(&self) -> bool {
        self.payload.is_some()
    }

    /// The parsed payload; `None` if it is absent or nested too deeply.
    pub(super) fn payload(&self) -> Option<&Value> {
        let payload = self.payload?;
        self.parsed.get_or_init(|| serde_json::from_str(payload.get()).ok()).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_splits_into_base_method_and_context() {
        for (kind, base, method, context) in [
            ("chat", "chat", None, None),
            ("chat:a:b", "chat:a:b", None, None),
            ("mcp/request", "mcp/request", None, None),
            ("mcp/request:", "mcp/request", Some(""), None),
            ("mcp/request:tools/list", "mcp/request", Some("tools/list"), None),
            ("mcp/request:tools/call:", "mcp/request", Some("tools/call"), Some("")),
            ("mcp/request:tools/call:a", "mcp/request", Some("tools/call"), Some("a")),
            (
                "mcp/request:resources/read:file:///a:b",
                "mcp/request",
                Some("resources/read"),
                Some("file:///a:b"),
            ),
            ("mcp/✓:é:✓", "mcp/✓", Some("é"), Some("✓")),
            ("", "", None, None),
        ] {
            let request = CapabilityRequest::new(kind, None);
            let parts = (request.base(), request.method(), request.context());
            assert_eq!(parts, (base, method, context), "{kind}");
        }
    }
}
