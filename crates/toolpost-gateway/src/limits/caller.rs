//! State per caller: calls in flight and the rate limit.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::token_bucket::TokenBucket;

/// Number of shards, which reduces lock contention between callers.
const SHARDS: usize = 16;
/// Number of callers in a shard at which idle ones are evicted.
const EVICTION_THRESHOLD: usize = 256;

/// One caller. The limits are arguments, so that calls in flight also count toward new limits.
#[derive(Debug, Default)]
pub(super) struct CallerState {
    pub(super) calls: InFlight,
    pub(super) subscriptions: InFlight,
    /// State of the token bucket.
    full_at: AtomicU64,
}

/// Counts calls in flight as the permits in use of a semaphore with enough permits for any limit.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Semaphore>);

impl Default for InFlight {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)))
    }
}

impl InFlight {
    fn count(&self) -> usize {
        Semaphore::MAX_PERMITS - self.0.available_permits()
    }

    /// Returns a permit if fewer than `max` are in use.
    pub(super) fn try_acquire(&self, max: usize) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok()?;
        (self.count() <= max).then_some(permit)
    }
}

impl CallerState {
    /// Takes a token of the rate limit, or returns the time until the next one.
    pub(super) fn take_token(&self, per_minute: u32, now: u64) -> Result<(), Duration> {
        let bucket = TokenBucket::per_minute(per_minute, per_minute);
        let mut wait = Duration::ZERO;
        let take = |full_at| bucket.take(full_at, now).map_err(|missing| wait = missing).ok();
        let taken = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|_| wait)
    }

    /// Whether nothing is in flight and the bucket is full, so that the entry can be evicted.
    fn is_idle(&self, now: u64) -> bool {
        self.calls.count() + self.subscriptions.count() == 0
            && self.full_at.load(Ordering::Relaxed) <= now
    }
}

/// All callers. Idle callers are evicted when there are many.
#[derive(Debug)]
pub(super) struct CallerTable {
    shards: [Mutex<HashMap<Box<str>, Arc<CallerState>>>; SHARDS],
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
    /// Returns the time on the clock of the token buckets.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
    }

    pub(super) fn get(&self, id: &str) -> Arc<CallerState> {
        let hash = usize::try_from(self.hasher.hash_one(id) % SHARDS as u64).unwrap_or_default();
        let mut shard = self.shards[hash].lock();
        if let Some(known) = shard.get(id) {
            return Arc::clone(known);
        }
        if shard.len() >= EVICTION_THRESHOLD && shard.len().is_power_of_two() {
            let now = self.now();
            shard.retain(|_, caller| Arc::strong_count(caller) > 1 || !caller.is_idle(now));
        }
        Arc::clone(shard.entry(id.into()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_callers_are_evicted_and_busy_ones_kept() {
        let callers = CallerTable::default();
        let busy = callers.get("busy");
        let held = busy.calls.try_acquire(1).unwrap();
        drop(busy);
        for number in 0..20_000 {
            callers.get(&format!("caller {number}"));
        }
        let known: usize = callers.shards.iter().map(|shard| shard.lock().len()).sum();
        assert!(known <= SHARDS * EVICTION_THRESHOLD, "{known}");
        assert!(callers.get("busy").calls.try_acquire(1).is_none());
        drop(held);
        assert!(callers.get("busy").calls.try_acquire(1).is_some());
    }

    #[test]
    fn limit_change_counts_calls_in_flight() {
        let callers = CallerTable::default();
        let held = callers.get("busy").calls.try_acquire(2);
        for (max, free) in [(1, 0), (3, 2)] {
            let busy = callers.get("busy");
            let got: Vec<_> = std::iter::from_fn(|| busy.calls.try_acquire(max)).collect();
            assert_eq!(got.len(), free, "{max}");
        }
        drop(held);
    }

    #[test]
    fn rate_limit_admits_a_minute_of_calls() {
        let caller = CallerState::default();
        assert!((0..3).all(|_| caller.take_token(3, 0).is_ok()));
        assert_eq!(caller.take_token(3, 0), Err(Duration::from_secs(20)));
        assert!(!caller.is_idle(0) && caller.is_idle(60_000_000_000));
    }
}
