//! A conversation over a link: requests out, requests in, each answered once.
//!
//! One future runs a connection: it reads, answers what can be answered at once, keeps the alarms
//! and pumps the link. Requests that take longer have tasks that end with it.

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
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::protocol::RequestEvent;
use crate::transport::{Channel, CloseReason};

pub use call_handler::{CallHandler, CallerIdentity};
pub use client::{Client, ClientAbortHandle, ClientCall, NotAnEnvelope};
pub(crate) use reconnect::wait_connected;
pub use reconnect::{ConnectionStatus, ReconnectSettings, ReconnectingClient};
pub(crate) use remote::OnBehalfOf;

use shared::PeerHandle;

/// The numbers that bound a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionSettings {
    /// How many requests of ours may wait for an answer; more fail as `OVERLOADED`.
    pub max_pending: usize,
    /// How many requests of the peer are worked on; more are refused as `OVERLOADED`.
    pub max_inflight: usize,
    /// The deadline of a call that names none. Without one the far end says how long it takes, and the
    /// call ends with it or with the connection.
    pub call_timeout: Option<Duration>,
    /// How many values of a subscription are taken before the consumer has seen any. It begins with
    /// a few, and grows while their size allows it.
    pub max_window: u32,
    /// How many values, and how many bytes of them, are kept for a consumer whose source knows no
    /// window; beyond that the subscription fails as `OVERLOADED`.
    pub max_buffered_values: usize,
    /// See [`ConnectionSettings::max_buffered_values`].
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

/// What is done with the requests of the peer.
#[derive(Debug)]
#[non_exhaustive]
pub enum IncomingRequests {
    /// They are refused: this end only calls.
    Reject,
    /// They are calls of operations.
    Call(CallHandler),
    /// Somebody else answers them, with [`Client::respond`] and its neighbors. A full channel makes
    /// the peer wait.
    Channel(mpsc::Sender<RequestEvent>),
}

/// A connection that is to be run.
#[must_use = "a connection does nothing until it is run"]
pub struct Connection {
    peer: Arc<PeerHandle>,
    transport: TransportParts,
    incoming_requests: IncomingRequests,
}

struct TransportParts {
    incoming: futures::stream::BoxStream<'static, event_loop::IncomingEvent>,
    pump: BoxFuture<'static, ()>,
}

impl Connection {
    /// A connection over a link, and the client that calls through it.
    pub fn new(
        link: Channel,
        serve: IncomingRequests,
        settings: ConnectionSettings,
    ) -> (Client, Self) {
        let Channel { outgoing, incoming, pump, close_handle: handle } = link;
        let peer = Arc::new(PeerHandle::new(outgoing, handle, settings));
        let link = TransportParts { incoming, pump };
        (
            Client::remote(Arc::clone(&peer)),
            Self { peer, transport: link, incoming_requests: serve },
        )
    }

    /// The client that calls through it.
    pub fn client(&self) -> Client {
        Client::remote(Arc::clone(&self.peer))
    }

    /// Runs it to its end, and says why it ended.
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the connection: what is pending fails, queries of the peer are
    /// canceled, its mutations run on in the pipeline.
    pub async fn run(self) -> CloseReason {
        self.run_with_on_close(|| ()).await
    }

    /// As [`Connection::run`]; `lost` is called as soon as nothing can be asked any more, while the
    /// far end may still be hearing why. Dropping the future drops it.
    pub(crate) async fn run_with_on_close(self, on_close: impl FnOnce()) -> CloseReason {
        let Self { peer, transport: link, incoming_requests: serve } = self;
        let TransportParts { incoming, mut pump } = link;
        let end = DisconnectGuard(&peer);
        let mut tasks = JoinSet::new();
        let pump_ended = tokio::select! {
            biased;
            () = event_loop::run(&peer, incoming, &serve, &mut tasks).boxed() => false,
            () = &mut pump => true,
        };
        // What waits for this connection learns of its end before the far end does.
        drop(end);
        tasks.shutdown().await;
        on_close();
        if !pump_ended {
            pump.await;
        }
        peer.close_reason()
    }
}

/// Ends what is pending however the connection ends.
struct DisconnectGuard<'a>(&'a PeerHandle);

impl Drop for DisconnectGuard<'_> {
    fn drop(&mut self) {
        self.0.disconnect();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("incoming_requests", &self.incoming_requests)
            .finish_non_exhaustive()
    }
}
