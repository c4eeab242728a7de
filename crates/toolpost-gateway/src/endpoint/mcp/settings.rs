//! What is settled about the endpoint before anybody comes.

use std::sync::Arc;
use std::time::Duration;

use toolpost::view::{Dialect, ListMode};

/// The numbers and choices of the MCP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpEndpointSettings {
    /// How results stand on the wire, for clients that do not choose.
    pub dialect: Dialect,
    /// Which tools are listed, for clients that do not choose.
    pub tools: ListMode,
    /// Above how many operations [`ListMode::Auto`] is compact.
    pub compact_above: usize,
    /// What models are told about this server, instead of the default.
    pub instructions: Option<String>,
    /// How many sessions of clients before 2026-07-28 there may be; beyond that one that is idle ends:
    /// rather one of the same caller, rather one that was never used.
    pub max_sessions: usize,
    /// How many clients may listen for changes over HTTP. Each holds a connection, so they should be
    /// fewer than [`GatewaySettings::max_connections`](crate::GatewaySettings::max_connections).
    pub max_listeners: usize,
    /// After how long without a request or a stream a session may end.
    pub session_idle_timeout: Duration,
    /// How many requests of one client on standard input run at once; more wait a second, and are
    /// refused then.
    pub max_in_flight: usize,
    /// How many values of a subscription are collected for one result.
    pub max_subscription_values: usize,
    /// How many bytes these have together.
    pub max_subscription_bytes: usize,
    /// How long values are collected.
    pub max_subscription_duration: Duration,
    /// How many resources one client follows: one session, or one stream of what changes.
    pub max_resource_subscriptions_per_client: usize,
    /// How many all clients follow together.
    pub max_resource_subscriptions: usize,
    /// How long changes are gathered before clients are told to list again.
    pub list_changed_debounce: Duration,
    /// For how long a client of 2026-07-28 may keep a list.
    pub list_ttl: Duration,
    /// How long the lists of resources and prompts wait for a source.
    pub source_timeout: Duration,
    /// How long after the start of the gateway lists wait for sources that are still to come; many
    /// clients list once.
    pub startup_source_timeout: Duration,
}

impl Default for McpEndpointSettings {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            tools: ListMode::default(),
            compact_above: 60,
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
            startup_source_timeout: Duration::ZERO,
        }
    }
}

/// What one client wants to see, where it chooses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct McpView {
    /// Which tools are listed.
    pub tools: Option<ListMode>,
    /// How results stand on the wire.
    pub dialect: Option<Dialect>,
    /// The one source whose operations are shown, under their own names.
    pub source: Option<Arc<str>>,
}

impl McpView {
    /// The choices in the query of an address, such as `tools=compact&dialect=ok`.
    ///
    /// # Errors
    ///
    /// Which choice is none.
    pub fn from_query(query: &str) -> Result<Self, String> {
        let mut view = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let wrong = |error: &dyn std::fmt::Display| format!("the query's `{name}`: {error}");
            match &*name {
                "tools" => view.tools = Some(value.parse().map_err(|error| wrong(&error))?),
                "dialect" => view.dialect = Some(value.parse().map_err(|error| wrong(&error))?),
                "source" => view.source = Some(value.into()),
                _ => return Err(wrong(&"there are only `tools`, `dialect` and `source`")),
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
            ("tools=some", "the query's `tools`: `some` is not one of all, compact, auto"),
            (
                "dialect=",
                "the query's `dialect`: `` is not one of data, envelope, ok, tool-envelope-v1",
            ),
            ("tool=all", "the query's `tool`: there are only `tools`, `dialect` and `source`"),
        ] {
            assert_eq!(McpView::from_query(query), Err(expected.to_owned()));
        }
    }
}
