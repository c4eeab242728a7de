//! Prefix of an envelope block.

use super::EnvelopeError;

/// Exact prefix of a version 1 envelope block.
pub const PREFIX: &str = "__ENVELOPE_V1__:";

/// Returns the base64 text after the prefix.
pub(super) fn strip(text: &str) -> Result<&str, EnvelopeError> {
    text.strip_prefix(PREFIX).ok_or_else(|| match unsupported_version(text) {
        Some(version) => EnvelopeError::UnsupportedPrefixVersion { version },
        None => EnvelopeError::NotAnEnvelopeBlock,
    })
}

/// Returns an unsupported version in a valid prefix. `V01` and `V0` are not versions.
fn unsupported_version(text: &str) -> Option<u64> {
    let (version, _) = text.strip_prefix("__ENVELOPE_V")?.split_once("__:")?;
    let digits = !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit());
    if digits { version.parse().ok() } else { None }
}
