//! JSON with comments and trailing commas, as used by editors.

/// Converts the text to JSON. Comments and trailing commas become spaces, so byte offsets do not
/// change.
pub(super) fn to_json(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut out = Vec::with_capacity(text.len());
    // Offset of the last comma, while only whitespace and comments follow it.
    let mut comma = None;
    let mut rest = text.as_bytes();
    while let Some(first) = rest.first() {
        let length = match (first, rest.get(1)) {
            (b'"', _) => string_length(rest),
            (b'/', Some(b'/')) => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
            (b'/', Some(b'*')) => comment_length(rest),
            _ => 1,
        };
        let (piece, behind) = rest.split_at(length);
        match first {
            b'/' if length > 1 => out.extend(piece.iter().map(|b| blank(*b))),
            b',' => {
                comma = Some(out.len());
                out.push(b',');
            }
            b' ' | b'\t' | b'\r' | b'\n' => out.push(*first),
            _ => {
                if let (b'}' | b']', Some(at)) = (first, comma) {
                    out[at] = b' ';
                }
                comma = None;
                out.extend_from_slice(piece);
            }
        }
        rest = behind;
    }
    String::from_utf8(out).expect("only whole characters were replaced, by ASCII")
}

/// Returns the length of a string literal up to and including the closing quote, or up to the end
/// of the text.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn comment_length(text: &[u8]) -> usize {
    let inside = text.get(2..).unwrap_or_default();
    inside.windows(2).position(|pair| pair == b"*/").map_or(text.len(), |at| at + 4)
}

fn blank(byte: u8) -> u8 {
    if matches!(byte, b'\n' | b'\r') { byte } else { b' ' }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn comments_and_trailing_commas_become_blanks() {
        for (text, expected) in [
            ("{}", Some("{}")),
            ("\u{feff}[1]", Some("[1]")),
            (
                "// first\n{\"a\": 1, // one\n /* two\n lines */ \"b\": [1, 2,],}\n//",
                Some(r#"{"a":1,"b":[1,2]}"#),
            ),
            (
                r#"{"a": "// no /* comment */ ,]", "b": "\",}"}"#,
                Some(r#"{"a":"// no /* comment */ ,]","b":"\",}"}"#),
            ),
            ("[1, /* , */ // ,\n ]", Some("[1]")),
            ("[1,,]", None),
            ("[,]", Some("[]")),
            ("[1 /*", None),
            ("[1 /*/ ]", None),
            ("\"abc", None),
            ("\"abc\\", None),
            ("/", None),
            ("", None),
        ] {
            let json = to_json(text);
            let read: Option<Value> = serde_json::from_str(&json).ok();
            assert_eq!(read.map(|value| value.to_string()).as_deref(), expected, "{text}: {json}");
        }
    }

    proptest! {
        /// Byte offsets do not change, and valid JSON stays the same.
        #[test]
        fn byte_offsets_are_preserved(text in "[\\[\\]{}\",/*\\\\\n a✓]{0,40}") {
            let json = to_json(&text);
            if serde_json::from_str::<Value>(&text).is_ok() {
                prop_assert_eq!(&json, &text);
            }
            prop_assert_eq!(json.len(), text.len());
            prop_assert_eq!(json.lines().count(), text.lines().count());
        }
    }
}
