//! Whole numbers that are written with a fraction of zero.

use serde_json::{Number, Value};

/// Whether there is one.
pub(super) fn is_in(value: &Value) -> bool {
    match value {
        Value::Number(number) => whole(number).is_some(),
        Value::Array(items) => items.iter().any(is_in),
        Value::Object(members) => members.values().any(is_in),
        _ => false,
    }
}

/// Writes them without.
pub(super) fn write_out(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = whole(number) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_out),
        Value::Object(members) => members.values_mut().for_each(write_out),
        _ => {}
    }
}

fn whole(number: &Number) -> Option<Number> {
    const BELOW: f64 = 18_446_744_073_709_551_616.0;
    const ABOVE: f64 = -9_223_372_036_854_775_808.0;
    let float = if number.is_f64() { number.as_f64()? } else { return None };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, and within"
    )]
    match float {
        float if float.fract() != 0.0 => None,
        float if (0.0..BELOW).contains(&float) => Some((float as u64).into()),
        float if (ABOVE..0.0).contains(&float) => Some((float as i64).into()),
        _ => None,
    }
}
