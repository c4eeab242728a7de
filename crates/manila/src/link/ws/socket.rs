//! One WebSocket, read and written from the two halves of one task.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use crate::link::{CloseReason, Closing};
use crate::protocol::{Event, FrameError};

/// The lock is never contended: both halves are polled by the task that owns the link.
pub(super) struct Socket<S>(Arc<Mutex<WebSocketStream<S>>>);

impl<S> Clone for Socket<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What is known about the far end: when it was last heard, and whether it said goodbye.
pub(super) struct FarEnd {
    start: Instant,
    at_ms: AtomicU64,
    has_closed: AtomicBool,
}

impl FarEnd {
    pub(super) fn new() -> Self {
        let (at_ms, has_closed) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { start: Instant::now(), at_ms, has_closed }
    }

    pub(super) fn has_closed(&self) -> bool {
        self.has_closed.load(Ordering::Relaxed)
    }

    pub(super) fn silence(&self) -> Duration {
        self.start
            .elapsed()
            .saturating_sub(Duration::from_millis(self.at_ms.load(Ordering::Relaxed)))
    }

    fn note(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at_ms.store(elapsed, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Socket<S> {
    pub(super) fn new(socket: WebSocketStream<S>) -> Self {
        Self(Arc::new(Mutex::new(socket)))
    }

    fn lock(&self) -> MutexGuard<'_, WebSocketStream<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the far end says, until it says no more; the reason is then in `closing`.
    pub(super) fn events(
        self,
        closing: Closing,
        far_end: Arc<FarEnd>,
    ) -> impl Stream<Item = Result<Event, FrameError>> + Send {
        futures::stream::poll_fn(move |cx| {
            loop {
                let read = ready!(Pin::new(&mut *self.lock()).poll_next(cx));
                far_end.note();
                let reason = match read {
                    Some(Ok(Message::Text(text))) => {
                        return Poll::Ready(Some(Event::from_json(&text)));
                    }
                    Some(Ok(Message::Binary(_))) => {
                        let error =
                            FrameError::new("a binary frame is not an event: frames are text");
                        return Poll::Ready(Some(Err(error)));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                    Some(Ok(Message::Close(frame))) => {
                        far_end.has_closed.store(true, Ordering::Relaxed);
                        said(frame)
                    }
                    Some(Err(error)) => blame(&error),
                    None => CloseReason::lost("the connection was closed without a word"),
                };
                closing.close(reason);
                return Poll::Ready(None);
            }
        })
    }

    pub(super) async fn feed(&self, event: Event) -> Result<(), String> {
        self.feed_message(Message::text(event.to_json())).await
    }

    pub(super) async fn feed_ping(&self) -> Result<(), String> {
        self.feed_message(Message::Ping(Bytes::new())).await
    }

    async fn feed_message(&self, message: Message) -> Result<(), String> {
        std::future::poll_fn(|cx| Pin::new(&mut *self.lock()).poll_ready(cx))
            .await
            .map_err(|error| error.to_string())?;
        Pin::new(&mut *self.lock()).start_send(message).map_err(|error| error.to_string())
    }

    pub(super) async fn flush(&self) -> Result<(), String> {
        std::future::poll_fn(|cx| Pin::new(&mut *self.lock()).poll_flush(cx))
            .await
            .map_err(|error| error.to_string())
    }

    pub(super) async fn close(&self, reason: &CloseReason) -> Result<(), String> {
        // To whoever closed first the answer is queued already, and a second is refused.
        let fed = self.feed_message(Message::Close(frame(reason))).await;
        self.flush().await?;
        fed
    }

    /// Reads and forgets until the far end has said goodbye too: a browser then waits for its server
    /// to hang up. Whoever does not speak in frames any more is read until it hangs up itself.
    pub(super) async fn discard(&self) {
        let next = || std::future::poll_fn(|cx| Pin::new(&mut *self.lock()).poll_next(cx));
        while let Some(Ok(message)) = next().await {
            if message.is_close() {
                return;
            }
        }
        let mut room = vec![0; 16 * 1024];
        while std::future::poll_fn(|cx| self.poll_discard(cx, &mut room)).await > 0 {}
    }

    fn poll_discard(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<usize> {
        let mut buffer = ReadBuf::new(room);
        let read = Pin::new(self.lock().get_mut()).poll_read(cx, &mut buffer);
        read.map(|read| read.map_or(0, |()| buffer.filled().len()))
    }
}

fn said(frame: Option<CloseFrame>) -> CloseReason {
    match frame {
        Some(frame) => CloseReason::new(frame.code.into(), frame.reason.as_str()),
        None => CloseReason::done(),
    }
}

/// The codes 1005 and 1006 stand for the absence of a frame and are never sent.
fn frame(reason: &CloseReason) -> Option<CloseFrame> {
    let is_sendable = !matches!(reason.code, 1005 | 1006);
    // A close frame has room for 123 bytes of words.
    let mut end = reason.words.len().min(120);
    while !reason.words.is_char_boundary(end) {
        end -= 1;
    }
    is_sendable.then(|| CloseFrame {
        code: CloseCode::from(reason.code),
        reason: reason.words[..end].into(),
    })
}

fn blame(error: &Error) -> CloseReason {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => CloseReason::new(
            1009,
            format!("a frame of {size} bytes is over the limit of {max_size}"),
        ),
        Error::Capacity(error) => CloseReason::new(1009, error.to_string()),
        Error::Utf8(_) => CloseReason::new(1007, "a text frame is not UTF-8"),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) | Error::Io(_) => {
            CloseReason::lost("the far end went away without a word")
        }
        Error::Protocol(error) => CloseReason::new(1002, error.to_string()),
        Error::ConnectionClosed | Error::AlreadyClosed => CloseReason::done(),
        other => CloseReason::lost(other.to_string()),
    }
}
