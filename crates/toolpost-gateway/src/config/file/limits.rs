//! `[limits]`: how much is too much.

use std::num::NonZeroUsize;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use toolpost::PipelineSettings;

use super::DurationText;
use crate::app::GatewaySettings;
use crate::limits::{BreakerLimits, LimitsSettings, SourceLimits};
use crate::room::RoomsSettings;

/// Limits. A rejected call names the limit and when to retry.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { calls = 1000 }")]
#[schemars(rename = "Limits")]
pub(in super::super) struct LimitsText {
    /// The largest body of a request, in bytes.
    body_bytes: NonZeroUsize,
    /// The largest message over WebSocket, in bytes.
    frame_bytes: NonZeroUsize,
    /// How many levels of objects and lists an input may have; at most 127.
    #[schemars(range(max = 127))]
    json_depth: NonZeroUsize,
    /// How many connections may be open, and as many WebSockets.
    connections: NonZeroUsize,
    /// How many calls may be in flight. What is called from inside a call is not counted.
    calls: NonZeroUsize,
    /// How many calls of one caller may be in flight.
    caller_calls: NonZeroUsize,
    /// How many subscriptions of one caller may be open.
    caller_subscriptions: NonZeroUsize,
    /// How many calls one caller may begin in a minute; as many as he likes, if absent. They may all
    /// come at once, and then one by one as the minute goes by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub(in super::super) calls_per_minute: Option<u32>,
    /// How many calls of one source may run at the same time, unless it says otherwise.
    source_calls: NonZeroUsize,
    /// How many calls may wait for a place at their source, unless it says otherwise.
    source_queue: usize,
    /// How long a call may wait for a place at its source.
    queue_wait: DurationText,
    /// The circuit breaker of a source, unless the source sets its own.
    breaker: BreakerText,
    /// How many calls may wait for their turn at an exclusive operation.
    exclusive_queue: usize,
    /// How deep calls may nest.
    nesting: u32,
    /// How many names of spokes are known, offline ones too, beside those that are sources. With 0 only
    /// those that are sources may offer operations.
    spokes: usize,
    /// How many operations a spoke may offer.
    spoke_operations: NonZeroUsize,
    /// Maximum number of open rooms, including those with a table of their own.
    pub(in super::super) rooms: NonZeroUsize,
    /// How long a call may take that names no deadline.
    call_timeout: DurationText,
    /// How long a client may take to send the head of a request.
    header_timeout: DurationText,
    /// How long a client may take to send the body of a request.
    body_timeout: DurationText,
    /// How long a client may read nothing of its response.
    write_timeout: DurationText,
    /// How long a WebSocket client may take to authenticate.
    auth_timeout: DurationText,
}

/// When the circuit breaker of a source opens: after consecutive connection losses or timeouts.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { failures = 5 }")]
#[schemars(rename = "Breaker")]
pub(in super::super) struct BreakerText {
    /// After so many failures in a row; 0 never. An error that the source itself reports is none.
    failures: u32,
    /// For so long; then one call tries.
    open: DurationText,
    /// A call that nobody waited for any longer counts if it took at least so long.
    slow: DurationText,
}

/// What `[limits]` and the sources say, as those take it whom it is about.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// For the pipeline.
    pub pipeline: PipelineSettings,
    /// For callers and sources.
    pub calls: LimitsSettings,
    /// For connections and endpoints.
    gateway: GatewaySettings,
    /// What was said, by key.
    raw: Value,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        LimitsText::default().settings()
    }
}

impl Default for LimitsText {
    fn default() -> Self {
        let (gateway, pipeline) = (GatewaySettings::default(), PipelineSettings::default());
        let calls = LimitsSettings::default();
        Self {
            body_bytes: non_zero(gateway.max_body_bytes),
            frame_bytes: non_zero(gateway.websocket.max_frame_bytes),
            json_depth: non_zero(calls.json_depth),
            connections: non_zero(gateway.max_connections),
            calls: non_zero(pipeline.max_concurrent_calls),
            caller_calls: non_zero(calls.caller_calls),
            caller_subscriptions: non_zero(calls.caller_subscriptions),
            calls_per_minute: calls.calls_per_minute,
            source_calls: non_zero(calls.source.concurrency),
            source_queue: calls.source.queue,
            queue_wait: DurationText(calls.source.queue_wait),
            breaker: BreakerText::default(),
            exclusive_queue: pipeline.max_exclusive_queue,
            nesting: pipeline.max_nesting,
            spokes: gateway.hub.max_spokes,
            spoke_operations: non_zero(gateway.hub.max_operations),
            rooms: non_zero(RoomsSettings::default().max_rooms),
            call_timeout: DurationText(pipeline.call_timeout),
            header_timeout: DurationText(gateway.header_timeout),
            body_timeout: DurationText(gateway.body_timeout),
            write_timeout: DurationText(gateway.write_timeout),
            auth_timeout: DurationText(gateway.auth_timeout),
        }
    }
}

