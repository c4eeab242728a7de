//! lock: calls of an exclusive operation run one after another, first come first served.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::SOON;
use super::state::CallState;
use crate::error::CallError;
use crate::spec::OperationId;

/// The queues of the exclusive operations that somebody is using now.
///
/// They are kept by id and not with the operation, so that an operation which is replaced while it
/// runs still runs alone.
pub(super) struct Locks {
    queues: Arc<Mutex<HashMap<OperationId, Arc<Queue>>>>,
    most_waiting: usize,
}

struct Queue {
    /// One permit; tokio hands it on in the order of asking.
    turn: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The turn of one call, passed on when it is dropped.
pub(super) struct LockGuard {
    // Before the place: the turn must be given back while the queue is still listed.
    _turn: OwnedSemaphorePermit,
    _place: Place,
}

pub(super) async fn acquire(call: &CallState) -> Result<Option<Box<LockGuard>>, CallError> {
    if !call.operation()?.spec().exclusive {
        return Ok(None);
    }
    // Boxed, so that other operations do not carry the room for it.
    Box::pin(acquire_turn(call)).await.map(Some)
}

async fn acquire_turn(call: &CallState) -> Result<Box<LockGuard>, CallError> {
    let id = call.operation()?.id();
    if call.context.waits_for_itself() {
        return Err(CallError::execution(format!(
            "{id} is exclusive and was called from inside itself; it would wait for ever"
        )));
    }
    let place = call.shared.locks.place(id);
    let turn = place.wait(call).await?;
    call.context.take_turn();
    Ok(Box::new(LockGuard { _turn: turn, _place: place }))
}

impl Locks {
    pub(super) fn new(most_waiting: usize) -> Self {
        Self { queues: Arc::default(), most_waiting }
    }

    fn place(&self, id: &OperationId) -> Place {
        let mut queues = lock(&self.queues);
        let queue = queues.entry(id.clone()).or_insert_with(|| {
            Arc::new(Queue { turn: Arc::new(Semaphore::new(1)), waiting: AtomicUsize::new(0) })
        });
        Place { id: id.clone(), queue: Arc::clone(queue), queues: Arc::clone(&self.queues) }
    }
}

/// One user of a queue; the last one takes the queue off the list.
struct Place {
    id: OperationId,
    queue: Arc<Queue>,
    queues: Arc<Mutex<HashMap<OperationId, Arc<Queue>>>>,
}

impl Place {
    async fn wait(&self, call: &CallState) -> Result<OwnedSemaphorePermit, CallError> {
        if let Ok(turn) = Arc::clone(&self.queue.turn).try_acquire_owned() {
            return Ok(turn);
        }
        let _waiting = self.queue.join(call.shared.locks.most_waiting, &self.id)?;
        let turn = call.while_wanted(Arc::clone(&self.queue.turn).acquire_owned()).await?;
        turn.map_err(|_| CallError::unknown("the queue of an exclusive operation was closed"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = lock(&self.queues);
        // The list's own reference and this one: nobody else is here or on the way.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.id);
        }
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Queue {
    fn join(&self, most: usize, id: &OperationId) -> Result<Waiting<'_>, CallError> {
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(waiting);
        }
        let message = format!("{most} calls are already waiting for {id}");
        Err(CallError::overloaded(message).with_limit("exclusive_queue").with_retry_after(SOON))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
