//! JSON Schema of all events, for peers written in other languages.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::event::names;
use crate::envelope::ENVELOPE_SCHEMA;

/// Schema of a frame: one of the events or control frames, each defined under `$defs` by its type.
pub static CALL_EVENT_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut definitions = Map::new();
    for (name, payload) in payloads() {
        definitions.insert(name.to_owned(), frame_schema(name, &payload));
    }
    let any: Vec<Value> =
        definitions.keys().map(|name| json!({"$ref": format!("#/$defs/{name}")})).collect();
    // The envelope schema has its own definitions, and its references resolve against the root.
    let mut envelope = ENVELOPE_SCHEMA.clone();
    if let Some(members) = envelope.as_object_mut() {
        members.shift_remove("$schema");
        if let Some(Value::Object(parts)) = members.shift_remove("$defs") {
            definitions.extend(parts);
        }
    }
    definitions.insert("ResponseEnvelope".to_owned(), envelope);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "CallEvent",
        "description": "One frame of the call protocol.",
        "oneOf": any,
        "$defs": definitions,
    })
});

fn frame_schema(name: &str, payload: &Value) -> Value {
    let id = if name.starts_with("__") {
        json!({"type": "string"})
    } else if name == names::ERROR {
        json!({"type": "string", "description": "The request id; empty if it could not be read."})
    } else {
        json!({"type": "string", "minLength": 1, "description": "The request id."})
    };
    json!({
        "title": name,
        "type": "object",
        "required": ["type", "id", "payload"],
        "properties": {"type": {"const": name}, "id": id, "payload": payload},
    })
}

fn payloads() -> [(&'static str, Value); 10] {
    [
        (names::REQUESTED, requested_payload()),
        (
            names::RESPONDED,
            request_payload(
                &["output"],
                json!({
                    "output": {"$ref": "#/$defs/ResponseEnvelope"},
                    "repairs": {"type": "array", "items": {"type": "object"}},
                    "warnings": {"type": "array", "items": {"type": "object"}},
                    "replayed": {"type": "boolean", "default": false},
                }),
            ),
        ),
        (
            names::PROGRESS,
            request_payload(
                &["progress"],
                json!({
                    "progress": {"type": "number"},
                    "total": {"type": "number"},
                    "message": {"type": "string"},
                }),
            ),
        ),
        (names::COMPLETED, request_payload(&[], json!({}))),
        (names::ABORTED, request_payload(&[], json!({"reason": {"type": "string"}}))),
        (
            names::ERROR,
            request_payload(
                &["code", "message"],
                json!({
                    "requestId": {"type": "string"},
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "details": {},
                    "retryable": {"type": "boolean", "default": false},
                    "replayed": {"type": "boolean", "default": false},
                }),
            ),
        ),
        (names::AUTH, control_payload(&json!({"token": {"type": "string"}}))),
        (names::SUBSCRIBE, control_payload(&topic_properties())),
        (names::UNSUBSCRIBE, control_payload(&topic_properties())),
        (
            names::MORE,
            control_payload(&json!({
                "requestId": {"type": "string"},
                "count": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
            })),
        ),
    ]
}

fn requested_payload() -> Value {
    request_payload(
        &["operationId"],
        json!({
            "operationId": {"type": "string", "description": "`namespace.name`"},
            "input": {"description": "Input of the operation; `{}` if absent."},
            "parentRequestId": {"type": "string"},
            "deadline": {"type": "number", "description": "Milliseconds since 1970."},
            "timeoutMs": {"type": "number", "description": "The shorter of this and `deadline` applies."},
            "idleTimeout": {"type": "number", "description": "Milliseconds between two events."},
            "window": {
                "type": "integer", "minimum": 0, "maximum": u32::MAX,
                "description": "Number of values that the caller accepts before it grants more with `__more`.",
            },
            "idempotencyKey": {
                "type": "string", "minLength": 1, "maxLength": 255,
                "description": "A call that repeats an earlier one with the same key gets its outcome.",
            },
            "identity": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "kind": {"description": "How the identity was authenticated; an access token if absent."},
                    "scopes": {"type": "array", "items": {"type": "string"}},
                    "resources": {
                        "type": "object",
                        "additionalProperties": {"type": "array", "items": {"type": "string"}},
                    },
                    "capabilities": {"type": "array", "items": {"type": "string"}},
                },
            },
            "metadata": {"type": "object", "description": "Metadata of the request, such as a trace context."},
        }),
    )
}

/// Returns the schema of a payload that carries a `requestId`.
fn request_payload(required: &[&str], properties: Value) -> Value {
    let mut all = Map::new();
    all.insert("requestId".to_owned(), json!({"type": "string", "minLength": 1}));
    if let Value::Object(properties) = properties {
        all.extend(properties);
    }
    let required: Vec<&str> = ["requestId"].iter().chain(required).copied().collect();
    json!({"type": "object", "required": required, "properties": all})
}

/// Returns the schema of a control frame's payload; all properties are required.
fn control_payload(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn topic_properties() -> Value {
    json!({"topic": {"type": "string", "description": "`type:id`, such as `call.responded:42`."}})
}
