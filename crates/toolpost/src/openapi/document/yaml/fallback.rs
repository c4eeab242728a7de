//! The second reader, for what the first refuses.

use serde::de::DeserializeSeed;
use serde_norway::Deserializer;

use super::super::builder::{Builder, Grown, MAX_ALIASED};
use super::super::json::Grow;
use super::super::read::ReadError;

/// It keeps every event of a text before it gives the first, which is a multiple of the text.
const MAX_LENGTH: usize = 16 << 20;

/// It looks at every open bracket with each token.
const MAX_BRACKETS: usize = 512;

/// Reads the first document, and says whether it is the last. It has nothing to say about a text
/// that it refuses as well, because the first reader has said it.
pub(super) fn read(text: &str) -> Result<(Grown, bool), Option<ReadError>> {
    if text.len() > MAX_LENGTH || brackets(text) > MAX_BRACKETS {
        return Err(None);
    }
    let mut documents = Deserializer::from_str(text);
    let first = documents.next().ok_or(None)?;
    // A value takes a byte at least, unless it is written once and stands for many.
    let mut builder = Builder::repeating(text.len() + MAX_ALIASED / 16);
    match Grow(&mut builder).deserialize(first) {
        Ok(root) => Ok((builder.finish(root), documents.next().is_none())),
        Err(error) => Err(builder.refusal().map(|why| {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            ReadError::Refused { why, line, column }
        })),
    }
}

/// How deep brackets lie in each other at most, wherever they stand.
fn brackets(text: &str) -> usize {
    let mut open = 0_usize;
    let mut most = 0;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => continue,
        }
        most = most.max(open);
    }
    most
}
