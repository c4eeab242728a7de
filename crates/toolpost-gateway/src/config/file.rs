//! The file as it is typed: what serde reads, and what the JSON Schema describes.

mod approval;
mod auth;
mod capability;
mod http;
mod journal;
mod limits;
mod mcp;
mod mcp_endpoint;
mod openapi;
mod operation;
mod room;
mod size;
mod telemetry;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, Expected, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toolpost::{Extras, OutputPolicy};

use super::document::TomlDocument;
use crate::units::parse_duration;

pub(super) use approval::{ApprovalRuleText, ApprovalText};
pub(super) use auth::AuthorizationText;
pub(super) use capability::CapabilityText;
pub(super) use http::HttpText;
pub(super) use journal::JournalText;
pub use limits::LimitsConfig;
pub(super) use limits::{BreakerText, LimitsText};
pub(super) use mcp::{McpText, OAuthText, PROTOCOLS, RootsText, SamplingText, ToolEnvelopeText};
pub(super) use mcp_endpoint::McpEndpointText;
pub(super) use openapi::{
    AuthText, BasicText, ClientText, NamespacesText, OpenApiTable, OpenApiText, SchemeText,
    SecretText,
};
pub(super) use operation::OperationText;
pub(super) use room::RoomText;
pub(super) use size::SizeText;
pub(super) use telemetry::TelemetryText;

/// The configuration of a Toolpost gateway. `${VAR}` in a string is replaced from the environment,
/// `${VAR:-default}` by the default where there is none, `${file:PATH}` by what a file holds; `$${` is a
/// plain `${`.
#[derive(Debug, JsonSchema)]
#[schemars(title = "toolpost.toml", deny_unknown_fields)]
pub(super) struct ConfigFile {
    /// Which calls wait until somebody agrees.
    #[schemars(default, extend("default" = {}))]
    pub(super) approval: ApprovalText,
    /// An authorization server whose signed tokens are taken.
    #[schemars(default, with = "AuthorizationText")]
    pub(super) auth: Option<AuthorizationText>,
    /// Who may come in. With none, everybody on this machine may, without a token.
    #[schemars(default, extend("default" = {}))]
    pub(super) identity: BTreeMap<String, IdentityText>,
    /// Whether the demo operations, `demo.*`, are registered.
    #[schemars(default, extend("default" = true))]
    pub(super) demo: bool,
    /// Where operations come from. The name becomes their namespace.
    #[schemars(default, extend("default" = {}))]
    pub(super) source: BTreeMap<String, SourceText>,
    /// Files with the MCP servers of other clients (`mcpServers`, `servers`, `context_servers`), from
    /// the folder of this file. Each server becomes a source.
    #[schemars(default, extend("default" = []))]
    pub(super) mcp_servers: Vec<String>,
    /// What MCP clients see.
    #[schemars(default, extend("default" = {}))]
    pub(super) mcp: McpEndpointText,
    /// Cross-origin access to the HTTP endpoints.
    #[schemars(default, extend("default" = {}))]
    pub(super) http: HttpText,
    /// What is written down about calls.
    #[schemars(default, extend("default" = {}))]
    pub(super) journal: JournalText,
    /// How much is too much.
    #[schemars(default, extend("default" = {}))]
    pub(super) limits: LimitsText,
    /// Rooms whose settings differ from the defaults.
    #[schemars(default, extend("default" = {}))]
    pub(super) room: BTreeMap<String, RoomText>,
    /// What is seen from outside.
    #[schemars(default, extend("default" = {}))]
    pub(super) telemetry: TelemetryText,
}

impl ConfigFile {
    pub(super) fn read(document: &TomlDocument<'_>) -> Self {
        document.check_root(&[
            "approval",
            "auth",
            "demo",
            "http",
            "identity",
            "journal",
            "source",
            "mcp_servers",
            "mcp",
            "limits",
            "room",
            "telemetry",
        ]);
        Self {
            approval: document.value("approval").unwrap_or_default(),
            auth: document.value("auth"),
            demo: document.value("demo").unwrap_or(true),
            identity: document.entries("identity"),
            source: document.entries("source"),
            mcp_servers: document.value("mcp_servers").unwrap_or_default(),
            mcp: document.value("mcp").unwrap_or_default(),
            http: document.value("http").unwrap_or_default(),
            journal: document.value("journal").unwrap_or_default(),
            limits: document.value("limits").unwrap_or_default(),
            room: document.entries("room"),
            telemetry: document.value("telemetry").unwrap_or_default(),
        }
    }
}

/// Somebody with a token; `toolpost token new NAME` writes it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table with `token_hash`")]
#[schemars(rename = "Identity")]
pub(super) struct IdentityText {
    /// The SHA-256 of the token, in hexadecimal digits.
    #[schemars(regex(pattern = r"^([0-9a-fA-F]{64}|.*\$\{.*)$"))]
    pub(super) token_hash: String,
    /// What the identity may do in general.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    /// Actions on single resources: `"type:id" = ["action"]`; `type:*` is every one of a type.
    #[serde(default)]
    pub(super) resources: BTreeMap<String, Vec<String>>,
    /// Which messages the identity may send in a room; what its room says, if there is none.
    #[serde(default)]
    pub(super) capabilities: Vec<CapabilityText>,
}

