//! Transports, which carry events between two processes or within one process.
//!
//! A channel consists of a bounded queue of outgoing events, a stream of incoming events, and a
//! pump that sends queued events to the peer. It spawns no async task; its user polls the parts.

mod connect;
mod event_queue;
mod memory;
#[cfg(feature = "ws")]
mod ws;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::protocol::{CallEvent, FrameError};

pub use connect::{ConnectError, Connector};
pub(crate) use event_queue::EventSender;
pub use memory::{MemoryConnector, memory_pair};
#[cfg(feature = "ws")]
pub use ws::{
    DataFrame, TextSocket, Utf8Bytes, WsConnector, WsSettings, WsStream, accept_key, accept_ws,
    connect_ws,
};

/// Capacity of the send queue. While the queue is full, streams are not polled and responses wait.
pub(crate) const SEND_QUEUE_CAPACITY: usize = 256;

/// Maximum time to send the close reason on a channel that never became a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// One end of a connection.
pub struct Channel {
    /// Bounded send queue; senders wait for capacity.
    pub(crate) outgoing: EventSender,
    /// Ends when the channel is lost; not read once the channel is closing.
    pub(crate) incoming: BoxStream<'static, Result<CallEvent, FrameError>>,
    /// Sends queued events until all senders are dropped or the channel is lost.
    pub(crate) pump: BoxFuture<'static, ()>,
    pub(crate) close_handle: CloseHandle,
}

/// Handle that closes a channel with a reason, which is sent to the peer. Only the first reason is
/// kept.
#[derive(Debug, Clone, Default)]
pub struct CloseHandle(Arc<CloseState>);

#[derive(Debug, Default)]
struct CloseState {
    token: CancellationToken,
    reason: OnceLock<CloseReason>,
}

/// Reason for closing a connection, with a WebSocket close code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReason {
    /// Close code, such as 1000.
    pub code: u16,
    /// Human-readable message.
    pub message: String,
}

impl CloseReason {
    /// The peer did not read the events sent to it.
    pub const TOO_SLOW: u16 = 1013;
    /// A frame from the peer exceeds the size limit.
    pub const TOO_LARGE: u16 = 1009;
    /// The negotiated state is no longer valid; a reconnect negotiates it again.
    pub const SERVICE_RESTART: u16 = 1012;
    /// The peer is not authenticated: its credentials are missing or invalid.
    pub const UNAUTHENTICATED: u16 = 4401;

    /// Creates a reason with the given close code.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Normal closure, without a message.
    pub fn normal() -> Self {
        Self::new(1000, "")
    }

    /// The process is shutting down (1001).
    pub fn going_away() -> Self {
        Self::new(1001, "going away")
    }

    /// The connection was lost without a close frame.
    pub fn abnormal(message: impl Into<String>) -> Self {
        Self::new(1006, message)
    }

    /// The peer did not read the events sent to it.
    pub fn too_slow() -> Self {
        Self::new(Self::TOO_SLOW, "the send queue stayed full")
    }

    /// A limit is reached; the peer can try again later.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(Self::TOO_SLOW, message)
    }

    /// The peer is not authenticated: its credentials are missing or invalid.
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(Self::UNAUTHENTICATED, message)
    }
}

impl std::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.message.as_str() {
            "" => write!(f, "code {}", self.code),
            message => write!(f, "{message} (code {})", self.code),
        }
    }
}

impl CloseHandle {
    /// Closes the connection. The first reason is kept.
    pub fn close(&self, reason: CloseReason) {
        let _ = self.0.reason.set(reason);
        self.0.token.cancel();
    }

    /// Resolves when the connection closes.
    pub async fn closed(&self) {
        self.0.token.cancelled().await;
    }

    /// Whether the connection is closed or closing.
    pub fn is_closed(&self) -> bool {
        self.reason().is_some()
    }

    /// Returns the close reason once the connection is closed or closing.
    pub fn reason(&self) -> Option<&CloseReason> {
        self.0.reason.get()
    }
}

impl Channel {
    /// Waits for the first event while driving the channel. Returns `None` if the channel ends
    /// first.
    ///
    /// Use this only when the peer must be identified before a connection is created from the
    /// channel.
    pub async fn first_event(&mut self) -> Option<Result<CallEvent, FrameError>> {
        use futures::StreamExt;
        let event = tokio::select! {
            biased;
            event = self.incoming.next() => event,
            () = &mut self.pump => return None,
            () = self.close_handle.closed() => None,
        };
        if event.is_none() {
            // Let the pump send the close reason, for example that the first frame was too large.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut self.pump).await;
        }
        event
    }

    /// Puts back an event that was taken with [`Channel::first_event`].
    #[must_use]
    pub fn with_first_event(mut self, event: Result<CallEvent, FrameError>) -> Self {
        use futures::StreamExt;
        self.incoming =
            futures::stream::once(std::future::ready(event)).chain(self.incoming).boxed();
        self
    }

    /// Drops `guard` when the channel has ended.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Send + 'static) -> Self {
        use futures::FutureExt;
        let pump = self.pump;
        self.pump = async move {
            let _guard = guard;
            pump.await;
        }
        .boxed();
        self
    }

    /// Closes the connection and waits for the reason to be sent, up to a timeout.
    pub async fn reject(self, reason: CloseReason) {
        self.close_handle.close(reason);
        // A peer that does not read the reason in time is treated as disconnected.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.pump).await;
    }

    /// Returns the handle that closes the connection.
    pub fn close_handle(&self) -> &CloseHandle {
        &self.close_handle
    }
}

debug_fields!(channel: Channel, close_handle = channel.close_handle);
