//! Keyed digests that identify inputs.

use std::io::Write;
use std::sync::OnceLock;

use data_encoding::HEXLOWER;
use ring::hmac;
use serde_json::{Number, Value};
use toolpost::CallError;

/// Computes digests that identify inputs. Equal inputs have equal digests.
///
/// A plain hash would let a reader of the digest guess short secrets in the input, so the digest is
/// keyed. Without a given key, one is generated on first use and lasts as long as the process.
#[derive(Debug, Default)]
pub(crate) struct InputDigester(OnceLock<hmac::Key>);

impl InputDigester {
    pub(crate) fn with_key(key: hmac::Key) -> Self {
        Self(OnceLock::from(key))
    }

    /// Returns the HMAC-SHA-256 of a value in hexadecimal digits.
    pub(crate) fn hex_digest(&self, value: &Value) -> Result<String, CallError> {
        Ok(HEXLOWER.encode(self.digest(value)?.as_ref()))
    }

    /// Returns the HMAC-SHA-256 of a value, independent of the order of its keys and of the notation
    /// of its numbers.
    pub(crate) fn digest(&self, value: &Value) -> Result<hmac::Tag, CallError> {
        let mut text = Vec::with_capacity(256);
        write_canonical(value, &mut text);
        Ok(hmac::sign(self.key()?, &text))
    }

    fn key(&self) -> Result<&hmac::Key, CallError> {
        if let Some(key) = self.0.get() {
            return Ok(key);
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| {
            CallError::unknown("the system random number generator failed").with_cause(error)
        })?;
        Ok(self.0.get_or_init(|| hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }
}

/// Writes a value as JSON with sorted keys. The depth of inputs is limited before.
fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_unstable();
            out.push(b'{');
            for key in keys {
                write_json(key, out);
                out.push(b':');
                write_canonical(&members[key], out);
                out.push(b',');
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for item in items {
                write_canonical(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        Value::Number(number) => write_number(number, out),
        other => write_json(other, out),
    }
}

/// Writes `2.0` as `2`, which is the same number to JSON Schema and to JavaScript.
fn write_number(number: &Number, out: &mut Vec<u8>) {
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64().filter(|float| number.is_f64() && float.abs() < MAX_EXACT) {
        Some(float) if float.fract() == 0.0 => {
            write!(out, "{}", float as i64).expect("a vector can be written");
        }
        _ => write_json(number, out),
    }
}

fn write_json(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("JSON values serialize");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digest_ignores_key_order_and_is_keyed_per_process() {
        let digester = InputDigester::default();
        let digest = |value: &Value| digester.hex_digest(value).unwrap();
        let same = [
            json!({"a": 1, "b": {"c": [1, 2], "d": null}}),
            json!({"b": {"d": null, "c": [1, 2.0]}, "a": 1e0}),
        ];
        assert_eq!(digest(&same[0]), digest(&same[1]));
        for other in [
            json!({"a": 1, "b": {"c": [2, 1], "d": null}}),
            json!({"a": "1", "b": {"c": [1, 2], "d": null}}),
            json!({"a": 1, "b": {"c": [1, 2]}}),
            json!({"a": 1.5, "b": {"c": [1, 2], "d": null}}),
            json!({"a": 1, "b": {"c": [12], "d": null}}),
            json!({"a": 1, "b": {"c": [1, [2]], "d": null}}),
        ] {
            assert_ne!(digest(&same[0]), digest(&other), "{other}");
        }
        assert_ne!(digest(&same[0]), InputDigester::default().hex_digest(&same[0]).unwrap());
    }
}
