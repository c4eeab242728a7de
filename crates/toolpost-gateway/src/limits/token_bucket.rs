//! Rate limit per minute: a token bucket that starts full and refills at a constant rate.

use std::time::Duration;

/// The rate and the capacity of a token bucket. Its state is one number: the time at which it is
/// full again, in nanoseconds since a fixed epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// Time to refill one token.
    token_nanos: u64,
    /// Time to refill an empty bucket.
    capacity_nanos: u64,
}

impl TokenBucket {
    /// Creates a bucket of `burst` tokens that gets `limit` tokens per minute.
    pub(crate) fn per_minute(limit: u32, burst: u32) -> Self {
        let token_nanos = 60_000_000_000 / u64::from(limit.max(1));
        Self { token_nanos, capacity_nanos: token_nanos * u64::from(burst.max(1)) }
    }

    /// Takes a token. Returns the new state, or the time until the next token.
    pub(crate) fn take(self, full_at: u64, now: u64) -> Result<u64, Duration> {
        let after = full_at.max(now) + self.token_nanos;
        match after.saturating_sub(now + self.capacity_nanos) {
            0 => Ok(after),
            missing => Err(Duration::from_nanos(missing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Each row: the time, the number of calls, and how many are admitted.
    #[test]
    fn bucket_refills_evenly_over_a_minute() {
        let bucket = TokenBucket::per_minute(60, 60);
        let mut full_at = 0;
        for (second, come, expected) in [
            (0, 70, 60),
            (0, 5, 0),
            (1, 5, 1),
            (4, 5, 3),
            (30, 100, 26),
            (200, 100, 60),
            (200, 1, 0),
        ] {
            let mut take =
                || bucket.take(full_at, second * SECOND).map(|after| full_at = after).is_ok();
            let let_in = (0..come).filter(|_| take()).count();
            assert_eq!(let_in, expected, "{come} messages in second {second}");
        }
    }

    #[test]
    fn retry_after_is_when_the_next_token_arrives() {
        for (limit, burst) in [(1, 1), (7, 7), (60, 60), (60, 30), (6_000, 6_000)] {
            let bucket = TokenBucket::per_minute(limit, burst);
            let full_at = (0..burst).fold(0, |full_at, _| bucket.take(full_at, 0).unwrap());
            let wait = bucket.take(full_at, 0).unwrap_err();
            assert_eq!(wait, Duration::from_nanos(60_000_000_000 / u64::from(limit)), "{limit}");
            let then = u64::try_from(wait.as_nanos()).unwrap();
            assert!(bucket.take(full_at, then - 1).is_err(), "{limit}");
            assert!(bucket.take(full_at, then).is_ok(), "{limit}");
        }
    }
}
