//! Rate limit per minute: a token bucket that starts full and refills at a constant rate.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A token bucket, stored as the time at which it is full again: one number, updated without a
/// lock. Times are nanoseconds since a fixed epoch.
#[derive(Debug)]
pub(super) struct TokenBucket {
    full_at: AtomicU64,
    /// Time to refill one token.
    token_nanos: u64,
    /// Time to refill an empty bucket.
    capacity_nanos: u64,
}

impl TokenBucket {
    pub(super) fn per_minute(limit: u32) -> Self {
        let token_nanos = 60_000_000_000 / u64::from(limit.max(1));
        Self {
            full_at: AtomicU64::new(0),
            token_nanos,
            capacity_nanos: token_nanos * u64::from(limit.max(1)),
        }
    }

    /// Takes a token, or returns the time until the next one.
    pub(super) fn take(&self, now: u64) -> Result<(), Duration> {
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let after = full_at.max(now) + self.token_nanos;
            if let Some(missing) =
                after.checked_sub(now + self.capacity_nanos).filter(|time| *time > 0)
            {
                return Err(Duration::from_nanos(missing));
            }
            let swap = self.full_at.compare_exchange_weak(
                full_at,
                after,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match swap {
                Ok(_) => return Ok(()),
                Err(other) => full_at = other,
            }
        }
    }

    /// Whether the bucket is full, and so equal to a new one.
    pub(super) fn is_full(&self, now: u64) -> bool {
        self.full_at.load(Ordering::Relaxed) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Each row: the time, the number of calls, and how many are admitted.
    #[test]
    fn bucket_refills_evenly_over_a_minute() {
        let bucket = TokenBucket::per_minute(60);
        for (second, come, expected) in [
            (0, 70, 60),
            (0, 5, 0),
            (1, 5, 1),
            (4, 5, 3),
            (30, 100, 26),
            (200, 100, 60),
            (200, 1, 0),
        ] {
            let let_in = (0..come).filter(|_| bucket.take(second * SECOND).is_ok()).count();
            assert_eq!(let_in, expected, "{come} in second {second}");
        }
    }

    #[test]
    fn retry_after_is_when_the_next_token_arrives() {
        for limit in [1, 7, 60, 6_000] {
            let bucket = TokenBucket::per_minute(limit);
            assert!(bucket.is_full(0));
            (0..limit).for_each(|_| bucket.take(0).unwrap());
            let wait = bucket.take(0).unwrap_err();
            assert_eq!(wait, Duration::from_nanos(60_000_000_000 / u64::from(limit)), "{limit}");
            let then = u64::try_from(wait.as_nanos()).unwrap();
            assert!(bucket.take(then - 1).is_err() && bucket.take(then).is_ok(), "{limit}");
            assert!(!bucket.is_full(then) && bucket.is_full(120 * SECOND), "{limit}");
        }
    }
}
