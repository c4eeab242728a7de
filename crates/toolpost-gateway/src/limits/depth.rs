//! Nesting depth of call inputs.

use serde_json::Value;
use toolpost::Payload;
use toolpost::json::is_nested_deeper;

/// Whether an input has more than `max_depth` levels of objects and arrays.
pub(super) fn exceeds_depth(input: &Payload, max_depth: usize) -> bool {
    match (input.as_value(), input.as_raw()) {
        (Some(value), _) => value_exceeds_depth(value, max_depth),
        (None, Some(raw)) => is_nested_deeper(raw.get().as_bytes(), max_depth),
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
