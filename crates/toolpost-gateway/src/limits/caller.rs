//! Limits per caller.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::resizable_semaphore::ResizableSemaphore;
use super::settings::LimitsSettings;
use super::token_bucket::TokenBucket;

/// Number of shards, which reduces lock contention between callers.
const SHARDS: usize = 16;
/// Number of callers in a shard at which idle ones are evicted.
const EVICTION_THRESHOLD: usize = 256;

/// One caller.
#[derive(Debug)]
pub(super) struct CallerLimits {
    pub(super) calls: Arc<ResizableSemaphore>,
    pub(super) subscriptions: Arc<ResizableSemaphore>,
    bucket: Option<TokenBucket>,
    /// State of the bucket.
    full_at: Arc<AtomicU64>,
}

impl CallerLimits {
    fn new(settings: &LimitsSettings) -> Self {
        Self {
            calls: ResizableSemaphore::new(settings.caller_calls),
            subscriptions: ResizableSemaphore::new(settings.caller_subscriptions),
            bucket: settings.calls_per_minute.map(|limit| TokenBucket::per_minute(limit, limit)),
            full_at: Arc::default(),
        }
    }

    /// Returns the same caller with new limits. Calls in flight stay counted.
    fn with_settings(&self, settings: &LimitsSettings) -> Self {
        let (calls, subscriptions) = (Arc::clone(&self.calls), Arc::clone(&self.subscriptions));
        calls.resize(settings.caller_calls);
        subscriptions.resize(settings.caller_subscriptions);
        let new = Self::new(settings);
        let is_same_rate = self.bucket == new.bucket;
        let full_at = if is_same_rate { Arc::clone(&self.full_at) } else { new.full_at };
        Self { calls, subscriptions, bucket: new.bucket, full_at }
    }

    /// Takes a token of the rate limit, or returns the time until the next one.
    pub(super) fn take_token(&self, now: u64) -> Result<(), Duration> {
        let Some(bucket) = self.bucket else { return Ok(()) };
        let mut wait = Duration::ZERO;
        let take = |full_at| bucket.take(full_at, now).map_err(|missing| wait = missing).ok();
        let taken = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|_| wait)
    }

    /// Whether the caller has nothing in flight and its bucket is full, so that the entry can be
    /// evicted without effect.
    fn is_idle(&self, now: u64) -> bool {
        self.calls.is_idle()
            && self.subscriptions.is_idle()
            && self.full_at.load(Ordering::Relaxed) <= now
    }
}

type CallerShard = HashMap<Box<str>, Arc<CallerLimits>>;

/// The limits of all callers. Idle callers are evicted when there are many.
#[derive(Debug)]
pub(super) struct CallerTable {
    shards: [Mutex<CallerShard>; SHARDS],
    hasher: foldhash::fast::RandomState,
    epoch: Instant,
}

impl Default for CallerTable {
    fn default() -> Self {
        let (shards, hasher) = Default::default();
        Self { shards, hasher, epoch: Instant::now() }
    }
}

impl CallerTable {
    /// Converts a point in time to the clock of the token buckets.
    pub(super) fn since_start(&self, now: Instant) -> u64 {
        u64::try_from((now - self.epoch).as_nanos()).unwrap_or(u64::MAX / 2)
    }

    /// Returns the limits of a caller. Those of a new caller are read under the lock, so that
    /// [`Self::apply_settings`] does not miss it.
    pub(super) fn get(&self, id: &str, settings: &ArcSwap<LimitsSettings>) -> Arc<CallerLimits> {
        let hash = usize::try_from(self.hasher.hash_one(id) % SHARDS as u64).unwrap_or_default();
        let mut shard = self.shards[hash].lock();
        if let Some(known) = shard.get(id) {
            return Arc::clone(known);
        }
        if shard.len() >= EVICTION_THRESHOLD && shard.len().is_power_of_two() {
            let now = self.since_start(Instant::now());
            shard.retain(|_, caller| Arc::strong_count(caller) > 1 || !caller.is_idle(now));
        }
        let caller = Arc::new(CallerLimits::new(&settings.load()));
        shard.insert(id.into(), Arc::clone(&caller));
        caller
    }

    /// Applies new limits to all callers.
    pub(super) fn apply_settings(&self, settings: &LimitsSettings) {
        for shard in &self.shards {
            for caller in shard.lock().values_mut() {
                *caller = Arc::new(caller.with_settings(settings));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_callers_are_evicted_and_busy_ones_kept() {
        let callers = CallerTable::default();
        let settings = LimitsSettings { caller_calls: 1, ..LimitsSettings::default() };
        let settings = ArcSwap::from_pointee(settings);
        let busy = callers.get("busy", &settings);
        let held = busy.calls.try_acquire().unwrap();
        drop(busy);
        for number in 0..20_000 {
            callers.get(&format!("caller {number}"), &settings);
        }
        let known: usize = callers.shards.iter().map(|shard| shard.lock().len()).sum();
        assert!(known <= SHARDS * EVICTION_THRESHOLD, "{known}");
        assert!(callers.get("busy", &settings).calls.try_acquire().is_none());
        drop(held);
        assert!(callers.get("busy", &settings).calls.try_acquire().is_some());
    }

    #[test]
    fn limit_change_counts_calls_in_flight() {
        let callers = CallerTable::default();
        let calls = |max| LimitsSettings { caller_calls: max, ..LimitsSettings::default() };
        let settings = ArcSwap::from_pointee(calls(2));
        let held = callers.get("busy", &settings).calls.try_acquire();
        for (max, free) in [(1, 0), (3, 2)] {
            callers.apply_settings(&calls(max));
            let busy = callers.get("busy", &settings);
            let got: Vec<_> = std::iter::from_fn(|| busy.calls.try_acquire()).collect();
            assert_eq!(got.len(), free, "{max}");
        }
        drop(held);
    }
}
