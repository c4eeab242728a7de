//! So many in a minute, half of them at once.

/// When the bucket of one participant would be full again, in microseconds since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    full_at: i64,
}

impl Rate {
    /// Takes one, or says in how many milliseconds there will be one. `now` is in milliseconds.
    pub(super) fn take(&mut self, now: i64, per_minute: u32) -> Result<(), i64> {
        let per_minute = i64::from(per_minute.max(1));
        let interval = 60_000_000 / per_minute;
        let whole = interval * (per_minute / 2).max(1);
        let now = now.saturating_mul(1_000);
        let after = self.full_at.max(now) + interval;
        let missing = after - now - whole;
        if missing > 0 {
            return Err(missing / 1_000 + 1);
        }
        self.full_at = after;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: when, in seconds, how many come, and how many of them are let in.
    #[test]
    fn half_a_minute_at_once_and_then_evenly() {
        let mut rate = Rate::default();
        for (second, come, expected) in
            [(0, 50, 30), (0, 5, 0), (1, 5, 1), (4, 5, 3), (14, 100, 10), (200, 100, 30)]
        {
            let let_in = (0..come).filter(|_| rate.take(second * 1_000, 60).is_ok()).count();
            assert_eq!(let_in, expected, "{come} in second {second}");
        }
    }

    #[test]
    fn it_says_when_to_come_again_and_that_holds() {
        for per_minute in [1, 7, 60, 6_000, 1_000_000] {
            let mut rate = Rate::default();
            while rate.take(0, per_minute).is_ok() {}
            let wait = rate.take(0, per_minute).unwrap_err();
            assert!(rate.take(wait, per_minute).is_ok(), "{per_minute}");
        }
    }
}
