//! Takes typed members out of a JSON object. Members of another type stay in the object.

use serde_json::{Map, Value};

/// The members of a JSON object that have not been read yet.
///
/// A member is taken only if it has the expected type. The rest is kept unchanged and serialized
/// again, so no member is lost, not even an invalid one.
#[derive(Debug)]
pub(super) struct JsonMembers(Map<String, Value>);

impl JsonMembers {
    pub(super) fn new(members: Map<String, Value>) -> Self {
        Self(members)
    }

    pub(super) fn into_rest(self) -> Map<String, Value> {
        self.0
    }

    pub(super) fn restore(&mut self, key: &str, members: Map<String, Value>) {
        self.0.insert(key.to_owned(), Value::Object(members));
    }

    pub(super) fn take_string(&mut self, key: &str) -> Option<String> {
        match self.take_if(key, Value::is_string)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn take_bool(&mut self, key: &str) -> Option<bool> {
        self.take_if(key, Value::is_boolean)?.as_bool()
    }

    pub(super) fn take_number(&mut self, key: &str) -> Option<serde_json::Number> {
        match self.take_if(key, Value::is_number)? {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn take_integer(&mut self, key: &str) -> Option<i64> {
        as_integer(&self.take_if(key, |value| as_integer(value).is_some())?)
    }

    pub(super) fn take_unsigned(&mut self, key: &str) -> Option<u64> {
        self.take_if(key, Value::is_u64)?.as_u64()
    }

    pub(super) fn take_object(&mut self, key: &str) -> Option<Map<String, Value>> {
        match self.take_if(key, Value::is_object)? {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    pub(super) fn take_array(&mut self, key: &str) -> Option<Vec<Value>> {
        match self.take_if(key, Value::is_array)? {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn take_strings(&mut self, key: &str) -> Option<Vec<String>> {
        let items = self.take_if(key, |value| {
            value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
        })?;
        serde_json::from_value(items).ok()
    }

    /// Like `take_strings`, but leaves an empty list in the object.
    pub(super) fn take_nonempty_strings(&mut self, key: &str) -> Option<Vec<String>> {
        if self.0.get(key)?.as_array().is_some_and(Vec::is_empty) {
            None
        } else {
            self.take_strings(key)
        }
    }

    pub(super) fn take_value(&mut self, key: &str) -> Option<Value> {
        self.0.shift_remove(key)
    }

    fn take_if(&mut self, key: &str, predicate: impl FnOnce(&Value) -> bool) -> Option<Value> {
        if predicate(self.0.get(key)?) { self.0.shift_remove(key) } else { None }
    }
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
