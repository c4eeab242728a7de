//! Limits and their defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::DurationText;

/// Limits on calls, in addition to [`GatewaySettings`](crate::GatewaySettings).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LimitsSettings {
    /// Maximum number of levels of objects and arrays in an input.
    pub json_depth: usize,
    /// Maximum number of calls in flight per caller.
    pub caller_calls: usize,
    /// Maximum number of open subscriptions per caller.
    pub caller_subscriptions: usize,
    /// Maximum memory of the inputs of all calls in flight, in bytes. Applies to new limiters.
    pub input_bytes: usize,
    /// Maximum memory of the inputs of the calls in flight of one caller, in bytes. Applies to new
    /// limiters.
    pub caller_input_bytes: usize,
    /// Maximum number of calls that one caller may start per minute; unlimited if absent. A full
    /// minute's calls may start at once; after that, they are admitted at an even rate.
    pub calls_per_minute: Option<u32>,
    /// Limits of sources without their own settings.
    pub source: SourceLimits,
    /// Limits of individual sources, by name.
    pub sources: BTreeMap<String, SourceLimits>,
}

/// Limits on the calls to one source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLimits {
    /// Maximum number of concurrent calls.
    pub concurrency: usize,
    /// Maximum number of queued calls; further calls are rejected.
    pub queue: usize,
    /// Maximum time a call waits in the queue.
    pub queue_wait: Duration,
    /// Settings of the circuit breaker; `None` if the source has its own breakers or the breaker is
    /// disabled.
    pub breaker: Option<BreakerLimits>,
}

/// When the circuit breaker of a source opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { failures = 5 }")]
#[schemars(rename = "Breaker")]
#[non_exhaustive]
pub struct BreakerLimits {
    /// Number of consecutive connection losses or timeouts; 0 disables the breaker. An error that
    /// the source reports does not count.
    pub failures: u32,
    /// How long the breaker stays open before it admits a probe call.
    #[serde(rename = "open", with = "DurationText")]
    pub open_for: Duration,
    /// Minimum duration of a timed-out call that counts as a failure. A call with a shorter timeout
    /// does not show that the source is slow.
    #[serde(with = "DurationText")]
    pub slow: Duration,
}

impl Default for LimitsSettings {
    fn default() -> Self {
        Self {
            json_depth: 127,
            caller_calls: 4_096,
            caller_subscriptions: 1_024,
            input_bytes: 512 * 1024 * 1024,
            caller_input_bytes: 128 * 1024 * 1024,
            calls_per_minute: None,
            source: SourceLimits::default(),
            sources: BTreeMap::new(),
        }
    }
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self {
            concurrency: 1_024,
            queue: 256,
            queue_wait: Duration::from_secs(5),
            breaker: Some(BreakerLimits::default()),
        }
    }
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(10), slow: Duration::from_secs(5) }
    }
}

impl LimitsSettings {
    /// Returns the limits of a source.
    pub fn for_source(&self, source: &str) -> &SourceLimits {
        self.sources.get(source).unwrap_or(&self.source)
    }

    /// Whether the settings are equal, ignoring sources that only one of them has. Adding or
    /// removing a source does not change the limits of others.
    pub(crate) fn is_same_for_common_sources(&self, other: &Self) -> bool {
        let known =
            self.sources.iter().filter_map(|(name, own)| Some((own, other.sources.get(name)?)));
        self.json_depth == other.json_depth
            && self.caller_limits() == other.caller_limits()
            && self.source == other.source
            && known.into_iter().all(|(own, others)| own == others)
    }

    /// Returns the limits per caller.
    pub(super) fn caller_limits(&self) -> (usize, usize, Option<u32>) {
        (self.caller_calls, self.caller_subscriptions, self.calls_per_minute)
    }

    /// Whether any per-caller limit is set.
    pub(super) fn limits_callers(&self) -> bool {
        self.caller_limits() != (usize::MAX, usize::MAX, None)
    }
}
