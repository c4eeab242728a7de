//! Why a text or a JSON value is no capability.

use thiserror::Error;

/// The most bytes of one text in a capability.
pub(super) const MAX_STRING_BYTES: usize = 1024;
/// The most bytes of all texts in a capability together.
pub(super) const MAX_TOTAL_BYTES: usize = 16 * 1024;
/// How deep a pattern may be.
pub(super) const MAX_DEPTH: usize = 32;
/// The most parts of a pattern.
pub(super) const MAX_NODES: usize = 256;
/// The most regular expressions of a pattern; each of them has memory of its own.
pub(super) const MAX_REGEXES: usize = 16;

/// The most searches for something anywhere below; what those inside each other find is kept.
pub(super) const MAX_DESCENDANT_SEARCHES: usize = 8;

/// Why something is no capability.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// It is a number, a list, or another value that is neither text nor an object.
    #[error(
        "a capability is a string such as `mcp/request:tools/call:read_*`, or a pattern with `kind`"
    )]
    UnsupportedType,
    /// It is an empty text, or a part of it is.
    #[error("the capability `{0}` is empty, or a part of it is")]
    Empty(String),
    /// It begins like a pattern and is no JSON.
    #[error("the pattern is not JSON")]
    Json(#[source] serde_json::Error),
    /// It is an object that says nothing about the kind.
    #[error("a pattern needs `kind`, a string or a list of strings")]
    MissingKind,
    /// A text is too long.
    #[error(
        "a string in a capability has at most {MAX_STRING_BYTES} bytes, all strings together {MAX_TOTAL_BYTES}"
    )]
    TooLong,
    /// Patterns are too far inside each other.
    #[error("a pattern is at most {MAX_DEPTH} deep")]
    TooDeep,
    /// There is too much of it.
    #[error(
        "a pattern has at most {MAX_NODES} parts, {MAX_REGEXES} regular expressions and {MAX_DESCENDANT_SEARCHES} descendant searches"
    )]
    TooComplex,
    /// A regular expression is wrong, or too large.
    #[error("the regular expression `{0}` is invalid or too large")]
    Regex(String, #[source] Box<regex::Error>),
    /// A `!` stands before something that cannot be negated.
    #[error("`{0}` cannot be negated: {1}")]
    InvalidNegation(String, &'static str),
    /// A JSONPath has something that is not known here.
    #[error(
        "the path `{path}` has `{rest}`, which is not supported; supported are .name ['name'] [0] [*] .* ..name ..*"
    )]
    UnsupportedPath {
        /// The whole path.
        path: String,
        /// What is left of it from the place that is not known.
        rest: String,
    },
    /// A JSONPath beside `kind` does not lead into the payload.
    #[error("the path `{0}` beside `kind` must lead into `$.payload`")]
    PathOutsidePayload(String),
}

impl CapabilityError {
    /// The same without anything that was written, which may be a secret.
    pub(crate) fn without_values(&self) -> String {
        match self {
            Self::Empty(_) => "it is empty, or a part of it is".to_owned(),
            Self::Regex(..) => "a regular expression in it cannot be used: it is wrong, or too \
                                large, or looks ahead or back"
                .to_owned(),
            Self::InvalidNegation(_, why) => format!("something in it cannot be negated: {why}"),
            Self::UnsupportedPath { .. } => {
                "a path in it has an unsupported part; supported are .name \
                                  ['name'] [0] [*] .* ..name ..*"
                    .to_owned()
            }
            Self::PathOutsidePayload(_) => {
                "a path beside `kind` must lead into `$.payload`".to_owned()
            }
            other => other.to_string(),
        }
    }
}

/// What is left of the bounds while a capability is compiled.
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
