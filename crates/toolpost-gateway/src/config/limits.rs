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
    /// Size of the responses, in bytes, that a WebSocket client of the hub may leave unread before
    /// the gateway reads no more of its requests. At eight times the size, it is disconnected.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    queue_bytes: usize,
    /// Maximum number of levels of objects and lists in an input; at most 127.
    #[serde(deserialize_with = "deserialize_depth")]
    #[schemars(range(min = 1, max = 127))]
    json_depth: usize,
    /// Maximum number of requests that are served at the same time, each on a connection, and of
    /// WebSockets.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    connections: usize,
    /// Maximum number of these requests, and of WebSockets, per caller.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    caller_connections: usize,
    /// Maximum number of these requests, and of WebSockets, per address before authentication.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    address_connections: usize,
    /// Number of connections beyond `connections` that are reserved for the operator and for
    /// `/health`, `/ready` and `/metrics`.
    #[schemars(extend("x-toolpost-restart" = true))]
    reserved_connections: usize,
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
    /// Maximum memory of the inputs of all calls in flight, in bytes.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    input_bytes: usize,
    /// Maximum memory of the inputs of the calls in flight of one caller, in bytes. A single input
    /// that needs more is rejected.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    caller_input_bytes: usize,
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
    /// Maximum number of these names per identity.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    caller_spokes: usize,
    /// Maximum size of the operations that all spokes register, in bytes of JSON.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    registration_bytes: usize,
    /// Maximum size of the operations that the spokes of one identity register, in bytes of JSON.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    caller_registration_bytes: usize,
    /// Maximum size of the title, description and tags of an operation of a spoke, in bytes.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    spoke_description_bytes: usize,
    /// Maximum number of operations of a spoke.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    spoke_operations: usize,
    /// Maximum number of open rooms, besides the lobby and rooms with a table of their own.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    pub(super) rooms: usize,
    /// Maximum number of these rooms that one caller opened.
    #[serde(with = "Count")]
    #[schemars(extend("x-toolpost-restart" = true))]
    pub(super) caller_rooms: usize,
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
        let (calls, rooms) = (LimitsSettings::default(), RoomsSettings::default());
        Self {
            body_bytes: gateway.max_body_bytes,
            frame_bytes: gateway.websocket.max_frame_bytes,
            queue_bytes: gateway.websocket.max_queued_bytes,
            json_depth: calls.json_depth,
            connections: gateway.max_connections,
            caller_connections: gateway.max_connections_per_caller,
            address_connections: gateway.max_connections_per_address,
            reserved_connections: gateway.reserved_connections,
            calls: pipeline.max_concurrent_calls,
            caller_calls: calls.caller_calls,
            caller_subscriptions: calls.caller_subscriptions,
            input_bytes: calls.input_bytes,
            caller_input_bytes: calls.caller_input_bytes,
            calls_per_minute: calls.calls_per_minute,
            source_calls: calls.source.concurrency,
            source_queue: calls.source.queue,
            queue_wait: calls.source.queue_wait,
            breaker: BreakerLimits::default(),
            exclusive_queue: pipeline.max_exclusive_queue,
            nesting: pipeline.max_nesting,
            spokes: gateway.hub.max_spokes,
            caller_spokes: gateway.hub.max_spokes_per_identity,
            registration_bytes: gateway.hub.max_registration_bytes,
            caller_registration_bytes: gateway.hub.max_registration_bytes_per_identity,
            spoke_description_bytes: gateway.hub.max_description_bytes,
            spoke_operations: gateway.hub.max_operations,
            rooms: rooms.max_rooms,
            caller_rooms: rooms.max_rooms_per_caller,
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
        calls.input_bytes = table.input_bytes;
        calls.caller_input_bytes = table.caller_input_bytes;
        calls.calls_per_minute = table.calls_per_minute;
        calls.source = SourceLimits {
            concurrency: table.source_calls,
            queue: table.source_queue,
            queue_wait: table.queue_wait,
            breaker: enabled(table.breaker),
        };
        Self { pipeline, calls, table }
    }

    /// Maximum number of open connections, including reserved ones.
    pub fn connections(&self) -> usize {
        self.table.connections.saturating_add(self.table.reserved_connections)
    }

    /// Applies the limits of connections and endpoints to the settings of a gateway.
    pub(crate) fn apply_to(&self, settings: &mut GatewaySettings) {
        let table = &self.table;
        settings.max_body_bytes = table.body_bytes;
        settings.websocket.max_frame_bytes = table.frame_bytes;
        settings.websocket.max_queued_bytes = table.queue_bytes;
        settings.max_connections = table.connections;
        settings.max_connections_per_caller = table.caller_connections;
        settings.max_connections_per_address = table.address_connections;
        settings.reserved_connections = table.reserved_connections;
        settings.hub.max_spokes = table.spokes;
        settings.hub.max_spokes_per_identity = table.caller_spokes;
        settings.hub.max_registration_bytes = table.registration_bytes;
        settings.hub.max_registration_bytes_per_identity = table.caller_registration_bytes;
        settings.hub.max_description_bytes = table.spoke_description_bytes;
        settings.max_input_memory = table.caller_input_bytes;
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
