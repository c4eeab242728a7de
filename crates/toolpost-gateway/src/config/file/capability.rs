//! A capability, in either notation.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// `"mcp/request:tools/call:read_*"`, or a table, which becomes the JSON of the pattern.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(in super::super) struct CapabilityText(pub(in super::super) String);

impl<'de> Deserialize<'de> for CapabilityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CapabilityVisitor;
        impl<'de> Visitor<'de> for CapabilityVisitor {
            type Value = CapabilityText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a capability such as \"mcp/request:tools/call:read_*\" or { kind = \"chat\" }",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<CapabilityText, E> {
                Ok(CapabilityText(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CapabilityText, A::Error> {
                let pattern = Value::deserialize(MapAccessDeserializer::new(map))?;
                Ok(CapabilityText(pattern.to_string()))
            }
        }
        deserializer.deserialize_any(CapabilityVisitor)
    }
}

impl JsonSchema for CapabilityText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Capability".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Leave to send some messages: a text on their kind, or a pattern.",
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "object",
                    "properties": {
                        "kind": {
                            "description": "The kind that it is about, or several.",
                            "anyOf": [
                                {"type": "string", "minLength": 1},
                                {"type": "array", "items": {"type": "string"}, "minItems": 1},
                            ],
                        },
                        "payload": {"description": "What the payload has to be like."},
                    },
                    "required": ["kind"],
                },
            ],
        })
    }
}
