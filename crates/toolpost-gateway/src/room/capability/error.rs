//! Why a text or a JSON value is no capability.

use thiserror::Error;

/// The most bytes of one text in a capability.
pub(super) const LONGEST_TEXT: usize = 1024;
/// The most bytes of all texts in a capability together.
pub(super) const LONGEST_TOGETHER: usize = 16 * 1024;
/// How deep a pattern may be.
pub(super) const DEEPEST: usize = 32;
/// The most parts of a pattern.
pub(super) const MOST_PARTS: usize = 256;
/// The most regular expressions of a pattern; each of them has memory of its own.
pub(super) const MOST_REGEXES: usize = 16;

/// The most searches for something anywhere below; what those inside each other find is kept.
pub(super) const MOST_BELOWS: usize = 8;

/// Why something is no capability.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// It is a number, a list, or another value that is neither text nor an object.
    #[error(
        "a capability is a text such as `mcp/request:tools/call:read_*`, or a pattern with `kind`"
    )]
    Neither,
    /// It is an empty text, or a part of it is.
    #[error("the capability `{0}` is empty, or a part of it is")]
    Empty(String),
    /// It begins like a pattern and is no JSON.
    #[error("the pattern is not JSON")]
    Json(#[source] serde_json::Error),
    /// It is an object that says nothing about the kind.
    #[error("a pattern needs `kind`, a text or a list of texts")]
    Kind,
    /// A text is too long.
    #[error(
        "a text in a capability has at most {LONGEST_TEXT} bytes, all of them {LONGEST_TOGETHER}"
    )]
    Long,
    /// Patterns are too far inside each other.
    #[error("a pattern is at most {DEEPEST} deep")]
    Deep,
    /// There is too much of it.
    #[error(
        "a pattern has at most {MOST_PARTS} parts, {MOST_REGEXES} regular expressions and {MOST_BELOWS} searches below"
    )]
    Many,
    /// A regular expression is wrong, or too large.
    #[error("the regular expression `{0}` cannot be used")]
    Regex(String, #[source] Box<regex::Error>),
    /// A `!` stands before something that cannot be negated.
    #[error("`{0}` cannot be negated: {1}")]
    Negation(String, &'static str),
    /// A JSONPath has something that is not known here.
    #[error(
        "the path `{path}` has `{rest}`, which is not known: there are .name ['name'] [0] [*] .* ..name ..*"
    )]
    Path {
        /// The whole path.
        path: String,
        /// What is left of it from the place that is not known.
        rest: String,
    },
    /// A JSONPath beside `kind` does not lead into the payload.
    #[error("the path `{0}` beside `kind` has to lead into `$.payload`")]
    Outside(String),
}

impl CapabilityError {
    /// The same without anything that was written, which may be a secret.
    pub(crate) fn without_values(&self) -> String {
        match self {
            Self::Empty(_) => "it is empty, or a part of it is".to_owned(),
            Self::Regex(..) => "a regular expression in it cannot be used: it is wrong, or too \
                                large, or looks ahead or back"
                .to_owned(),
            Self::Negation(_, why) => format!("something in it cannot be negated: {why}"),
            Self::Path { .. } => "a path in it has a part that is not known: there are .name \
                                  ['name'] [0] [*] .* ..name ..*"
                .to_owned(),
            Self::Outside(_) => "a path beside `kind` has to lead into `$.payload`".to_owned(),
            other => other.to_string(),
        }
    }
}

/// What is left of the bounds while a capability is compiled.
#[derive(Debug)]
pub(super) struct Budget {
    parts: usize,
    bytes: usize,
    regexes: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { parts: MOST_PARTS, bytes: LONGEST_TOGETHER, regexes: MOST_REGEXES }
    }

    pub(super) fn part(&mut self) -> Result<(), CapabilityError> {
        self.parts = self.parts.checked_sub(1).ok_or(CapabilityError::Many)?;
        Ok(())
    }

    pub(super) fn regex(&mut self) -> Result<(), CapabilityError> {
        self.regexes = self.regexes.checked_sub(1).ok_or(CapabilityError::Many)?;
        Ok(())
    }

    pub(super) fn text(&mut self, text: &str) -> Result<(), CapabilityError> {
        let fits = text.len() <= LONGEST_TEXT;
        let left = self.bytes.checked_sub(text.len()).filter(|_| fits);
        self.bytes = left.ok_or(CapabilityError::Long)?;
        Ok(())
    }
}
