//! The numbers, and what they are if nobody says otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

/// What bounds the calls of a gateway, beside [`GatewaySettings`](crate::GatewaySettings).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LimitsSettings {
    /// How many levels of objects and lists an input may have.
    pub json_depth: usize,
    /// How many calls of one caller may be in flight.
    pub caller_calls: usize,
    /// How many subscriptions of one caller may be open.
    pub caller_subscriptions: usize,
    /// How many calls one caller may begin in a minute; as many as he likes, if absent. They may all
    /// come at once, and then one by one as the minute goes by.
    pub calls_per_minute: Option<u32>,
    /// What holds for a source that has nothing of its own.
    pub source: SourceLimits,
    /// What holds for single sources, by name.
    pub sources: BTreeMap<String, SourceLimits>,
}

/// What bounds the calls of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLimits {
    /// How many of its calls may run at the same time.
    pub concurrency: usize,
    /// How many may wait for that; more are refused.
    pub queue: usize,
    /// How long one may wait.
    pub queue_wait: Duration,
    /// Its circuit breaker; absent where the source has its own.
    pub breaker: Option<BreakerLimits>,
}

/// When the circuit breaker of a source opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerLimits {
    /// After it was lost or late so often in a row.
    pub failures: u32,
    /// For so long; then one call tries.
    pub open_for: Duration,
    /// From when on a call that nobody waited for any longer was late. Whoever is in more of a hurry
    /// says nothing about the source.
    pub slow: Duration,
}

impl Default for LimitsSettings {
    fn default() -> Self {
        Self {
            json_depth: 127,
            caller_calls: 4_096,
            caller_subscriptions: 1_024,
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
    /// What holds for a source.
    pub fn for_source(&self, source: &str) -> &SourceLimits {
        self.sources.get(source).unwrap_or(&self.source)
    }

    /// Whether they say the same about everything that both know: a source that comes or goes changes
    /// nothing for others.
    pub(super) fn is_same_for_common_sources(&self, other: &Self) -> bool {
        let known =
            self.sources.iter().filter_map(|(name, own)| Some((own, other.sources.get(name)?)));
        self.json_depth == other.json_depth
            && self.caller_limits() == other.caller_limits()
            && self.source == other.source
            && known.into_iter().all(|(own, others)| own == others)
    }

    /// What is about one caller.
    pub(super) fn caller_limits(&self) -> (usize, usize, Option<u32>) {
        (self.caller_calls, self.caller_subscriptions, self.calls_per_minute)
    }

    /// Whether anything is.
    pub(super) fn limits_callers(&self) -> bool {
        self.caller_limits() != (usize::MAX, usize::MAX, None)
    }
}
