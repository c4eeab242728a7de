//! `mcp = { … }` as it is typed.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use toolpost::mcp::Elicitation;

use super::DurationText;

/// An MCP server: exactly one of `command` and `url`, what goes with it, and how it is dealt with.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table such as { command = \"…\" } or { url = \"https://…\" }"
)]
#[schemars(
    rename = "Mcp",
    extend("oneOf" = [{"required": ["command"]}, {"required": ["url"]}])
)]
pub(in super::super) struct McpText {
    /// The program that is started and spoken to over its standard input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) args: Vec<String>,
    /// What is added to its environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(in super::super) env: BTreeMap<String, String>,
    /// The folder that it runs in, from that of this file; where the gateway runs, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) cwd: Option<String>,
    /// The endpoint of a server that speaks streamable HTTP, `https://…` or `http://…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) url: Option<String>,
    /// What is sent with every request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(in super::super) headers: BTreeMap<String, String>,
    /// A token that is sent with every request, as `Authorization: Bearer …`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) bearer: Option<String>,
    /// What this client is at the authorization server, where it is known there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OAuthText")]
    pub(in super::super) oauth: Option<OAuthText>,
    /// The one protocol version that is spoken, such as `"2025-11-25"`; found out, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "protocol_schema")]
    pub(in super::super) protocol: Option<String>,
    /// How long the server may take from its start to its first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText", extend("default" = "60s"))]
    pub(in super::super) start_timeout: Option<DurationText>,
    /// How long a call may go on, whatever its progress; the source's `timeout` is how long it may go
    /// on without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText", extend("default" = "5m"))]
    pub(in super::super) max_timeout: Option<DurationText>,
    /// The longest time between two attempts to bring a server back that was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText", extend("default" = "30s"))]
    pub(in super::super) max_restart: Option<DurationText>,
    /// The largest message that is taken from the server, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BytesText", extend("default" = 67_108_864))]
    pub(in super::super) message_bytes: Option<BytesText>,
    /// What is said when the server asks a person for something: what the client that called says
    /// (`"client"`), or nobody can be asked (`"reject"`), the person declines, closes the question,
    /// agrees with every default, or gives this answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ElicitationText", extend("default" = "client"))]
    pub(in super::super) elicitation: Option<ElicitationText>,
    /// Who answers when the server asks a model for something: the client that called, at its
    /// expense, or nobody.
    pub(in super::super) sampling: SamplingText,
    /// The folders that the server is told about: absolute paths, or `file://…`; or `"client"` for
    /// those of the client that called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RootsText")]
    pub(in super::super) roots: Option<RootsText>,
    /// Whether a lone text that is JSON becomes the data of a tool without an output schema.
    pub(in super::super) parse_json_text: bool,
    /// Whether the two blocks of a ToolEnvelope are recognized and its payload becomes the data.
    pub(in super::super) tool_envelope: ToolEnvelopeText,
}

/// Without values, since any of them may be a secret.
impl fmt::Debug for McpText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpText").finish_non_exhaustive()
    }
}

#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table such as { client_id = \"…\" }")]
#[schemars(rename = "OAuth")]
pub(in super::super) struct OAuthText {
    /// The id of a client that was registered beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) client_id: Option<String>,
    /// Its secret, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) client_secret: Option<String>,
    /// The `https://…` address of a document that describes this client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) client_metadata_url: Option<String>,
    /// What is asked for; what the server asks for, if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) scopes: Vec<String>,
}

/// `"auto"` or `"off"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(in super::super) enum ToolEnvelopeText {
    #[default]
    Auto,
    Off,
}

/// `"reject"` or `"client"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(in super::super) enum SamplingText {
    #[default]
    Reject,
    Client,
}

/// A list of folders, or `"client"`.
#[derive(Debug)]
pub(in super::super) enum RootsText {
    Paths(Vec<String>),
    Client,
}

const ROOTS_EXPECTED: &str = "a list of absolute paths, or \"client\"";

impl<'de> Deserialize<'de> for RootsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RootsVisitor;
        impl<'de> Visitor<'de> for RootsVisitor {
            type Value = RootsText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ROOTS_EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RootsText, E> {
                match text {
                    "client" => Ok(RootsText::Client),
                    _ => Err(E::custom(format!("expected {ROOTS_EXPECTED}"))),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<RootsText, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(RootsText::Paths)
            }
        }
        deserializer.deserialize_any(RootsVisitor)
    }
}

impl JsonSchema for RootsText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Roots".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "array", "items": {"type": "string"}},
            {"const": "client"},
        ]})
    }
}

/// The versions of the protocol that are spoken.
pub(in super::super) const PROTOCOLS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

fn protocol_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": PROTOCOLS})
}

/// The smallest bound that leaves room for what every server says at its start.
pub(in super::super) const MIN_MESSAGE_BYTES: i64 = 4_096;

/// A number of bytes.
#[derive(Debug)]
pub(in super::super) struct BytesText(pub(in super::super) usize);

impl<'de> Deserialize<'de> for BytesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl Visitor<'_> for BytesVisitor {
            type Value = BytesText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of bytes, at least {MIN_MESSAGE_BYTES}")
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<BytesText, E> {
                let bytes = usize::try_from(bytes).ok().filter(|_| bytes >= MIN_MESSAGE_BYTES);
                let wrong = format!("expected a number of bytes, at least {MIN_MESSAGE_BYTES}");
                bytes.map(BytesText).ok_or_else(|| E::custom(wrong))
            }
        }
        deserializer.deserialize_any(BytesVisitor)
    }
}

impl JsonSchema for BytesText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": MIN_MESSAGE_BYTES})
    }
}

/// A word, or `{ accept = {…} }`.
#[derive(Debug)]
pub(in super::super) struct ElicitationText(pub(in super::super) Elicitation);

const ELICITATION_EXPECTED: &str =
    "\"client\", \"reject\", \"decline\", \"cancel\", \"defaults\" or { accept = {…} }";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ElicitationAcceptText {
    accept: Map<String, Value>,
}

impl<'de> Deserialize<'de> for ElicitationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ElicitationVisitor;
        impl<'de> Visitor<'de> for ElicitationVisitor {
            type Value = ElicitationText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ELICITATION_EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ElicitationText, E> {
                Ok(ElicitationText(match text {
                    "client" => Elicitation::Client,
                    "reject" => Elicitation::Reject,
                    "decline" => Elicitation::Decline,
                    "cancel" => Elicitation::Cancel,
                    "defaults" => Elicitation::Defaults,
                    _ => return Err(E::custom(format!("expected {ELICITATION_EXPECTED}"))),
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ElicitationText, A::Error> {
                let read = ElicitationAcceptText::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ElicitationText(Elicitation::Accept(read.accept)))
            }
        }
        deserializer.deserialize_any(ElicitationVisitor)
    }
}

impl JsonSchema for ElicitationText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Elicitation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"enum": ["client", "reject", "decline", "cancel", "defaults"]},
            {
                "type": "object",
                "properties": {"accept": {
                    "type": "object",
                    "description": "The fields of the answer; the others get their defaults.",
                }},
                "required": ["accept"],
                "additionalProperties": false,
            },
        ]})
    }
}
