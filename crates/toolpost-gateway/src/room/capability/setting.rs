//! Capabilities in the configuration.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::Capability;
use crate::shorthand::{ShortOrLong, Shorthand};

/// A list of capabilities, for `#[serde(with = "…")]` of a list of texts. A table becomes the JSON
/// of the pattern.
pub(crate) struct CapabilityTexts;

impl CapabilityTexts {
    pub(crate) fn serialize<S: Serializer>(
        texts: &[String],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        texts.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<String>, D::Error> {
        let texts = Vec::<ShortOrLong<CapabilityText>>::deserialize(deserializer)?;
        Ok(texts.into_iter().map(|text| text.0.0).collect())
    }
}

impl JsonSchema for CapabilityTexts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Capabilities".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<ShortOrLong<CapabilityText>>::json_schema(generator)
    }
}

struct CapabilityText(String);

impl Shorthand for CapabilityText {
    const NAME: &'static str = "Capability";
    const EXPECTED: &'static str =
        "a capability such as \"mcp/request:tools/call:read_*\" or { kind = \"chat\" }";
    type Long = PatternTable;

    fn from_text(text: &str) -> Result<Self, String> {
        match Capability::parse(text) {
            Ok(capability) if capability.unknown_member().is_some() => {
                Err(UNKNOWN_MEMBER.to_owned())
            }
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(error.without_values()),
        }
    }

    fn from_long(pattern: PatternTable) -> Result<Self, String> {
        Self::from_text(&Value::Object(pattern.0).to_string())
    }
}

const UNKNOWN_MEMBER: &str = "unknown member, with which the capability allows nothing; expected `kind`, \
                       `payload`, `to`, `id`, `name`, `title`, `description`, `reason` or `comment`";

#[derive(Deserialize)]
#[serde(transparent)]
struct PatternTable(Map<String, Value>);

impl JsonSchema for PatternTable {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "kind": {
                    "description": "The kind, or several.",
                    "anyOf": [
                        {"type": "string", "minLength": 1},
                        {"type": "array", "items": {"type": "string"}, "minItems": 1},
                    ],
                },
                "payload": {"description": "Pattern of the payload."},
                "to": {
                    "description": "The only participants that messages may be addressed to.",
                    "anyOf": [
                        {"type": "string", "minLength": 1},
                        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
                    ],
                },
            },
            "required": ["kind"],
        })
    }
}
