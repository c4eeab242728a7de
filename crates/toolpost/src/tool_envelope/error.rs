//! Why something is not an envelope, and what to show instead.

use std::borrow::Cow;
use std::fmt;

use serde_json::Number;

/// Why a block or a tool result is not read as an envelope; one variant per cause.
///
/// Places count bytes from the start of the block's text, except inside the decoded JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The text does not start with the prefix, to the letter.
    #[error("not an envelope block")]
    NotAnEnvelopeBlock,
    /// The prefix is well formed and names a version other than 1.
    #[error("unsupported envelope version {version} in the prefix, only version 1 is read")]
    UnsupportedPrefixVersion {
        /// The version that the prefix names.
        version: u64,
    },
    /// A character that belongs to neither base64 alphabet.
    #[error("invalid base64 character {found:?} at byte {at}")]
    InvalidBase64Character {
        /// Where it stands.
        at: usize,
        /// What stands there.
        found: char,
    },
    /// Padding is there, but not exactly what the last group needs, or not at the end.
    #[error("invalid base64 padding at byte {at}")]
    InvalidBase64Padding {
        /// The first byte that does not fit; the end of the text when something is missing.
        at: usize,
    },
    /// Six bits are left over, which are no byte: the text was cut.
    #[error("invalid base64 length: {symbols} symbols leave a lone one at the end")]
    InvalidBase64Length {
        /// How many base64 symbols were found.
        symbols: usize,
    },
    /// The envelope is whole, and something that does not belong to it follows.
    #[error("trailing text after the envelope at byte {at}")]
    TrailingText {
        /// Where the foreign text starts.
        at: usize,
    },
    /// The block stands for more bytes than the reader takes.
    #[error("envelope of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// How long the JSON would be.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The JSON nests deeper than the reader follows.
    #[error("envelope nests deeper than {limit} levels")]
    TooDeep {
        /// How many levels are followed.
        limit: usize,
    },
    /// The decoded bytes are not text.
    #[error("envelope is not valid UTF-8 at decoded byte {at}")]
    InvalidUtf8 {
        /// The first decoded byte that is not UTF-8.
        at: usize,
    },
    /// The decoded text is not JSON.
    #[error("envelope is not JSON: {source}")]
    NotJson {
        /// What the parser says, with its line and column.
        source: serde_json::Error,
    },
    /// The JSON is something other than an object.
    #[error("envelope must be an object, found {found}")]
    RootNotAnObject {
        /// The JSON type that was found instead.
        found: &'static str,
    },
    /// The envelope has no `payload`.
    #[error("envelope has no `payload`")]
    MissingPayload,
    /// The envelope has no `meta`.
    #[error("envelope has no `meta`")]
    MissingMeta,
    /// `meta` is something other than an object.
    #[error("`meta` must be an object, found {found}")]
    MetaNotAnObject {
        /// The JSON type that was found instead.
        found: &'static str,
    },
    /// `meta` lacks one of its three fields.
    #[error("`meta.{field}` is missing")]
    MissingMetaField {
        /// `tool`, `ts` or `version`.
        field: &'static str,
    },
    /// A field of `meta` has a type that it cannot have.
    #[error("`meta.{field}` must be {expected}, found {found}")]
    WrongMetaFieldType {
        /// `tool`, `ts` or `version`.
        field: &'static str,
        /// The JSON type that it must have, with its article.
        expected: &'static str,
        /// The JSON type that it has.
        found: &'static str,
    },
    /// `meta.version` is above 1.
    #[error("unsupported envelope version {version} in `meta.version`, only version 1 is read")]
    UnsupportedMetaVersion {
        /// The version that was found.
        version: Number,
    },
    /// `meta.version` is below 1, so it cannot agree with any prefix.
    #[error("`meta.version` is {version}, the prefix says 1")]
    VersionMismatch {
        /// The version that was found.
        version: Number,
    },
    /// What should be a tool result is no JSON at all.
    #[error("tool result is not JSON: {source}")]
    ResultNotJson {
        /// What the parser says, with its line and column.
        source: serde_json::Error,
    },
    /// The JSON is neither an object with a `content` array nor a text block.
    #[error("neither a tool result with a `content` array nor a text block")]
    NotAToolResult,
    /// The layout is exactly two blocks.
    #[error("a tool result with an envelope has 2 blocks, found {found}")]
    WrongBlockCount {
        /// How many blocks there are.
        found: usize,
    },
    /// Both blocks are text blocks.
    #[error("block {index} is not a text block")]
    NotATextBlock {
        /// Which block it is, from 0.
        index: usize,
    },
    /// `isError` is there and is not a boolean.
    #[error("`isError` must be a boolean, found {found}")]
    IsErrorNotABoolean {
        /// The JSON type that was found instead.
        found: &'static str,
    },
}

/// The text to show in place of an envelope, and why there is none.
///
/// It prints as `not an envelope block`, followed by the reason when that says more.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fallback<'a> {
    /// The text of block 0, or the block itself when only one was given; `None` when there is
    /// no text to show.
    pub text: Option<Cow<'a, str>>,
    /// What is wrong with the envelope.
    pub reason: EnvelopeError,
}

impl<'a> Fallback<'a> {
    pub(super) fn new(text: Option<&'a str>, reason: EnvelopeError) -> Self {
        Self { text: text.map(Cow::Borrowed), reason }
    }

    /// The same with a text of its own.
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