impl Default for BreakerText {
    fn default() -> Self {
        let BreakerLimits { failures, open_for, slow } = BreakerLimits::default();
        Self { failures, open: DurationText(open_for), slow: DurationText(slow) }
    }
}

impl LimitsText {
    pub(in super::super) fn settings(self) -> LimitsConfig {
        let raw_value = serde_json::to_value(&self).unwrap_or_default();
        let (mut gateway, mut pipeline) = (GatewaySettings::default(), PipelineSettings::default());
        let mut calls = LimitsSettings::default();
        gateway.max_body_bytes = self.body_bytes.get();
        gateway.websocket.max_frame_bytes = self.frame_bytes.get();
        gateway.max_connections = self.connections.get();
        gateway.hub.max_spokes = self.spokes;
        gateway.hub.max_operations = self.spoke_operations.get();
        gateway.header_timeout = self.header_timeout.0;
        gateway.body_timeout = self.body_timeout.0;
        gateway.write_timeout = self.write_timeout.0;
        gateway.auth_timeout = self.auth_timeout.0;
        pipeline.max_concurrent_calls = self.calls.get();
        pipeline.max_exclusive_queue = self.exclusive_queue;
        pipeline.max_nesting = self.nesting;
        pipeline.call_timeout = self.call_timeout.0;
        calls.json_depth = self.json_depth.get();
        calls.caller_calls = self.caller_calls.get();
        calls.caller_subscriptions = self.caller_subscriptions.get();
        calls.calls_per_minute = self.calls_per_minute;
        calls.source = SourceLimits {
            concurrency: self.source_calls.get(),
            queue: self.source_queue,
            queue_wait: self.queue_wait.0,
            breaker: self.breaker.to_limits(),
        };
        LimitsConfig { pipeline, calls, gateway, raw: raw_value }
    }

    /// The times that would let nothing happen if they were zero, with their keys.
    pub(in super::super) fn timeouts(&self) -> [(&'static str, Duration); 5] {
        [
            ("call_timeout", self.call_timeout.0),
            ("header_timeout", self.header_timeout.0),
            ("body_timeout", self.body_timeout.0),
            ("write_timeout", self.write_timeout.0),
            ("auth_timeout", self.auth_timeout.0),
        ]
    }
}

/// What holds from the next call on when it changes.
const RELOADABLE_KEYS: [&str; 8] = [
    "breaker",
    "caller_calls",
    "caller_subscriptions",
    "calls_per_minute",
    "json_depth",
    "queue_wait",
    "source_calls",
    "source_queue",
];

impl LimitsConfig {
    /// How many connections may be open.
    pub fn connections(&self) -> usize {
        self.gateway.max_connections
    }

    /// Puts what is said here into the settings of a gateway.
    pub(crate) fn apply_to(&self, settings: &mut GatewaySettings) {
        let configured = &self.gateway;
        settings.max_body_bytes = configured.max_body_bytes;
        settings.websocket.max_frame_bytes = configured.websocket.max_frame_bytes;
        settings.max_connections = configured.max_connections;
        settings.hub.max_spokes = configured.hub.max_spokes;
        settings.hub.max_operations = configured.hub.max_operations;
        settings.header_timeout = configured.header_timeout;
        settings.body_timeout = configured.body_timeout;
        settings.write_timeout = configured.write_timeout;
        settings.auth_timeout = configured.auth_timeout;
    }

    /// The keys that are different and hold only after the next start.
    pub(crate) fn restart_only_changes(&self, other: &Self) -> Vec<String> {
        let keys = self.raw.as_object().into_iter().flat_map(|object| object.keys());
        let fixed = keys.filter(|key| !RELOADABLE_KEYS.contains(&key.as_str()));
        let fixed = fixed.filter(|key| self.raw[key.as_str()] != other.raw[key.as_str()]);
        fixed.map(|key| format!("limits.{key}")).collect()
    }
}

impl BreakerText {
    /// The limits, unless the circuit breaker is off.
    pub(in super::super) fn to_limits(&self) -> Option<BreakerLimits> {
        let (open_for, slow) = (self.open.0, self.slow.0);
        (self.failures > 0).then_some(BreakerLimits { failures: self.failures, open_for, slow })
    }
}

/// A default, which is never zero.
pub(super) fn non_zero(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

/// As it is read: the JSON Schema shows what holds if nothing is said.
impl Serialize for DurationText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = self.0.as_millis();
        let text = match millis {
            _ if !millis.is_multiple_of(1_000) => format!("{millis}ms"),
            _ if !millis.is_multiple_of(60_000) || millis == 0 => format!("{}s", millis / 1_000),
            _ => format!("{}m", millis / 60_000),
        };
        serializer.serialize_str(&text)
    }
}
