//! JavaScript semantics that affect the meaning of a schema.

use serde_json::{Map, Value};

/// Maximum combined nesting depth of checks, creations and casts; beyond it the error is `stack`.
pub(super) const MAX_DEPTH: usize = 400;

/// Maximum nesting depth of a default, constant or bound that is copied at compile time.
pub(super) const MAX_LITERAL_DEPTH: usize = 128;

/// Returns the members in JavaScript's order: array indices first, in ascending order.
///
/// The order determines which of several failures is reported.
pub(super) fn entries(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let mut indices: Vec<_> =
        map.iter().filter_map(|(key, value)| Some((array_index(key)?, (key, value)))).collect();
    indices.sort_unstable_by_key(|(index, _)| *index);
    let mixed = !indices.is_empty();
    let others = map.iter().filter(move |(key, _)| !mixed || array_index(key).is_none());
    indices.into_iter().map(|(_, entry)| entry).chain(others)
}

/// Parses a key as an array index. Leading zeros are not allowed.
pub(super) fn array_index(key: &str) -> Option<u32> {
    let canonical = key == "0" || matches!(key.as_bytes().first(), Some(b'1'..=b'9'));
    if !canonical || !key.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    key.parse().ok().filter(|index| *index < u32::MAX)
}

/// Converts a keyword's value to a number, as JavaScript does in a numeric comparison.
pub(super) fn to_number(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
        Value::String(text) if text.trim().is_empty() => 0.0,
        Value::String(text) => text.trim().parse().unwrap_or(f64::NAN),
        Value::Array(_) | Value::Object(_) => f64::NAN,
    }
}

/// Compares JSON values: numbers as `f64`, members in any order.
///
/// The recursion is bounded by the shallower value; one is from a compiled schema.
pub(super) fn json_eq(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| json_eq(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| json_eq(a, b)))
        }
        _ => left == right,
    }
}

/// Copies a value. Returns `None` if it nests deeper than `levels`.
pub(super) fn copy_bounded(value: &Value, levels: usize) -> Option<Value> {
    let below = levels.checked_sub(1)?;
    match value {
        Value::Array(items) => copy_items(items, below).map(Value::Array),
        Value::Object(map) => {
            let copy =
                |(key, member): (&String, _)| Some((key.clone(), copy_bounded(member, below)?));
            map.iter().map(copy).collect::<Option<_>>().map(Value::Object)
        }
        scalar => Some(scalar.clone()),
    }
}

/// Copies all items. Returns `None` if one nests deeper than `levels`.
pub(super) fn copy_items(items: &[Value], levels: usize) -> Option<Vec<Value>> {
    items.iter().map(|item| copy_bounded(item, levels)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_lists_index_keys_first_ascending() {
        let map = json!({"b": 0, "10": 0, "a": 0, "2": 0, "01": 0, "4294967295": 0});
        let keys: Vec<_> = entries(map.as_object().unwrap()).map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["2", "10", "b", "a", "01", "4294967295"]);
    }

    #[test]
    fn json_eq_compares_numbers_by_value() {
        assert!(json_eq(&json!({"a": [1, -0.0]}), &json!({"a": [1.0, 0]})));
        assert!(!json_eq(&json!([1]), &json!(["1"])));
    }

    #[test]
    fn copy_bounded_fails_beyond_depth() {
        assert_eq!(copy_bounded(&json!([[1]]), 3), Some(json!([[1]])));
        assert_eq!(copy_bounded(&json!([[1]]), 2), None);
    }
}
