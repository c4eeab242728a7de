//! A semaphore whose number of permits can change while permits are in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A resizable semaphore that grants permits in request order.
#[derive(Debug)]
pub(super) struct ResizableSemaphore {
    semaphore: Arc<Semaphore>,
    /// Number of permits; locked while resizing.
    max: Mutex<usize>,
    /// Number of removed permits in use, which are forgotten when acquired next.
    to_reclaim: AtomicUsize,
}

impl ResizableSemaphore {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        let (free, owed) = (Arc::new(Semaphore::new(limit)), AtomicUsize::new(0));
        Arc::new(Self { semaphore: free, max: Mutex::new(limit), to_reclaim: owed })
    }

    /// Returns a permit if one is free.
    pub(super) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let permit = Arc::clone(&self.semaphore).try_acquire_owned().ok()?;
            if !self.reclaim_permit() {
                return Some(permit);
            }
            permit.forget();
        }
    }

    /// Waits for a permit.
    pub(super) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let permit = Arc::clone(&self.semaphore).acquire_owned().await.ok()?;
            if !self.reclaim_permit() {
                return Some(permit);
            }
            permit.forget();
        }
    }

    /// Sets the number of permits. Permits in use stay valid and count toward the new number.
    pub(super) fn resize(&self, limit: usize) {
        let mut before = self.max.lock();
        let limit = limit.min(Semaphore::MAX_PERMITS);
        let more = limit.saturating_sub(*before);
        let less = |owed: usize| Some(owed.saturating_sub(more));
        let owed = self.to_reclaim.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.semaphore.add_permits(more - owed.unwrap_or_default().min(more));
        let fewer = before.saturating_sub(limit);
        let taken = fewer - self.semaphore.forget_permits(fewer);
        self.to_reclaim.fetch_add(taken, Ordering::Relaxed);
        *before = limit;
    }

    /// Whether a permit that was just acquired must be forgotten.
    fn reclaim_permit(&self) -> bool {
        let one_less = |owed: usize| owed.checked_sub(1);
        self.to_reclaim.load(Ordering::Relaxed) > 0
            && self.to_reclaim.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resize_counts_permits_in_use() {
        // Each row: the permits before, the permits in use, the permits after, and the free
        // permits.
        for (before, taken, now, free) in [
            (4, 0, 3, 3),
            (4, 4, 3, 0),
            (4, 3, 3, 0),
            (4, 4, 1, 0),
            (2, 2, 5, 3),
            (4, 1, 2, 1),
            (1, 1, 5_000, 4_999),
        ] {
            let semaphore = ResizableSemaphore::new(before);
            let held: Vec<_> = (0..taken).map(|_| semaphore.try_acquire().unwrap()).collect();
            semaphore.resize(now);
            let got: Vec<_> = std::iter::from_fn(|| semaphore.try_acquire()).collect();
            assert_eq!(got.len(), free, "{before} to {now}, {taken} taken");
            drop((held, got));
            let all: Vec<_> = std::iter::from_fn(|| semaphore.try_acquire()).collect();
            assert_eq!(all.len(), now, "{before} to {now}, when all are back");
        }
    }

    #[test]
    fn shrink_then_grow_leaves_no_permit_to_reclaim() {
        let semaphore = ResizableSemaphore::new(3);
        let held: Vec<_> = (0..3).map(|_| semaphore.try_acquire().unwrap()).collect();
        for max in [1, 3] {
            semaphore.resize(max);
        }
        assert!(semaphore.try_acquire().is_none());
        drop(held);
        assert_eq!(std::iter::from_fn(|| semaphore.try_acquire().map(std::mem::forget)).count(), 3);
    }

    #[tokio::test]
    async fn waiter_does_not_get_reclaimed_permit() {
        let semaphore = ResizableSemaphore::new(2);
        let (one, other) = (semaphore.try_acquire().unwrap(), semaphore.try_acquire().unwrap());
        let mut waiting = Box::pin(semaphore.acquire());
        assert!(futures::poll!(&mut waiting).is_pending());
        semaphore.resize(1);
        drop(one);
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(other);
        assert!(waiting.await.is_some());
    }
}
