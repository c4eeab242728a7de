//! JSON from servers: lenient parsing, and members that concern only the connection.

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::json::RawObject;

/// Members of `_meta` that describe the connection to a server and not the result. A server of
/// 2026-07-28 adds its name, description and icons to every result.
const TRANSPORT_META: [&str; 7] = [
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/serverCapabilities",
    "io.modelcontextprotocol/serverInfo",
    "io.modelcontextprotocol/subscriptionId",
];

/// Removes the members of `_meta` that concern only the connection. Everything else is unchanged.
pub(super) fn without_transport_meta(result: Box<RawValue>) -> Box<RawValue> {
    strip_transport_meta(&result).unwrap_or(result)
}

/// Returns the result without transport members; `None` if it has none.
fn strip_transport_meta(result: &RawValue) -> Option<Box<RawValue>> {
    // A substring search is much cheaper than parsing.
    memchr::memmem::find(result.get().as_bytes(), b"io.modelcontextprotocol/")?;
    let mut members = RawObject::parse(result.get()).ok()?;
    let mut meta = RawObject::parse(members.get("_meta")?.get()).ok()?;
    let count = meta.0.len();
    meta.0.retain(|(name, _)| !TRANSPORT_META.contains(&&**name));
    if meta.0.len() == count {
        return None;
    }
    let kept = to_raw_value(&meta).ok()?;
    if meta.0.is_empty() {
        members.take("_meta");
        return to_raw_value(&members).ok();
    }
    members.set("_meta", &kept);
    to_raw_value(&members).ok()
}

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
    fn transport_meta_is_removed_and_the_rest_is_unchanged() {
        let info = r#""io.modelcontextprotocol/serverInfo":{"name":"n","icons":[]}"#;
        for (text, expected) in [
            (
                format!(r#"{{"n":1.0,"_meta":{{{info},"a/b":[1e2]}},"x":null}}"#),
                r#"{"n":1.0,"_meta":{"a/b":[1e2]},"x":null}"#,
            ),
            (format!(r#"{{"_meta":{{{info}}},"content":[]}}"#), r#"{"content":[]}"#),
            (
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{}}}"#.to_owned(),
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{}}}"#,
            ),
            (r#"{"_meta":{}, "content":[]}"#.to_owned(), r#"{"_meta":{}, "content":[]}"#),
            (
                r#"{"_meta":"io.modelcontextprotocol/serverInfo"}"#.to_owned(),
                r#"{"_meta":"io.modelcontextprotocol/serverInfo"}"#,
            ),
            (
                r#""io.modelcontextprotocol/serverInfo""#.to_owned(),
                r#""io.modelcontextprotocol/serverInfo""#,
            ),
        ] {
            let result = RawValue::from_string(text.clone()).unwrap();
            assert_eq!(without_transport_meta(result).get(), expected, "{text}");
        }
    }

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
