//! A WebSocket that carries text, read and written by one async task.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::Peekable;
use futures::{FutureExt, Sink, Stream, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

use super::WsSettings;
use crate::transport::{CloseHandle, CloseReason};

/// A WebSocket connection after the handshake, with its limits, pings and closing handshake. Clones
/// share the connection.
///
/// It spawns no async task: one async task polls both [`TextSocket::recv`] and [`TextSocket::run`].
pub struct TextSocket<S>(Arc<SocketInner<S>>);

struct SocketInner<S> {
    /// Never contended, because one async task polls both halves.
    stream: Mutex<WebSocketStream<S>>,
    settings: WsSettings,
    /// Number of frames accepted for sending.
    frames_sent: AtomicU64,
    start: Instant,
    /// Time of the last received frame, in milliseconds since `start`.
    last_received_ms: AtomicU64,
    /// Whether the peer sent a close frame.
    close_received: AtomicBool,
}

/// A data frame from the peer.
#[derive(Debug)]
pub enum DataFrame {
    /// A text frame.
    Text(Utf8Bytes),
    /// A binary frame.
    Binary(Bytes),
}

/// Why sending stops.
enum StopReason {
    /// The queue has ended.
    Done,
    /// The peer does not read what is sent.
    Stalled,
    /// The connection to the peer is lost.
    Disconnected(String),
}

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self::Disconnected(error.to_string())
    }
}

