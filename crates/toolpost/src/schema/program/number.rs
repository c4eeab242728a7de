//! Number keywords. Integers and floats are compared exactly.

use std::cmp::Ordering;

use serde_json::{Number, Value};

#[derive(Default)]
pub(crate) struct NumberRules {
    pub(crate) bounds: Box<[Bound]>,
    pub(crate) multiple: Option<Multiple>,
}

/// `minimum`, `maximum`, `exclusiveMinimum` or `exclusiveMaximum`.
pub(crate) struct Bound {
    pub(crate) limit: Number,
    /// How a valid number compares to the limit, besides equality.
    pub(crate) side: Ordering,
    /// Whether the limit itself is allowed.
    pub(crate) inclusive: bool,
}

/// `multipleOf`.
pub(crate) struct Multiple {
    /// The divisor, if integer arithmetic is exact.
    pub(crate) integer: Option<u64>,
    /// Validator for `multipleOf` alone, for all other cases, as in the `jsonschema` crate.
    pub(crate) fallback: Box<jsonschema::Validator>,
}

impl NumberRules {
    pub(crate) fn admits(&self, value: &Value, number: &Number) -> bool {
        self.bounds.iter().all(|bound| bound.admits(number))
            && self.multiple.as_ref().is_none_or(|multiple| multiple.divides(value, number))
    }
}

impl Bound {
    fn admits(&self, number: &Number) -> bool {
        match compare(number, &self.limit) {
            Some(Ordering::Equal) => self.inclusive,
            found => found == Some(self.side),
        }
    }
}

impl Multiple {
    fn divides(&self, value: &Value, number: &Number) -> bool {
        match (self.integer, number.as_u64(), number.as_i64()) {
            (Some(divisor), Some(number), _) => number.is_multiple_of(divisor),
            (Some(divisor), None, Some(number)) => number.unsigned_abs().is_multiple_of(divisor),
            _ => self.fallback.is_valid(value),
        }
    }
}

/// Compares two numbers by value without rounding.
pub(crate) fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => compare_mixed(left, right.as_f64()?),
        (None, Some(right)) => compare_mixed(right, left.as_f64()?).map(Ordering::reverse),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Compares a 64-bit integer with a float. Casting the float to `i128` saturates far outside the
/// 64-bit range, so the cast does not change the result.
fn compare_mixed(left: i128, right: f64) -> Option<Ordering> {
    let integral_order = left.cmp(&(right.trunc() as i128));
    Some(integral_order.then(0.0_f64.partial_cmp(&right.fract())?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn compare_orders_integers_and_floats_exactly() {
        let cases = [
            (json!(1), json!(1.0), Ordering::Equal),
            (json!(1), json!(1.5), Ordering::Less),
            (json!(-1), json!(-1.5), Ordering::Greater),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), Ordering::Greater),
            (json!(u64::MAX), json!(1e300), Ordering::Less),
            (json!(i64::MIN), json!(-1e300), Ordering::Greater),
            (json!(0.1), json!(0.2), Ordering::Less),
        ];
        for (left, right, expected) in cases {
            let (Value::Number(left), Value::Number(right)) = (&left, &right) else {
                panic!("the table holds numbers");
            };
            assert_eq!(compare(left, right), Some(expected), "{left} and {right}");
            assert_eq!(compare(right, left), Some(expected.reverse()), "{right} and {left}");
        }
    }
}
