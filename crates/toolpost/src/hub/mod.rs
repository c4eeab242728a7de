//! Many processes, one registry: spokes offer operations over links, and anybody who may calls them.
//!
//! [`Hub`] is the middle: it accepts links, registers what spokes offer under their names, forwards
//! calls, and keeps the specs of those who left as offline. [`Spoke`] is a process that offers.

mod builtin_operations;
mod forward;
mod register;
mod spoke;
mod spoke_registry;
mod upstream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Identity;
use crate::connection::{
    CallHandler, CallerIdentity, Client, Connection, ConnectionSettings, IncomingRequests,
};
use crate::operation::{Operation, ResultPolicy};
use crate::pipeline::Pipeline;
use crate::registry::Change;
use crate::spec::OperationSpec;
use crate::transport::{Channel, CloseReason};

pub use spoke::{Spoke, SpokeHandle};
pub use upstream::Upstream;

use register::CallingConnection;
use spoke_registry::SpokeRegistry;

/// Names that no spoke and no source may have: they belong to the gateway itself.
pub const RESERVED_NAMES: [&str; 4] = ["demo", "gateway", "hub", "toolpost"];

/// The middle of a star of processes. Cloning it shares everything.
#[derive(Clone)]
pub struct Hub(Arc<HubInner>);

struct HubInner {
    pipeline: Pipeline,
    settings: HubSettings,
    spokes: Mutex<SpokeRegistry>,
    /// Every connection, so that they can be counted and closed.
    connections: Mutex<HashMap<u64, HubConnection>>,
    next_connection_id: AtomicU64,
    tasks: TaskTracker,
    draining: CancellationToken,
}

/// A connection, and whose it is; one that this hub made itself is nobody's.
struct HubConnection {
    client: Client,
    identity: Option<Arc<Identity>>,
}

/// How the spoke of a name is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpokeStatus {
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
    pub max_spokes: usize,
    /// How many operations a spoke may offer.
    pub max_operations: usize,
}

impl Default for HubSettings {
    fn default() -> Self {
        Self {
            connection: ConnectionSettings::default(),
            max_spokes: 1_024,
            max_operations: 10_000,
        }
    }
}

/// What an operator says about a spoke of some name before it comes.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SpokeConfig {
    /// The only identity that may use the name; else it belongs to the first that does.
    pub owner: Option<String>,
    /// How long its calls may take.
    pub timeout: Option<Duration>,
    /// Changes what it offers; `None` leaves an operation out.
    pub transform: Option<SpokeSpecTransform>,
}

/// Changes a spec that a spoke offers, or leaves it out.
pub type SpokeSpecTransform =
    Arc<dyn Fn(OperationSpec) -> Option<(OperationSpec, ResultPolicy)> + Send + Sync>;

/// What a hub holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HubStats {
    /// Connections.
    pub connections: usize,
    /// Requests that wait for the answer of a peer.
    pub pending: usize,
    /// Requests of peers that are being worked on.
    pub inflight: usize,
    /// Names whose spoke is connected.
    pub online_spokes: usize,
    /// Names whose spoke has left.
    pub offline_spokes: usize,
}

impl Hub {
    /// A hub in front of a pipeline, in whose registry it puts its own operations; the namespace
    /// `hub` is theirs.
    pub fn new(pipeline: Pipeline, settings: HubSettings) -> Self {
        let operations =
            builtin_operations::operations().into_iter().chain([register::operation()]);
        let changes = operations.map(Change::Replace);
        pipeline.registry().apply(changes).expect("replacing cannot clash");
        Self(Arc::new(HubInner {
            pipeline,
            settings,
            spokes: Mutex::default(),
            connections: Mutex::default(),
            next_connection_id: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
        }))
    }

    /// The four operations that everybody sees; a process without spokes can offer them too.
    pub fn builtin_operations() -> Vec<Operation> {
        builtin_operations::operations()
    }

    /// The pipeline that runs the calls of peers.
    pub fn pipeline(&self) -> &Pipeline {
        &self.0.pipeline
    }

    /// Says something about a spoke of some name before it comes. What is there already is adjusted
    /// anew; its connection and its calls are left alone, unless the name is another identity's now.
    pub fn configure_spoke(&self, name: &str, config: SpokeConfig) {
        self.0.spokes().configure(name, config);
        self.0.reapply_config(name);
    }

    /// Forgets what was said about a name. Whoever has it is sent away, and what it offered is taken
    /// out; it may come again like any other.
    pub fn remove_spoke(&self, name: &str) {
        let mut spokes = self.0.spokes();
        spokes.remove_config(name);
        self.0.evict_spoke(spokes, name);
    }

    /// As [`Hub::remove_spoke`], for a name that this hub itself has connected: the connection stays, since
    /// calls may be on their way through it. Whoever made it ends it.
    pub fn detach(&self, name: &str) {
        let mut spokes = self.0.spokes();
        spokes.remove_config(name);
        drop(self.0.remove_spoke(&mut spokes, name));
    }

