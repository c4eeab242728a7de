//! Distinguishes envelopes from data with a similar shape.

use serde_json::Value;

use super::{Envelope, EnvelopeIn, Meta};
use crate::payload::Payload;

impl Envelope<Value> {
    /// Whether the value is an envelope: an object with `data` and `meta`, a known
    /// `meta.source`, and the required fields of that source with the right types.
    pub fn is_envelope(value: &Value) -> bool {
        value.as_object().is_some_and(|members| {
            members.contains_key("data")
                && members.get("meta").and_then(Value::as_object).is_some_and(Meta::recognizes)
        })
    }

    /// Parses the value as an envelope.
    ///
    /// # Errors
    ///
    /// Returns the value unchanged if it is not an envelope.
    pub fn detect(value: Value) -> Result<Self, Value> {
        if !Self::is_envelope(&value) {
            return Err(value);
        }
        let Value::Object(mut members) = value else { return Err(value) };
        let meta = match members.swap_remove("meta") {
            Some(Value::Object(meta)) => Meta::from_members(meta),
            _ => return Err(Value::Object(members)),
        };
        match meta {
            Ok(meta) => Ok(Self { data: members.swap_remove("data").unwrap_or_default(), meta }),
            Err(_) => Err(Value::Object(members)),
        }
    }
}

