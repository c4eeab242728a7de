//! Delays between connection attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Exponential backoff with an upper limit and jitter against simultaneous reconnects.
pub(crate) struct Backoff {
    initial: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new((initial, max): (Duration, Duration)) -> Self {
        Self { initial, max, next: initial }
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.initial;
    }

    /// Returns the next delay: between 50% and 100% of a delay that doubles each time.
    pub(crate) fn next(&mut self) -> Duration {
        let delay = self.next.min(self.max);
        self.next = delay.saturating_mul(2);
        let jitter = RandomState::new().hash_one(delay) % 1_000;
        delay.mul_f64(0.5 + jitter as f64 / 2_000.0)
    }
}
