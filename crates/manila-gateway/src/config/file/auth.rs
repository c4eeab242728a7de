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
    /// How the tokens may be signed; every way in which the one who checks needs no secret, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "algorithms_schema")]
    pub(in super::super) algorithms: Option<Vec<String>>,
    /// The claim with the scopes; the first of `scope`, `scp` and `permissions`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) scopes: Option<String>,
    /// The claim with the name of the caller; `sub`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) identity: Option<String>,
    /// How far the clocks may be apart; 30 seconds if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub(in super::super) leeway: Option<DurationText>,
    /// The address under which clients know this gateway, such as `https://gateway.example`; what their
    /// requests say, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) resource: Option<String>,
}

fn algorithms_schema(_: &mut SchemaGenerator) -> Schema {
    let known = crate::auth::Algorithm::ALL.map(crate::auth::Algorithm::as_str);
    json_schema!({"type": "array", "items": {"type": "string", "enum": known}, "minItems": 1})
}
