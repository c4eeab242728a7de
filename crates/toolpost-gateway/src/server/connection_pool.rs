//! The open connections, and eviction at the limit.

use std::collections::HashMap;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::connection_state::ConnectionState;

/// The connections of a server.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    /// Tasks of all connections, including evicted ones.
    tasks: JoinSet<()>,
    connections: HashMap<Id, (ConnectionState, AbortHandle)>,
    limit: usize,
    epoch: Instant,
}

impl ConnectionPool {
    pub(super) fn new(limit: usize) -> Self {
        Self { tasks: JoinSet::new(), connections: HashMap::new(), limit, epoch: Instant::now() }
    }

    /// Spawns a connection with its own state.
    pub(super) fn spawn<F>(&mut self, connection: impl FnOnce(ConnectionState) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let state = ConnectionState::new(self.epoch);
        let handle = self.tasks.spawn(connection(state.clone()));
        self.connections.insert(handle.id(), (state, handle));
    }

    /// Waits until a connection ends. Never resolves if there is none.
    pub(super) async fn join_next(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(ended) => {
                self.connections
                    .remove(&ended.map_or_else(|error| JoinError::id(&error), |(id, ())| id));
            }
            None => std::future::pending().await,
        }
    }

    /// Returns whether there is room for another connection. At the limit, it evicts the connection
    /// that has waited longest for a request. Connections that are being served are kept.
    pub(super) fn try_make_room(&mut self) -> bool {
        self.connections.len() < self.limit || self.evict_idle()
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns the tasks of all remaining connections.
    pub(super) fn into_tasks(self) -> JoinSet<()> {
        self.tasks
    }

    fn evict_idle(&mut self) -> bool {
        let idle = self
            .connections
            .iter()
            .filter_map(|(id, (state, _))| Some((state.idle_snapshot()?, *id)));
        let Some((seen, id)) = idle.min_by_key(|(seen, _)| *seen) else { return false };
        if !self.connections[&id].0.try_evict(seen) {
            return false;
        }
        tracing::debug!(limit = self.limit, "idle connection evicted");
        if let Some((_, handle)) = self.connections.remove(&id) {
            handle.abort();
        }
        true
    }
}
