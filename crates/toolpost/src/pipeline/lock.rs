//! lock: calls to an exclusive operation run one at a time, in FIFO order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::DEFAULT_RETRY_AFTER;
use super::state::CallState;
use crate::error::{CallError, Limit};
use crate::spec::OperationId;

/// The queues of the exclusive operations that are in use.
///
/// Queues are keyed by operation id, so that exclusivity holds even if the operation is replaced
/// while a call runs.
pub(super) struct ExclusiveLocks {
    queues: Arc<Mutex<HashMap<OperationId, Arc<LockQueue>>>>,
    max_waiting: usize,
}

struct LockQueue {
    /// A semaphore with one permit. Tokio grants it in FIFO order.
    semaphore: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The exclusive lock of one call, released on drop.
pub(super) struct LockGuard {
    // Declared first so that it drops first: the permit is released while the queue is still in the
    // map.
    _permit: OwnedSemaphorePermit,
    _queue_ref: QueueRef,
}

/// Waits until no other call to the exclusive operation runs.
pub(super) async fn acquire(call: &CallState) -> Result<Box<LockGuard>, CallError> {
    let id = call.operation()?.id();
    if call.context.would_deadlock() {
        return Err(CallError::execution(format!(
            "{id} is exclusive and was called from within itself; the call would deadlock"
        )));
    }
    let queue_ref = call.shared.locks.queue_ref(id);
    let permit = queue_ref.acquire(call).await?;
    call.context.mark_lock_held();
    Ok(Box::new(LockGuard { _permit: permit, _queue_ref: queue_ref }))
}

impl ExclusiveLocks {
    pub(super) fn new(max_waiting: usize) -> Self {
        Self { queues: Arc::default(), max_waiting }
    }

    fn queue_ref(&self, id: &OperationId) -> QueueRef {
        let mut queues = self.queues.lock();
        let queue = queues.entry(id.clone()).or_insert_with(|| {
            Arc::new(LockQueue {
                semaphore: Arc::new(Semaphore::new(1)),
                waiting: AtomicUsize::new(0),
            })
        });
        QueueRef { id: id.clone(), queue: Arc::clone(queue), queues: Arc::clone(&self.queues) }
    }
}

/// A reference to a queue. The last reference removes the queue from the map.
struct QueueRef {
    id: OperationId,
    queue: Arc<LockQueue>,
    queues: Arc<Mutex<HashMap<OperationId, Arc<LockQueue>>>>,
}

impl QueueRef {
    async fn acquire(&self, call: &CallState) -> Result<OwnedSemaphorePermit, CallError> {
        if let Ok(permit) = Arc::clone(&self.queue.semaphore).try_acquire_owned() {
            return Ok(permit);
        }
        let _waiting = self.queue.enqueue(call.shared.locks.max_waiting, &self.id)?;
        let permit = call.until_canceled(Arc::clone(&self.queue.semaphore).acquire_owned()).await?;
        permit.map_err(|_| CallError::unknown("the queue of an exclusive operation was closed"))
    }
}

impl Drop for QueueRef {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        // Two references, the map's and this one: no other call uses the queue.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.id);
        }
    }
}

struct WaitGuard<'a>(&'a AtomicUsize);

impl LockQueue {
    fn enqueue(&self, max: usize, id: &OperationId) -> Result<WaitGuard<'_>, CallError> {
        let waiting = WaitGuard(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) < max {
            return Ok(waiting);
        }
        let message = format!("{max} calls are already waiting for {id}");
        Err(CallError::overloaded(message)
            .with_limit(Limit::ExclusiveQueue)
            .with_retry_after(DEFAULT_RETRY_AFTER))
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
