//! Bounded queue between a remote subscription and its consumer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::ConnectionSettings;
use crate::error::CallError;
use crate::outcome::Outcome;

/// Sending half of a value queue, used by the connection. The queue is bounded by count and bytes.
/// A source that respects the window never fills it; any other source is cut off.
pub(super) struct ValueSender {
    queue: mpsc::Sender<Outcome>,
    shared: Arc<StreamShared>,
    max_bytes: usize,
}

/// The consumer's end of the queue.
pub(super) struct ValueReceiver {
    queue: mpsc::Receiver<Outcome>,
    shared: Arc<StreamShared>,
}

#[derive(Default)]
struct StreamShared {
    buffered_bytes: AtomicUsize,
    /// Size of the largest value so far, in bytes.
    largest_value: AtomicUsize,
    /// The error that ended the stream, if any. Set before the sender is dropped.
    error: Mutex<Option<CallError>>,
}

pub(super) fn channel(settings: &ConnectionSettings) -> (ValueSender, ValueReceiver) {
    let (sender, receiver) =
        mpsc::channel(settings.max_buffered_values.max(settings.max_window as usize));
    let shared = Arc::new(StreamShared::default());
    let max_bytes = settings.max_buffered_bytes;
    (
        ValueSender { queue: sender, shared: Arc::clone(&shared), max_bytes },
        ValueReceiver { queue: receiver, shared },
    )
}

/// Size of a value in bytes. A parsed value counts as 0: it was not received.
fn value_size(outcome: &Outcome) -> usize {
    outcome.envelope.data.as_raw().map_or(0, |raw| raw.get().len())
}

impl ValueSender {
    pub(super) fn send(&self, outcome: Outcome) -> Result<(), CallError> {
        let size = value_size(&outcome);
        self.shared.largest_value.fetch_max(size, Ordering::Relaxed);
        let before = self.shared.buffered_bytes.fetch_add(size, Ordering::Relaxed);
        if before > self.max_bytes {
            return Err(too_slow());
        }
        match self.queue.try_send(outcome) {
            // Closed: the consumer was dropped and is about to remove the request.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(too_slow()),
        }
    }

    /// Whether the consumer has unread values; then the source is not idle.
    pub(super) fn is_lagging(&self) -> bool {
        self.queue.capacity() < self.queue.max_capacity()
    }

    pub(super) fn close(self, error: Option<CallError>) {
        *self.shared.error.lock() = error;
    }
}

fn too_slow() -> CallError {
    CallError::overloaded("the consumer is too slow, and the source does not support flow control")
}

impl ValueReceiver {
    /// Returns the next value; `None` at the end. [`ValueReceiver::take_error`] returns the reason.
    pub(super) async fn next(&mut self) -> Option<Outcome> {
        let outcome = self.queue.recv().await?;
        self.shared.buffered_bytes.fetch_sub(value_size(&outcome), Ordering::Relaxed);
        Some(outcome)
    }

    /// Returns the size of the largest value so far, in bytes.
    pub(super) fn largest_value(&self) -> usize {
        self.shared.largest_value.load(Ordering::Relaxed)
    }

    pub(super) fn take_error(&self) -> Option<CallError> {
        self.shared.error.lock().take()
    }
}
