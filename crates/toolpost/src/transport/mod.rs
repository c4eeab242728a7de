//! What carries events between two processes, or between two ends inside one.
//!
//! A link runs no task of its own: whoever uses it polls its parts. It is a bounded queue of events
//! to send, a stream of events that came, and a pump that moves the first to wherever the far end is.

mod connect;
mod memory;
#[cfg(feature = "ws")]
mod ws;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::protocol::{CallEvent, FrameError};

pub use connect::{ConnectError, Connector};
pub use memory::{MemoryConnector, memory_pair};
#[cfg(feature = "ws")]
pub use ws::{WsConnector, WsSettings, accept_key, accept_ws};

/// Events that wait to be sent; when it is full, streams are not polled and answers wait.
pub(crate) const SEND_QUEUE_CAPACITY: usize = 256;

/// How long a link that was not made a connection of may take to say why it ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// One end of a link.
pub struct Channel {
    /// Bounded: senders wait for room.
    pub(crate) outgoing: mpsc::Sender<CallEvent>,
    /// Ends when the link is gone, or is not read any more once it is closing.
    pub(crate) incoming: BoxStream<'static, Result<CallEvent, FrameError>>,
    /// Sends what is queued until there is nobody left who could queue, or the link is gone.
    pub(crate) pump: BoxFuture<'static, ()>,
    pub(crate) close_handle: CloseHandle,
}

/// Ends a link from somewhere else, with a reason that the far end is told. The first reason counts.
#[derive(Debug, Clone, Default)]
pub struct CloseHandle(Arc<CloseState>);

#[derive(Debug, Default)]
struct CloseState {
    token: CancellationToken,
    reason: OnceLock<CloseReason>,
}

/// Why a link ends, in the codes that WebSocket has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReason {
    /// A close code, such as 1000.
    pub code: u16,
    /// Words for a person.
    pub message: String,
}

impl CloseReason {
    /// The far end did not take what was sent to it.
    pub const TOO_SLOW: u16 = 1013;
    /// What was agreed on does not hold any more; whoever connects again learns what does.
    pub const SERVICE_RESTART: u16 = 1012;
    /// The far end did not say who it is, or nobody knows it.
    pub const UNAUTHENTICATED: u16 = 4401;

    /// A reason with a code of its own.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Nothing more to say.
    pub fn normal() -> Self {
        Self::new(1000, "")
    }

    /// The process is stopping.
    pub fn going_away() -> Self {
        Self::new(1001, "going away")
    }

    /// The far end vanished without a word.
    pub fn abnormal(message: impl Into<String>) -> Self {
        Self::new(1006, message)
    }

    /// The far end did not take what was sent to it.
    pub fn too_slow() -> Self {
        Self::new(Self::TOO_SLOW, "the send queue stayed full")
    }

    /// The far end did not say who it is, or nobody knows it.
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
    /// Ends the link.
    pub fn close(&self, reason: CloseReason) {
        let _ = self.0.reason.set(reason);
        self.0.token.cancel();
    }

    /// Resolves when the link ends.
    pub async fn closed(&self) {
        self.0.token.cancelled().await;
    }

    /// Whether it has ended, or is about to.
    pub fn is_closed(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Why, once it has ended.
    pub fn reason(&self) -> Option<&CloseReason> {
        self.0.reason.get()
    }
}

impl Channel {
    /// Waits for the first event, while the link is kept going. `None`: it ended before.
    ///
    /// Only for whoever has to know the peer before a connection is made of the link.
    pub async fn first_event(&mut self) -> Option<Result<CallEvent, FrameError>> {
        use futures::StreamExt;
        let event = tokio::select! {
            biased;
            event = self.incoming.next() => event,
            () = &mut self.pump => return None,
            () = self.close_handle.closed() => None,
        };
        if event.is_none() {
            // The far end hears why, such as that its first frame was too large.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut self.pump).await;
        }
        event
    }

    /// Puts an event that was taken with [`Channel::first_event`] back.
    #[must_use]
    pub fn with_first_event(mut self, event: Result<CallEvent, FrameError>) -> Self {
        use futures::StreamExt;
        self.incoming =
            futures::stream::once(std::future::ready(event)).chain(self.incoming).boxed();
        self
    }

    /// Ends the link and lets the far end hear the reason.
    pub async fn reject(self, reason: CloseReason) {
        self.close_handle.close(reason);
        // Whoever does not listen to the reason is gone anyway.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.pump).await;
    }

    /// The handle that ends it.
    pub fn close_handle(&self) -> &CloseHandle {
        &self.close_handle
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").field("close_handle", &self.close_handle).finish_non_exhaustive()
    }
}
