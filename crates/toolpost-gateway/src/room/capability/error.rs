//! Capability errors and size limits.

use thiserror::Error;

/// Maximum size of one string in a capability, in bytes.
pub(super) const MAX_STRING_BYTES: usize = 1024;
/// Maximum total size of the strings in a capability, in bytes.
pub(super) const MAX_TOTAL_BYTES: usize = 16 * 1024;
/// Maximum nesting depth of a pattern.
pub(super) const MAX_DEPTH: usize = 32;
/// Maximum number of nodes in a pattern.
pub(super) const MAX_NODES: usize = 256;
/// Maximum number of regular expressions in a pattern. Each one allocates its own memory.
pub(super) const MAX_REGEXES: usize = 16;

/// Maximum number of descendant searches in a capability. Results of nested searches are cached.
pub(super) const MAX_DESCENDANT_SEARCHES: usize = 8;

/// Error returned when a capability is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// The value is neither a string nor an object.
    #[error(
        "a capability is a string such as `mcp/request:tools/call:read_*`, or a pattern with `kind`"
    )]
    UnsupportedType,
    /// The string, or a part of it, is empty.
    #[error("the capability `{0}` is empty or has an empty part")]
    Empty(String),
    /// The text begins with `{` but is not valid JSON.
    #[error("the pattern is not JSON")]
    Json(#[source] serde_json::Error),
    /// A pattern has no valid `kind`.
    #[error("a pattern needs `kind`, a string or a list of strings")]
    MissingKind,
    /// The addressees of a pattern are not names.
    #[error("`to` is the name of a participant or a list of names")]
    InvalidAddressees,
    /// A string, or the total of all strings, exceeds the size limit.
    #[error(
        "a string in a capability has at most {MAX_STRING_BYTES} bytes, all strings together {MAX_TOTAL_BYTES}"
    )]
    TooLong,
    /// A pattern is nested too deeply.
    #[error("a pattern can nest at most {MAX_DEPTH} levels")]
    TooDeep,
    /// A pattern exceeds a size limit.
    #[error(
        "a pattern has at most {MAX_NODES} parts, {MAX_REGEXES} regular expressions and {MAX_DESCENDANT_SEARCHES} descendant searches"
    )]
    TooComplex,
    /// A regular expression is invalid or too large.
    #[error("the regular expression `{0}` is invalid or too large")]
    Regex(String, #[source] Box<regex::Error>),
    /// A `!` precedes a pattern that cannot be negated.
    #[error("`{0}` cannot be negated: {1}")]
    InvalidNegation(String, &'static str),
    /// A JSONPath uses unsupported syntax.
    #[error(
        "the path `{path}` has `{rest}`, which is not supported; supported are .name ['name'] [0] [*] .* ..name ..*"
    )]
    UnsupportedPath {
        /// The complete path.
        path: String,
        /// The rest of the path, from the first unsupported part.
        rest: String,
    },
    /// A JSONPath next to `kind` does not select a part of the payload.
    #[error("the path `{0}` next to `kind` must select a part of `$.payload`")]
    PathOutsidePayload(String),
}

impl CapabilityError {
    /// Returns the error message without quoted input, which may contain a secret.
    pub(crate) fn without_values(&self) -> String {
        match self {
            Self::Empty(_) => "the capability is empty or has an empty part".to_owned(),
            Self::Regex(..) => {
                "a regular expression is invalid, too large, or uses look-around".to_owned()
            }
            Self::InvalidNegation(_, why) => {
                format!("invalid negation: {why}")
            }
            Self::UnsupportedPath { .. } => {
                "a path has an unsupported part; supported are .name ['name'] [0] [*] .* ..name ..*"
                    .to_owned()
            }
            Self::PathOutsidePayload(_) => {
                "a path next to `kind` must select a part of `$.payload`".to_owned()
            }
            other => other.to_string(),
        }
    }
}

/// The remaining limits while a capability is compiled.
#[derive(Debug)]
pub(super) struct CompileBudget {
    nodes: usize,
    bytes: usize,
    regexes: usize,
}

impl CompileBudget {
    pub(super) fn new() -> Self {
        Self { nodes: MAX_NODES, bytes: MAX_TOTAL_BYTES, regexes: MAX_REGEXES }
    }

    pub(super) fn take_node(&mut self) -> Result<(), CapabilityError> {
        self.nodes = self.nodes.checked_sub(1).ok_or(CapabilityError::TooComplex)?;
        Ok(())
    }

    pub(super) fn take_regex(&mut self) -> Result<(), CapabilityError> {
        self.regexes = self.regexes.checked_sub(1).ok_or(CapabilityError::TooComplex)?;
        Ok(())
    }

    pub(super) fn take_string(&mut self, text: &str) -> Result<(), CapabilityError> {
        let fits = text.len() <= MAX_STRING_BYTES;
        let remaining = self.bytes.checked_sub(text.len()).filter(|_| fits);
        self.bytes = remaining.ok_or(CapabilityError::TooLong)?;
        Ok(())
    }
}
