//! `[source.NAME.operation."name"]`: one operation among those of a source.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{AccessText, DurationText};

/// What holds for one operation instead of what its source says.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { access = \"open\" }")]
#[schemars(rename = "Operation")]
pub(in super::super) struct OperationText {
    /// Who may call it: `"open"`, or those with all of these scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AccessText")]
    pub(in super::super) access: Option<AccessText>,
    /// Whether somebody has to agree to each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(in super::super) approval: Option<bool>,
    /// How long a call may take; what the source allows is not exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub(in super::super) timeout: Option<DurationText>,
    /// Whether its calls run one after another.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(in super::super) exclusive: Option<bool>,
}
