//! `uniqueItems`: detects repeated items and drops repeated scalars.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use serde_json::Value;

/// Addresses of nulls that represent JavaScript's `undefined` in a value under construction.
///
/// JavaScript keeps a key whose value is `undefined` until it is converted to JSON.
#[derive(Debug, Default)]
pub(super) struct UndefinedValues(HashSet<usize, RandomState>);

impl UndefinedValues {
    pub(super) fn insert(&mut self, value: &Value) {
        self.0.insert(address(value));
    }

    /// Returns the value, or `None` if it represents `undefined`.
    pub(super) fn defined<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (self.0.is_empty() || !self.0.contains(&address(value))).then_some(value)
    }
}

/// Returns the address of a value, which identifies it until it is moved.
pub(super) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

/// Whether all items differ. Returns `None` if one nests deeper than `levels`.
pub(super) fn all_unique(
    items: &[Value],
    undefined: &UndefinedValues,
    levels: usize,
) -> Option<bool> {
    let comparison = ItemComparison { undefined, state: RandomState::default() };
    let mut seen: HashMap<u64, Vec<&Value>, RandomState> = HashMap::default();
    for item in items {
        let alike = seen.entry(comparison.hash_value(item, levels)?).or_default();
        if alike.iter().any(|other| comparison.equal(item, other)) {
            return Some(false);
        }
        alike.push(item);
    }
    Some(true)
}

/// Drops every scalar that occurred before. Objects and arrays are kept, even if equal.
pub(super) fn dedup_scalars(items: &mut Vec<Value>) {
    let undefined = UndefinedValues::default();
    let comparison = ItemComparison { undefined: &undefined, state: RandomState::default() };
    let mut seen: HashMap<u64, Vec<Value>, RandomState> = HashMap::default();
    items.retain(|item| {
        if item.is_array() || item.is_object() {
            return true;
        }
        let alike = seen.entry(comparison.hash_scalar(item)).or_default();
        let first = !alike.iter().any(|other| comparison.equal(item, other));
        if first {
            alike.push(item.clone());
        }
        first
    });
}

struct ItemComparison<'h> {
    undefined: &'h UndefinedValues,
    /// Randomly seeded, so that input cannot be crafted to collide.
    state: RandomState,
}

impl ItemComparison<'_> {
    fn hash_value(&self, value: &Value, levels: usize) -> Option<u64> {
        let below = levels.checked_sub(1)?;
        let Some(value) = self.undefined.defined(value) else {
            return Some(0);
        };
        match value {
            Value::Array(items) => items.iter().try_fold(1, |sum, item| {
                Some(self.state.hash_one((sum, self.hash_value(item, below)?)))
            }),
            // Add the hashes, because member order is irrelevant.
            Value::Object(map) => map.iter().try_fold(2, |sum: u64, (key, value)| {
                Some(sum.wrapping_add(self.state.hash_one((key, self.hash_value(value, below)?))))
            }),
            scalar => Some(self.hash_scalar(scalar)),
        }
    }

    fn hash_scalar(&self, value: &Value) -> u64 {
        match value {
            // Adding zero turns negative zero into positive zero.
            Value::Number(number) => {
                self.state.hash_one(number.as_f64().map(|number| (number + 0.0).to_bits()))
            }
            Value::String(text) => self.state.hash_one(text),
            Value::Bool(flag) => self.state.hash_one(flag),
            _ => 3,
        }
    }

    fn equal(&self, left: &Value, right: &Value) -> bool {
        match (self.undefined.defined(left), self.undefined.defined(right)) {
            (Some(Value::Array(a)), Some(Value::Array(b))) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.equal(a, b))
            }
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let mut members = a.iter();
                a.len() == b.len()
                    && members.all(|(key, a)| b.get(key).is_some_and(|b| self.equal(a, b)))
            }
            (Some(Value::Number(a)), Some(Value::Number(b))) => a.as_f64() == b.as_f64(),
            (left, right) => left == right,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_unique_compares_items_by_value() {
        let cases = [
            (json!([1, 2, "1"]), true),
            (json!([1, 1.0]), false),
            (json!([{"a": 1, "b": 2}, {"b": 2, "a": 1}]), false),
            (json!([[1, 2], [2, 1]]), true),
            (json!([null, false, 0, "", [], {}]), true),
        ];
        for (items, expected) in cases {
            let found = all_unique(items.as_array().unwrap(), &UndefinedValues::default(), 9);
            assert_eq!(found, Some(expected), "{items}");
        }
    }

    #[test]
    fn all_unique_returns_none_beyond_depth() {
        assert_eq!(all_unique(&[json!([[1]])], &UndefinedValues::default(), 2), None);
    }

    #[test]
    fn dedup_scalars_keeps_repeated_containers() {
        let mut items = vec![json!(1), json!([1]), json!(1.0), json!([1]), json!("1"), json!(1)];
        dedup_scalars(&mut items);
        assert_eq!(items, [json!(1), json!([1]), json!([1]), json!("1")]);
    }
}
