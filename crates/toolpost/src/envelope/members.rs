//! Extracts typed members from a JSON object. Members of another type stay in the object.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::json::JsonObject;

/// Removes and returns a member if it has the expected type.
pub(super) fn take<T: DeserializeOwned>(
    members: &mut JsonObject,
    key: &str,
    is_expected: fn(&Value) -> bool,
) -> Option<T> {
    serde_json::from_value(take_value(members, key, is_expected)?).ok()
}

pub(super) fn take_value(
    members: &mut JsonObject,
    key: &str,
    is_expected: fn(&Value) -> bool,
) -> Option<Value> {
    if is_expected(members.get(key)?) { members.shift_remove(key) } else { None }
}

pub(super) fn is_string_array(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

/// Reads an integer, also when written as `200.0`.
pub(super) fn as_integer(value: &Value) -> Option<i64> {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() <= MAX_EXACT_INTEGER)?;
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        Some(number as i64)
    })
}
