//! Rate limit per minute, with a burst of half the limit.

/// A token bucket, stored as the time at which it is full again, in microseconds since the Unix
/// epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RateBucket {
    full_at: i64,
}

impl RateBucket {
    /// Takes one permit, or returns the milliseconds until one is available. `now` is in
    /// milliseconds.
    pub(super) fn try_acquire(&mut self, now: i64, per_minute: u32) -> Result<(), i64> {
        let per_minute = i64::from(per_minute.max(1));
        let interval = 60_000_000 / per_minute;
        let capacity = interval * (per_minute / 2).max(1);
        let now = now.saturating_mul(1_000);
        let after = self.full_at.max(now) + interval;
        let excess = after - now - capacity;
        if excess > 0 {
            return Err(excess / 1_000 + 1);
        }
        self.full_at = after;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the time in seconds, the number of attempts, and the number admitted.
    #[test]
    fn bucket_allows_half_minute_burst_then_steady_rate() {
        let mut rate = RateBucket::default();
        for (second, come, expected) in
            [(0, 50, 30), (0, 5, 0), (1, 5, 1), (4, 5, 3), (14, 100, 10), (200, 100, 30)]
        {
            let admitted =
                (0..come).filter(|_| rate.try_acquire(second * 1_000, 60).is_ok()).count();
            assert_eq!(admitted, expected, "{come} in second {second}");
        }
    }

    #[test]
    fn retry_after_is_sufficient() {
        for per_minute in [1, 7, 60, 6_000, 1_000_000] {
            let mut rate = RateBucket::default();
            while rate.try_acquire(0, per_minute).is_ok() {}
            let wait = rate.try_acquire(0, per_minute).unwrap_err();
            assert!(rate.try_acquire(wait, per_minute).is_ok(), "{per_minute}");
        }
    }
}
