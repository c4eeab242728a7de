//! Memory that JSON needs once it is parsed.
//!
//! Small values need much more memory than their text: a list of digits needs 36 times as much.

use memchr::{memchr, memchr2};
use serde_json::Value;

/// Maximum memory of a document that is parsed into a tree, in bytes.
pub(crate) const MAX_TREE_BYTES: usize = 256 * 1024 * 1024;

/// Memory of a value in its list or object.
const VALUE_BYTES: usize = size_of::<Value>();
/// Additional memory of a member: its name, its hash and its place in the index.
const MEMBER_BYTES: usize = size_of::<String>() + 3 * size_of::<usize>();

/// Estimates the memory of a parsed value, in bytes.
pub(crate) fn value_bytes(value: &Value) -> usize {
    let contents: usize = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| MEMBER_BYTES + name.len() + value_bytes(value)).sum()
        }
    };
    VALUE_BYTES + contents
}

/// Estimates the size of a value as JSON text, in bytes, without writing it.
pub(crate) fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + text_bytes(item)).sum::<usize>(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| name.len() + 4 + text_bytes(value);
            2 + members.iter().map(member).sum::<usize>()
        }
    }
}

/// Estimates the memory that JSON text needs once it is parsed, in bytes, without parsing it.
pub fn parsed_bytes(text: &[u8]) -> usize {
    let (mut values, mut members) = (1_usize, 0_usize);
    let mut rest = text;
    loop {
        let end = memchr(b'"', rest).unwrap_or(rest.len());
        for byte in &rest[..end] {
            // A list or an object has one value more than commas, unless it is empty.
            values += usize::from(matches!(byte, b',' | b'[' | b'{'));
            members += usize::from(*byte == b':');
        }
        match skip_string(&rest[end..]) {
            Some(after) => rest = after,
            None => break,
        }
    }
    text.len()
        .saturating_add(values.saturating_mul(VALUE_BYTES))
        .saturating_add(members.saturating_mul(MEMBER_BYTES))
}

/// Returns the text after the string at the beginning; `None` at the end of the text.
fn skip_string(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.get(1..)?;
    loop {
        let at = memchr2(b'"', b'\\', rest)?;
        if rest[at] == b'"' {
            return rest.get(at + 1..);
        }
        rest = rest.get(at + 2..)?;
    }
}

/// Whether the text may need more than the maximum once it is parsed.
pub(crate) fn exceeds_max_tree(text: &str) -> bool {
    // Each value needs at least one byte of text and a separator.
    const MIN_BYTES: usize = MAX_TREE_BYTES / (VALUE_BYTES + MEMBER_BYTES);
    text.len() > MIN_BYTES && parsed_bytes(text.as_bytes()) > MAX_TREE_BYTES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn parsed_bytes_counts_values_outside_strings() {
        for (text, values, members) in [
            ("1", 1, 0),
            ("[1,2,3]", 4, 0),
            (r#"{"a":1,"b":[true]}"#, 4, 2),
            (r#"["[1,2,3]","\"{:,","\\"]"#, 4, 0),
            (r#""unterminated \"#, 1, 0),
        ] {
            let expected = text.len() + values * VALUE_BYTES + members * MEMBER_BYTES;
            assert_eq!(parsed_bytes(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn list_of_digits_exceeds_maximum_before_its_text_does() {
        let digits = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert!(exceeds_max_tree(&digits(8 * 1024 * 1024)));
        assert!(!exceeds_max_tree(&digits(1024 * 1024)));
        assert!(!exceeds_max_tree(&json!("0,".repeat(8 * 1024 * 1024)).to_string()));
    }

    proptest! {
        #[test]
        fn parsed_bytes_covers_value_bytes(text in r#"[\[\]{}:,"\\a1 ]{0,64}"#) {
            let estimate = parsed_bytes(text.as_bytes());
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert!(estimate >= value_bytes(&value), "{text}");
            }
        }
    }
}
