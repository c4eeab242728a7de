//! Fallback YAML reader for text that the first reader rejects.

use serde::de::DeserializeSeed;
use serde_norway::Deserializer;

use super::super::json::ValueSeed;
use super::super::parse::DocumentParseError;
use super::super::tree_builder::{BuiltTree, MAX_ALIAS_BYTES, TreeBuilder};

/// Maximum text length. The parser buffers all events, a multiple of the text size.
const MAX_TEXT_LENGTH: usize = 16 << 20;

/// Maximum bracket depth. The parser checks every open bracket for each token.
const MAX_BRACKET_DEPTH: usize = 512;

/// Parses the first document, and returns whether it is the only one. The error is `None` if this
/// reader rejects the text as well; the error of the first reader is reported then.
pub(super) fn parse(text: &str) -> Result<(BuiltTree, bool), Option<DocumentParseError>> {
    if text.len() > MAX_TEXT_LENGTH || bracket_depth(text) > MAX_BRACKET_DEPTH {
        return Err(None);
    }
    let mut documents = Deserializer::from_str(text);
    let first = documents.next().ok_or(None)?;
    // Each value takes at least one byte of text, except for values expanded from aliases.
    let mut builder = TreeBuilder::with_expanded_aliases(text.len() + MAX_ALIAS_BYTES / 16);
    match ValueSeed(&mut builder).deserialize(first) {
        Ok(root) => Ok((builder.finish(root), documents.next().is_none())),
        Err(error) => Err(builder.error.map(|reason| {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            DocumentParseError::Rejected { reason, line, column }
        })),
    }
}

/// Returns the maximum nesting depth of brackets, including those in strings and comments.
fn bracket_depth(text: &str) -> usize {
    let mut open = 0_usize;
    let mut max = 0;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => continue,
        }
        max = max.max(open);
    }
    max
}
