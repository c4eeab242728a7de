//! The marker that an envelope block starts with.

use super::EnvelopeError;

/// What an envelope block of version 1 starts with, to the letter.
pub const PREFIX: &str = "__ENVELOPE_V1__:";

/// The base64 behind the prefix.
pub(super) fn strip(text: &str) -> Result<&str, EnvelopeError> {
    text.strip_prefix(PREFIX).ok_or_else(|| match unsupported_version(text) {
        Some(version) => EnvelopeError::UnsupportedPrefixVersion { version },
        None => EnvelopeError::NotAnEnvelopeBlock,
    })
}

/// The version of a prefix that is well formed but not ours; `V01` and `V0` are no versions.
fn unsupported_version(text: &str) -> Option<u64> {
    let (version, _) = text.strip_prefix("__ENVELOPE_V")?.split_once("__:")?;
    let digits = !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit());
    if digits { version.parse().ok() } else { None }
}
