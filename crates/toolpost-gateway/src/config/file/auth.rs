//! `[auth]`: tokens that an authorization server has signed.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::DurationText;

/// Whose signed tokens (JWT) are taken, beside the tokens of `[identity.NAME]`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table with `issuer`")]
#[schemars(rename = "AuthorizationServer")]
pub(in super::super) struct AuthorizationText {
    /// Who makes the tokens, to the letter: their claim `iss`.
    pub(in super::super) issuer: String,
    /// For whom they must be made: one of these must be in their claim `aud`. What `resource` says, if
    /// absent.
    #[serde(default)]
    pub(in super::super) audience: Vec<String>,
    /// Where the keys are; what the metadata of the issuer say, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) jwks: Option<String>,
    /// How the tokens may be signed: the ways in which the one who checks needs no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_schema")]
    pub(in super::super) algorithms: Option<Vec<String>>,
    /// The claim with the scopes; the first of `scope`, `scp` and `permissions`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) scopes: Option<String>,
    /// The claim with actions on single resources, `{"type:id": ["action"]}`; tokens grant none, if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) resources: Option<String>,
    /// The claim with a list of what the caller may send in a room; tokens grant none, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) capabilities: Option<String>,
    /// The claim with the name of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("default" = "sub"))]
    pub(in super::super) identity: Option<String>,
    /// How far the clocks may be apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText", extend("default" = "30s"))]
    pub(in super::super) leeway: Option<DurationText>,
    /// The address under which clients know this gateway, such as `https://gateway.example`; what their
    /// requests say, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) resource: Option<String>,
}

fn algorithms_schema(_: &mut SchemaGenerator) -> Schema {
    let known = crate::auth::Algorithm::ALL.map(crate::auth::Algorithm::as_str);
    json_schema!({
        "type": "array",
        "items": {"type": "string", "enum": known},
        "minItems": 1,
        "default": known,
    })
}
