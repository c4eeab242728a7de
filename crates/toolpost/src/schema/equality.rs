//! Equality of JSON values: objects without the order of their members, numbers by value.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash, Hasher};

use serde_json::{Number, Value};
use smallvec::SmallVec;

use super::budget::{Budget, Exceeded};
use super::program::{MAX_DEPTH, compare_numbers};

/// Whether two values are equal. The recursion is as deep as the shallower value.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Number(left), Value::Number(right)) => {
            compare_numbers(left, right) == Some(Ordering::Equal)
        }
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, left)| right.get(name).is_some_and(|right| equal(left, right)))
        }
        _ => false,
    }
}

/// Array length up to which scalars are compared pairwise, which is faster than hashing.
const MAX_PAIRWISE: usize = 8;

/// Whether all items differ, in linear time. Stops if the budget is exceeded.
pub(crate) fn are_unique(items: &[Value], budget: &Budget<'_>) -> bool {
    let is_scalar = |item: &Value| !item.is_array() && !item.is_object();
    if items.len() <= MAX_PAIRWISE && items.iter().all(is_scalar) {
        return (1..items.len()).all(|at| !items[..at].iter().any(|item| equal(item, &items[at])));
    }
    if !budget.allocate(items.len() * 48) {
        return false;
    }
    // The hash is keyed at random, so input cannot make it collide.
    let hasher = ValueHasher { state: foldhash::quality::RandomState::default(), budget };
    let mut seen: std::collections::HashMap<
        u64,
        SmallVec<[&Value; 1]>,
        foldhash::fast::FixedState,
    > = std::collections::HashMap::default();
    items.iter().all(|item| {
        let Some(hash) = hasher.hash(item, MAX_DEPTH) else { return false };
        let equal_hash = seen.entry(hash).or_default();
        let is_new = !equal_hash.iter().any(|known| equal(known, item));
        equal_hash.push(item);
        is_new
    })
}

/// Computes hashes that are the same for equal values.
struct ValueHasher<'a> {
    state: foldhash::quality::RandomState,
    budget: &'a Budget<'a>,
}

impl ValueHasher<'_> {
    /// Returns the hash; `None` if the value nests too deeply or the budget is exceeded.
    fn hash(&self, value: &Value, levels: u32) -> Option<u64> {
        let Some(levels) = levels.checked_sub(1) else {
            self.budget.stop(Exceeded::Depth);
            return None;
        };
        if !self.budget.spend(1) {
            return None;
        }
        let mut state = self.state.build_hasher();
        std::mem::discriminant(value).hash(&mut state);
        match value {
            Value::Null => {}
            Value::Bool(flag) => flag.hash(&mut state),
            Value::Number(number) => hash_number(number, &mut state),
            Value::String(text) => {
                self.budget.spend(text.len() / 64);
                text.hash(&mut state);
            }
            Value::Array(items) => {
                for item in items {
                    self.hash(item, levels)?.hash(&mut state);
                }
            }
            Value::Object(members) => {
                let mut total = 0_u64;
                for (name, member) in members {
                    let entry = (name, self.hash(member, levels)?);
                    total = total.wrapping_add(self.state.hash_one(entry));
                }
                total.hash(&mut state);
            }
        }
        Some(state.finish())
    }
}

/// Numbers that are equal as integers are hashed as integers.
fn hash_number(number: &Number, state: &mut impl Hasher) {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let found = number.as_f64().unwrap_or(f64::NAN);
    match integer {
        Some(integer) => integer.hash(state),
        // The cast is exact below 2^64, and larger floats are equal to no integer.
        None if found.fract() == 0.0 && found.abs() < 1e20 => (found as i128).hash(state),
        None => found.to_bits().hash(state),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::budget::WorkLimits;
    use super::*;

    #[test]
    fn unique_items_compare_by_value() {
        for (items, expected) in [
            (json!([]), true),
            (json!([1, 2, "1", true, null, [], {}]), true),
            (json!([1, 1.0]), false),
            (json!([0, -0.0]), false),
            (json!([9_007_199_254_740_993_u64, 9_007_199_254_740_992_u64]), true),
            (json!([18_446_744_073_709_551_615_u64, 18_446_744_073_709_551_616.0]), true),
            (json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]), false),
            (json!([{"a": 1}, {"b": 1}]), true),
            (json!([[1, 2], [2, 1]]), true),
            (json!([[], {}, "", false, 0, [[]], [{}], [null], [0], 1e300, 1e300]), false),
        ] {
            let items = items.as_array().unwrap();
            let mut longer: Vec<Value> = (0..20).map(|at| json!({ "at": at })).collect();
            longer.extend(items.iter().cloned());
            for list in [items, &longer] {
                let budget = Budget::new(WorkLimits::VALUE);
                assert_eq!(are_unique(list, &budget), expected, "{list:?}");
            }
        }
    }

    #[test]
    fn unique_items_cost_is_linear() {
        let steps = |size: usize| {
            let items: Vec<Value> =
                (0..size).map(|at| json!([u64::MAX - at as u64, {"a": at}])).collect();
            let budget = Budget::new(WorkLimits::VALUE);
            assert!(are_unique(&items, &budget));
            budget.steps()
        };
        assert_eq!(steps(20_000), 10 * steps(2_000));
    }
}
