//! A link over WebSocket: one text frame for each event.

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
use super::{CloseReason, Closing, Link, QUEUE};
use crate::protocol::Event;

pub use client::WsConnector;

/// The numbers that bound a WebSocket.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct WsSettings {
    /// The largest frame that is taken, in bytes; a larger one ends the link with 1009.
    pub frame_bytes: usize,
    /// How often a ping is sent. A peer that was silent for more than two of them is gone.
    pub ping: Duration,
    /// How long the send queue may stay full before the link ends with 1013.
    pub stall: Duration,
    /// How long the end of a link may take, so that the far end hears the reason.
    pub farewell: Duration,
    /// How long a connection may take to be made.
    pub connect: Duration,
}

impl Default for WsSettings {
    fn default() -> Self {
        Self {
            frame_bytes: 16 * 1024 * 1024,
            ping: Duration::from_secs(15),
            stall: Duration::from_secs(10),
            farewell: Duration::from_secs(5),
            connect: Duration::from_secs(10),
        }
    }
}

impl WsSettings {
    fn config(self) -> WebSocketConfig {
        WebSocketConfig::default()
            .max_message_size(Some(self.frame_bytes))
            .max_frame_size(Some(self.frame_bytes))
            .read_buffer_size(32 * 1024)
    }
}

/// The value of `Sec-WebSocket-Accept` for a client's key.
pub fn accept_key(key: &[u8]) -> String {
    tokio_tungstenite::tungstenite::handshake::derive_accept_key(key)
}

/// The serving end of a link, over a stream on which the handshake is done; `read` is what came
/// behind it.
pub async fn ws<S>(stream: S, read: Vec<u8>, settings: WsSettings) -> Link
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = Some(settings.config());
    let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, config).await;
    link(socket, settings)
}

fn link<S>(socket: WebSocketStream<S>, settings: WsSettings) -> Link
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let closing = Closing::default();
    let (outgoing, queue) = mpsc::channel(QUEUE);
    let socket = Socket::new(socket, settings.frame_bytes);
    let events = socket.clone().events(closing.clone());
    let sending = Sending { socket, room: outgoing.downgrade(), settings };
    let pump = Pump { sending, queue, closing: closing.clone() };
    Link { outgoing, incoming: events.boxed(), pump: pump.run().boxed(), closing }
}

struct Pump<S> {
    sending: Sending<S>,
    queue: mpsc::Receiver<Event>,
    closing: Closing,
}

/// Why the pump stops sending.
enum Stop {
    /// Nobody can queue any more.
    Done,
    /// The far end does not take what it is sent.
    Stalled,
    /// The far end is not there.
    Lost(String),
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Pump<S> {
    async fn run(mut self) {
        let closing = self.closing.clone();
        let stopped = tokio::select! {
            biased;
            stop = self.send_all() => Some(stop),
            () = closing.closed() => None,
        };
        match stopped {
            Some(Stop::Done) => closing.close(CloseReason::done()),
            Some(Stop::Stalled) => {
                tracing::warn!("a peer did not read, and is closed");
                closing.close(CloseReason::too_slow());
            }
            Some(Stop::Lost(words)) => {
                closing.close(CloseReason::lost(words));
                return;
            }
            None => {}
        }
        let farewell = self.sending.settings.farewell;
        let _ = tokio::time::timeout(farewell, self.say_goodbye()).await;
    }

    /// What is queued goes out together: one flush for as much as there is.
    async fn send_all(&mut self) -> Stop {
        let every = self.sending.settings.ping;
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
                Some(None) => return Stop::Done,
                None if self.sending.socket.silence() > 2 * every => {
                    return Stop::Lost("no answer to pings".to_owned());
                }
                None => self.sending.ping().await,
            };
            if let Err(stop) = sent {
                return stop;
            }
        }
    }

    async fn send(&mut self, first: Event) -> Result<(), Stop> {
        let Self { sending, queue, .. } = self;
        let socket = &sending.socket;
        let all = async {
            socket.feed(first).await?;
            while let Ok(event) = queue.try_recv() {
                socket.feed(event).await?;
            }
            socket.flush().await
        };
        sending.unless_stalled(all).await
    }

    /// Sends what is still queued and the reason, then reads what the far end had under way: closing
    /// a socket with unread bytes would take the reason back. A far end that said goodbye first is
    /// answered, and waits for us to hang up.
    async fn say_goodbye(mut self) {
        let socket = &self.sending.socket;
        if socket.is_left() {
            return drop(socket.flush().await);
        }
        let reason = self.closing.reason().cloned().unwrap_or_else(CloseReason::done);
        if reason.code != CloseReason::TOO_SLOW {
            while let Ok(event) = self.queue.try_recv() {
                // Whoever closed first takes no more, and still waits for its answer.
                if socket.feed(event).await.is_err() {
                    break;
                }
            }
        }
        if socket.close(&reason).await.is_ok() {
            socket.discard().await;
        }
    }
}

/// The writing half, and what is looked at while it writes.
struct Sending<S> {
    socket: Socket<S>,
    /// To see whether the queue is full while it is being emptied.
    room: mpsc::WeakSender<Event>,
    settings: WsSettings,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Sending<S> {
    async fn ping(&self) -> Result<(), Stop> {
        let ping = async {
            self.socket.feed_ping().await?;
            self.socket.flush().await
        };
        self.unless_stalled(ping).await
    }

    /// Sends, and looks from time to time whether anything moves: a queue that stays full without
    /// losing a single event means a peer that does not read, and a long silence one that is not
    /// there.
    async fn unless_stalled(
        &self,
        sending: impl Future<Output = Result<(), String>>,
    ) -> Result<(), Stop> {
        let mut sending = std::pin::pin!(sending);
        // What can be sent at once needs no clock.
        if let Some(sent) = sending.as_mut().now_or_never() {
            return sent.map_err(Stop::Lost);
        }
        let stall = self.settings.stall;
        let mut look = tokio::time::interval((stall / 20).max(Duration::from_millis(1)));
        let mut full_since: Option<(Instant, u64)> = None;
        loop {
            tokio::select! {
                biased;
                sent = &mut sending => return sent.map_err(Stop::Lost),
                _ = look.tick() => {}
            }
            // No pings go out meanwhile, so whoever only listens is given more time than usual.
            if self.socket.silence() > 4 * self.settings.ping {
                let words = "nothing was heard while something was being sent";
                return Err(Stop::Lost(words.to_owned()));
            }
            let is_full = self.room.upgrade().is_some_and(|sender| sender.capacity() == 0);
            let fed = self.socket.fed();
            match full_since {
                _ if !is_full => full_since = None,
                Some((since, before)) if before == fed => {
                    if since.elapsed() >= stall {
                        return Err(Stop::Stalled);
                    }
                }
                _ => full_since = Some((Instant::now(), fed)),
            }
        }
    }
}
