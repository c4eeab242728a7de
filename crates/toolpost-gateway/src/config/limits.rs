//! `[limits]`, and the limits of sources.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use toolpost::PipelineSettings;

use crate::endpoint::GatewaySettings;
use crate::limits::{BreakerLimits, LimitsSettings, SourceLimits};
use crate::room::RoomsSettings;
use crate::units::{Count, DurationText, PositiveDuration};

/// Limits. A rejected call names the limit and when to retry.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { calls = 1000 }")]
#[schemars(rename = "Limits")]
pub(super) struct LimitsTable {
    /// Maximum size of a request body, in bytes.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    body_bytes: usize,
    /// Maximum size of a WebSocket message, in bytes.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    frame_bytes: usize,
    /// Maximum number of levels of objects and lists in an input; at most 127.
    #[serde(deserialize_with = "deserialize_depth")]
    #[schemars(range(min = 1, max = 127))]
    json_depth: usize,
    /// Maximum number of open connections, and of WebSockets.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    connections: usize,
    /// Maximum number of calls in flight. Nested calls are not counted.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    calls: usize,
    /// Maximum number of calls in flight per caller.
    #[serde(with = "Count")]
    caller_calls: usize,
    /// Maximum number of open subscriptions per caller.
    #[serde(with = "Count")]
    caller_subscriptions: usize,
    /// Maximum number of calls that one caller may start per minute; unlimited if absent. A full
    /// minute's calls may start at once; after that, they are admitted at an even rate.
    #[serde(deserialize_with = "deserialize_rate")]
    #[schemars(range(min = 1))]
    calls_per_minute: Option<u32>,
    /// Maximum number of concurrent calls to one source, unless the source sets `concurrency`.
    #[serde(with = "Count")]
    source_calls: usize,
    /// Maximum number of calls that wait for their source, unless the source sets `queue`.
    source_queue: usize,
    /// Maximum time that a call waits for its source.
    #[serde(with = "DurationText")]
    queue_wait: Duration,
    /// The circuit breaker of a source, unless the source sets its own.
    breaker: BreakerLimits,
    /// Maximum number of calls that wait for an exclusive operation.
    #[schemars(extend("x-toolpost-restart" = true))]
    exclusive_queue: usize,
    /// Maximum depth of nested calls.
    #[schemars(extend("x-toolpost-restart" = true))]
    nesting: u32,
    /// Maximum number of names of spokes, including offline ones, in addition to those that are
    /// sources. With 0, only spokes that are sources may register operations.
    #[schemars(extend("x-toolpost-restart" = true))]
    spokes: usize,
    /// Maximum number of operations of a spoke.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    spoke_operations: usize,
    /// Maximum number of open rooms, including those with a table of their own.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    pub(super) rooms: usize,
    /// Timeout of a call without a deadline.
    #[serde(with = "PositiveDuration")]
    #[schemars(extend("x-toolpost-restart" = true))]
    call_timeout: Duration,
    /// Maximum time for receiving the head of a request.
    #[serde(with = "PositiveDuration")]
    #[schemars(extend("x-toolpost-restart" = true))]
    header_timeout: Duration,
    /// Maximum time for receiving the body of a request.
    #[serde(with = "PositiveDuration")]
    #[schemars(extend("x-toolpost-restart" = true))]
    body_timeout: Duration,
    /// Maximum time without progress while a client reads a response.
    #[serde(with = "PositiveDuration")]
    #[schemars(extend("x-toolpost-restart" = true))]
    write_timeout: Duration,
    /// Maximum time for a WebSocket client to authenticate.
    #[serde(with = "PositiveDuration")]
    #[schemars(extend("x-toolpost-restart" = true))]
    auth_timeout: Duration,
}

/// The limits of `[limits]` and of the sources, by the components that apply them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// Limits of the pipeline.
    pub pipeline: PipelineSettings,
    /// Limits of callers and sources.
    pub calls: LimitsSettings,
    pub(super) table: LimitsTable,
}

impl Default for LimitsTable {
    fn default() -> Self {
        let (gateway, pipeline) = (GatewaySettings::default(), PipelineSettings::default());
        let calls = LimitsSettings::default();
        Self {
            body_bytes: gateway.max_body_bytes,
            frame_bytes: gateway.websocket.max_frame_bytes,
            json_depth: calls.json_depth,
            connections: gateway.max_connections,
            calls: pipeline.max_concurrent_calls,
            caller_calls: calls.caller_calls,
            caller_subscriptions: calls.caller_subscriptions,
            calls_per_minute: calls.calls_per_minute,
            source_calls: calls.source.concurrency,
            source_queue: calls.source.queue,
            queue_wait: calls.source.queue_wait,
            breaker: BreakerLimits::default(),
            exclusive_queue: pipeline.max_exclusive_queue,
            nesting: pipeline.max_nesting,
            spokes: gateway.hub.max_spokes,
            spoke_operations: gateway.hub.max_operations,
            rooms: RoomsSettings::default().max_rooms,
            call_timeout: pipeline.call_timeout,
            header_timeout: gateway.header_timeout,
            body_timeout: gateway.body_timeout,
            write_timeout: gateway.write_timeout,
            auth_timeout: gateway.auth_timeout,
        }
    }
}

impl LimitsConfig {
    pub(super) fn new(table: LimitsTable) -> Self {
        let (mut pipeline, mut calls) = (PipelineSettings::default(), LimitsSettings::default());
        pipeline.max_concurrent_calls = table.calls;
        pipeline.max_exclusive_queue = table.exclusive_queue;
        pipeline.max_nesting = table.nesting;
        pipeline.call_timeout = table.call_timeout;
        calls.json_depth = table.json_depth;
        calls.caller_calls = table.caller_calls;
        calls.caller_subscriptions = table.caller_subscriptions;
        calls.calls_per_minute = table.calls_per_minute;
        calls.source = SourceLimits {
            concurrency: table.source_calls,
            queue: table.source_queue,
            queue_wait: table.queue_wait,
            breaker: enabled(table.breaker),
        };
        Self { pipeline, calls, table }
    }

    /// Maximum number of open connections.
    pub fn connections(&self) -> usize {
        self.table.connections
    }

    /// Applies the limits of connections and endpoints to the settings of a gateway.
    pub(crate) fn apply_to(&self, settings: &mut GatewaySettings) {
        let table = &self.table;
        settings.max_body_bytes = table.body_bytes;
        settings.websocket.max_frame_bytes = table.frame_bytes;
        settings.max_connections = table.connections;
        settings.hub.max_spokes = table.spokes;
        settings.hub.max_operations = table.spoke_operations;
        settings.header_timeout = table.header_timeout;
        settings.body_timeout = table.body_timeout;
        settings.write_timeout = table.write_timeout;
        settings.auth_timeout = table.auth_timeout;
    }
}

/// Returns the limits of a circuit breaker unless they disable it.
pub(super) fn enabled(breaker: BreakerLimits) -> Option<BreakerLimits> {
    (breaker.failures > 0).then_some(breaker)
}

fn deserialize_depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let depth = Count::deserialize(deserializer)?;
    if depth > 127 {
        let message = "must be at most 127";
        return Err(D::Error::custom(message));
    }
    Ok(depth)
}

fn deserialize_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let rate = u32::deserialize(deserializer)?;
    if rate == 0 {
        return Err(D::Error::custom("must be greater than zero; remove it for no limit"));
    }
    Ok(Some(rate))
}
