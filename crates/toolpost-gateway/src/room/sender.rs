//! The way to one participant: a queue that nobody waits for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::sync::CancellationToken;

/// How many messages wait for a participant who reads slowly; with one more he is let go.
const MAX_QUEUED_MESSAGES: usize = 8_192;
/// How many bytes these may have together.
const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// The room's end.
#[derive(Debug, Clone)]
pub(crate) struct MessageSender {
    queue: mpsc::Sender<Utf8Bytes>,
    shared: Arc<ChannelState>,
}

/// The participant's end.
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

/// Why a connection ends, as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CloseReason {
    pub(crate) code: u16,
    pub(crate) reason: String,
    /// Whether what waits is sent before.
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
    /// Hands something over. Whoever has left too much unread is let go: others do not wait for him, and
    /// nothing is left out that he believes to have seen.
    pub(crate) fn send(&self, text: Utf8Bytes) {
        // Nothing follows what was left out, even if there is a place again.
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

    /// Ends the connection; the first reason counts.
    pub(crate) fn close(&self, close_reason: CloseReason) {
        let _ = self.shared.close_reason.set(close_reason);
        self.shared.closed.cancel();
    }
}

impl MessageReceiver {
    /// What is next; nothing when there is nobody any more who could send.
    pub(crate) async fn recv(&mut self) -> Option<Utf8Bytes> {
        let text = self.queue.recv().await?;
        self.release_bytes(&text);
        Some(text)
    }

    /// What is there already.
    pub(crate) fn try_recv(&mut self) -> Option<Utf8Bytes> {
        let text = self.queue.try_recv().ok()?;
        self.release_bytes(&text);
        Some(text)
    }

    fn release_bytes(&self, text: &Utf8Bytes) {
        self.shared.bytes.fetch_sub(text.len(), Ordering::Relaxed);
    }

    /// Resolves when the connection shall end.
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
