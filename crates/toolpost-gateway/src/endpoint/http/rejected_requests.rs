//! Limits the audit records of rejected requests without an identity.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use toolpost::epoch_ms;

/// Maximum number of anonymous rejections recorded per second. Clients without a token must not be
/// able to fill the journal and displace its records.
const MAX_PER_SECOND: u32 = 20;

/// Number of anonymous rejections in the current second.
#[derive(Debug, Default)]
pub(super) struct AnonymousRejections {
    second: AtomicI64,
    count: AtomicU32,
}

impl AnonymousRejections {
    /// Counts a rejection. Returns whether to record it.
    pub(super) fn try_record(&self) -> bool {
        self.try_record_at(epoch_ms() / 1_000)
    }

    fn try_record_at(&self, second: i64) -> bool {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.count.store(0, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed) < MAX_PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_rejections_are_rate_limited_in_journal() {
        let rejections = AnonymousRejections::default();
        for second in [7, 8] {
            let recorded = (0..100).filter(|_| rejections.try_record_at(second)).count();
            assert_eq!(recorded, MAX_PER_SECOND as usize);
        }
    }
}
