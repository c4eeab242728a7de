//! `uniqueItems`: whether items differ, and dropping the scalars that do not.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use serde_json::Value;

/// Addresses of the nulls that stand for "a key without a value" in a value under construction.
///
/// JavaScript keeps such keys with `undefined`; they exist only until the value is JSON again.
#[derive(Debug, Default)]
pub(super) struct Holes(HashSet<usize, RandomState>);

impl Holes {
    pub(super) fn insert(&mut self, value: &Value) {
        self.0.insert(address(value));
    }

    /// The value, unless it stands for none.
    pub(super) fn fill<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (self.0.is_empty() || !self.0.contains(&address(value))).then_some(value)
    }
}

/// Identifies a value for as long as nothing moves it.
pub(super) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

/// Whether all items differ, or nothing when one nests deeper than `levels`.
pub(super) fn all_different(items: &[Value], holes: &Holes, levels: usize) -> Option<bool> {
    let comparison = Comparison { holes, state: RandomState::default() };
    let mut seen: HashMap<u64, Vec<&Value>, RandomState> = HashMap::default();
    for item in items {
        let alike = seen.entry(comparison.digest(item, levels)?).or_default();
        if alike.iter().any(|other| comparison.equal(item, other)) {
            return Some(false);
        }
        alike.push(item);
    }
    Some(true)
}

/// Drops every scalar that has occurred before; objects and arrays stay, equal or not.
pub(super) fn drop_repeated_scalars(items: &mut Vec<Value>) {
    let holes = Holes::default();
    let comparison = Comparison { holes: &holes, state: RandomState::default() };
    let mut seen: HashMap<u64, Vec<Value>, RandomState> = HashMap::default();
    items.retain(|item| {
        if item.is_array() || item.is_object() {
            return true;
        }
        let alike = seen.entry(comparison.scalar(item)).or_default();
        let first = !alike.iter().any(|other| comparison.equal(item, other));
        if first {
            alike.push(item.clone());
        }
        first
    });
}

struct Comparison<'h> {
    holes: &'h Holes,
    /// Seeded by chance, so that no sender can prepare items that collide.
    state: RandomState,
}

impl Comparison<'_> {
    fn digest(&self, value: &Value, levels: usize) -> Option<u64> {
        let below = levels.checked_sub(1)?;
        let Some(value) = self.holes.fill(value) else {
            return Some(0);
        };
        match value {
            Value::Array(items) => items.iter().try_fold(1, |sum, item| {
                Some(self.state.hash_one((sum, self.digest(item, below)?)))
            }),
            // A sum, because the order of members has no meaning.
            Value::Object(map) => map.iter().try_fold(2, |sum: u64, (key, value)| {
                Some(sum.wrapping_add(self.state.hash_one((key, self.digest(value, below)?))))
            }),
            scalar => Some(self.scalar(scalar)),
        }
    }

    fn scalar(&self, value: &Value) -> u64 {
        match value {
            // Adding zero turns a negative zero into the other one.
            Value::Number(number) => {
                self.state.hash_one(number.as_f64().map(|number| (number + 0.0).to_bits()))
            }
            Value::String(text) => self.state.hash_one(text),
            Value::Bool(flag) => self.state.hash_one(flag),
            _ => 3,
        }
    }

    fn equal(&self, left: &Value, right: &Value) -> bool {
        match (self.holes.fill(left), self.holes.fill(right)) {
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
    fn items_differ_by_value() {
        let cases = [
            (json!([1, 2, "1"]), true),
            (json!([1, 1.0]), false),
            (json!([{"a": 1, "b": 2}, {"b": 2, "a": 1}]), false),
            (json!([[1, 2], [2, 1]]), true),
            (json!([null, false, 0, "", [], {}]), true),
        ];
        for (items, expected) in cases {
            let found = all_different(items.as_array().unwrap(), &Holes::default(), 9);
            assert_eq!(found, Some(expected), "{items}");
        }
    }

    #[test]
    fn what_is_too_deep_is_not_compared() {
        assert_eq!(all_different(&[json!([[1]])], &Holes::default(), 2), None);
    }

    #[test]
    fn only_scalars_are_dropped() {
        let mut items = vec![json!(1), json!([1]), json!(1.0), json!([1]), json!("1"), json!(1)];
        drop_repeated_scalars(&mut items);
        assert_eq!(items, [json!(1), json!([1]), json!([1]), json!("1")]);
    }
}
