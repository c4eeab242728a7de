//! A WebSocket shared by the reading and the writing half of one async task.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use futures::{Sink, Stream};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use crate::error::CallError;
use crate::protocol::{CallEvent, FrameError};
use crate::transport::{CloseHandle, CloseReason};

/// A WebSocket shared by both halves of a channel.
pub(super) struct Socket<S>(Arc<SocketInner<S>>);

struct SocketInner<S> {
    /// Never contended: the async task that owns the channel polls both halves.
    stream: Mutex<WebSocketStream<S>>,
    /// Maximum size of an outgoing frame, in bytes.
    max_frame_bytes: usize,
    /// Failures for requests that were not sent because they exceed the frame limit; delivered as
    /// if the peer had rejected the requests.
    returned_events: Mutex<VecDeque<CallEvent>>,
    /// Wakes the reader when an event is added to `returned_events`.
    read_waker: AtomicWaker,
    /// Number of frames accepted for sending.
    frames_sent: AtomicU64,
    start: Instant,
    /// Time of the last received frame, in milliseconds since `start`.
    last_received_ms: AtomicU64,
    /// Whether the peer sent a close frame.
    close_received: AtomicBool,
}

impl<S> Clone for Socket<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Socket<S> {
    pub(super) fn new(stream: WebSocketStream<S>, max_frame_bytes: usize) -> Self {
        Self(Arc::new(SocketInner {
            stream: Mutex::new(stream),
            max_frame_bytes,
            returned_events: Mutex::default(),
            read_waker: AtomicWaker::new(),
            frames_sent: AtomicU64::new(0),
            start: Instant::now(),
            last_received_ms: AtomicU64::new(0),
            close_received: AtomicBool::new(false),
        }))
    }

    /// Number of frames accepted for sending.
    pub(super) fn frames_sent(&self) -> u64 {
        self.0.frames_sent.load(Ordering::Relaxed)
    }

    /// Whether the peer sent a close frame.
    pub(super) fn is_close_received(&self) -> bool {
        self.0.close_received.load(Ordering::Relaxed)
    }

    /// Returns the time since the last received frame.
    pub(super) fn idle_time(&self) -> Duration {
        let last_received = Duration::from_millis(self.0.last_received_ms.load(Ordering::Relaxed));
        self.0.start.elapsed().saturating_sub(last_received)
    }