impl Envelope<Payload> {
    /// Like [`Envelope::detect`], but leaves data that is still text unparsed.
    ///
    /// # Errors
    ///
    /// Returns the payload unchanged if it is not an envelope.
    pub fn detect_payload(payload: Payload) -> Result<Self, Payload> {
        let Some(raw) = payload.as_raw() else {
            let value = payload.into_value().unwrap_or_default();
            return match Envelope::detect(value) {
                Ok(envelope) => Ok(envelope.map(Payload::from)),
                Err(value) => Err(value.into()),
            };
        };
        // Text that is not an object is rejected without parsing.
        let is_object = raw.get().starts_with('{');
        let parse = || serde_json::from_str::<EnvelopeIn<Payload>>(raw.get()).ok();
        let found = is_object.then(parse).flatten().and_then(|wire| {
            Some(Self { data: wire.data?, meta: Meta::from_members(wire.meta).ok()? })
        });
        found.ok_or(payload)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn local() -> Value {
        json!({"source": "local", "operationId": "a.b", "timestamp": 1})
    }

    fn http() -> Value {
        json!({"source": "http", "statusCode": 200, "headers": {"a": "b"}, "contentType": "text/plain"})
    }

    fn mcp() -> Value {
        json!({"source": "mcp", "isError": false, "content": [{"type": "text", "text": "t"}]})
    }

    fn with(mut meta: Value, key: &str, value: Value) -> Value {
        meta[key] = value;
        meta
    }

    fn without(mut meta: Value, key: &str) -> Value {
        meta.as_object_mut().unwrap().remove(key);
        meta
    }

    /// Checks each value both parsed and as text; the results must agree.
    fn check(name: &str, value: &Value, expected: bool) {
        assert_eq!(Envelope::is_envelope(value), expected, "{name}");
        match Envelope::detect(value.clone()) {
            Ok(envelope) => {
                assert!(expected, "{name}");
                assert_eq!(
                    serde_json::to_value(envelope).unwrap()["data"],
                    value["data"],
                    "{name}"
                );
            }
            Err(data) => {
                assert!(!expected, "{name}");
                assert_eq!(&data, value, "{name}: plain data is unchanged");
            }
        }
        let raw = Payload::from_json(value.to_string()).unwrap();
        assert_eq!(Envelope::detect_payload(raw).is_ok(), expected, "{name} as text");
    }

    #[test]
    fn detect_accepts_envelopes_of_every_source() {
        for meta in [
            local(),
            http(),
            mcp(),
            with(local(), "newer", json!({"x": 1})),
            with(http(), "setCookie", json!(["a=1", "b=2"])),
            with(http(), "setCookie", json!("odd, but optional")),
            with(http(), "sse", json!({"eventType": "message", "lastEventId": "", "retry": 3})),
            with(http(), "sse", json!({"eventType": "message", "lastEventId": "", "newer": 1})),
            with(http(), "sse", json!({"eventType": "message", "lastEventId": "", "retry": -1})),
            with(http(), "setCookie", json!([])),
            with(http(), "headers", json!({})),
            with(mcp(), "content", json!([])),
            with(mcp(), "structuredContent", json!({"a": 1})),
            with(mcp(), "structuredContent", json!(null)),
            with(mcp(), "_meta", json!({"a": 1})),
            with(mcp(), "_meta", json!("odd")),
        ] {
            for data in [json!(null), json!({"a": [1, "x"]}), json!([]), json!(1.5)] {
                let value = json!({"data": data, "meta": meta});
                check(&meta.to_string(), &value, true);
                let envelope = Envelope::detect(value.clone()).unwrap();
                assert_eq!(serde_json::to_value(&envelope).unwrap(), value, "nothing is lost");
            }
        }
    }

    #[test]
    fn detect_accepts_integral_floats_as_integers() {
        check("1.0", &json!({"data": 1, "meta": with(local(), "timestamp", json!(1.0))}), true);
        check("2e2", &json!({"data": 1, "meta": with(http(), "statusCode", json!(2e2))}), true);
    }

    #[test]
    fn detect_rejects_lookalikes_and_wrong_types() {
        for value in [
            json!(null),
            json!("data"),
            json!([{"data": 1, "meta": local()}]),
            json!({}),
            json!({"data": 1}),
            json!({"meta": local()}),
            json!({"data": 1, "meta": null}),
            json!({"data": 1, "meta": "local"}),
            json!({"data": 1, "meta": [local()]}),
            json!({"data": [1], "meta": {"total": 1, "page": 2}}),
            json!({"data": 1, "meta": {"source": "rss"}}),
            json!({"data": 1, "meta": {"source": "LOCAL", "operationId": "a.b", "timestamp": 1}}),
            json!({"data": 1, "meta": {"source": "local"}}),
            json!({"data": 1, "meta": with(local(), "source", json!(["local"]))}),
            json!({"data": 1, "meta": without(local(), "operationId")}),
            json!({"data": 1, "meta": without(local(), "timestamp")}),
            json!({"data": 1, "meta": with(local(), "operationId", json!(5))}),
            json!({"data": 1, "meta": with(local(), "timestamp", json!("1"))}),
            json!({"data": 1, "meta": with(local(), "timestamp", json!(1.5))}),
            json!({"data": 1, "meta": with(local(), "timestamp", json!(null))}),
            json!({"data": 1, "meta": without(http(), "statusCode")}),
            json!({"data": 1, "meta": without(http(), "headers")}),
            json!({"data": 1, "meta": without(http(), "contentType")}),
            json!({"data": 1, "meta": with(http(), "statusCode", json!("200"))}),
            json!({"data": 1, "meta": with(http(), "statusCode", json!(-1))}),
            json!({"data": 1, "meta": with(http(), "statusCode", json!(200.5))}),
            json!({"data": 1, "meta": with(http(), "headers", json!([["a", "b"]]))}),
            json!({"data": 1, "meta": with(http(), "headers", json!({"a": 1}))}),
            json!({"data": 1, "meta": with(http(), "contentType", json!(null))}),
            json!({"data": 1, "meta": without(mcp(), "isError")}),
            json!({"data": 1, "meta": without(mcp(), "content")}),
            json!({"data": 1, "meta": with(mcp(), "isError", json!("false"))}),
            json!({"data": 1, "meta": with(mcp(), "content", json!({}))}),
            json!({"data": 1, "meta": with(mcp(), "content", json!(["text"]))}),
            json!({"Data": 1, "Meta": local()}),
        ] {
            check(&value.to_string(), &value, false);
        }
    }
}
