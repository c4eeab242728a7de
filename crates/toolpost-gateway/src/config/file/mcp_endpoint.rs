//! `[mcp]`: what MCP clients of this gateway see.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;
use toolpost::view::{Dialect, ListMode};

use super::DurationText;
use crate::endpoint::McpEndpointSettings;

/// What MCP clients see at `/mcp` and on standard input.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { tools = \"compact\" }")]
#[schemars(rename = "McpEndpoint")]
pub(in super::super) struct McpEndpointText {
    /// How results stand on the wire, unless a client chooses with `?dialect=`.
    dialect: DialectText,
    /// Which operations are tools, unless a client chooses with `?tools=`: all of them, the four
    /// through which every other is found and called, or those four above a number of operations.
    tools: ToolsText,
    /// Above how many operations `tools = "auto"` is compact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize", extend("default" = 60))]
    compact_above: Option<usize>,
    /// What models are told about this gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    instructions: Option<String>,
    /// How many sessions of clients there may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonZeroUsize", extend("default" = 1024))]
    sessions: Option<NonZeroUsize>,
    /// After how long without a request a session may end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText", extend("default" = "1h"))]
    session_idle: Option<DurationText>,
    /// How many values of a subscription a tool collects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NonZeroUsize", extend("default" = 100))]
    subscription_values: Option<NonZeroUsize>,
    /// How long a tool collects the values of a subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText", extend("default" = "1m"))]
    subscription_time: Option<DurationText>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
enum DialectText {
    #[default]
    Data,
    Envelope,
    Ok,
    ToolEnvelopeV1,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum ToolsText {
    All,
    Compact,
    #[default]
    Auto,
}

impl McpEndpointText {
    pub(in super::super) fn settings(self) -> McpEndpointSettings {
        let count = |given: Option<NonZeroUsize>, default| given.map_or(default, NonZeroUsize::get);
        let time = |given: Option<DurationText>, default| given.map_or(default, |given| given.0);
        let default = McpEndpointSettings::default();
        McpEndpointSettings {
            dialect: self.dialect.into(),
            tools: self.tools.into(),
            instructions: self.instructions,
            compact_above: self.compact_above.unwrap_or(default.compact_above),
            max_sessions: count(self.sessions, default.max_sessions),
            session_idle_timeout: time(self.session_idle, default.session_idle_timeout),
            max_subscription_values: count(
                self.subscription_values,
                default.max_subscription_values,
            ),
            max_subscription_duration: time(
                self.subscription_time,
                default.max_subscription_duration,
            ),
            ..default
        }
    }
}

impl From<DialectText> for Dialect {
    fn from(text: DialectText) -> Self {
        match text {
            DialectText::Data => Self::Data,
            DialectText::Envelope => Self::Envelope,
            DialectText::Ok => Self::Ok,
            DialectText::ToolEnvelopeV1 => Self::ToolEnvelopeV1,
        }
    }
}

impl From<ToolsText> for ListMode {
    fn from(text: ToolsText) -> Self {
        match text {
            ToolsText::All => Self::All,
            ToolsText::Compact => Self::Compact,
            ToolsText::Auto => Self::Auto,
        }
    }
}
