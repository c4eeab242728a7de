//! A number of places, which may become another number while some of them are taken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places, handed on in the order of asking.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// How many there are; held by whoever changes it.
    most: Mutex<usize>,
    /// How many were taken away while somebody had them: whoever gets one of these gives it up.
    owed: AtomicUsize,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let most = most.min(Semaphore::MAX_PERMITS);
        let (free, owed) = (Arc::new(Semaphore::new(most)), AtomicUsize::new(0));
        Arc::new(Self { free, most: Mutex::new(most), owed })
    }

    /// A place, if one is free.
    pub(super) fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let place = Arc::clone(&self.free).try_acquire_owned().ok()?;
            if !self.takes_back() {
                return Some(place);
            }
            place.forget();
        }
    }

    /// A place as soon as one is free.
    pub(super) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let place = Arc::clone(&self.free).acquire_owned().await.ok()?;
            if !self.takes_back() {
                return Some(place);
            }
            place.forget();
        }
    }

    /// So many from now on. What is taken stays taken, and counts.
    pub(super) fn resize(&self, most: usize) {
        let mut before = self.most.lock().unwrap_or_else(PoisonError::into_inner);
        let most = most.min(Semaphore::MAX_PERMITS);
        let more = most.saturating_sub(*before);
        let less = |owed: usize| Some(owed.saturating_sub(more));
        let owed = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.free.add_permits(more - owed.unwrap_or_default().min(more));
        let fewer = before.saturating_sub(most);
        let taken = fewer - self.free.forget_permits(fewer);
        self.owed.fetch_add(taken, Ordering::Relaxed);
        *before = most;
    }

    /// Whether nobody has one.
    pub(super) fn are_all_free(&self) -> bool {
        let most = *self.most.lock().unwrap_or_else(PoisonError::into_inner);
        self.free.available_permits() == most + self.owed.load(Ordering::Relaxed)
    }

    /// Whether a place that was just got is one of those that are not there any more.
    fn takes_back(&self) -> bool {
        let one_less = |owed: usize| owed.checked_sub(1);
        self.owed.load(Ordering::Relaxed) > 0
            && self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_taken_count_when_their_number_changes() {
        // Each row: how many there were, how many were taken, how many there are, how many are free.
        for (before, taken, now, free) in [
            (4, 0, 3, 3),
            (4, 4, 3, 0),
            (4, 3, 3, 0),
            (4, 4, 1, 0),
            (2, 2, 5, 3),
            (4, 1, 2, 1),
            (1, 1, 5_000, 4_999),
        ] {
            let places = Places::new(before);
            let held: Vec<_> = (0..taken).map(|_| places.try_take().unwrap()).collect();
            places.resize(now);
            let got: Vec<_> = std::iter::from_fn(|| places.try_take()).collect();
            assert_eq!(got.len(), free, "{before} to {now}, {taken} taken");
            drop((held, got));
            assert!(places.are_all_free());
            let all: Vec<_> = std::iter::from_fn(|| places.try_take()).collect();
            assert_eq!(all.len(), now, "{before} to {now}, when all are back");
        }
    }

    #[test]
    fn who_has_lost_a_place_that_comes_back_owes_nothing() {
        let places = Places::new(3);
        let held: Vec<_> = (0..3).map(|_| places.try_take().unwrap()).collect();
        for most in [1, 3] {
            places.resize(most);
        }
        assert!(places.try_take().is_none());
        drop(held);
        assert_eq!(std::iter::from_fn(|| places.try_take().map(std::mem::forget)).count(), 3);
    }

    #[tokio::test]
    async fn who_waits_gets_no_place_that_was_taken_away() {
        let places = Places::new(2);
        let (one, other) = (places.try_take().unwrap(), places.try_take().unwrap());
        let mut waiting = Box::pin(places.take());
        assert!(futures::poll!(&mut waiting).is_pending());
        places.resize(1);
        drop(one);
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(other);
        assert!(waiting.await.is_some());
    }
}
