//! Settings of the MCP endpoint.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolpost::view::{Dialect, ListMode};

use crate::units::{Count, DurationText};

/// Settings and limits for MCP clients, at `/mcp` and on standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { tools = \"compact\" }")]
#[schemars(rename = "McpEndpoint")]
#[non_exhaustive]
pub struct McpEndpointSettings {
    /// Dialect of results, for clients that do not choose one with `?dialect=`.
    pub dialect: Dialect,
    /// Which tools are listed for clients that do not choose with `?tools=`: all operations, the
    /// four that find and call every other (`compact`), or those four above a number of operations
    /// (`auto`).
    pub tools: ListMode,
    /// Number of operations above which `tools = "auto"` is compact.
    pub compact_above: usize,
    /// Whether the demo operations are listed. A configuration with sources sets it to false.
    #[serde(skip)]
    pub offers_demo: bool,
    /// Instructions for models about this gateway, instead of the default.
    pub instructions: Option<String>,
    /// Maximum number of sessions of clients before 2026-07-28. Beyond it, an idle session ends:
    /// preferably one of the same caller, then one that was never used.
    #[serde(rename = "sessions", with = "Count")]
    pub max_sessions: usize,
    /// Maximum number of clients that listen for changes over HTTP. Each holds a connection, so the
    /// value should be lower than
    /// [`GatewaySettings::max_connections`](crate::GatewaySettings::max_connections).
    #[serde(skip)]
    pub max_listeners: usize,
    /// Time without a request or a stream after which a session may end.
    #[serde(rename = "session_idle", with = "DurationText")]
    pub session_idle_timeout: Duration,
    /// Maximum number of concurrent requests of one client on standard input. Further requests wait
    /// one second and are then rejected.
    #[serde(skip)]
    pub max_in_flight: usize,
    /// Maximum number of subscription values collected for one result.
    #[serde(rename = "subscription_values", with = "Count")]
    pub max_subscription_values: usize,
    /// Maximum total size in bytes of the collected values.
    #[serde(skip)]
    pub max_subscription_bytes: usize,
    /// Maximum time for collecting values.
    #[serde(rename = "subscription_time", with = "DurationText")]
    pub max_subscription_duration: Duration,
    /// Maximum number of resource subscriptions per client, that is, per session or per listener
    /// stream.
    #[serde(skip)]
    pub max_resource_subscriptions_per_client: usize,
    /// Maximum number of resource subscriptions of all clients together.
    #[serde(skip)]
    pub max_resource_subscriptions: usize,
    /// How long changes are collected before clients are notified.
    #[serde(skip)]
    pub list_changed_debounce: Duration,
    /// How long clients of 2026-07-28 may cache a list.
    #[serde(skip)]
    pub list_ttl: Duration,
    /// Maximum time to wait for a source when listing resources and prompts.
    #[serde(skip)]
    pub source_timeout: Duration,
}

impl Default for McpEndpointSettings {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            tools: ListMode::default(),
            compact_above: 60,
            offers_demo: true,
            instructions: None,
            max_sessions: 1_024,
            max_listeners: 512,
            session_idle_timeout: Duration::from_secs(3_600),
            max_in_flight: 256,
            max_subscription_values: 100,
            max_subscription_bytes: 1024 * 1024,
            max_subscription_duration: Duration::from_secs(60),
            max_resource_subscriptions_per_client: 256,
            max_resource_subscriptions: 4_096,
            list_changed_debounce: Duration::from_millis(50),
            list_ttl: Duration::from_secs(10),
            source_timeout: Duration::from_secs(5),
        }
    }
}

/// The view of one client, which overrides the settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct McpView {
    /// Which tools are listed.
    pub tools: Option<ListMode>,
    /// Dialect of results.
    pub dialect: Option<Dialect>,
    /// The only visible source. Its operations keep their own names.
    pub source: Option<Arc<str>>,
}

impl McpView {
    /// Parses the query of a URL, such as `tools=compact&dialect=ok`.
    ///
    /// # Errors
    ///
    /// Returns a message that names the unknown parameter or the invalid value.
    pub fn from_query(query: &str) -> Result<Self, String> {
        let mut view = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let wrong =
                |error: &dyn std::fmt::Display| format!("query parameter `{name}`: {error}");
            match &*name {
                "tools" => view.tools = Some(value.parse().map_err(|error| wrong(&error))?),
                "dialect" => view.dialect = Some(value.parse().map_err(|error| wrong(&error))?),
                "source" => view.source = Some(value.into()),
                _ => return Err(wrong(&"expected `tools`, `dialect` or `source`")),
            }
        }
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_parses_from_query() {
        assert_eq!(McpView::from_query(""), Ok(McpView::default()));
        let view = McpView::from_query("tools=compact&dialect=ok&source=a%20b").unwrap();
        assert_eq!(view.tools, Some(ListMode::Compact));
        assert_eq!(view.dialect, Some(Dialect::Ok));
        assert_eq!(view.source.as_deref(), Some("a b"));
        for (query, expected) in [
            ("tools=some", "query parameter `tools`: `some` is not one of all, compact, auto"),
            (
                "dialect=",
                "query parameter `dialect`: `` is not one of data, envelope, ok, tool-envelope-v1",
            ),
            ("tool=all", "query parameter `tool`: expected `tools`, `dialect` or `source`"),
        ] {
            assert_eq!(McpView::from_query(query), Err(expected.to_owned()));
        }
    }
}
