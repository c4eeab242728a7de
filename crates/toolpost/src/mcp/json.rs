//! Lenient parsing of JSON from servers.

use serde_json::Value;

/// Parses a document. Lone surrogates, which JavaScript can write, become U+FFFD.
pub(super) fn parse_lenient(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match replace_lone_surrogates(text) {
        Some(repaired) => serde_json::from_str(&repaired),
        None => Err(error),
    })
}

/// Replaces every lone surrogate; `None` if there is none.
fn replace_lone_surrogates(text: &str) -> Option<String> {
    let mut repaired = String::with_capacity(text.len());
    let (mut rest, mut found) = (text, false);
    while let Some(at) = rest.find('\\') {
        repaired.push_str(&rest[..at]);
        let escape = &rest[at..];
        let length = match (utf16_unit(escape), escape.get(6..).and_then(utf16_unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                found = true;
                repaired.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => escape.chars().take(2).map(char::len_utf8).sum(),
        };
        repaired.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    repaired.push_str(rest);
    found.then_some(repaired)
}

/// Parses a `\uXXXX` escape at the start of the text.
fn utf16_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lone_surrogate_is_replaced() {
        for (text, expected) in [
            (r#""\ud83d\ude00""#, Some(json!("😀"))),
            (r#""a\ud83d""#, Some(json!("a\u{fffd}"))),
            (r#""\ude00b""#, Some(json!("\u{fffd}b"))),
            (r#""\ud83d\ud83d\ude00""#, Some(json!("\u{fffd}😀"))),
            (r#""\\ud83d""#, Some(json!("\\ud83d"))),
            (r#"{"a\ud800": "\n\u00e9"}"#, Some(json!({"a\u{fffd}": "\né"}))),
            (r#""\ud83"#, None),
            (r#""\"#, None),
            ("{", None),
        ] {
            assert_eq!(parse_lenient(text).ok(), expected, "{text}");
        }
    }
}
