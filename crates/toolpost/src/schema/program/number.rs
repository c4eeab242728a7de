//! Number keywords. Integers and floats are compared exactly.

use std::cmp::Ordering;

use serde_json::Number;

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
    pub(crate) divisor: Number,
}

impl NumberRules {
    pub(crate) fn admits(&self, number: &Number) -> bool {
        self.bounds.iter().all(|bound| bound.admits(number))
            && self.multiple.as_ref().is_none_or(|multiple| multiple.divides(number))
    }
}

impl Bound {
    pub(crate) fn admits(&self, number: &Number) -> bool {
        match compare(number, &self.limit) {
            Some(Ordering::Equal) => self.inclusive,
            found => found == Some(self.side),
        }
    }
}

impl Multiple {
    pub(crate) fn divides(&self, number: &Number) -> bool {
        match (self.integer, number.as_u64(), number.as_i64()) {
            (Some(divisor), Some(number), _) => number.is_multiple_of(divisor),
            (Some(divisor), None, Some(number)) => number.unsigned_abs().is_multiple_of(divisor),
            _ => divides_exactly(number, &self.divisor).unwrap_or(false),
        }
    }
}

/// Whether `number / divisor` is an integer, both read as the decimals they are written as. `None`
/// if the divisor is not positive.
fn divides_exactly(number: &Number, divisor: &Number) -> Option<bool> {
    let (dividend, dividend_exponent) = decimal(number)?;
    let (divisor, divisor_exponent) = decimal(divisor).filter(|(mantissa, _)| *mantissa > 0)?;
    let shift = dividend_exponent - divisor_exponent;
    if dividend == 0 {
        return Some(true);
    }
    // A mantissa has at most 20 digits, so a divisor with more digits does not divide it.
    let Ok(places) = u32::try_from(shift) else {
        let scale = 10_u128.checked_pow(shift.unsigned_abs());
        let scaled = scale.and_then(|scale| divisor.checked_mul(scale));
        return Some(scaled.is_some_and(|divisor| dividend.is_multiple_of(divisor)));
    };
    // The divisor is below 2^64, or the product is checked.
    let mut remainder = dividend % divisor;
    for _ in 0..places {
        remainder = remainder.checked_mul(10)? % divisor;
    }
    Some(remainder == 0)
}

/// Returns the digits and the exponent of the absolute value, as written with the fewest digits.
fn decimal(number: &Number) -> Option<(u128, i32)> {
    if let Some(integer) = integer(number) {
        return Some((integer.unsigned_abs(), 0));
    }
    let written = format!("{:e}", number.as_f64()?.abs());
    let (mantissa, exponent) = written.split_once('e')?;
    let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    Some((digits.parse().ok()?, exponent.parse::<i32>().ok()? - i32::try_from(fraction).ok()?))
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
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn multiples_are_decided_by_decimal_notation() {
        for (number, divisor, expected) in [
            (json!(0.3), json!(0.1), true),
            (json!(4.35), json!(0.01), true),
            (json!(0.35), json!(0.1), false),
            (json!(7.0), json!(3.5), true),
            (json!(9), json!(1.5), true),
            (json!(9), json!(2.5), false),
            (json!(-9), json!(1.5), true),
            (json!(0), json!(0.7), true),
            (json!(1e308), json!(0.5), true),
            (json!(1e308), json!(0.123_456_789), false),
            (json!(0.0075), json!(0.0001), true),
            (json!(0.000_075_1), json!(0.0001), false),
            (json!(u64::MAX), json!(0.5), true),
            (json!(5e-324), json!(1e300), false),
            (json!(12), json!(1e19), false),
        ] {
            let (Value::Number(number), Value::Number(divisor)) = (&number, &divisor) else {
                panic!("the table holds numbers");
            };
            assert_eq!(divides_exactly(number, divisor), Some(expected), "{number} {divisor}");
        }
    }

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
