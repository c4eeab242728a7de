//! Encodes arguments that are also sent as HTTP headers.

use data_encoding::BASE64;
use serde_json::Value;

use crate::header_params::HeaderParam;

/// Largest integer that every JSON parser represents exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

impl HeaderParam {
    /// Returns the header value for a call with these arguments, if the argument has one.
    pub(super) fn header_value(&self, arguments: &Value) -> Option<String> {
        let value = self.path.iter().try_fold(arguments, |at, name| at.get(name))?;
        match value {
            Value::String(text) => Some(encode(text)),
            Value::Bool(yes) => Some(yes.to_string()),
            Value::Number(number) => Some(match number.as_f64().filter(|n| n.fract() == 0.0) {
                // `42.0` is encoded as the integer 42.
                #[expect(clippy::cast_possible_truncation, reason = "checked by the guard")]
                Some(integral) if integral.abs() <= MAX_SAFE_INTEGER as f64 => {
                    (integral as i64).to_string()
                }
                _ => number.to_string(),
            }),
            _ => None,
        }
    }
}

/// Returns the text if it is a valid header value, otherwise its base64 in `=?base64?…?=`.
pub(super) fn encode(text: &str) -> String {
    let is_plain = text.bytes().all(|b| (0x20..=0x7e).contains(&b))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    match is_plain {
        true => text.to_owned(),
        false => format!("=?base64?{}?=", BASE64.encode(text.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn header_value_is_base64_encoded_when_needed() {
        let param = |path: &[&str]| HeaderParam {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            header: "Mcp-Param-X".to_owned(),
        };
        for (arguments, path, expected) in [
            (json!({"a": "us-west1"}), &["a"][..], Some("us-west1")),
            (json!({"a": ""}), &["a"], Some("")),
            (json!({"a": "us west 1"}), &["a"], Some("us west 1")),
            (json!({"a": "Hello, 世界"}), &["a"], Some("=?base64?SGVsbG8sIOS4lueVjA==?=")),
            (json!({"a": " padded "}), &["a"], Some("=?base64?IHBhZGRlZCA=?=")),
            (json!({"a": "line1\nline2"}), &["a"], Some("=?base64?bGluZTEKbGluZTI=?=")),
            (json!({"a": "\tx"}), &["a"], Some("=?base64?CXg=?=")),
            (
                json!({"a": "=?base64?literal?="}),
                &["a"],
                Some("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ),
            (json!({"a": 42}), &["a"], Some("42")),
            (json!({"a": -7.0}), &["a"], Some("-7")),
            (json!({"a": true}), &["a"], Some("true")),
            (json!({"a": null}), &["a"], None),
            (json!({"a": [1]}), &["a"], None),
            (json!({}), &["a"], None),
            (json!({"a": {"b": "x"}}), &["a", "b"], Some("x")),
            (json!({"a": 3}), &["a", "b"], None),
        ] {
            assert_eq!(param(path).header_value(&arguments).as_deref(), expected, "{arguments}");
        }
    }
}
