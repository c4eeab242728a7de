//! The bounded send queue of one participant; sending never blocks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::sync::CancellationToken;

/// Maximum number of queued messages for a slow participant; above it, the participant is
/// disconnected.
const MAX_QUEUED_MESSAGES: usize = 8_192;
/// Maximum total size of the queued messages, in bytes.
const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// The sending half, held by the room.
#[derive(Debug, Clone)]
pub(crate) struct MessageSender {
    queue: mpsc::Sender<Utf8Bytes>,
    shared: Arc<ChannelState>,
}

/// The receiving half, held by the participant's connection.
#[derive(Debug)]
pub(crate) struct MessageReceiver {
    queue: mpsc::Receiver<Utf8Bytes>,
    shared: Arc<ChannelState>,
}

#[derive(Debug, Default)]
struct ChannelState {
    bytes: AtomicUsize,
    closed: CancellationToken,
    close_reason: OnceLock<CloseReason>,
}

/// Close code and reason of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CloseReason {
    pub(crate) code: u16,
    pub(crate) reason: String,
    /// Whether queued messages are sent before the connection closes.
    pub(crate) flush_first: bool,
}

impl CloseReason {
    pub(crate) fn new(code: u16, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), flush_first: true }
    }

    fn too_slow() -> Self {
        let reason = "send queue full; rejoin and request the history".to_owned();
        Self { code: 1013, reason, flush_first: false }
    }
}

pub(crate) fn channel() -> (MessageSender, MessageReceiver) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let shared = Arc::<ChannelState>::default();
    let message_sender = MessageSender { queue: sender, shared: Arc::clone(&shared) };
    (message_sender, MessageReceiver { queue: receiver, shared })
}

impl MessageSender {
    /// Queues a message. If the queue is full, the participant is disconnected: other participants
    /// do not wait, and the client never misses a message unnoticed.
    pub(crate) fn send(&self, text: Utf8Bytes) {
        // Nothing is sent after a dropped message, even if the queue has capacity again.
        if self.shared.closed.is_cancelled() {
            return;
        }
        let bytes = text.len();
        let before = self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_too_much = before > 0 && before + bytes > MAX_QUEUED_BYTES;
        if is_too_much || self.queue.try_send(text).is_err() {
            self.close(CloseReason::too_slow());
        }
    }

    /// Closes the connection. Only the first reason is kept.
    pub(crate) fn close(&self, close_reason: CloseReason) {
        let _ = self.shared.close_reason.set(close_reason);
        self.shared.closed.cancel();
    }
}

impl MessageReceiver {
    /// Receives the next message; `None` when all senders are dropped.
    pub(crate) async fn recv(&mut self) -> Option<Utf8Bytes> {
        let text = self.queue.recv().await?;
        self.release_bytes(&text);
        Some(text)
    }

    /// Returns the next message if one is queued.
    pub(crate) fn try_recv(&mut self) -> Option<Utf8Bytes> {
        let text = self.queue.try_recv().ok()?;
        self.release_bytes(&text);
        Some(text)
    }

    fn release_bytes(&self, text: &Utf8Bytes) {
        self.shared.bytes.fetch_sub(text.len(), Ordering::Relaxed);
    }

    /// Returns a token that is canceled when the connection must close.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.shared.closed.clone()
    }

    pub(crate) fn close_reason(&self) -> CloseReason {
        let default_reason = || CloseReason::new(1001, "the room is closed");
        self.shared.close_reason.get().cloned().unwrap_or_else(default_reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_receiver_is_closed_when_queue_is_full() {
        for (text, room_for) in
            [("x", MAX_QUEUED_MESSAGES), (&*"x".repeat(MAX_QUEUED_BYTES / 4), 4)]
        {
            let (message_sender, mut message_receiver) = channel();
            let text = Utf8Bytes::from(text);
            for _ in 0..room_for {
                message_sender.send(text.clone());
            }
            assert!(!message_receiver.closed().is_cancelled());
            message_sender.send(text.clone());
            assert!(message_receiver.closed().is_cancelled());
            assert_eq!(message_receiver.close_reason().code, 1013);
            assert_eq!(message_receiver.try_recv(), Some(text.clone()));
            message_sender.send("behind what was left out".into());
            assert!(
                std::iter::from_fn(|| message_receiver.try_recv()).all(|waiting| waiting == text)
            );
        }
    }
}
