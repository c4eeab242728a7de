//! The few habits of JavaScript that decide what a schema means.

use serde_json::{Map, Value};

/// How deeply checks, creations and casts may nest together before the answer is `stack`.
pub(super) const MAX_DEPTH: usize = 400;

/// How deeply a default, a constant or a bound may nest, for it to be copied at any depth.
pub(super) const MAX_LITERAL_DEPTH: usize = 128;

/// Members in JavaScript's order: keys that are array indices first, ascending.
///
/// The order decides which of several failures is met first.
pub(super) fn entries(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let mut indices: Vec<_> =
        map.iter().filter_map(|(key, value)| Some((array_index(key)?, (key, value)))).collect();
    indices.sort_unstable_by_key(|(index, _)| *index);
    let mixed = !indices.is_empty();
    let others = map.iter().filter(move |(key, _)| !mixed || array_index(key).is_none());
    indices.into_iter().map(|(_, entry)| entry).chain(others)
}

/// The array index that a key spells, if it does so without leading zeros.
pub(super) fn array_index(key: &str) -> Option<u32> {
    let canonical = key == "0" || matches!(key.as_bytes().first(), Some(b'1'..=b'9'));
    if !canonical || !key.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    key.parse().ok().filter(|index| *index < u32::MAX)
}

/// What JavaScript makes of a keyword's value when it compares it with a number.
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

/// Equality of JSON values: numbers as f64, members in any order.
///
/// The recursion is bounded by the shallower value, and one of the two always comes from a
/// compiled schema.
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

/// A copy, unless the value nests deeper than `levels`.
pub(super) fn copy_bounded(value: &Value, levels: usize) -> Option<Value> {
    let below = levels.checked_sub(1)?;
    match value {
        Value::Array(items) => copy_items(items, below).map(Value::Array),
        Value::Object(map) => copy_members(map, below).map(Value::Object),
        scalar => Some(scalar.clone()),
    }
}

/// A copy of all items, unless one nests deeper than `levels`.
pub(super) fn copy_items(items: &[Value], levels: usize) -> Option<Vec<Value>> {
    let mut copies = Vec::with_capacity(items.len());
    for item in items {
        copies.push(copy_bounded(item, levels)?);
    }
    Some(copies)
}

fn copy_members(map: &Map<String, Value>, levels: usize) -> Option<Map<String, Value>> {
    let mut copies = Map::with_capacity(map.len());
    for (key, member) in map {
        copies.insert(key.clone(), copy_bounded(member, levels)?);
    }
    Some(copies)
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
