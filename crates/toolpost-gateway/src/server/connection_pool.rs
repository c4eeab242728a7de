//! The open connections, and eviction at the limit.

use std::cmp::Reverse;
use std::collections::HashMap;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;
use toolpost::Limit;
use toolpost::shares::{Holder, ShareLimits, SharePermit, Shares};

use super::connection_state::ConnectionState;

/// The connections of a server.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    /// Tasks of all connections, including evicted ones.
    tasks: JoinSet<()>,
    connections: HashMap<Id, (ConnectionState, AbortHandle)>,
    /// Counts the connections of each owner.
    owners: Shares,
    limit: usize,
    epoch: Instant,
}

impl ConnectionPool {
    pub(super) fn new(limit: usize) -> Self {
        let (tasks, connections, epoch) = (JoinSet::new(), HashMap::new(), Instant::now());
        Self { tasks, connections, owners: owners(), limit, epoch }
    }

    /// Spawns a connection with its own state.
    pub(super) fn spawn<F>(&mut self, owner: &Holder, connection: impl FnOnce(ConnectionState) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let state = ConnectionState::new(self.epoch, owner_permit(&self.owners, owner));
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

    /// Returns whether there is room for another connection. At the limit, it evicts a connection
    /// that waits for a request: of the owner with the most connections, the one that has waited
    /// longest. Connections that are being served are kept.
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

    /// Closes an idle connection, if there is one: of the owner with the most connections, the one
    /// that has waited longest.
    pub(super) fn evict_idle(&mut self) -> bool {
        let idle = self.connections.iter().filter_map(|(id, (state, _))| {
            let seen = state.idle_snapshot()?;
            Some(((Reverse(state.connections_of_owner()), seen), *id))
        });
        let Some(((_, seen), id)) = idle.min_by_key(|(order, _)| *order) else { return false };
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

/// Counts connections by owner, without a limit.
pub(super) fn owners() -> Shares {
    let unlimited = |limit| (limit, usize::MAX);
    let identity = unlimited(Limit::CallerConnections);
    Shares::new(ShareLimits::new("connections", unlimited(Limit::Connections), identity))
}

pub(super) fn owner_permit(owners: &Shares, owner: &Holder) -> SharePermit {
    owners.try_acquire(owner, 1).expect("owners have no limit")
}
