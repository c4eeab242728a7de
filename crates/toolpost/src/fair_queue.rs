//! Large computations, which run off the async workers.
//!
//! Each caller runs one of them at a time, and all together leave a processor to other work. A
//! caller that requests many waits for its own, not others for it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::error::CallError;
use crate::handler::CallContext;
use crate::shares::Holder;

/// Number of callers at which idle ones are removed from the table.
const CLEANUP_THRESHOLD: usize = 256;

/// The computations of this process.
static COMPUTATIONS: LazyLock<FairQueue> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    FairQueue::new(processors.saturating_sub(1).max(1))
});

struct FairQueue {
    all: Arc<Semaphore>,
    /// The turn of each caller. Only callers that wait or run.
    callers: Mutex<HashMap<Holder, Weak<Semaphore>>>,
}

/// Runs a computation on a blocking thread when it is the turn of the caller. The computation
/// should end soon when the token is canceled.
///
/// # Errors
///
/// Returns `ABORTED` if the call is canceled first. The computation then ends in the background.
pub(crate) async fn compute<T: Send + 'static>(
    context: &CallContext,
    computation: impl FnOnce(&CancellationToken) -> T + Send + 'static,
) -> Result<T, CallError> {
    let holder = context.identity().map_or_else(Holder::of_unknown_address, Holder::from);
    let canceled = CancellationToken::new();
    // A dropped call cancels the computation too.
    let _guard = canceled.clone().drop_guard();
    let running = async {
        let turn = COMPUTATIONS.acquire(holder).await;
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            computation(&canceled)
        });
        task.await.map_err(|error| CallError::unknown(error.to_string()))
    };
    tokio::select! {
        biased;
        () = context.canceled() => Err(CallError::aborted("the call was canceled")),
        result = running => result,
    }
}

impl FairQueue {
    fn new(limit: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(limit)), callers: Mutex::default() }
    }

    /// Waits for the turn of a caller.
    async fn acquire(&self, holder: Holder) -> (OwnedSemaphorePermit, OwnedSemaphorePermit) {
        const OPEN: &str = "the semaphore is never closed";
        let own = self.turn_of(holder).acquire_owned().await.expect(OPEN);
        (Arc::clone(&self.all).acquire_owned().await.expect(OPEN), own)
    }

    fn turn_of(&self, holder: Holder) -> Arc<Semaphore> {
        let mut callers = self.callers.lock();
        if let Some(turn) = callers.get(&holder).and_then(Weak::upgrade) {
            return turn;
        }
        if callers.len() >= CLEANUP_THRESHOLD && callers.len().is_power_of_two() {
            callers.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::new(Semaphore::new(1));
        callers.insert(holder, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::access::Identity;

    fn holder(id: &str) -> Holder {
        Holder::from(&Identity::new(id))
    }

    #[tokio::test]
    async fn caller_with_many_computations_waits_for_itself() {
        let queue = FairQueue::new(1);
        let running = queue.acquire(holder("mallory")).await;
        let mut own: Vec<_> =
            (0..100).map(|_| Box::pin(queue.acquire(holder("mallory")))).collect();
        assert!(own.iter_mut().all(|next| next.now_or_never().is_none()));
        let mut other = Box::pin(queue.acquire(holder("ada")));
        assert!((&mut other).now_or_never().is_none());
        drop(running);
        // The turn passes to the other caller or to one computation of the first.
        let first = own[0].as_mut().now_or_never();
        drop(first);
        assert!((&mut other).now_or_never().is_some());
    }

    #[tokio::test]
    async fn idle_callers_are_removed_from_the_table() {
        let queue = FairQueue::new(1);
        for number in 0..10_000 {
            drop(queue.acquire(holder(&number.to_string())).await);
        }
        assert!(queue.callers.lock().len() <= CLEANUP_THRESHOLD);
    }
}
