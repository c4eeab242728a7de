//! Floats with an integral value, such as `2.0`.

use serde_json::{Number, Value};

/// Whether the value contains a float with an integral value.
pub(super) fn contains_integral_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => as_integer(number).is_some(),
        Value::Array(items) => items.iter().any(contains_integral_float),
        Value::Object(members) => members.values().any(contains_integral_float),
        _ => false,
    }
}

/// Converts floats without a fractional part to integers, recursively.
pub(super) fn convert_to_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(integer) = as_integer(number) {
                *number = integer;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(convert_to_integers),
        Value::Object(members) => members.values_mut().for_each(convert_to_integers),
        _ => {}
    }
}

fn as_integer(number: &Number) -> Option<Number> {
    const U64_LIMIT: f64 = 18_446_744_073_709_551_616.0;
    const I64_MIN: f64 = -9_223_372_036_854_775_808.0;
    let float = if number.is_f64() { number.as_f64()? } else { return None };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, and within"
    )]
    match float {
        float if float.fract() != 0.0 => None,
        float if (0.0..U64_LIMIT).contains(&float) => Some((float as u64).into()),
        float if (I64_MIN..0.0).contains(&float) => Some((float as i64).into()),
        _ => None,
    }
}
