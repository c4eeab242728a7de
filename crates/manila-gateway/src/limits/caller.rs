//! What each caller has in flight.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::bucket::Bucket;
use super::places;
use super::settings::LimitsSettings;

/// So many tables, so that callers do not wait for each other.
const SHARDS: usize = 16;
/// How many callers one table may have before those who do nothing are forgotten.
const MANY: usize = 256;

/// One caller.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) calls: Arc<Semaphore>,
    pub(super) subscriptions: Arc<Semaphore>,
    pub(super) bucket: Option<Bucket>,
    /// What there was in the beginning.
    most: (usize, usize),
}

impl Caller {
    fn new(settings: &LimitsSettings) -> Self {
        let calls = places(settings.caller_calls);
        let subscriptions = places(settings.caller_subscriptions);
        let most = (calls.available_permits(), subscriptions.available_permits());
        let bucket = settings.calls_per_minute.map(Bucket::per_minute);
        Self { calls, subscriptions, bucket, most }
    }

    /// Whether a new one would be the same.
    fn is_idle(&self, now: u64) -> bool {
        let free = (self.calls.available_permits(), self.subscriptions.available_permits());
        free == self.most && self.bucket.as_ref().is_none_or(|bucket| bucket.is_full(now))
    }
}

type Shard = HashMap<Box<str>, Arc<Caller>>;

/// All callers. Those who do nothing are forgotten when there are many.
#[derive(Debug)]
pub(super) struct Callers {
    shards: [Mutex<Shard>; SHARDS],
    hasher: foldhash::fast::RandomState,
    epoch: Instant,
}

impl Default for Callers {
    fn default() -> Self {
        let (shards, hasher) = Default::default();
        Self { shards, hasher, epoch: Instant::now() }
    }
}

impl Callers {
    /// A moment as buckets count it.
    pub(super) fn since_start(&self, now: Instant) -> u64 {
        u64::try_from((now - self.epoch).as_nanos()).unwrap_or(u64::MAX / 2)
    }

    pub(super) fn get(&self, id: &str, settings: &LimitsSettings) -> Arc<Caller> {
        let hash = usize::try_from(self.hasher.hash_one(id) % SHARDS as u64).unwrap_or_default();
        let mut shard = lock(&self.shards[hash]);
        if let Some(known) = shard.get(id) {
            return Arc::clone(known);
        }
        if shard.len() >= MANY && shard.len().is_power_of_two() {
            let now = self.since_start(Instant::now());
            shard.retain(|_, caller| Arc::strong_count(caller) > 1 || !caller.is_idle(now));
        }
        let caller = Arc::new(Caller::new(settings));
        shard.insert(id.into(), Arc::clone(&caller));
        caller
    }

    /// Begins again with everybody.
    pub(super) fn forget(&self) {
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_nothing_is_forgotten_and_who_does_is_not() {
        let callers = Callers::default();
        let settings = LimitsSettings { caller_calls: 1, ..LimitsSettings::default() };
        let busy = callers.get("busy", &settings);
        let held = Arc::clone(&busy.calls).try_acquire_owned().unwrap();
        drop(busy);
        for number in 0..20_000 {
            callers.get(&format!("caller {number}"), &settings);
        }
        let known: usize = callers.shards.iter().map(|shard| lock(shard).len()).sum();
        assert!(known <= SHARDS * MANY, "{known}");
        assert_eq!(callers.get("busy", &settings).calls.available_permits(), 0);
        drop(held);
        assert_eq!(callers.get("busy", &settings).calls.available_permits(), 1);
    }
}
