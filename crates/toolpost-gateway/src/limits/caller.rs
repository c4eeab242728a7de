//! What each caller has in flight.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::time::Instant;

use super::bucket::Bucket;
use super::places::Places;
use super::settings::LimitsSettings;

/// So many tables, so that callers do not wait for each other.
const SHARDS: usize = 16;
/// How many callers one table may have before those who do nothing are forgotten.
const MANY: usize = 256;

/// One caller.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) calls: Arc<Places>,
    pub(super) subscriptions: Arc<Places>,
    pub(super) bucket: Option<Arc<Bucket>>,
    per_minute: Option<u32>,
}

impl Caller {
    fn new(settings: &LimitsSettings) -> Self {
        let calls = Places::new(settings.caller_calls);
        let subscriptions = Places::new(settings.caller_subscriptions);
        let per_minute = settings.calls_per_minute;
        Self { calls, subscriptions, bucket: bucket(per_minute), per_minute }
    }

    /// The same caller with other numbers. What he has in flight counts.
    fn with(&self, settings: &LimitsSettings) -> Self {
        let (calls, subscriptions) = (Arc::clone(&self.calls), Arc::clone(&self.subscriptions));
        calls.resize(settings.caller_calls);
        subscriptions.resize(settings.caller_subscriptions);
        let per_minute = settings.calls_per_minute;
        let bucket = match self.per_minute == per_minute {
            true => self.bucket.clone(),
            false => bucket(per_minute),
        };
        Self { calls, subscriptions, bucket, per_minute }
    }

    /// Whether a new one would be the same.
    fn is_idle(&self, now: u64) -> bool {
        self.calls.are_all_free()
            && self.subscriptions.are_all_free()
            && self.bucket.as_ref().is_none_or(|bucket| bucket.is_full(now))
    }
}

fn bucket(per_minute: Option<u32>) -> Option<Arc<Bucket>> {
    per_minute.map(Bucket::per_minute).map(Arc::new)
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

    /// A caller; the numbers of one who is new are looked up while nobody changes them.
    pub(super) fn get(&self, id: &str, settings: &ArcSwap<LimitsSettings>) -> Arc<Caller> {
        let hash = usize::try_from(self.hasher.hash_one(id) % SHARDS as u64).unwrap_or_default();
        let mut shard = lock(&self.shards[hash]);
        if let Some(known) = shard.get(id) {
            return Arc::clone(known);
        }
        if shard.len() >= MANY && shard.len().is_power_of_two() {
            let now = self.since_start(Instant::now());
            shard.retain(|_, caller| Arc::strong_count(caller) > 1 || !caller.is_idle(now));
        }
        let caller = Arc::new(Caller::new(&settings.load()));
        shard.insert(id.into(), Arc::clone(&caller));
        caller
    }

    /// Other numbers for everybody.
    pub(super) fn change(&self, settings: &LimitsSettings) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.values_mut().for_each(|caller| *caller = Arc::new(caller.with(settings)));
        }
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
        let settings = ArcSwap::from_pointee(settings);
        let busy = callers.get("busy", &settings);
        let held = busy.calls.try_take().unwrap();
        drop(busy);
        for number in 0..20_000 {
            callers.get(&format!("caller {number}"), &settings);
        }
        let known: usize = callers.shards.iter().map(|shard| lock(shard).len()).sum();
        assert!(known <= SHARDS * MANY, "{known}");
        assert!(callers.get("busy", &settings).calls.try_take().is_none());
        drop(held);
        assert!(callers.get("busy", &settings).calls.try_take().is_some());
    }

    #[test]
    fn who_has_calls_in_flight_gets_no_new_places_by_another_number() {
        let callers = Callers::default();
        let calls = |most| LimitsSettings { caller_calls: most, ..LimitsSettings::default() };
        let settings = ArcSwap::from_pointee(calls(2));
        let held = callers.get("busy", &settings).calls.try_take();
        for (most, free) in [(1, 0), (3, 2)] {
            callers.change(&calls(most));
            let busy = callers.get("busy", &settings);
            let got: Vec<_> = std::iter::from_fn(|| busy.calls.try_take()).collect();
            assert_eq!(got.len(), free, "{most}");
        }
        drop(held);
    }
}
