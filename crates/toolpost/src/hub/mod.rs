//! Operations of many processes in one registry.
//!
//! [`Hub`] accepts connections, registers the operations of spokes under their names, forwards
//! calls, and lists the operations of disconnected spokes as offline. A [`Spoke`] connects a
//! process and its operations to a hub.

mod builtin_operations;
mod forward;
mod register;
mod spoke;
mod spoke_registry;
mod text;
mod upstream;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Identity;
use crate::connection::{
    CallHandler, CallerIdentity, Client, Connection, ConnectionSettings, IncomingRequests,
};
use crate::operation::Operation;
use crate::pipeline::Pipeline;
use crate::registry::Change;
use crate::source::SpecTransform;
use crate::transport::{Channel, CloseReason};

pub use builtin_operations::HiddenNamespaces;
pub use spoke::{Spoke, SpokeHandle};
pub use upstream::Upstream;

use register::CallingConnection;
use spoke_registry::SpokeRegistry;

/// Names reserved for the gateway. Spokes and sources cannot use them.
pub const RESERVED_NAMES: [&str; 4] = ["demo", "gateway", "hub", "toolpost"];

/// Accepts connections from spokes and clients, and runs their requests in a pipeline. Clones share
/// the same hub.
#[derive(Clone)]
pub struct Hub(Arc<HubInner>);

struct HubInner {
    pipeline: Pipeline,
    settings: HubSettings,
    spokes: Mutex<SpokeRegistry>,
    /// All open connections, by connection id.
    connections: Mutex<HashMap<u64, HubConnection>>,
    next_connection_id: AtomicU64,
    tasks: TaskTracker,
    draining: CancellationToken,
}

/// A connection and its identity. Connections that the hub opened have no identity.
struct HubConnection {
    client: Client,
    identity: Option<Arc<Identity>>,
}

/// Connection status of a spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpokeStatus {
    /// Whether the spoke is connected.
    pub is_online: bool,
    /// Time of the last status change, in milliseconds since the Unix epoch.
    pub since: i64,
}

/// Limits of a hub.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HubSettings {
    /// Limits of each connection.
    pub connection: ConnectionSettings,
    /// Maximum number of spoke names, including offline ones. Names configured by the operator do
    /// not count. With 0, only configured names can register.
    pub max_spokes: usize,
    /// Maximum number of spoke names per identity, like [`HubSettings::max_spokes`].
    pub max_spokes_per_identity: usize,
    /// Maximum number of operations per spoke.
    pub max_operations: usize,
    /// Maximum size of the operations of all spokes, in bytes of JSON.
    pub max_registration_bytes: usize,
    /// Maximum size of the operations of the spokes of one identity, in bytes of JSON.
    pub max_registration_bytes_per_identity: usize,
    /// Maximum size of the description, and of the name and title, of an operation of a spoke, in
    /// bytes. Callers receive them in lists and search results.
    pub max_description_bytes: usize,
}

impl Default for HubSettings {
    fn default() -> Self {
        Self {
            connection: ConnectionSettings::default(),
            max_spokes: 1_024,
            max_spokes_per_identity: 64,
            max_operations: 10_000,
            max_registration_bytes: 128 * 1024 * 1024,
            max_registration_bytes_per_identity: 16 * 1024 * 1024,
            max_description_bytes: 32 * 1024,
        }
    }
}

/// Operator configuration for a spoke name. It applies whether or not the spoke is connected.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct SpokeConfig {
    /// Name of the only identity that can use the spoke name, as in [`Identity::is_named`]. If `None`,
    /// the first identity that registers it.
    pub owner: Option<String>,
    /// Timeout of calls to the spoke.
    pub timeout: Option<Duration>,
    /// Transforms the specs that the spoke registers; returning `None` excludes an operation.
    pub transform: Option<SpecTransform>,
}

/// Current counters of a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HubStats {
    /// Open connections.
    pub connections: usize,
    /// Requests waiting for a response from a peer.
    pub pending: usize,
    /// Requests from peers that are in flight.
    pub inflight: usize,
    /// Connected spokes.
    pub online_spokes: usize,
    /// Spokes that are known but disconnected.
    pub offline_spokes: usize,
}

impl Hub {
    /// Creates a hub and registers its built-in operations in the namespace `hub`.
    pub fn new(pipeline: Pipeline, settings: HubSettings) -> Self {
        let operations =
            builtin_operations::operations().into_iter().chain([register::operation()]);
        let changes = operations.map(Change::Replace);
        pipeline.registry().apply(changes).expect("only registering can fail");
        let spokes = Mutex::new(SpokeRegistry::new(&settings));
        Self(Arc::new(HubInner {
            pipeline,
            settings,
            spokes,
            connections: Mutex::default(),
            next_connection_id: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
        }))
    }

    /// Returns the four built-in operations. A process without spokes can register them too.
    pub fn builtin_operations() -> Vec<Operation> {
        builtin_operations::operations()
    }