impl<S> Clone for TextSocket<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> std::fmt::Debug for TextSocket<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextSocket").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TextSocket<S> {
    /// Creates the server end over a stream whose handshake is complete. `buffered` holds the bytes
    /// already read after the handshake.
    pub async fn accept(stream: S, buffered: Vec<u8>, settings: WsSettings) -> Self {
        let config = Some(settings.config());
        let stream = WebSocketStream::from_partially_read(stream, buffered, Role::Server, config);
        Self::new(stream.await, settings)
    }

    pub(super) fn new(stream: WebSocketStream<S>, settings: WsSettings) -> Self {
        Self(Arc::new(SocketInner {
            stream: Mutex::new(stream),
            settings,
            frames_sent: AtomicU64::new(0),
            start: Instant::now(),
            last_received_ms: AtomicU64::new(0),
            close_received: AtomicBool::new(false),
        }))
    }

    /// Receives the next data frame.
    ///
    /// # Errors
    ///
    /// Returns the reason when the connection ends. The caller must pass it to the close handle of
    /// [`TextSocket::run`], which completes the closing handshake.
    pub async fn recv(&self) -> Result<DataFrame, CloseReason> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    pub(super) fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<DataFrame, CloseReason>> {
        loop {
            let read = ready!(self.lock().poll_next_unpin(cx));
            let elapsed = u64::try_from(self.0.start.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.0.last_received_ms.store(elapsed, Ordering::Relaxed);
            return Poll::Ready(match read {
                Some(Ok(Message::Text(text))) => Ok(DataFrame::Text(text)),
                Some(Ok(Message::Binary(bytes))) => Ok(DataFrame::Binary(bytes)),
                Some(Ok(Message::Close(frame))) => {
                    self.0.close_received.store(true, Ordering::Relaxed);
                    Err(frame.map_or_else(CloseReason::normal, |frame| {
                        CloseReason::new(frame.code.into(), frame.reason.as_str())
                    }))
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => Err(reason_from_error(&error)),
                None => Err(CloseReason::abnormal("connection closed without a close frame")),
            });
        }
    }

    /// Sends the queue and pings until the queue ends, the connection is lost or `close_handle` is
    /// closed, then completes the closing handshake. Closing sends the queued texts first, unless
    /// the peer does not read. `is_full` reports whether the queue is full, which means that the peer
    /// does not read if no frame is sent in the meantime.
    ///
    /// # Cancellation
    ///
    /// Dropping the future drops the connection without a close frame.
    pub async fn run(
        &self,
        queue: impl Stream<Item = Utf8Bytes> + Unpin,
        is_full: impl Fn() -> bool,
        close_handle: &CloseHandle,
    ) {
        let mut queue = queue.peekable();
        let stopped = tokio::select! {
            biased;
            stop = self.send_all(&mut queue, &is_full) => Some(stop),
            () = close_handle.closed() => None,
        };
        match &stopped {
            Some(StopReason::Done) => close_handle.close(CloseReason::normal()),
            Some(StopReason::Stalled) => {
                tracing::warn!("send queue stalled; closing connection");
                close_handle.close(CloseReason::too_slow());
            }
            // The close frame of the peer arrived while a message was sent; the response follows below.
            Some(StopReason::Disconnected(_)) if self.0.close_received.load(Ordering::Relaxed) => {}
            Some(StopReason::Disconnected(message)) => {
                return close_handle.close(CloseReason::abnormal(message));
            }
            None => {}
        }
        let is_stalled = matches!(stopped, Some(StopReason::Stalled));
        let queue = (!is_stalled).then_some(&mut queue);
        let reason = close_handle.reason().cloned().unwrap_or_else(CloseReason::normal);
        let closing = self.close_gracefully(queue, &reason);
        let _ = tokio::time::timeout(self.0.settings.close_timeout, closing).await;
    }

    /// Sends queued texts in batches, with one flush per batch, and pings at the configured
    /// interval.
    async fn send_all(
        &self,
        queue: &mut Peekable<impl Stream<Item = Utf8Bytes> + Unpin>,
        is_full: &impl Fn() -> bool,
    ) -> StopReason {
        let WsSettings { ping_interval, max_silent_intervals, .. } = self.0.settings;
        let mut ping = tokio::time::interval(ping_interval);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.reset();
        loop {
            let has_next = tokio::select! {
                biased;
                next = Pin::new(&mut *queue).peek() => Some(next.is_some()),
                _ = ping.tick() => None,
            };
            let sent = match has_next {
                Some(true) => {
                    let batch = async {
                        self.feed_queued(queue).await?;
                        self.flush().await
                    };
                    self.with_stall_timeout(batch, is_full).await
                }
                Some(false) => return StopReason::Done,
                None if self.idle_time() > max_silent_intervals * ping_interval => {
                    return StopReason::Disconnected("ping timeout".to_owned());
                }
                None => {
                    let ping = async {
                        self.feed(async { Message::Ping(Bytes::new()) }).await?;
                        self.flush().await
                    };
                    self.with_stall_timeout(ping, is_full).await
                }
            };
            if let Err(stop) = sent {
                return stop;
            }
        }
    }

    /// Runs `sending` and periodically checks for progress. A queue that stays full without a frame
    /// being sent means that the peer does not read. A long time without received data means that
    /// the peer is disconnected.
    async fn with_stall_timeout(
        &self,
        sending: impl Future<Output = Result<(), Error>>,
        is_full: &impl Fn() -> bool,
    ) -> Result<(), StopReason> {
        let mut sending = std::pin::pin!(sending);
        // A send that completes immediately needs no timer.
        if let Some(sent) = sending.as_mut().now_or_never() {
            return Ok(sent?);
        }
        let WsSettings { stall_timeout, ping_interval, max_silent_intervals, .. } = self.0.settings;
        let check_interval = (stall_timeout / 20).max(Duration::from_millis(1));
        let mut check_interval = tokio::time::interval(check_interval);
        let mut full_since: Option<(Instant, u64)> = None;
        loop {
            tokio::select! {
                biased;
                sent = &mut sending => return Ok(sent?),
                _ = check_interval.tick() => {}
            }
            // No pings are sent during a write, so an otherwise silent peer gets a longer timeout.
            if self.idle_time() > 2 * max_silent_intervals * ping_interval {
                let message = "no data received while sending";
                return Err(StopReason::Disconnected(message.to_owned()));
            }
            let frames_sent = self.0.frames_sent.load(Ordering::Relaxed);
            match full_since {
                _ if !is_full() => full_since = None,
                Some((since, before)) if before == frames_sent => {
                    if since.elapsed() >= stall_timeout {
                        return Err(StopReason::Stalled);
                    }
                }
                _ => full_since = Some((Instant::now(), frames_sent)),
            }
        }
    }

    /// Sends the queued texts and the close frame, then reads until the close frame of the peer:
    /// closing a socket with unread bytes would discard the close frame. If the peer sent its close
    /// frame first, this only acknowledges it.
    async fn close_gracefully(
        &self,
        queue: Option<&mut Peekable<impl Stream<Item = Utf8Bytes> + Unpin>>,
        reason: &CloseReason,
    ) {
        if self.0.close_received.load(Ordering::Relaxed) {
            return drop(self.flush().await);
        }
        if let Some(queue) = queue {
            // A peer that closed first accepts no more texts but still expects a close frame.
            let _ = self.feed_queued(queue).await;
        }
        // If the peer closed first, the close response is already queued and a second one fails;
        // the flush still sends the first.
        let fed = self.feed(async { Message::Close(close_frame(reason)) }).await;
        if self.flush().await.is_ok() && fed.is_ok() {
            self.drain_until_close().await;
        }
    }

    /// Feeds the queued texts. A text stays in the queue until the socket has capacity, so that
    /// canceling loses none.
    async fn feed_queued(
        &self,
        queue: &mut (impl Stream<Item = Utf8Bytes> + Unpin),
    ) -> Result<(), Error> {
        let feed = std::future::poll_fn(|cx| {
            let mut stream = self.lock();
            loop {
                ready!(Pin::new(&mut *stream).poll_ready(cx))?;
                let Poll::Ready(Some(text)) = queue.poll_next_unpin(cx) else {
                    return Poll::Ready(Ok(()));
                };
                self.0.frames_sent.fetch_add(1, Ordering::Relaxed);
                Pin::new(&mut *stream).start_send(Message::Text(text))?;
            }
        });
        // Otherwise a queue with texts can appear empty when the budget of the async task is spent.
        tokio::task::unconstrained(feed).await
    }

    /// Waits for capacity, then takes the message and feeds it.
    async fn feed(&self, message: impl Future<Output = Message>) -> Result<(), Error> {
        std::future::poll_fn(|cx| Pin::new(&mut *self.lock()).poll_ready(cx)).await?;
        self.0.frames_sent.fetch_add(1, Ordering::Relaxed);
        let message = message.await;
        Pin::new(&mut *self.lock()).start_send(message)
    }

    async fn flush(&self) -> Result<(), Error> {
        std::future::poll_fn(|cx| Pin::new(&mut *self.lock()).poll_flush(cx)).await
    }

    /// Reads and discards messages until the close frame of the peer; a browser then waits for the
    /// server to close the connection. If frames can no longer be read, discards raw bytes until
    /// the peer closes the connection.
    async fn drain_until_close(&self) {
        let next = || std::future::poll_fn(|cx| self.lock().poll_next_unpin(cx));
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

    /// Returns the time since the last received frame.
    fn idle_time(&self) -> Duration {
        let last_received = Duration::from_millis(self.0.last_received_ms.load(Ordering::Relaxed));
        self.0.start.elapsed().saturating_sub(last_received)
    }

    fn lock(&self) -> MutexGuard<'_, WebSocketStream<S>> {
        self.0.stream.lock()
    }
}

/// Builds the close frame. Codes 1005 and 1006 mean that no frame was received and are never sent.
fn close_frame(reason: &CloseReason) -> Option<CloseFrame> {
    // The reason in a close frame is limited to 123 bytes.
    let message = &reason.message[..reason.message.floor_char_boundary(123)];
    let is_sendable = !matches!(reason.code, 1005 | 1006);
    is_sendable.then(|| CloseFrame { code: CloseCode::from(reason.code), reason: message.into() })
}

fn reason_from_error(error: &Error) -> CloseReason {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => CloseReason::new(
            CloseReason::TOO_LARGE,
            format!("a frame of {size} bytes is over the limit of {max_size}"),
        ),
        Error::Capacity(error) => CloseReason::new(CloseReason::TOO_LARGE, error.to_string()),
        Error::Utf8(_) => CloseReason::new(1007, "a text frame is not UTF-8"),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) | Error::Io(_) => {
            CloseReason::abnormal("connection reset without a close frame")
        }
        Error::Protocol(error) => CloseReason::new(1002, error.to_string()),
        Error::ConnectionClosed | Error::AlreadyClosed => CloseReason::normal(),
        other => CloseReason::abnormal(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The peer reads nothing until the connection closes.
    #[tokio::test]
    async fn close_sends_queued_texts_in_order() {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let socket = TextSocket::accept(near, Vec::new(), WsSettings::default()).await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        let close_handle = CloseHandle::default();
        let texts = (0..200).map(|n| Utf8Bytes::from(format!("{n} {}", "x".repeat(10_000))));
        let queue = futures::stream::iter(texts).chain(futures::stream::pending());
        let mut running = std::pin::pin!(socket.run(queue, || false, &close_handle));
        assert!(futures::poll!(&mut running).is_pending());
        close_handle.close(CloseReason::new(1001, "it is over"));
        let reading = async {
            let mut received = Vec::new();
            while let Some(Ok(Message::Text(text))) = far.next().await {
                received.push(text.split(' ').next().unwrap().parse::<usize>().unwrap());
            }
            drop(far);
            received
        };
        let ((), received) = futures::join!(running, reading);
        assert_eq!(received, (0..200).collect::<Vec<_>>());
    }
}
