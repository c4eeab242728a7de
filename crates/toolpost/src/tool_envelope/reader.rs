//! Reader for envelope blocks and whole tool results.

use serde_json::Value;

use super::{EnvelopeError, Fallback, ToolEnvelope, base64, diagnose, prefix};
use crate::schema::type_name;

/// Maximum number of nested arrays and objects in an envelope, including the envelope itself.
///
/// The JSON parser handles this depth on any thread without overflowing the stack.
pub const MAX_DEPTH: usize = 127;

const DEFAULT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Reads envelopes up to a maximum size.
#[derive(Debug, Clone, Copy)]
pub struct EnvelopeReader {
    /// Maximum size of the decoded JSON, in bytes. The base64 text is a third longer.
    max_bytes: usize,
}

/// A tool result that contains an envelope.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EnvelopeResult<'a> {
    /// Envelope in block 1.
    pub envelope: ToolEnvelope,
    /// Human-readable text of block 0.
    pub summary: &'a str,
    /// Value of `isError`; `None` if the result has no such member.
    pub is_error: Option<bool>,
}

impl Default for EnvelopeReader {
    /// Creates a reader that accepts up to 16 MiB of JSON.
    fn default() -> Self {
        Self { max_bytes: DEFAULT_MAX_BYTES }
    }
}

impl EnvelopeReader {
    /// Creates a reader that accepts up to `max_bytes` of JSON.
    pub fn with_max_bytes(max_bytes: usize) -> Self {
        Self { max_bytes }
    }

    /// Reads an envelope from the text of a block.
    ///
    /// # Errors
    ///
    /// Returns an [`EnvelopeError`] with one variant per cause.
    pub fn read_block(&self, text: &str) -> Result<ToolEnvelope, EnvelopeError> {
        let encoded = prefix::strip(text)?;
        self.check_size(encoded)?;
        let bytes =
            base64::decode(encoded).map_err(|fault| diagnose::diagnose_base64(encoded, fault))?;
        let json = serde_json::from_slice(&bytes)
            .map_err(|source| diagnose::diagnose_json(encoded, &bytes, source))?;
        ToolEnvelope::from_json(json)
    }

    /// Reads a tool result, `{content: [summary, envelope], isError?}`.
    ///
    /// # Errors
    ///
    /// Returns the reason and, if present, the text of block 0.
    pub fn read_result<'a>(&self, result: &'a Value) -> Result<EnvelopeResult<'a>, Fallback<'a>> {
        let content = result.get("content").and_then(Value::as_array);
        let Some(content) = content else {
            return Err(Fallback::new(None, EnvelopeError::NotAToolResult));
        };
        let summary = content.first().and_then(block_text);
        self.read_content(content, result.get("isError"))
            .map_err(|reason| Fallback::new(summary, reason))
    }

    fn read_content<'a>(
        &self,
        content: &'a [Value],
        is_error: Option<&Value>,
    ) -> Result<EnvelopeResult<'a>, EnvelopeError> {
        let [first, second] = content else {
            return Err(EnvelopeError::WrongBlockCount { found: content.len() });
        };
        let summary = block_text(first).ok_or(EnvelopeError::NotATextBlock { index: 0 })?;
        let block = block_text(second).ok_or(EnvelopeError::NotATextBlock { index: 1 })?;
        let envelope = self.read_block(block)?;
        Ok(EnvelopeResult {
            envelope,
            summary,
            is_error: is_error.map(parse_is_error).transpose()?,
        })
    }

    /// Checks the decoded size. Symbols are counted only if the text is long enough.
    fn check_size(&self, encoded: &str) -> Result<(), EnvelopeError> {
        if encoded.len() / 4 * 3 <= self.max_bytes {
            return Ok(());
        }
        let bytes = base64::decoded_len(encoded);
        if bytes <= self.max_bytes {
            return Ok(());
        }
        Err(EnvelopeError::TooLarge { bytes, limit: self.max_bytes })
    }
}

/// Returns the text of a `{"type": "text", "text": …}` block.
pub(super) fn block_text(block: &Value) -> Option<&str> {
    if block.get("type")? == "text" { block.get("text")?.as_str() } else { None }
}

fn parse_is_error(is_error: &Value) -> Result<bool, EnvelopeError> {
    is_error
        .as_bool()
        .ok_or_else(|| EnvelopeError::IsErrorNotABoolean { found: type_name(is_error) })
}

#[cfg(test)]
mod tests;
