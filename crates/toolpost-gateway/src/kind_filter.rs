//! Filters of room messages by kind and operation.

use crate::glob::Glob;

/// Kinds such as `chat` and `mcp/response:tools/call:read_*`; a message must match one of them. `*`
/// matches any run of characters within a part. A kind without METHOD or CONTEXT matches every
/// METHOD or CONTEXT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KindFilter(Vec<KindGlobs>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct KindGlobs {
    base: Glob,
    method: Option<Glob>,
    context: Option<Glob>,
}

impl KindFilter {
    /// Parses the kinds; `None` if there are none.
    ///
    /// # Errors
    ///
    /// A kind is empty.
    pub(crate) fn parse<T: AsRef<str>>(kinds: &[T]) -> Result<Option<Self>, &'static str> {
        if kinds.iter().any(|kind| kind.as_ref().is_empty()) {
            return Err("`kind` is empty; use a kind such as `chat` or `mcp/response:tools/call`");
        }
        let globs: Vec<KindGlobs> =
            kinds.iter().map(|kind| KindGlobs::new(kind.as_ref())).collect();
        Ok((!globs.is_empty()).then_some(Self(globs)))
    }

    /// Whether a message with this full kind matches.
    pub(crate) fn matches(&self, kind: &str) -> bool {
        self.0.iter().any(|globs| globs.matches(kind))
    }
}

impl KindGlobs {
    fn new(kind: &str) -> Self {
        let mut parts = kind.splitn(3, ':').map(Glob::new);
        let base = parts.next().unwrap_or_else(|| Glob::new("*"));
        Self { base, method: parts.next(), context: parts.next() }
    }

    fn matches(&self, kind: &str) -> bool {
        let mut parts = kind.splitn(3, ':').map(Some).chain(std::iter::repeat(None));
        let mut fits = |glob: Option<&Glob>| {
            let part = parts.next().flatten().unwrap_or_default();
            let matches_decoded = |glob: &Glob| part.contains('%') && glob.matches(&decode(part));
            glob.is_none_or(|glob| glob.matches(part) || matches_decoded(glob))
        };
        fits(Some(&self.base)) && fits(self.method.as_ref()) && fits(self.context.as_ref())
    }
}

/// Decodes the `*` and `%` of a CONTEXT.
fn decode(part: &str) -> String {
    part.replace("%2A", "*").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_filter_matches_kind_and_operation() {
        let read = "mcp/response:tools/call:read_file";
        for (filter, kind, expected) in [
            ("chat", "chat", true),
            ("chat", "chat/acknowledge", false),
            ("chat*", "chat/acknowledge", true),
            ("*", read, true),
            ("mcp/*", read, true),
            ("mcp/response", read, true),
            ("mcp/response", "mcp/responses", false),
            ("mcp/response:tools/call", read, true),
            ("mcp/response:tools/call:read_*", read, true),
            ("mcp/response:tools/call:write_*", read, false),
            ("mcp/response:tools/call:*", "mcp/response:tools/call", true),
            ("mcp/response:tools/call:read_*", "mcp/response:tools/call", false),
            ("mcp/response:*/list", "mcp/response:tools/list", true),
            ("mcp/response:*/list", "mcp/response:tools/call:x/list", false),
            ("mcp/request:tools/call:read_*", read, false),
            ("mcp/*:resources/read:file:///a/*", "mcp/request:resources/read:file:///a/b:c", true),
            ("mcp/*:resources/read:a%20b", "mcp/request:resources/read:a%2520b", true),
            ("mcp/*:tools/call:a%2A", "mcp/request:tools/call:a%2A", true),
            ("mcp/*:tools/call:a%2A", "mcp/request:tools/call:ab", false),
            ("system/*", "system/welcome", true),
        ] {
            let filter = KindFilter::parse(&["other", filter]).unwrap().unwrap();
            assert_eq!(filter.matches(kind), expected, "{filter:?} {kind}");
        }
        assert_eq!(KindFilter::parse::<&str>(&[]), Ok(None));
        assert!(KindFilter::parse(&["chat", ""]).is_err());
    }
}
