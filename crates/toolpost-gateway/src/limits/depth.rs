//! How deep an input is nested.

use serde_json::Value;
use toolpost::Payload;

/// Whether an input has more levels of objects and lists.
pub(super) fn is_deeper(input: &Payload, most: usize) -> bool {
    match (input.as_value(), input.as_raw()) {
        (Some(value), _) => value_is_deeper(value, most),
        (None, Some(raw)) => text_is_deeper(raw.get(), most),
        (None, None) => false,
    }
}

fn value_is_deeper(value: &Value, most: usize) -> bool {
    let below = |inner: &Value| match most.checked_sub(1) {
        Some(left) => value_is_deeper(inner, left),
        None => true,
    };
    match value {
        Value::Array(items) => most == 0 || items.iter().any(below),
        Value::Object(members) => most == 0 || members.values().any(below),
        _ => false,
    }
}

/// The text is JSON, so brackets stand for levels wherever they do not stand in a text.
fn text_is_deeper(text: &str, most: usize) -> bool {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > most {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_alike_in_texts_and_trees() {
        for (text, levels) in [
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[1,{"b":2}]}"#, 3),
            (r#"["[[[[", "\"[[[", {"{{":"}"}]"#, 2),
            (r#"[[],[[]],[]]"#, 3),
        ] {
            let raw = Payload::from_json(text.to_owned()).unwrap();
            let tree = Payload::from(serde_json::from_str::<Value>(text).unwrap());
            for most in 0..5 {
                for input in [&raw, &tree] {
                    assert_eq!(is_deeper(input, most), levels > most, "{text} {most} {input:?}");
                }
            }
        }
    }
}
