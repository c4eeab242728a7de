//! The values of a remote subscription on their way to their consumer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::ConnectionSettings;
use crate::error::CallError;
use crate::outcome::Outcome;

/// Where the connection puts values. The queue is bounded in number and bytes; a source that keeps
/// to the window never fills it, and one that does not is cut off.
pub(super) struct Sender {
    queue: mpsc::Sender<Outcome>,
    shared: Arc<Shared>,
    most_bytes: usize,
}

/// Where the consumer takes them.
pub(super) struct Receiver {
    queue: mpsc::Receiver<Outcome>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    bytes: AtomicUsize,
    /// The size of the largest value so far.
    largest: AtomicUsize,
    /// Why it ended, if not by itself; written before the sender is dropped.
    fate: Mutex<Option<CallError>>,
}

pub(super) fn channel(settings: &ConnectionSettings) -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::channel(settings.kept_values.max(settings.window as usize));
    let shared = Arc::new(Shared::default());
    let most_bytes = settings.kept_bytes;
    (
        Sender { queue: sender, shared: Arc::clone(&shared), most_bytes },
        Receiver { queue: receiver, shared },
    )
}

/// Values that nobody has parsed know their size; others never crossed a wire.
fn size(outcome: &Outcome) -> usize {
    outcome.envelope.data.as_raw().map_or(0, |raw| raw.get().len())
}

impl Sender {
    pub(super) fn send(&self, outcome: Outcome) -> Result<(), CallError> {
        let size = size(&outcome);
        self.shared.largest.fetch_max(size, Ordering::Relaxed);
        let before = self.shared.bytes.fetch_add(size, Ordering::Relaxed);
        if before > self.most_bytes {
            return Err(too_slow());
        }
        match self.queue.try_send(outcome) {
            // A consumer that has gone is about to take the request out.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(too_slow()),
        }
    }

    /// Whether the consumer has values left to take: it is then not the source that is silent.
    pub(super) fn lags(&self) -> bool {
        self.queue.capacity() < self.queue.max_capacity()
    }

    pub(super) fn end(self, fate: Option<CallError>) {
        *self.shared.fate.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }
}

fn too_slow() -> CallError {
    CallError::overloaded(
        "the values came faster than they were taken, and their source knows no window",
    )
}

impl Receiver {
    /// The next value; `None` is the end, for which [`Receiver::fate`] has the reason.
    pub(super) async fn next(&mut self) -> Option<Outcome> {
        let outcome = self.queue.recv().await?;
        self.shared.bytes.fetch_sub(size(&outcome), Ordering::Relaxed);
        Some(outcome)
    }

    /// The size of the largest value so far, in bytes.
    pub(super) fn largest(&self) -> usize {
        self.shared.largest.load(Ordering::Relaxed)
    }

    pub(super) fn fate(&self) -> Option<CallError> {
        self.shared.fate.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
