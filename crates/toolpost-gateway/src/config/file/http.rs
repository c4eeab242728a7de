//! `[http]`: cross-origin access to the HTTP endpoints.

use schemars::JsonSchema;
use serde::Deserialize;

/// Cross-origin access to the HTTP endpoints.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { cors = [\"https://…\"] }")]
#[schemars(rename = "Http")]
pub(in super::super) struct HttpText {
    /// The origins, such as `https://app.example`, whose pages may call and read the answers, to the
    /// letter. With none, browsers keep the pages of others out.
    pub(in super::super) cors: Vec<String>,
}