    /// Returns the pipeline that runs requests from peers.
    pub fn pipeline(&self) -> &Pipeline {
        &self.0.pipeline
    }

    /// Sets the configuration for a spoke name. Operations that are already registered are rebuilt
    /// without interrupting the connection or its calls. If they cannot be rebuilt, for example
    /// because the name now belongs to another identity, the spoke is disconnected.
    pub fn configure_spoke(&self, name: &str, config: SpokeConfig) {
        self.0.spokes().configs.insert(name.to_owned(), config);
        self.0.reapply_config(name);
    }

    /// Removes the configuration for a name, disconnects its spoke and unregisters its operations.
    /// The spoke can register again without configuration.
    pub fn remove_spoke(&self, name: &str) {
        let mut spokes = self.0.spokes();
        spokes.configs.remove(name);
        self.0.evict_spoke(spokes, name);
    }

    /// Returns the status of a spoke; `None` if the name is unknown.
    pub fn spoke_status(&self, name: &str) -> Option<SpokeStatus> {
        self.0.spokes().status(name)
    }

    /// Closes the connections of the identities for which `is_ended` returns true, with this
    /// reason. Returns the number of closed connections.
    pub fn disconnect_identities(
        &self,
        is_ended: &dyn Fn(&Identity) -> bool,
        reason: &'static str,
    ) -> usize {
        let matches = |peer: &&HubConnection| peer.identity.as_ref().is_some_and(|it| is_ended(it));
        let peers = self.0.connections.lock();
        let ended = peers.values().filter(matches);
        ended.inspect(|peer| peer.client.close(CloseReason::unauthenticated(reason))).count()
    }

    /// Runs a connection over `channel` until it closes, in an async task owned by the hub.
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
        let _ = registrant.client.set(client.clone());
        self.0.spawn_connection(connection_id, &client, connection, Some(identity));
    }

    /// Returns the current counts of connections, requests and spokes.
    pub fn stats(&self) -> HubStats {
        let (online, offline) = self.0.spokes().count();
        let peers = self.0.connections.lock();
        HubStats {
            connections: peers.len(),
            pending: peers.values().map(|peer| peer.client.pending_count()).sum(),
            inflight: peers.values().map(|peer| peer.client.inflight_count()).sum(),
            online_spokes: online,
            offline_spokes: offline,
        }
    }

    /// Rejects new requests, ends streams, and waits until the requests from peers complete or the
    /// deadline passes. Returns whether they completed in time. Connections stay open because calls
    /// in flight may need them.
    pub async fn drain(&self, deadline: Duration) -> bool {
        self.0.draining.cancel();
        // New requests are rejected, so only these connections can have requests in flight.
        let peers: Vec<Client> =
            self.0.connections.lock().values().map(|peer| peer.client.clone()).collect();
        let all_idle = futures::future::join_all(peers.iter().map(Client::wait_idle));
        tokio::time::timeout(deadline, all_idle).await.is_ok()
    }

    /// Closes all connections and waits, for a bounded time, until they have closed.
    pub async fn close(&self) {
        self.0.draining.cancel();
        self.0.tasks.close();
        for peer in self.0.connections.lock().values() {
            peer.client.close(CloseReason::going_away());
        }
        self.0.tasks.wait().await;
    }
}

impl HubInner {
    fn spokes(&self) -> MutexGuard<'_, SpokeRegistry> {
        self.spokes.lock()
    }

    /// Runs a connection in an async task. Closes it at once if [`Hub::close`] was already called.
    fn spawn_connection(
        self: &Arc<Self>,
        connection_id: u64,
        client: &Client,
        connection: Connection,
        identity: Option<Arc<Identity>>,
    ) {
        let entry = HubConnection { client: client.clone(), identity };
        self.connections.lock().insert(connection_id, entry);
        if self.tasks.is_closed() {
            client.close(CloseReason::going_away());
        }
        let guard = HubConnectionGuard { hub: Arc::clone(self), connection_id };
        self.tasks.spawn(async move {
            let reason = connection.run_with_on_close(move || drop(guard)).await;
            tracing::debug!(peer = connection_id, %reason, "peer disconnected");
        });
    }

    /// Applies changes that register no new id.
    fn apply(&self, changes: impl IntoIterator<Item = Change>) {
        self.pipeline.registry().apply(changes).expect("only registering can fail");
    }
}

/// Removes a peer from the hub when its connection is lost, and marks its operations offline.
struct HubConnectionGuard {
    hub: Arc<HubInner>,
    connection_id: u64,
}

impl Drop for HubConnectionGuard {
    fn drop(&mut self) {
        self.hub.connections.lock().remove(&self.connection_id);
        let mut spokes = self.hub.spokes();
        let catalog = self.hub.pipeline.registry().catalog();
        // The lock is held, so a spoke that reconnects at once is registered afterwards.
        self.hub.apply(spokes.detach(self.connection_id, &catalog));
    }
}

debug_fields!(hub: Hub, stats = hub.stats());

debug_fields!(config: SpokeConfig, owner = config.owner, timeout = config.timeout);
