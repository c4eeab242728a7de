//! A conversation over a link: requests out, requests in, each answered once.
//!
//! One future runs a connection: it reads, answers what can be answered at once, keeps the alarms
//! and pumps the link. Requests that take longer have tasks that end with it.

mod call_handler;
mod client;
mod drive;
mod peer;
mod remote;
mod session;
mod values;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::link::{CloseReason, Link};
use crate::protocol::Requested;

pub use call_handler::{CallHandler, Callers};
pub use client::{CallAbort, Calling, Client, NotAnEnvelope};
pub(crate) use remote::Behalf;
pub(crate) use session::connected;
pub use session::{Session, SessionSettings, Status};

use peer::Peer;

/// The numbers that bound a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionSettings {
    /// How many requests of ours may wait for an answer; more fail as `OVERLOADED`.
    pub pending: usize,
    /// How many requests of the peer are worked on; more are refused as `OVERLOADED`.
    pub serving: usize,
    /// The deadline of a call that names none. Without one the far end says how long it takes, and the
    /// call ends with it or with the connection.
    pub call_timeout: Option<Duration>,
    /// How many values of a subscription are taken before the consumer has seen any. It begins with
    /// a few, and grows while their size allows it.
    pub window: u32,
    /// How many values, and how many bytes of them, are kept for a consumer whose source knows no
    /// window; beyond that the subscription fails as `OVERLOADED`.
    pub kept_values: usize,
    /// See [`ConnectionSettings::kept_values`].
    pub kept_bytes: usize,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            pending: 65_536,
            serving: 4_096,
            call_timeout: Some(Duration::from_secs(300)),
            window: 256,
            kept_values: 4_096,
            kept_bytes: 64 * 1024 * 1024,
        }
    }
}

/// What is done with the requests of the peer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Serve {
    /// They are refused: this end only calls.
    Nothing,
    /// They are calls of operations.
    Operations(CallHandler),
    /// Somebody else answers them, with [`Client::respond`] and its neighbors. A full channel makes
    /// the peer wait.
    Requests(mpsc::Sender<Requested>),
}

/// A connection that is to be run.
#[must_use = "a connection does nothing until it is run"]
pub struct Connection {
    peer: Arc<Peer>,
    link: LinkParts,
    serve: Serve,
}

struct LinkParts {
    incoming: futures::stream::BoxStream<'static, drive::Incoming>,
    pump: BoxFuture<'static, ()>,
}

impl Connection {
    /// A connection over a link, and the client that calls through it.
    pub fn new(link: Link, serve: Serve, settings: ConnectionSettings) -> (Client, Self) {
        let Link { outgoing, incoming, pump, closing } = link;
        let peer = Arc::new(Peer::new(outgoing, closing, settings));
        let link = LinkParts { incoming, pump };
        (Client::remote(Arc::clone(&peer)), Self { peer, link, serve })
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
        self.run_until_lost(|| ()).await
    }

    /// As [`Connection::run`]; `lost` is called as soon as nothing can be asked any more, while the
    /// far end may still be hearing why. Dropping the future drops it.
    pub(crate) async fn run_until_lost(self, lost: impl FnOnce()) -> CloseReason {
        let Self { peer, link, serve } = self;
        let LinkParts { incoming, mut pump } = link;
        let end = End(&peer);
        let mut tasks = JoinSet::new();
        let pump_ended = tokio::select! {
            biased;
            () = drive::drive(&peer, incoming, &serve, &mut tasks).boxed() => false,
            () = &mut pump => true,
        };
        // What waits for this connection learns of its end before the far end does.
        drop(end);
        tasks.shutdown().await;
        lost();
        if !pump_ended {
            pump.await;
        }
        peer.close_reason()
    }
}

/// Ends what is pending however the connection ends.
struct End<'a>(&'a Peer);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("serve", &self.serve).finish_non_exhaustive()
    }
}
