//! Many processes, one registry: spokes offer operations over links, and anybody who may calls them.
//!
//! [`Hub`] is the middle: it accepts links, registers what spokes offer under their names, forwards
//! calls, and keeps the specs of those who left as offline. [`Spoke`] is a process that offers.

mod contract;
mod forward;
mod register;
mod slot;
mod spoke;
mod upstream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Identity;
use crate::connection::{CallHandler, Callers, Client, Connection, ConnectionSettings, Serve};
use crate::link::{CloseReason, Link};
use crate::operation::{Operation, ResultPolicy};
use crate::pipeline::Pipeline;
use crate::registry::Change;
use crate::spec::OperationSpec;

pub use spoke::{Spoke, SpokeSession};
pub use upstream::Upstream;

use register::Registrant;
use slot::Spokes;

/// Names that no spoke and no source may have: they belong to the gateway itself.
pub const RESERVED_NAMES: [&str; 4] = ["demo", "gateway", "hub", "toolpost"];

/// The middle of a star of processes. Cloning it shares everything.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    pipeline: Pipeline,
    settings: HubSettings,
    spokes: Mutex<Spokes>,
    /// Every connection, so that they can be counted and closed.
    peers: Mutex<HashMap<u64, Peer>>,
    next_peer: AtomicU64,
    tasks: TaskTracker,
    draining: CancellationToken,
}

/// A connection, and whose it is; one that this hub made itself is nobody's.
struct Peer {
    client: Client,
    identity: Option<Arc<Identity>>,
}

/// How the spoke of a name is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// Whether it is connected.
    pub is_online: bool,
    /// Since when that is so, in milliseconds since 1970.
    pub since: i64,
}

/// The numbers that bound a hub.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HubSettings {
    /// What bounds each connection.
    pub connection: ConnectionSettings,
    /// How many names of spokes are known, offline ones too, beside those that the operator has settled.
    /// With none, nobody else offers anything.
    pub spokes: usize,
    /// How many operations a spoke may offer.
    pub operations: usize,
}

impl Default for HubSettings {
    fn default() -> Self {
        Self { connection: ConnectionSettings::default(), spokes: 1_024, operations: 10_000 }
    }
}

/// What an operator says about a spoke of some name before it comes.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SpokeRules {
    /// The only identity that may use the name; else it belongs to the first that does.
    pub owner: Option<String>,
    /// How long its calls may take.
    pub timeout: Option<Duration>,
    /// Changes what it offers; `None` leaves an operation out.
    pub adjust: Option<Adjust>,
}

/// Changes a spec that a spoke offers, or leaves it out.
pub type Adjust = Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// What a hub holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Census {
    /// Connections.
    pub peers: usize,
    /// Requests that wait for the answer of a peer.
    pub pending: usize,
    /// Requests of peers that are being worked on.
    pub serving: usize,
    /// Names whose spoke is connected.
    pub online: usize,
    /// Names whose spoke has left.
    pub offline: usize,
}

impl Hub {
    /// A hub in front of a pipeline, in whose registry it puts its own operations; the namespace
    /// `hub` is theirs.
    pub fn new(pipeline: Pipeline, settings: HubSettings) -> Self {
        let operations = contract::operations().into_iter().chain([register::operation()]);
        let changes = operations.map(Change::Replace);
        pipeline.registry().apply(changes).expect("replacing cannot clash");
        Self(Arc::new(Inner {
            pipeline,
            settings,
            spokes: Mutex::default(),
            peers: Mutex::default(),
            next_peer: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
        }))
    }

    /// The four operations that everybody sees; a process without spokes can offer them too.
    pub fn contract() -> Vec<Operation> {
        contract::operations()
    }

    /// The pipeline that runs the calls of peers.
    pub fn pipeline(&self) -> &Pipeline {
        &self.0.pipeline
    }

    /// Says something about a spoke of some name before it comes. What is there already is adjusted
    /// anew; its connection and its calls are left alone, unless the name is another identity's now.
    pub fn expect(&self, name: &str, rules: SpokeRules) {
        self.0.spokes().expect(name, rules);
        self.0.renew(name);
    }

    /// Forgets what was said about a name. Whoever has it is sent away, and what it offered is taken
    /// out; it may come again like any other.
    pub fn forget(&self, name: &str) {
        let mut spokes = self.0.spokes();
        spokes.unexpect(name);
        self.0.send_away(spokes, name);
    }

