//! Nesting depth of call inputs.

use serde_json::Value;
use toolpost::Payload;

/// Whether an input has more than `max_depth` levels of objects and arrays.
pub(super) fn exceeds_depth(input: &Payload, max_depth: usize) -> bool {
    match (input.as_value(), input.as_raw()) {
        (Some(value), _) => value_exceeds_depth(value, max_depth),
        (None, Some(raw)) => text_exceeds_depth(raw.get(), max_depth),
        (None, None) => false,
    }
}

fn value_exceeds_depth(value: &Value, max_depth: usize) -> bool {
    let below = |inner: &Value| match max_depth.checked_sub(1) {
        Some(remaining) => value_exceeds_depth(inner, remaining),
        None => true,
    };
    match value {
        Value::Array(items) => max_depth == 0 || items.iter().any(below),
        Value::Object(members) => max_depth == 0 || members.values().any(below),
        _ => false,
    }
}

/// Whether a JSON text is nested deeper than `max_depth`. Brackets outside of strings are levels.
pub(crate) fn text_exceeds_depth(text: &str, max_depth: usize) -> bool {
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
        if depth > max_depth {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_equal_for_raw_text_and_parsed_value() {
        for (text, levels) in [
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[1,{"b":2}]}"#, 3),
            (r#"["[[[[", "\"[[[", {"{{":"}"}]"#, 2),
            (r#"[[],[[]],[]]"#, 3),
        ] {
            let raw = Payload::from_json(text.to_owned()).unwrap();
            let tree = Payload::from(serde_json::from_str::<Value>(text).unwrap());
            for max_depth in 0..5 {
                for input in [&raw, &tree] {
                    assert_eq!(
                        exceeds_depth(input, max_depth),
                        levels > max_depth,
                        "{text} {max_depth} {input:?}"
                    );
                }
            }
        }
    }
}