    /// How the spoke of a name is doing; `None` if there was none.
    pub fn spoke_status(&self, name: &str) -> Option<SpokeStatus> {
        self.0.spokes().status(name)
    }

    /// Closes every connection of those who are not who they were any more, by their ids, and says how
    /// many.
    pub fn disconnect_identities(&self, is_revoked: &dyn Fn(&str) -> bool) -> usize {
        let matches =
            |peer: &&HubConnection| peer.identity.as_ref().is_some_and(|it| is_revoked(&it.id));
        let peers = self.0.connections();
        let revoked = peers.values().filter(matches);
        revoked
            .map(|peer| {
                let reason = "the token was revoked or reissued";
                peer.client.close(CloseReason::unauthenticated(reason));
            })
            .count()
    }

    /// Talks with whoever is at the other end of the link until it ends, in a task that the hub
    /// owns.
    pub fn accept(&self, channel: Channel, identity: Arc<Identity>) {
        let connection_id = self.0.next_connection_id.fetch_add(1, Ordering::Relaxed);
        let registrant =
            Arc::new(CallingConnection::new(&self.0, connection_id, Arc::clone(&identity)));
        let handler = CallHandler::new(
            self.0.pipeline.clone(),
            CallerIdentity::Authenticated(Some(Arc::clone(&identity))),
        )
        .with_drain_token(self.0.draining.clone())
        .with_attachment(Arc::clone(&registrant) as Arc<_>);
        let settings = self.0.settings.connection.clone();
        let (client, connection) =
            Connection::new(channel, IncomingRequests::Call(handler), settings);
        registrant.set_client(client.clone());
        self.0.track_connection(connection_id, &client, Some(identity));
        let guard = HubConnectionGuard { hub: Arc::clone(&self.0), connection_id };
        self.0.tasks.spawn(async move {
            let reason = connection.run_with_on_close(move || drop(guard)).await;
            tracing::debug!(peer = connection_id, %reason, "peer disconnected");
        });
    }

    /// What it holds at this moment.
    pub fn stats(&self) -> HubStats {
        let (online, offline) = self.0.spokes().count();
        let peers = self.0.connections();
        HubStats {
            connections: peers.len(),
            pending: peers.values().map(|peer| peer.client.pending_count()).sum(),
            inflight: peers.values().map(|peer| peer.client.inflight_count()).sum(),
            online_spokes: online,
            offline_spokes: offline,
        }
    }

    /// Begins nothing new, ends streams, and waits until the requests of peers are answered or the
    /// deadline has passed; says which. The links stay, since calls in flight may need them.
    pub async fn drain(&self, deadline: Duration) -> bool {
        self.0.draining.cancel();
        // Whoever comes from now on is refused, so these are all that can have something running.
        let peers: Vec<Client> =
            self.0.connections().values().map(|peer| peer.client.clone()).collect();
        let all_idle = futures::future::join_all(peers.iter().map(Client::wait_idle));
        tokio::time::timeout(deadline, all_idle).await.is_ok()
    }

    /// Closes every link and waits until the far ends have heard it, for a bounded time.
    pub async fn close(&self) {
        self.0.draining.cancel();
        self.0.tasks.close();
        for peer in self.0.connections().values() {
            peer.client.close(CloseReason::going_away());
        }
        self.0.tasks.wait().await;
    }
}

impl HubInner {
    fn spokes(&self) -> MutexGuard<'_, SpokeRegistry> {
        self.spokes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, HubConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection among those that [`Hub::close`] closes. Whoever comes after everybody was
    /// sent away is sent away too.
    fn track_connection(
        &self,
        connection_id: u64,
        client: &Client,
        identity: Option<Arc<Identity>>,
    ) {
        self.connections()
            .insert(connection_id, HubConnection { client: client.clone(), identity });
        if self.tasks.is_closed() {
            client.close(CloseReason::going_away());
        }
    }

    /// The operations of a peer that left are listed as offline.
    fn take_offline(&self, connection_id: u64) {
        let mut spokes = self.spokes();
        let changes = spokes.detach(connection_id, &self.pipeline.registry().catalog());
        // Still under the lock, so that whoever comes back at once is registered after this.
        self.pipeline.registry().apply(changes).expect("replacing cannot clash");
    }
}

/// Takes a peer out of the hub when its connection is lost.
struct HubConnectionGuard {
    hub: Arc<HubInner>,
    connection_id: u64,
}

impl Drop for HubConnectionGuard {
    fn drop(&mut self) {
        self.hub.connections().remove(&self.connection_id);
        self.hub.take_offline(self.connection_id);
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SpokeConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpokeConfig")
            .field("owner", &self.owner)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
