//! WebSocket transport: one text frame per event.

mod client;
mod socket;

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use self::socket::Socket;
use super::{Channel, CloseHandle, CloseReason, SEND_QUEUE_CAPACITY};
use crate::protocol::CallEvent;

pub use client::WsConnector;

/// Limits and timeouts of a WebSocket connection.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct WsSettings {
    /// Maximum frame size, in bytes. A larger frame closes the connection with code 1009.
    pub max_frame_bytes: usize,
    /// Interval between pings. A peer that is silent for more than two intervals is disconnected.
    pub ping_interval: Duration,
    /// Maximum time the send queue can stay full before the connection closes with code 1013.
    pub stall_timeout: Duration,
    /// Maximum time for the closing handshake, in which the peer receives the close reason.
    pub close_timeout: Duration,
    /// Timeout for establishing a connection.
    pub connect_timeout: Duration,
}

impl Default for WsSettings {
    fn default() -> Self {
        Self {
            max_frame_bytes: 16 * 1024 * 1024,
            ping_interval: Duration::from_secs(15),
            stall_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl WsSettings {
    fn config(self) -> WebSocketConfig {
        WebSocketConfig::default()
            .max_message_size(Some(self.max_frame_bytes))
            .max_frame_size(Some(self.max_frame_bytes))
            .read_buffer_size(32 * 1024)
    }
}

/// Returns the `Sec-WebSocket-Accept` value for a client's key.
pub fn accept_key(key: &[u8]) -> String {
    tokio_tungstenite::tungstenite::handshake::derive_accept_key(key)
}

/// Creates the server end of a channel over a stream whose handshake is complete. `buffered` holds
/// the bytes already read after the handshake.
pub async fn accept_ws<S>(stream: S, buffered: Vec<u8>, settings: WsSettings) -> Channel
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = Some(settings.config());
    let socket = WebSocketStream::from_partially_read(stream, buffered, Role::Server, config).await;
    open_channel(socket, settings)
}

fn open_channel<S>(socket: WebSocketStream<S>, settings: WsSettings) -> Channel
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let close_handle = CloseHandle::default();
    let (outgoing, queue) = mpsc::channel(SEND_QUEUE_CAPACITY);
    let socket = Socket::new(socket, settings.max_frame_bytes);
    let events = socket.clone().events(close_handle.clone());
    let sending = SocketWriter { socket, queue: outgoing.downgrade(), settings };
    let pump = Pump { writer: sending, queue, close_handle: close_handle.clone() };
    Channel { outgoing, incoming: events.boxed(), pump: pump.run().boxed(), close_handle }
}

struct Pump<S> {
    writer: SocketWriter<S>,
    queue: mpsc::Receiver<CallEvent>,
    close_handle: CloseHandle,
}

/// Why the pump stops sending.
enum StopReason {
    /// All senders are dropped.
    Done,
    /// The peer does not read what is sent.
    Stalled,
    /// The connection to the peer is lost.
    Disconnected(String),
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Pump<S> {
    async fn run(mut self) {
        let close_handle = self.close_handle.clone();
        let stopped = tokio::select! {
            biased;
            stop = self.send_all() => Some(stop),
            () = close_handle.closed() => None,
        };
        match stopped {
            Some(StopReason::Done) => close_handle.close(CloseReason::normal()),
            Some(StopReason::Stalled) => {
                tracing::warn!("send queue stalled; closing connection");
                close_handle.close(CloseReason::too_slow());
            }
            Some(StopReason::Disconnected(message)) => {
                close_handle.close(CloseReason::abnormal(message));
                return;
            }
            None => {}
        }
        let close_timeout = self.writer.settings.close_timeout;
        let _ = tokio::time::timeout(close_timeout, self.close_gracefully()).await;
    }

    /// Sends queued events in batches, with one flush per batch, and pings at the configured
    /// interval.
    async fn send_all(&mut self) -> StopReason {
        let every = self.writer.settings.ping_interval;
        let mut ping = tokio::time::interval(every);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ping.reset();
        loop {
            let event = tokio::select! {
                biased;
                event = self.queue.recv() => Some(event),
                _ = ping.tick() => None,
            };
            let sent = match event {
                Some(Some(event)) => self.send(event).await,
                Some(None) => return StopReason::Done,
                None if self.writer.socket.idle_time() > 2 * every => {
                    return StopReason::Disconnected("ping timeout".to_owned());
                }
                None => self.writer.ping().await,
            };
            if let Err(stop) = sent {
                return stop;
            }
        }
    }

    async fn send(&mut self, first: CallEvent) -> Result<(), StopReason> {
        let Self { writer: sending, queue, .. } = self;
        let socket = &sending.socket;
        let all = async {
            socket.feed_event(first).await?;
            while let Ok(event) = queue.try_recv() {
                socket.feed_event(event).await?;
            }
            socket.flush().await
        };
        sending.with_stall_timeout(all).await
    }

    /// Sends the queued events and the close frame, then reads until the close frame of the peer:
    /// closing a socket with unread bytes would discard the close frame. If the peer sent its close
    /// frame first, this only acknowledges it.
    async fn close_gracefully(mut self) {
        let socket = &self.writer.socket;
        if socket.is_close_received() {
            return drop(socket.flush().await);
        }
        let reason = self.close_handle.reason().cloned().unwrap_or_else(CloseReason::normal);
        if reason.code != CloseReason::TOO_SLOW {
            while let Ok(event) = self.queue.try_recv() {
                // A peer that closed first accepts no more events but still expects a close frame.
                if socket.feed_event(event).await.is_err() {
                    break;
                }
            }
        }
        if socket.close(&reason).await.is_ok() {
            socket.drain_until_close().await;
        }
    }
}

/// The write half, with the state checked during writes.
struct SocketWriter<S> {
    socket: Socket<S>,
    /// Used to check whether the send queue is full while it is drained.
    queue: mpsc::WeakSender<CallEvent>,
    settings: WsSettings,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> SocketWriter<S> {
    async fn ping(&self) -> Result<(), StopReason> {
        let ping = async {
            self.socket.feed_ping().await?;
            self.socket.flush().await
        };
        self.with_stall_timeout(ping).await
    }

    /// Runs `sending` and periodically checks for progress. A queue that stays full without a frame
    /// being sent means that the peer does not read. A long time without received data means that
    /// the peer is gone.
    async fn with_stall_timeout(
        &self,
        sending: impl Future<Output = Result<(), String>>,
    ) -> Result<(), StopReason> {
        let mut sending = std::pin::pin!(sending);
        // A send that completes immediately needs no timer.
        if let Some(sent) = sending.as_mut().now_or_never() {
            return sent.map_err(StopReason::Disconnected);
        }
        let stall = self.settings.stall_timeout;
        let mut check_interval = tokio::time::interval((stall / 20).max(Duration::from_millis(1)));
        let mut full_since: Option<(Instant, u64)> = None;
        loop {
            tokio::select! {
                biased;
                sent = &mut sending => return sent.map_err(StopReason::Disconnected),
                _ = check_interval.tick() => {}
            }
            // No pings are sent during a write, so an otherwise silent peer gets a longer timeout.
            if self.socket.idle_time() > 4 * self.settings.ping_interval {
                let message = "no data received while sending";
                return Err(StopReason::Disconnected(message.to_owned()));
            }
            let is_full = self.queue.upgrade().is_some_and(|sender| sender.capacity() == 0);
            let fed = self.socket.frames_sent();
            match full_since {
                _ if !is_full => full_since = None,
                Some((since, before)) if before == fed => {
                    if since.elapsed() >= stall {
                        return Err(StopReason::Stalled);
                    }
                }
                _ => full_since = Some((Instant::now(), fed)),
            }
        }
    }
}