    /// As [`Hub::forget`], for a name that this hub itself has connected: the connection stays, since
    /// calls may be on their way through it. Whoever made it ends it.
    pub fn release(&self, name: &str) {
        let mut spokes = self.0.spokes();
        spokes.unexpect(name);
        drop(self.0.take(&mut spokes, name));
    }

    /// How the spoke of a name is doing; `None` if there was none.
    pub fn standing(&self, name: &str) -> Option<Standing> {
        self.0.spokes().standing(name)
    }

    /// Closes every connection of those who are not who they were any more, by their ids, and says how
    /// many.
    pub fn dismiss(&self, is_over: &dyn Fn(&str) -> bool) -> usize {
        let is_meant = |peer: &&Peer| peer.identity.as_ref().is_some_and(|it| is_over(&it.id));
        let peers = self.0.peers();
        let meant = peers.values().filter(is_meant);
        meant
            .map(|peer| {
                let words = "who you are does not hold here any more";
                peer.client.close(CloseReason::unauthenticated(words));
            })
            .count()
    }

    /// Talks with whoever is at the other end of the link until it ends, in a task that the hub
    /// owns.
    pub fn accept(&self, link: Link, identity: Arc<Identity>) {
        let number = self.0.next_peer.fetch_add(1, Ordering::Relaxed);
        let registrant = Arc::new(Registrant::new(&self.0, number, Arc::clone(&identity)));
        let handler = CallHandler::new(
            self.0.pipeline.clone(),
            Callers::Authenticated(Some(Arc::clone(&identity))),
        )
        .until(self.0.draining.clone())
        .attach(Arc::clone(&registrant) as Arc<_>);
        let settings = self.0.settings.connection.clone();
        let (client, connection) = Connection::new(link, Serve::Operations(handler), settings);
        registrant.set_client(client.clone());
        self.0.keep(number, &client, Some(identity));
        let leaving = Leaving { hub: Arc::clone(&self.0), number };
        self.0.tasks.spawn(async move {
            let reason = connection.run_until_lost(move || drop(leaving)).await;
            tracing::debug!(peer = number, %reason, "peer left");
        });
    }

    /// What it holds at this moment.
    pub fn census(&self) -> Census {
        let (online, offline) = self.0.spokes().count();
        let peers = self.0.peers();
        Census {
            peers: peers.len(),
            pending: peers.values().map(|peer| peer.client.pending_count()).sum(),
            serving: peers.values().map(|peer| peer.client.serving_count()).sum(),
            online,
            offline,
        }
    }

    /// Begins nothing new, ends streams, and waits until the requests of peers are answered or the
    /// deadline has passed; says which. The links stay, since calls in flight may need them.
    pub async fn drain(&self, deadline: Duration) -> bool {
        self.0.draining.cancel();
        // Whoever comes from now on is refused, so these are all that can have something running.
        let peers: Vec<Client> = self.0.peers().values().map(|peer| peer.client.clone()).collect();
        let answered = futures::future::join_all(peers.iter().map(Client::idle));
        tokio::time::timeout(deadline, answered).await.is_ok()
    }

    /// Closes every link and waits until the far ends have heard it, for a bounded time.
    pub async fn close(&self) {
        self.0.draining.cancel();
        self.0.tasks.close();
        for peer in self.0.peers().values() {
            peer.client.close(CloseReason::going_away());
        }
        self.0.tasks.wait().await;
    }
}

impl Inner {
    fn spokes(&self) -> MutexGuard<'_, Spokes> {
        self.spokes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<u64, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection among those that [`Hub::close`] closes. Whoever comes after everybody was
    /// sent away is sent away too.
    fn keep(&self, number: u64, client: &Client, identity: Option<Arc<Identity>>) {
        self.peers().insert(number, Peer { client: client.clone(), identity });
        if self.tasks.is_closed() {
            client.close(CloseReason::going_away());
        }
    }

    /// The operations of a peer that left are listed as offline.
    fn take_offline(&self, number: u64) {
        let mut spokes = self.spokes();
        let changes = spokes.leave(number, &self.pipeline.registry().catalog());
        // Still under the lock, so that whoever comes back at once is registered after this.
        self.pipeline.registry().apply(changes).expect("replacing cannot clash");
    }
}

/// Takes a peer out of the hub when its connection is lost.
struct Leaving {
    hub: Arc<Inner>,
    number: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.hub.peers().remove(&self.number);
        self.hub.take_offline(self.number);
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("census", &self.census()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SpokeRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpokeRules")
            .field("owner", &self.owner)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
