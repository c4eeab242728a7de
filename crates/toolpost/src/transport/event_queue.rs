//! The send queue of a channel, bounded by the number of events and by their size.
//!
//! When the size is reached, the connection hardly reads and polls no streams. Responses of calls
//! that were already running are queued beyond it; a peer that does not read them is disconnected.
//! Requests have no size here: their callers bound them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{CloseHandle, CloseReason, SEND_QUEUE_CAPACITY};
use crate::json::text_bytes;
use crate::payload::Payload;
use crate::protocol::CallEvent;

/// Ratio of the size at which a peer is disconnected to the size at which no more is read.
const MAX_EXCESS: usize = 8;

/// Approximate size of an event without its payload.
const EVENT_BYTES: usize = 256;

/// Sending half; clones share the queue.
#[derive(Clone)]
pub(crate) struct EventSender {
    queue: mpsc::Sender<QueuedEvent>,
    size: Arc<QueueSize>,
}

/// Receiving half, read by the pump.
pub(crate) struct EventReceiver(mpsc::Receiver<QueuedEvent>);

struct QueuedEvent {
    event: CallEvent,
    _bytes: QueuedBytes,
}

struct QueueSize {
    bytes: AtomicUsize,
    max_bytes: usize,
    /// Notified when the size falls below the maximum.
    has_capacity: Notify,
    close_handle: CloseHandle,
}

/// The size of one event, subtracted on drop.
struct QueuedBytes {
    bytes: usize,
    size: Arc<QueueSize>,
}

pub(super) fn channel(
    max_bytes: usize,
    close_handle: &CloseHandle,
) -> (EventSender, EventReceiver) {
    let (queue, receiver) = mpsc::channel(SEND_QUEUE_CAPACITY);
    let size = QueueSize {
        bytes: AtomicUsize::new(0),
        max_bytes,
        has_capacity: Notify::new(),
        close_handle: close_handle.clone(),
    };
    (EventSender { queue, size: Arc::new(size) }, EventReceiver(receiver))
}

impl EventSender {
    /// Queues an event if there is capacity; otherwise returns it.
    #[expect(
        clippy::result_large_err,
        reason = "the error returns the event, like that of the channel"
    )]
    pub(crate) fn try_send(&self, event: CallEvent) -> Result<(), TrySendError<CallEvent>> {
        if self.size.is_full() {
            return Err(TrySendError::Full(event));
        }
        self.queue.try_send(self.queued(event)).map_err(|rejected| match rejected {
            TrySendError::Full(queued) => TrySendError::Full(queued.event),
            TrySendError::Closed(queued) => TrySendError::Closed(queued.event),
        })
    }

    /// Waits for a place and queues an event. Fails if the channel has ended. A peer that leaves
    /// much more than the maximum unread is disconnected.
    pub(crate) async fn send(&self, event: CallEvent) -> Result<(), ChannelEnded> {
        let queued = self.queued(event);
        let QueueSize { bytes, max_bytes, close_handle, .. } = &*self.size;
        if bytes.load(Ordering::Relaxed) > max_bytes.saturating_mul(MAX_EXCESS) {
            close_handle.close(CloseReason::too_slow());
            return Err(ChannelEnded);
        }
        self.queue.send(queued).await.map_err(|_| ChannelEnded)
    }

    /// Returns the number of events that can be queued.
    pub(crate) fn capacity(&self) -> usize {
        if self.size.is_full() { 0 } else { self.queue.capacity() }
    }

    /// Whether the size of the queued events is below the maximum.
    pub(crate) fn has_size_capacity(&self) -> bool {
        !self.size.is_full()
    }

    /// Waits until there is capacity, without reserving it.
    pub(crate) async fn ready(&self) {
        loop {
            let mut notified = std::pin::pin!(self.size.has_capacity.notified());
            // Registered before the check, so that no notification is missed.
            notified.as_mut().enable();
            if !self.size.is_full() {
                break;
            }
            tokio::select! {
                () = notified => {}
                () = self.queue.closed() => return,
            }
        }
        // Fails only if the channel has ended.
        drop(self.queue.reserve().await);
    }

    /// Resolves when the channel has ended.
    pub(super) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Returns a function that reports whether the queue is full. It does not keep the queue open.
    #[cfg(feature = "ws")]
    pub(super) fn fullness(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (queue, size) = (self.queue.downgrade(), Arc::clone(&self.size));
        move || size.is_full() || queue.upgrade().is_some_and(|queue| queue.capacity() == 0)
    }

    fn queued(&self, event: CallEvent) -> QueuedEvent {
        let bytes = event_bytes(&event);
        self.size.bytes.fetch_add(bytes, Ordering::Relaxed);
        QueuedEvent { event, _bytes: QueuedBytes { bytes, size: Arc::clone(&self.size) } }
    }
}

/// The channel has ended, so an event was not sent.
#[derive(Debug)]
pub(crate) struct ChannelEnded;

impl EventReceiver {
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        self.0.poll_recv(cx).map(|queued| queued.map(|queued| queued.event))
    }
}

impl QueueSize {
    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.max_bytes
    }
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        let before = self.size.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if before >= self.size.max_bytes && !self.size.is_full() {
            self.size.has_capacity.notify_waiters();
        }
    }
}

fn event_bytes(event: &CallEvent) -> usize {
    EVENT_BYTES
        + match event {
            CallEvent::Responded { outcome, .. } => payload_bytes(&outcome.envelope.data),
            CallEvent::Failed { error, .. } => error.message().len(),
            _ => 0,
        }
}

fn payload_bytes(payload: &Payload) -> usize {
    match payload.as_raw() {
        Some(raw) => raw.get().len(),
        None => payload.as_value().map_or(0, text_bytes),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::envelope::Envelope;
    use crate::outcome::Outcome;

    fn response(bytes: usize) -> CallEvent {
        let envelope = Envelope::local(json!("x".repeat(bytes)).into(), "a.b");
        CallEvent::Responded { id: "1".into(), outcome: Outcome::new(envelope) }
    }

    #[tokio::test]
    async fn queue_is_full_by_size_until_events_are_read() {
        let close_handle = CloseHandle::default();
        let (sender, mut receiver) = channel(10_000, &close_handle);
        for _ in 0..2 {
            assert!(sender.try_send(response(6_000)).is_ok());
        }
        assert_eq!(sender.capacity(), 0);
        assert!(matches!(sender.try_send(response(1)), Err(TrySendError::Full(_))));
        let mut ready = Box::pin(sender.ready());
        assert!((&mut ready).now_or_never().is_none());
        assert!(std::future::poll_fn(|cx| receiver.poll_recv(cx)).await.is_some());
        assert!((&mut ready).now_or_never().is_some());
        assert!(sender.try_send(response(1)).is_ok());
        assert!(!close_handle.is_closed());
    }

    #[tokio::test]
    async fn peer_that_reads_nothing_is_disconnected_by_size() {
        let close_handle = CloseHandle::default();
        let (sender, _receiver) = channel(10_000, &close_handle);
        for number in 0..16 {
            let sent = sender.send(response(6_000)).now_or_never();
            let is_closed = close_handle.is_closed();
            assert_eq!(sent.is_some_and(|sent| sent.is_ok()), !is_closed, "{number}");
        }
        assert_eq!(close_handle.reason().map(|reason| reason.code), Some(CloseReason::TOO_SLOW));
    }
}
