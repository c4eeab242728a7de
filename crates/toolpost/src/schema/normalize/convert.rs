//! Lossless scalar conversions; each can be reversed.

use serde_json::{Number, Value};

use super::super::program::{NodeId, SchemaProgram};
use super::Normalizer;

/// Integers up to this magnitude are exact in every JSON implementation.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_992.0;

impl Normalizer<'_> {
    /// Returns the only conversion that gives the value a type every node admits. Returns `None` if
    /// the type is already admitted, if no conversion or more than one applies, or if values are
    /// not converted.
    pub(super) fn conversion(&self, nodes: &[NodeId], value: &Value) -> Option<Value> {
        if !self.converts || all_admit(self.program, nodes, value) {
            return None;
        }
        convert_mismatched(self.program, nodes, value)
    }

    /// Like [`Normalizer::conversion`], for a value whose type is known not to be admitted.
    pub(super) fn convert_mismatched(&self, id: NodeId, value: &Value) -> Option<Value> {
        if self.converts { convert_mismatched(self.program, &[id], value) } else { None }
    }
}

fn convert_mismatched(program: &SchemaProgram, nodes: &[NodeId], value: &Value) -> Option<Value> {
    let fits = |new: &Value| all_admit(program, nodes, new);
    match value {
        // No text is both a number and a boolean.
        Value::String(text) => number(text).or_else(|| boolean(text)).filter(fits),
        Value::Bool(flag) => Some(Value::String(flag.to_string())).filter(fits),
        Value::Number(number) => {
            let text = Some(Value::String(number_to_string(number))).filter(fits);
            let integer = integral(number).filter(fits);
            if text.is_some() && integer.is_some() { None } else { text.or(integer) }
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether every node admits the value as far as `type`, `const` and `enum` are concerned.
fn all_admit(program: &SchemaProgram, nodes: &[NodeId], value: &Value) -> bool {
    let types = program.type_of(value);
    nodes.iter().all(|id| {
        let node = program.node(*id);
        node.types.overlaps(types) && node.admits_literal(value)
    })
}

fn boolean(text: &str) -> Option<Value> {
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => None,
    }
}

/// Parses a number. Returns `None` unless formatting the number yields the same text.
fn number(text: &str) -> Option<Value> {
    if let Some(integer) = digits(text) {
        return Some(Value::from(integer));
    }
    // A longer text than the longest number cannot round-trip.
    if text.len() > 32 || !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    let found: f64 = text.parse().ok()?;
    if found.abs() > MAX_SAFE_INTEGER {
        return None;
    }
    if float_to_string(found) != text {
        return None;
    }
    // The cast is exact within the safe range.
    let integer = (found.fract() == 0.0).then(|| Number::from(found as i64));
    integer.or_else(|| Number::from_f64(found)).map(Value::Number)
}

/// Fast path: a short sequence of digits without a leading zero.
fn digits(text: &str) -> Option<i64> {
    if !(1..16).contains(&text.len()) || text.starts_with('0') {
        return None;
    }
    text.bytes().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}

/// Converts an integral float to an integer, for schemas that distinguish them.
fn integral(number: &Number) -> Option<Value> {
    let found = number.as_f64().filter(|found| number.is_f64() && found.fract() == 0.0)?;
    // The cast is exact within the safe range.
    (found.abs() <= MAX_SAFE_INTEGER).then(|| Value::from(found as i64))
}

/// Formats a number like JavaScript: plain digits for moderate magnitudes, otherwise an exponent.
/// `1.0` is written as `1`, because they are the same number.
fn number_to_string(number: &Number) -> String {
    match number.as_f64() {
        Some(found) if number.is_f64() => float_to_string(found),
        _ => number.to_string(),
    }
}

fn float_to_string(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let shortest = format!("{number:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-6..21).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent > 0 { "+" } else { "" };
    format!("{mantissa}e{sign}{exponent}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn string_to_number_requires_exact_round_trip() {
        let cases = [
            ("42", Some(json!(42))),
            ("-7", Some(json!(-7))),
            ("0", Some(json!(0))),
            ("1.5", Some(json!(1.5))),
            ("-0.25", Some(json!(-0.25))),
            ("0.1", Some(json!(0.1))),
            ("1e-9", Some(json!(1e-9))),
            ("9007199254740992", Some(json!(9_007_199_254_740_992_i64))),
            ("9007199254740993", None),
            ("18446744073709551616", None),
            ("1e+21", None),
            ("42.0", None),
            ("1.50", None),
            ("1e3", None),
            ("007", None),
            ("+5", None),
            ("-0", None),
            (" 42", None),
            ("42 ", None),
            ("", None),
            (".5", None),
            ("5.", None),
            ("0x10", None),
            ("1_000", None),
            ("NaN", None),
            ("inf", None),
            ("-inf", None),
            ("abc", None),
            ("٤٢", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }

    #[test]
    fn number_to_string_uses_canonical_notation() {
        let cases = [
            (json!(42), "42"),
            (json!(42.0), "42"),
            (json!(-0.0), "0"),
            (json!(1.5), "1.5"),
            (json!(0.000_001), "0.000001"),
            (json!(1e-7), "1e-7"),
            (json!(1.25e-10), "1.25e-10"),
            (json!(1e20), "100000000000000000000"),
            (json!(1e21), "1e+21"),
            (json!(1.5e300), "1.5e+300"),
            (json!(u64::MAX), "18446744073709551615"),
        ];
        for (number, expected) in cases {
            let Value::Number(number) = number else { panic!("the table holds numbers") };
            assert_eq!(number_to_string(&number), expected);
        }
    }
}
