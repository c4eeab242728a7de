//! The second reader, for what the first refuses.

use serde::de::DeserializeSeed;
use serde_norway::Deserializer;

use super::super::json::ValueSeed;
use super::super::parse::DocumentParseError;
use super::super::tree_builder::{BuiltTree, MAX_ALIAS_BYTES, TreeBuilder};

/// It keeps every event of a text before it gives the first, which is a multiple of the text.
const MAX_TEXT_LENGTH: usize = 16 << 20;

/// It looks at every open bracket with each token.
const MAX_BRACKET_DEPTH: usize = 512;

/// Reads the first document, and says whether it is the last. It has nothing to say about a text
/// that it refuses as well, because the first reader has said it.
pub(super) fn parse(text: &str) -> Result<(BuiltTree, bool), Option<DocumentParseError>> {
    if text.len() > MAX_TEXT_LENGTH || bracket_depth(text) > MAX_BRACKET_DEPTH {
        return Err(None);
    }
    let mut documents = Deserializer::from_str(text);
    let first = documents.next().ok_or(None)?;
    // A value takes a byte at least, unless it is written once and stands for many.
    let mut builder = TreeBuilder::with_expanded_aliases(text.len() + MAX_ALIAS_BYTES / 16);
    match ValueSeed(&mut builder).deserialize(first) {
        Ok(root) => Ok((builder.finish(root), documents.next().is_none())),
        Err(error) => Err(builder.error().map(|reason| {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            DocumentParseError::Rejected { reason, line, column }
        })),
    }
}

/// Maximum nesting depth of brackets, wherever they occur.
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
