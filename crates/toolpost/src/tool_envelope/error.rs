//! Errors of reading an envelope, and the fallback text.

use std::borrow::Cow;
use std::fmt;

use serde_json::Number;

/// Error returned when a block or a tool result is not an envelope; one variant per cause.
///
/// Offsets are byte offsets into the text of the block, except for those inside the decoded JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The text does not start with the exact prefix.
    #[error("not an envelope block")]
    NotAnEnvelopeBlock,
    /// The prefix is well formed and names a version other than 1.
    #[error("unsupported envelope version {version} in the prefix, only version 1 is read")]
    UnsupportedPrefixVersion {
        /// Version in the prefix.
        version: u64,
    },
    /// A character is in neither base64 alphabet.
    #[error("invalid base64 character {found:?} at byte {at}")]
    InvalidBase64Character {
        /// Byte offset of the character.
        at: usize,
        /// The invalid character.
        found: char,
    },
    /// The padding does not match the last group, or is not at the end.
    #[error("invalid base64 padding at byte {at}")]
    InvalidBase64Padding {
        /// Offset of the first unexpected byte, or the end of the text if padding is missing.
        at: usize,
    },
    /// Six bits remain at the end, which is not a whole byte: the text was truncated.
    #[error("invalid base64 length: {symbols} symbols, one more than a multiple of 4")]
    InvalidBase64Length {
        /// Number of base64 symbols found.
        symbols: usize,
    },
    /// The envelope is complete and is followed by other text.
    #[error("trailing text after the envelope at byte {at}")]
    TrailingText {
        /// Offset at which the trailing text starts.
        at: usize,
    },
    /// The block decodes to more bytes than the reader accepts.
    #[error("envelope of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Size of the decoded JSON, in bytes.
        bytes: usize,
        /// Maximum size, in bytes.
        limit: usize,
    },
    /// The JSON exceeds the maximum nesting depth.
    #[error("envelope nests deeper than {limit} levels")]
    TooDeep {
        /// Maximum number of levels.
        limit: usize,
    },
    /// The decoded bytes are not valid UTF-8.
    #[error("envelope is not valid UTF-8 at decoded byte {at}")]
    InvalidUtf8 {
        /// Offset of the first invalid byte in the decoded bytes.
        at: usize,
    },
    /// The decoded text is not JSON.
    #[error("envelope is not JSON: {source}")]
    NotJson {
        /// The parser error, with line and column.
        source: serde_json::Error,
    },
    /// The JSON is not an object.
    #[error("envelope must be an object, found {found}")]
    RootNotAnObject {
        /// JSON type that was found.
        found: &'static str,
    },
    /// The envelope has no `payload`.
    #[error("envelope has no `payload`")]
    MissingPayload,
    /// The envelope has no `meta`.
    #[error("envelope has no `meta`")]
    MissingMeta,
    /// `meta` is not an object.
    #[error("`meta` must be an object, found {found}")]
    MetaNotAnObject {
        /// JSON type that was found.
        found: &'static str,
    },
    /// `meta` lacks a required field.
    #[error("`meta.{field}` is missing")]
    MissingMetaField {
        /// Name of the field: `tool`, `ts` or `version`.
        field: &'static str,
    },
    /// A field of `meta` has the wrong type.
    #[error("`meta.{field}` must be {expected}, found {found}")]
    WrongMetaFieldType {
        /// Name of the field: `tool`, `ts` or `version`.
        field: &'static str,
        /// Expected JSON type, with its article.
        expected: &'static str,
        /// JSON type that was found.
        found: &'static str,
    },
    /// `meta.version` is greater than 1.
    #[error("unsupported envelope version {version} in `meta.version`, only version 1 is read")]
    UnsupportedMetaVersion {
        /// Version that was found.
        version: Number,
    },
    /// `meta.version` is less than 1 and does not match the prefix.
    #[error("`meta.version` is {version}, but the prefix has version 1")]
    VersionMismatch {
        /// Version that was found.
        version: Number,
    },
    /// The tool result is not JSON.
    #[error("tool result is not JSON: {source}")]
    ResultNotJson {
        /// The parser error, with line and column.
        source: serde_json::Error,
    },
    /// The JSON is neither an object with a `content` array nor a text block.
    #[error("neither a tool result with a `content` array nor a text block")]
    NotAToolResult,
    /// The tool result does not have exactly two blocks.
    #[error("a tool result with an envelope has 2 blocks, found {found}")]
    WrongBlockCount {
        /// Number of blocks found.
        found: usize,
    },
    /// A block is not a text block.
    #[error("block {index} is not a text block")]
    NotATextBlock {
        /// Index of the block, starting at 0.
        index: usize,
    },
    /// `isError` is not a boolean.
    #[error("`isError` must be a boolean, found {found}")]
    IsErrorNotABoolean {
        /// JSON type that was found.
        found: &'static str,
    },
}

/// The text to show in place of an envelope, and why there is none.
///
/// Displays as `not an envelope block`, followed by the reason if it adds detail.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fallback<'a> {
    /// The text of block 0, or the only block. `None` if there is no text to show.
    pub text: Option<Cow<'a, str>>,
    /// Why the envelope is invalid.
    pub reason: EnvelopeError,
}

impl<'a> Fallback<'a> {
    pub(super) fn new(text: Option<&'a str>, reason: EnvelopeError) -> Self {
        Self { text: text.map(Cow::Borrowed), reason }
    }

    /// Copies the text, so that the fallback borrows nothing.
    pub fn into_owned(self) -> Fallback<'static> {
        Fallback { text: self.text.map(|text| Cow::Owned(text.into_owned())), reason: self.reason }
    }
}

impl fmt::Display for Fallback<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            EnvelopeError::NotAnEnvelopeBlock => self.reason.fmt(f),
            reason => write!(f, "{}: {reason}", EnvelopeError::NotAnEnvelopeBlock),
        }
    }
}

impl std::error::Error for Fallback<'_> {}
