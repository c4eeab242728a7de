//! Keyed digests that identify the input of a pending call.

use std::sync::OnceLock;

use data_encoding::HEXLOWER;
use ring::hmac;
use serde_json::Value;
use toolpost::CallError;

/// Computes digests that identify inputs. Equal inputs have equal digests.
///
/// Approvers do not see the secrets of an input. A plain hash would let them guess short secrets,
/// so the digest is keyed. The key is generated on first use and lasts as long as the process, as
/// pending calls do.
#[derive(Debug, Default)]
pub(super) struct InputDigester(OnceLock<hmac::Key>);

impl InputDigester {
    /// Returns the HMAC-SHA-256 of a value, independent of the order of its keys.
    pub(super) fn digest(&self, value: &Value) -> Result<String, CallError> {
        let text = sort_keys(value).to_string();
        Ok(HEXLOWER.encode(hmac::sign(self.key()?, text.as_bytes()).as_ref()))
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

fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_unstable();
            keys.into_iter().map(|key| (key.clone(), sort_keys(&members[key]))).collect()
        }
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digest_ignores_key_order_and_is_keyed_per_process() {
        let digester = InputDigester::default();
        let digest = |value: &Value| digester.digest(value).unwrap();
        let same = [
            json!({"a": 1, "b": {"c": [1, 2], "d": null}}),
            json!({"b": {"d": null, "c": [1, 2]}, "a": 1}),
        ];
        assert_eq!(digest(&same[0]), digest(&same[1]));
        for other in [
            json!({"a": 1, "b": {"c": [2, 1], "d": null}}),
            json!({"a": "1", "b": {"c": [1, 2], "d": null}}),
            json!({"a": 1, "b": {"c": [1, 2]}}),
        ] {
            assert_ne!(digest(&same[0]), digest(&other), "{other}");
        }
        assert_ne!(digest(&same[0]), InputDigester::default().digest(&same[0]).unwrap());
    }
}
