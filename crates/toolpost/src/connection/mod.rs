//! Connections over a transport, with requests and responses in both directions.
//!
//! A single future drives a connection: it reads events, responds to calls that complete
//! immediately, handles timeouts and runs the pump of the transport. Longer requests run in async
//! tasks that end with the connection.

mod backoff;
mod call_handler;
mod client;
mod event_loop;
mod reconnect;
mod remote;
mod shared;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::protocol::RequestEvent;
use crate::transport::{Channel, CloseReason};

pub(crate) use backoff::Backoff;
pub use call_handler::{CallHandler, CallerIdentity};
pub use client::{Client, ClientAbortHandle, ClientCall, NotAnEnvelope};
pub(crate) use reconnect::wait_connected;
pub use reconnect::{ConnectionStatus, ReconnectSettings, ReconnectingClient};
pub(crate) use remote::OnBehalfOf;

use shared::PeerHandle;

/// Limits of a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionSettings {
    /// Maximum number of pending requests to the peer; more fail with `OVERLOADED`.
    pub max_pending: usize,
    /// Maximum number of requests from the peer in flight; more fail with `OVERLOADED`.
    pub max_inflight: usize,
    /// Timeout of a call that specifies none. If `None`, it waits until the connection closes.
    pub call_timeout: Option<Duration>,
    /// Maximum flow-control window: the number of values of a subscription that may be sent before
    /// the consumer takes one. The window starts small and grows as far as the size of the values
    /// allows.
    pub max_window: u32,
    /// Maximum number of values buffered for a consumer whose source does not support flow control.
    /// A subscription that exceeds this or `max_buffered_bytes` fails with `OVERLOADED`.
    pub max_buffered_values: usize,
    /// Maximum number of bytes buffered; see [`ConnectionSettings::max_buffered_values`].
    pub max_buffered_bytes: usize,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            max_pending: 65_536,
            max_inflight: 4_096,
            call_timeout: Some(Duration::from_secs(300)),
            max_window: 256,
            max_buffered_values: 4_096,
            max_buffered_bytes: 64 * 1024 * 1024,
        }
    }
}

/// How a connection handles requests from the peer.
#[derive(Debug)]
#[non_exhaustive]
pub enum IncomingRequests {
    /// Rejects them.
    Reject,
    /// Calls the requested operations.
    Call(CallHandler),
    /// Sends them to a channel; the receiver responds with [`Client::respond`],
    /// [`Client::emit_error`] and [`Client::complete`]. A full channel blocks the connection.
    Channel(mpsc::Sender<RequestEvent>),
}

/// A connection to a peer. Call [`Connection::run`] to drive it.
#[must_use = "a connection does nothing until it is run"]
pub struct Connection {
    peer: Arc<PeerHandle>,
    incoming: BoxStream<'static, event_loop::IncomingEvent>,
    pump: BoxFuture<'static, ()>,
    incoming_requests: IncomingRequests,
}

impl Connection {
    /// Creates a connection over a channel, and the client that calls through it.
    pub fn new(
        channel: Channel,
        incoming_requests: IncomingRequests,
        settings: ConnectionSettings,
    ) -> (Client, Self) {
        let Channel { outgoing, incoming, pump, close_handle } = channel;
        let peer = Arc::new(PeerHandle::new(outgoing, close_handle, settings));
        let connection = Self { peer, incoming, pump, incoming_requests };
        (connection.client(), connection)
    }

    /// Returns a client that calls through this connection.
    pub fn client(&self) -> Client {
        Client::remote(Arc::clone(&self.peer))
    }

    /// Runs the connection until it ends and returns the close reason.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes the connection: pending requests fail, the peer's queries are
    /// canceled, and its mutations continue in the pipeline.
    pub async fn run(self) -> CloseReason {
        self.run_with_on_close(|| ()).await
    }

    /// Like [`Connection::run`], but calls `on_close` as soon as new requests fail, before the
    /// close reason reaches the peer. Dropping the future does not call it.
    pub(crate) async fn run_with_on_close(self, on_close: impl FnOnce()) -> CloseReason {
        let Self { peer, incoming, mut pump, incoming_requests } = self;
        let end = DisconnectGuard(&peer);
        let mut tasks = JoinSet::new();
        let pump_ended = tokio::select! {
            biased;
            () = event_loop::run(&peer, incoming, &incoming_requests, &mut tasks).boxed() => false,
            () = &mut pump => true,
        };
        // Fails the pending requests before the close is sent to the peer.
        drop(end);
        tasks.shutdown().await;
        on_close();
        if !pump_ended {
            pump.await;
        }
        peer.close_reason()
    }
}

/// Fails pending requests when the connection ends, including by drop.
struct DisconnectGuard<'a>(&'a PeerHandle);

impl Drop for DisconnectGuard<'_> {
    fn drop(&mut self) {
        self.0.disconnect();
    }
}

debug_fields!(connection: Connection, incoming_requests = connection.incoming_requests);