/// Where operations come from: exactly one of `mcp`, `openapi`, `spoke` and `hub`, and what is
/// adjusted on the way.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table with `mcp`, `openapi`, `spoke` or `hub`")]
#[schemars(
    rename = "Source",
    extend("oneOf" = [
        {"required": ["mcp"]},
        {"required": ["openapi"]},
        {"required": ["spoke"]},
        {"required": ["hub"]},
    ])
)]
pub(super) struct SourceText {
    /// The tools of an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "McpText")]
    pub(super) mcp: Option<McpText>,
    /// An HTTP service with an OpenAPI document: a file, an address, or a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OpenApiText")]
    pub(super) openapi: Option<OpenApiText>,
    /// What is shown to the HTTP service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AuthText")]
    pub(super) auth: Option<AuthText>,
    /// A process that connects to this gateway and offers operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SpokeText")]
    pub(super) spoke: Option<SpokeText>,
    /// The operations of another hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "HubText")]
    pub(super) hub: Option<HubText>,
    /// Who may call: `"open"`, or those with all of these scopes. Replaces what the source says. The
    /// operations of MCP servers and HTTP services ask for the scope `source:NAME` if it is absent and
    /// there are identities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AccessText")]
    pub(super) access: Option<AccessText>,
    /// Whether somebody with the scope `toolpost:approve` has to agree to each call: of every operation,
    /// or of those whose name fits one of these patterns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ApprovalRuleText")]
    pub(super) approval: Option<ApprovalRuleText>,
    /// What holds for single operations, by the names that the source gives them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) operation: BTreeMap<String, OperationText>,
    /// How long a call may take, such as `"500ms"`, `"10s"`, `"2m"`; a number is seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub(super) timeout: Option<DurationText>,
    /// How many of its calls may run at the same time; `limits.source_calls` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonZeroUsize")]
    pub(super) concurrency: Option<NonZeroUsize>,
    /// How many of its calls may wait for a place; `limits.source_queue` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub(super) queue: Option<usize>,
    /// Its circuit breaker; `limits.breaker` if absent. Each host of an HTTP service has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BreakerText")]
    pub(super) breaker: Option<BreakerText>,
    /// What is done about an output that does not fit its schema: repair it without making anything
    /// up, cast it as TypeBox does, refuse what cannot be repaired, or do not look.
    #[serde(default)]
    #[schemars(schema_with = "output_schema")]
    pub(super) output: OutputPolicy,
    /// What is done about properties of an output that no schema names.
    #[serde(default)]
    #[schemars(schema_with = "extras_schema")]
    pub(super) extras: Extras,
    /// Whether calls of an operation run one after another; what the source says, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(super) exclusive: Option<bool>,
    /// Only operations whose name fits one of these patterns; `*` stands for anything.
    #[serde(default = "include_all")]
    pub(super) include: Vec<String>,
    /// None of the operations whose name fits one of these patterns.
    #[serde(default)]
    pub(super) exclude: Vec<String>,
    /// Other names for single operations of an HTTP service: `"old" = "new"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rename: BTreeMap<String, String>,
    /// What the names of the operations of an HTTP service begin with here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) prefix: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table such as { identity = \"NAME\" }")]
#[schemars(rename = "Spoke")]
pub(super) struct SpokeText {
    /// Only this identity may connect under the name of the source.
    pub(super) identity: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table such as { url = \"ws://…\" }")]
#[schemars(rename = "Hub")]
pub(super) struct HubText {
    /// The address of the other hub, `ws://…`.
    pub(super) url: String,
    /// The token that the other hub knows this gateway by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) token: Option<String>,
}

/// Without the token.
impl fmt::Debug for HubText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubText").finish_non_exhaustive()
    }
}

fn include_all() -> Vec<String> {
    vec!["*".to_owned()]
}

fn output_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["normalize", "cast", "enforce", "raw"]})
}

fn extras_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["strip", "keep"]})
}

/// `"open"` or `{ scopes = […] }`.
#[derive(Debug)]
pub(super) enum AccessText {
    Open,
    Scopes(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopesText {
    scopes: Vec<String>,
}

impl<'de> Deserialize<'de> for AccessText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AccessVisitor;
        impl<'de> Visitor<'de> for AccessVisitor {
            type Value = AccessText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"open\" or { scopes = […] }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AccessText, E> {
                match text {
                    "open" => Ok(AccessText::Open),
                    _ => Err(E::custom("expected \"open\" or { scopes = […] }")),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AccessText, A::Error> {
                let read = ScopesText::deserialize(MapAccessDeserializer::new(map))?;
                Ok(AccessText::Scopes(read.scopes))
            }
        }
        deserializer.deserialize_any(AccessVisitor)
    }
}

impl JsonSchema for AccessText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Access".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"const": "open"},
            {
                "type": "object",
                "properties": {
                    "scopes": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                },
                "required": ["scopes"],
                "additionalProperties": false,
            },
        ]})
    }
}

/// `"10s"` or `10`.
#[derive(Debug, Clone)]
pub(super) struct DurationText(pub(super) Duration);

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DurationVisitor;
        impl Visitor<'_> for DurationVisitor {
            type Value = DurationText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"500ms\", \"10s\", \"2m\" or \"1h\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<DurationText, E> {
                // Its own words tell the text, which may have come from a secret variable.
                let wrong = format!("expected {}", &self as &dyn Expected);
                parse_duration(text).map(DurationText).map_err(|_| E::custom(wrong))
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<DurationText, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_f64<E: Error>(self, seconds: f64) -> Result<DurationText, E> {
                self.visit_str(&seconds.to_string())
            }
        }
        deserializer.deserialize_any(DurationVisitor)
    }
}

impl JsonSchema for DurationText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "string", "pattern": r"^([0-9.]+(ms|s|m|h|d)?|.*\$\{.*)$"},
                {"type": "number", "exclusiveMinimum": 0},
            ],
        })
    }
}
