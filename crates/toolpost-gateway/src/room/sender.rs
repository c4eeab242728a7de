//! The bounded send queue of one participant; sending never blocks.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use tokio::sync::mpsc;
use toolpost::transport::{CloseHandle, CloseReason, Utf8Bytes};

use super::message::RejectionCode;
use super::state::RoomError;
use crate::auth::AccessEnd;

/// Maximum number of queued messages for a slow participant; above it, the participant is
/// disconnected.
const MAX_QUEUED_MESSAGES: usize = 8_192;
/// Maximum total size of the queued messages, in bytes.
const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct MessageSender {
    queue: mpsc::Sender<Utf8Bytes>,
    shared: Arc<ChannelState>,
}

#[derive(Debug)]
pub(crate) struct MessageReceiver {
    queue: mpsc::Receiver<Utf8Bytes>,
    shared: Arc<ChannelState>,
}

#[derive(Debug, Default)]
struct ChannelState {
    bytes: AtomicUsize,
    /// Whether a message was dropped. The queued ones are then not sent either.
    has_overflowed: AtomicBool,
    close_handle: CloseHandle,
}

/// Why the connection of a participant is closed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DisconnectCause {
    /// The same participant joined on a newer connection.
    Replaced,
    Kicked,
    /// The participant cannot join or stay.
    Rejected(RoomError),
    AccessEnded(AccessEnd),
    /// The send queue is full.
    TooSlow,
    /// A message exceeds the read limit of the connection.
    MessageTooLarge {
        max_bytes: usize,
    },
    JournalUnavailable,
    RoomClosed,
    GatewayStopping,
}

impl From<DisconnectCause> for CloseReason {
    fn from(cause: DisconnectCause) -> Self {
        let (code, message) = match cause {
            DisconnectCause::Replaced => {
                (4409, "replaced by a newer connection of this participant")
            }
            DisconnectCause::Kicked => (4403, "you were kicked from this room"),
            DisconnectCause::Rejected(RoomError { code, message, .. }) => {
                let code = match code {
                    RejectionCode::Unauthorized => Self::UNAUTHENTICATED,
                    RejectionCode::Unavailable => 1013,
                    _ => 4403,
                };
                return Self::new(code, message);
            }
            DisconnectCause::AccessEnded(access_end) => {
                let message = format!("{}; reconnect with a valid token", access_end.reason());
                return Self::new(Self::UNAUTHENTICATED, message);
            }
            DisconnectCause::TooSlow => (1013, "send queue full; rejoin and request the history"),
            DisconnectCause::MessageTooLarge { max_bytes } => {
                return Self::new(1009, format!("a message has at most {max_bytes} bytes"));
            }
            DisconnectCause::JournalUnavailable => {
                (1013, "the journal cannot be written; reconnect later")
            }
            DisconnectCause::RoomClosed => (1001, "the room is closed"),
            DisconnectCause::GatewayStopping => (1001, "the gateway is stopping"),
        };
        Self::new(code, message)
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
        if self.shared.close_handle.is_closed() {
            return;
        }
        let bytes = text.len();
        let before = self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_too_much = before > 0 && before + bytes > MAX_QUEUED_BYTES;
        if is_too_much || self.queue.try_send(text).is_err() {
            self.shared.has_overflowed.store(true, Ordering::Relaxed);
            self.close(DisconnectCause::TooSlow);
        }
    }

    pub(crate) fn close(&self, cause: DisconnectCause) {
        self.shared.close_handle.close(cause.into());
    }
}

impl MessageReceiver {
    /// Returns the handle that is closed when the connection must close.
    pub(crate) fn close_handle(&self) -> CloseHandle {
        self.shared.close_handle.clone()
    }
}

/// The queued messages; ends when the queue has overflowed or the room has closed.
impl Stream for MessageReceiver {
    type Item = Utf8Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Utf8Bytes>> {
        if self.shared.has_overflowed.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        self.queue.poll_recv(cx).map(|text| {
            match &text {
                Some(text) => drop(self.shared.bytes.fetch_sub(text.len(), Ordering::Relaxed)),
                None => self.shared.close_handle.close(DisconnectCause::RoomClosed.into()),
            }
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[test]
    fn slow_receiver_is_closed_when_queue_is_full() {
        for (text, room_for) in
            [("x", MAX_QUEUED_MESSAGES), (&*"x".repeat(MAX_QUEUED_BYTES / 4), 4)]
        {
            let (message_sender, mut message_receiver) = channel();
            let close_handle = message_receiver.close_handle();
            let text = Utf8Bytes::from(text);
            message_sender.send(text.clone());
            assert_eq!(message_receiver.next().now_or_never(), Some(Some(text.clone())));
            for _ in 0..room_for {
                message_sender.send(text.clone());
            }
            assert!(!close_handle.is_closed());
            message_sender.send(text.clone());
            assert_eq!(close_handle.reason().unwrap().code, 1013);
            message_sender.send("behind what was left out".into());
            assert_eq!(message_receiver.next().now_or_never(), Some(None));
        }
    }
}
