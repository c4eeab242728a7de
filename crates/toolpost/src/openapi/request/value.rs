//! JSON values as the text that styles are composed of.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// A value in text form. Null items and members are omitted.
pub(super) enum ParameterValue<'v> {
    Scalar(Cow<'v, str>),
    Array(Vec<Cow<'v, str>>),
    Object(Vec<(&'v str, Cow<'v, str>)>),
}

impl<'v> ParameterValue<'v> {
    pub(super) fn from_json(value: &'v Value) -> Self {
        match value {
            Value::Array(items) => {
                Self::Array(items.iter().filter(|item| !item.is_null()).map(scalar_text).collect())
            }
            Value::Object(members) => {
                let some = members.iter().filter(|(_, value)| !value.is_null());
                Self::Object(
                    some.map(|(name, value)| (name.as_str(), scalar_text(value))).collect(),
                )
            }
            one => Self::Scalar(scalar_text(one)),
        }
    }
}

/// Returns a value as text. Nested arrays and objects are JSON, because no style defines them.
pub(super) fn scalar_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => Cow::Owned(number_text(number)),
        other => Cow::Owned(other.to_string()),
    }
}

/// Formats a number. Integral floats below 1e30 have no decimal point and no exponent.
fn number_text(number: &Number) -> String {
    match number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0) {
        Some(0.0) => "0".to_owned(),
        Some(integer) if integer.abs() < 1e30 => format!("{integer:.0}"),
        _ => number.to_string(),
    }
}

/// Whether a value is undefined (RFC 6570): null, or a container without other values.
pub(super) fn is_undefined(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().all(Value::is_null),
        Value::Object(members) => members.values().all(Value::is_null),
        _ => false,
    }
}

/// Returns the type name of a value with its article, for messages.
pub(super) fn type_with_article(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integral_floats_are_written_as_integers() {
        for (value, expected) in [
            (json!(7), "7"),
            (json!(-7.0), "-7"),
            (json!(1e3), "1000"),
            (json!(-0.0), "0"),
            (json!(1e22), "10000000000000000000000"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(0.5), "0.5"),
            (json!(1e300), "1e+300"),
        ] {
            assert_eq!(scalar_text(&value), expected, "{value}");
        }
    }
}
