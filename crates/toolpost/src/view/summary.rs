//! Tools whose result is short text unless `full` is requested, such as `hub__search`.

use serde_json::{Map, Value};

use crate::payload::Payload;

/// Argument that requests structured data.
const FULL_ARGUMENT: &str = "full";

/// Adds the default of a tool, false, to the arguments of a call. Malformed arguments are left to
/// validation.
pub(super) fn with_default(arguments: &Payload) -> Payload {
    let arguments = match arguments.as_raw() {
        Some(raw) => serde_json::from_str(raw.get()).unwrap_or_default(),
        None => arguments.as_value().cloned().unwrap_or_default(),
    };
    match arguments {
        Value::Object(mut members) => {
            members.entry(FULL_ARGUMENT).or_insert(Value::Bool(false));
            Value::Object(members).into()
        }
        other => other.into(),
    }
}

/// Publishes the default of a tool in its input schema.
pub(super) fn publish_default(input: &mut Map<String, Value>) {
    if let Some(full) = input.get_mut("properties").and_then(|all| all.get_mut(FULL_ARGUMENT)) {
        full["default"] = false.into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn full_defaults_to_false() {
        for (arguments, expected) in [
            (json!({"id": "a.b"}), json!({"id": "a.b", "full": false})),
            (json!({"full": true}), json!({"full": true})),
            (json!({"full": null}), json!({"full": null})),
            (json!([1]), json!([1])),
        ] {
            let raw = Payload::from_json(arguments.to_string()).unwrap();
            for arguments in [arguments.clone().into(), raw] {
                assert_eq!(with_default(&arguments).into_value().unwrap(), expected);
            }
        }
        let mut schema = json!({"properties": {"full": {"default": true}}});
        publish_default(schema.as_object_mut().unwrap());
        assert_eq!(schema, json!({"properties": {"full": {"default": false}}}));
    }
}
