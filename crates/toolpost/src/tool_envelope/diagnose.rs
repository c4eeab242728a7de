//! Finds the cause of a read failure. Runs only after reading has failed.

use serde::de::IgnoredAny;

use super::base64::{self, Base64Error};
use super::{EnvelopeError, MAX_DEPTH, PREFIX};
use crate::json::is_nested_deeper;

/// Returns why `encoded` is not base64: trailing text after an envelope, or the error itself.
pub(super) fn diagnose_base64(encoded: &str, fault: Base64Error) -> EnvelopeError {
    match object_end(&fault.decoded_prefix) {
        Some(end) => trailing_text(encoded, end),
        None => offset_by_prefix(fault.error),
    }
}

/// Returns the reason why the decoded `bytes` are not JSON.
pub(super) fn diagnose_json(
    encoded: &str,
    bytes: &[u8],
    source: serde_json::Error,
) -> EnvelopeError {
    let text = std::str::from_utf8(bytes);
    let valid = text.map_or_else(|error| error.valid_up_to(), str::len);
    match object_end(bytes) {
        Some(end) if end <= valid && !bytes[end..].iter().all(is_json_space) => {
            trailing_text(encoded, end)
        }
        _ if text.is_err() => EnvelopeError::InvalidUtf8 { at: valid },
        _ if is_nested_deeper(bytes, MAX_DEPTH) => EnvelopeError::TooDeep { limit: MAX_DEPTH },
        _ => EnvelopeError::NotJson { source },
    }
}

fn trailing_text(encoded: &str, end: usize) -> EnvelopeError {
    EnvelopeError::TrailingText { at: PREFIX.len() + base64::encoded_end(encoded, end) }
}

/// Returns the length of the JSON object at the start of `bytes`, if it is complete.
fn object_end(bytes: &[u8]) -> Option<usize> {
    let first = bytes.iter().find(|byte| !is_json_space(byte))?;
    if *first != b'{' {
        return None;
    }
    // Skipping a value is not recursive, so deep nesting does not overflow the stack.
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// Whether the byte is JSON whitespace, a subset of ASCII whitespace.
fn is_json_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Converts offsets into the base64 text to offsets into the block.
fn offset_by_prefix(error: EnvelopeError) -> EnvelopeError {
    match error {
        EnvelopeError::InvalidBase64Character { at, found } => {
            EnvelopeError::InvalidBase64Character { at: at + PREFIX.len(), found }
        }
        EnvelopeError::InvalidBase64Padding { at } => {
            EnvelopeError::InvalidBase64Padding { at: at + PREFIX.len() }
        }
        other => other,
    }
}
