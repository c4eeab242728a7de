//! Lossless JSON parsing, for exact comparison.

use serde_json::Value;

/// Parses a document without rounding or repairing anything: a number becomes the string `#`
/// followed by its digits, and a lone surrogate becomes the text of its escape.
pub(super) fn parse_exact(text: &str) -> Value {
    let mut spelt = String::with_capacity(text.len());
    let (mut rest, mut is_string) = (text, false);
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\\' => encode_escape(rest, &mut spelt),
            '-' | '0'..='9' if !is_string => encode_number(rest, &mut spelt),
            other => {
                is_string ^= other == '"';
                spelt.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    serde_json::from_str(&spelt).unwrap_or_else(|error| panic!("{error}: {text:.2000}"))
}

/// Encodes a number as a string. Integers keep their digits; other numbers are normalized, because
/// their spelling varies between serializers.
fn encode_number(text: &str, spelt: &mut String) -> usize {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
    let digits = &text[..end.unwrap_or(text.len())];
    match digits.contains(['.', 'e', 'E']) {
        true => spelt.push_str(&format!("\"#{:?}\"", digits.parse::<f64>().unwrap())),
        false => spelt.push_str(&format!("\"#{digits}\"")),
    }
    digits.len()
}

fn encode_escape(text: &str, spelt: &mut String) -> usize {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let (taken, prefix) = match (unit(text), text.get(6..).and_then(unit)) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, ""),
        (Some(0xD800..=0xDFFF), _) => (6, "\\"),
        (Some(_), _) => (6, ""),
        (None, _) => (2, ""),
    };
    spelt.push_str(prefix);
    spelt.push_str(&text[..taken]);
    taken
}

#[test]
fn exact_json_preserves_numbers_and_escapes() {
    use serde_json::json;
    for (text, expected) in [
        ("123456789012345678901234567890", json!("#123456789012345678901234567890")),
        ("[-0.0, 1.0, 1E2, 1]", json!(["#-0.0", "#1.0", "#100.0", "#1"])),
        (r#"{"a-1": "-1 \" 2", "b": -1}"#, json!({"a-1": "-1 \" 2", "b": "#-1"})),
        (r#""\ud83d\ude00 \ud83d \u00e9 \\""#, json!("😀 \\ud83d é \\")),
    ] {
        assert_eq!(parse_exact(text), expected, "{text}");
    }
}