    fn record_receive(&self) {
        let elapsed = u64::try_from(self.0.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_received_ms.store(elapsed, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, WebSocketStream<S>> {
        self.0.stream.lock()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Socket<S> {
    /// Returns the peer's events until the connection closes. The reason is then set on
    /// `close_handle`.
    pub(super) fn events(
        self,
        close_handle: CloseHandle,
    ) -> impl Stream<Item = Result<CallEvent, FrameError>> + Send {
        futures::stream::poll_fn(move |cx| {
            self.0.read_waker.register(cx.waker());
            if let Some(event) = self.0.returned_events.lock().pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            loop {
                let read = ready!(Pin::new(&mut *self.lock()).poll_next(cx));
                self.record_receive();
                let reason = match read {
                    Some(Ok(Message::Text(text))) => {
                        return Poll::Ready(Some(CallEvent::from_json(&text)));
                    }
                    Some(Ok(Message::Binary(_))) => {
                        let error =
                            FrameError::new("a binary frame is not an event: frames are text");
                        return Poll::Ready(Some(Err(error)));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                    Some(Ok(Message::Close(frame))) => {
                        self.0.close_received.store(true, Ordering::Relaxed);
                        reason_from_frame(frame)
                    }
                    Some(Err(error)) => reason_from_error(&error),
                    None => CloseReason::abnormal("connection closed without a close frame"),
                };
                close_handle.close(reason);
                return Poll::Ready(None);
            }
        })
    }

    pub(super) async fn feed_event(&self, event: CallEvent) -> Result<(), String> {
        let text = event.to_json();
        if text.len() <= self.0.max_frame_bytes {
            return self.feed_message(Message::text(text)).await;
        }
        let message = format!(
            "a frame of {} bytes is over the limit of {}, so it was not sent",
            text.len(),
            self.0.max_frame_bytes
        );
        match event {
            // The local caller receives an error: the request was not sent.
            CallEvent::Requested(request) => {
                let error = CallError::validation(message, &[]).not_sent();
                self.0
                    .returned_events
                    .lock()
                    .push_back(CallEvent::Failed { id: request.id, error });
                self.0.read_waker.wake();
                Ok(())
            }
            // The peer receives an error in place of the oversized response.
            response => {
                let error = CallError::execution(message);
                let failure = CallEvent::Failed { id: response.shared_id(), error };
                self.feed_message(Message::text(failure.to_json())).await
            }
        }
    }

    pub(super) async fn feed_ping(&self) -> Result<(), String> {
        self.feed_message(Message::Ping(Bytes::new())).await
    }

    async fn feed_message(&self, message: Message) -> Result<(), String> {
        std::future::poll_fn(|cx| Pin::new(&mut *self.lock()).poll_ready(cx))
            .await
            .map_err(|error| error.to_string())?;
        self.0.frames_sent.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut *self.lock()).start_send(message).map_err(|error| error.to_string())
    }

    pub(super) async fn flush(&self) -> Result<(), String> {
        std::future::poll_fn(|cx| Pin::new(&mut *self.lock()).poll_flush(cx))
            .await
            .map_err(|error| error.to_string())
    }

    pub(super) async fn close(&self, reason: &CloseReason) -> Result<(), String> {
        // If the peer closed first, the close response is already queued and a second one fails;
        // the flush still sends the first.
        let fed = self.feed_message(Message::Close(close_frame(reason))).await;
        self.flush().await?;
        fed
    }

    /// Reads and discards messages until the close frame of the peer; a browser then waits for the
    /// server to close the connection. If frames can no longer be read, discards raw bytes until
    /// the peer closes the connection.
    pub(super) async fn drain_until_close(&self) {
        let next = || std::future::poll_fn(|cx| Pin::new(&mut *self.lock()).poll_next(cx));
        while let Some(Ok(message)) = next().await {
            if message.is_close() {
                return;
            }
        }
        let mut scratch = vec![0; 16 * 1024];
        while std::future::poll_fn(|cx| self.poll_drain(cx, &mut scratch)).await > 0 {}
    }

    fn poll_drain(&self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<usize> {
        let mut buffer = ReadBuf::new(scratch);
        let read = Pin::new(self.lock().get_mut()).poll_read(cx, &mut buffer);
        read.map(|read| read.map_or(0, |()| buffer.filled().len()))
    }
}

fn reason_from_frame(frame: Option<CloseFrame>) -> CloseReason {
    match frame {
        Some(frame) => CloseReason::new(frame.code.into(), frame.reason.as_str()),
        None => CloseReason::normal(),
    }
}

/// Builds the close frame. Codes 1005 and 1006 mean that no frame was received and are never sent.
fn close_frame(reason: &CloseReason) -> Option<CloseFrame> {
    let is_sendable = !matches!(reason.code, 1005 | 1006);
    // The reason in a close frame is limited to 123 bytes.
    let mut end = reason.message.len().min(120);
    while !reason.message.is_char_boundary(end) {
        end -= 1;
    }
    is_sendable.then(|| CloseFrame {
        code: CloseCode::from(reason.code),
        reason: reason.message[..end].into(),
    })
}

fn reason_from_error(error: &Error) -> CloseReason {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => CloseReason::new(
            1009,
            format!("a frame of {size} bytes is over the limit of {max_size}"),
        ),
        Error::Capacity(error) => CloseReason::new(1009, error.to_string()),
        Error::Utf8(_) => CloseReason::new(1007, "a text frame is not UTF-8"),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) | Error::Io(_) => {
            CloseReason::abnormal("connection reset without a close frame")
        }
        Error::Protocol(error) => CloseReason::new(1002, error.to_string()),
        Error::ConnectionClosed | Error::AlreadyClosed => CloseReason::normal(),
        other => CloseReason::abnormal(other.to_string()),
    }
}
