//! Spoke names: their owners, their connections and their operations.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde_json::Value;

use super::{HubSettings, SpokeConfig, SpokeStatus};
use crate::access::Identity;
use crate::clock::epoch_ms;
use crate::connection::Client;
use crate::error::{CallError, ErrorCode, Limit};
use crate::operation::{Operation, OperationSource, SourceKind};
use crate::registry::{Catalog, Change};
use crate::shares::{Holder, ShareError, ShareLimits, SharePermit, Shares};
use crate::spec::OperationId;

/// A spoke name and its current connection.
pub(super) struct SpokeRoute {
    pub(super) source: Arc<OperationSource>,
    current: ArcSwapOption<SpokeConnection>,
}

struct SpokeConnection {
    connection_id: u64,
    client: Client,
}

impl SpokeRoute {
    pub(super) fn new(kind: SourceKind, name: &str) -> Arc<Self> {
        let source = Arc::new(OperationSource { kind, name: name.into() });
        Arc::new(Self { source, current: ArcSwapOption::empty() })
    }

    pub(super) fn set_connection(&self, connection_id: u64, client: Client) {
        self.current.store(Some(Arc::new(SpokeConnection { connection_id, client })));
    }

    /// Removes the connection and returns its client.
    pub(super) fn take_connection(&self) -> Option<Client> {
        self.current.swap(None).map(|connection| connection.client.clone())
    }

    /// Returns the client of the current connection, or an error if the spoke is offline.
    pub(super) fn client(&self) -> Result<Client, CallError> {
        match &*self.current.load() {
            Some(connection) => Ok(connection.client.clone()),
            None => {
                let message = format!("`{}` is offline", self.source.name);
                Err(CallError::unavailable(message).not_sent())
            }
        }
    }

    /// Adds the spoke name and close reason to the error of a call whose connection was lost.
    pub(super) fn attribute_disconnect(&self, client: &Client, error: CallError) -> CallError {
        match client.close_reason() {
            Some(reason) if *error.code() == ErrorCode::Unavailable => {
                error.with_message(format!("connection to `{}` lost: {reason}", self.source.name))
            }
            _ => error,
        }
    }

    pub(super) fn is_online(&self) -> bool {
        self.current.load().is_some()
    }

    fn is_served_by(&self, id: u64) -> bool {
        self.current.load().as_ref().is_some_and(|connection| connection.connection_id == id)
    }
}

/// The known spoke names, online and offline, and their operator configuration.
pub(super) struct SpokeRegistry {
    spokes: HashMap<String, SpokeEntry>,
    pub(super) configs: HashMap<String, SpokeConfig>,
    disconnects: u64,
    /// Names that are not configured, by identity.
    names: Shares,
    /// Size of the operations of spokes, by identity.
    bytes: Shares,
}

struct SpokeEntry {
    /// Identity that first used the name.
    owner: Arc<Identity>,
    route: Arc<SpokeRoute>,
    operations: Vec<OperationId>,
    /// The specs before the transform; kept only if there is one.
    specs: Option<Arc<Vec<Value>>>,
    /// Time of the last status change, in milliseconds since the Unix epoch.
    since: i64,
    /// Sequence number of the last disconnect; orders spokes by how long they have been offline.
    disconnect_sequence: u64,
    /// `None` for a configured name.
    name_permit: Option<SharePermit>,
    bytes_permit: SharePermit,
}

impl SpokeRegistry {
    pub(super) fn new(settings: &HubSettings) -> Self {
        let names = ShareLimits::new(
            "spoke names",
            (Limit::Spokes, settings.max_spokes),
            (Limit::CallerSpokes, settings.max_spokes_per_identity),
        );
        let bytes = ShareLimits::new(
            "bytes of registered operations",
            (Limit::RegistrationBytes, settings.max_registration_bytes),
            (Limit::CallerRegistrationBytes, settings.max_registration_bytes_per_identity),
        );
        Self {
            spokes: HashMap::new(),
            configs: HashMap::new(),
            disconnects: 0,
            names: Shares::new(names),
            bytes: Shares::new(bytes),
        }
    }

    /// Reserves memory for the operations of a name, in place of its earlier ones.
    pub(super) fn reserve_bytes(&mut self, name: &str, bytes: usize) -> Result<(), ShareError> {
        match self.spokes.get_mut(name) {
            Some(entry) => entry.bytes_permit.resize(bytes),
            None => Ok(()),
        }
    }

    /// Returns the route and the original specs of a name, from which its operations can be
    /// rebuilt. `None` if no specs are kept or the name now belongs to another identity.
    pub(super) fn registered_specs(
        &self,
        name: &str,
    ) -> Option<(Arc<SpokeRoute>, Arc<Vec<Value>>)> {
        let entry = self.spokes.get(name)?;
        let owner = self.configs.get(name).and_then(|config| config.owner.as_deref());
        if owner.is_some_and(|owner| !entry.owner.is_named(owner)) {
            return None;
        }
        Some((Arc::clone(&entry.route), Arc::clone(entry.specs.as_ref()?)))
    }

    /// Replaces the operations of a name and returns the ids that were removed.
    pub(super) fn replace_operations(
        &mut self,
        name: &str,
        operations: Vec<OperationId>,
    ) -> Vec<OperationId> {
        let Some(entry) = self.spokes.get_mut(name) else { return Vec::new() };
        let before = std::mem::replace(&mut entry.operations, operations);
        let current: HashSet<&OperationId> = entry.operations.iter().collect();
        before.into_iter().filter(|id| !current.contains(id)).collect()
    }

    /// Removes a name and returns its connection and its operations.
    pub(super) fn remove(&mut self, name: &str) -> (Option<Client>, Vec<OperationId>) {
        let Some(entry) = self.spokes.remove(name) else { return (None, Vec::new()) };
        (entry.route.take_connection(), entry.operations)
    }

    /// Returns the status of a name; `None` if the name is unknown.
    pub(super) fn status(&self, name: &str) -> Option<SpokeStatus> {
        let entry = self.spokes.get(name)?;
        Some(SpokeStatus { is_online: entry.route.is_online(), since: entry.since })
    }

    pub(super) fn config(&self, name: &str) -> SpokeConfig {
        self.configs.get(name).cloned().unwrap_or_default()
    }

    /// Claims a name for an identity. Returns its route, and the operations of the name that was
    /// evicted for it.
    pub(super) fn claim(
        &mut self,
        name: &str,
        identity: &Arc<Identity>,
        max: usize,
        catalog: &Catalog,
    ) -> Result<(Arc<SpokeRoute>, Vec<OperationId>), CallError> {
        let reserved = self.configs.get(name).and_then(|config| config.owner.as_deref());
        let is_owner = match (reserved, self.spokes.get(name)) {
            (Some(owner), _) => identity.is_named(owner),
            (None, Some(entry)) => identity.is_same(&entry.owner),
            (None, None) => true,
        };
        if !is_owner {
            let message = format!("the name `{name}` belongs to another identity");
            return Err(CallError::access_denied(message));
        }
        if let Some(entry) = self.spokes.get(name) {
            return Ok((Arc::clone(&entry.route), Vec::new()));
        }
        if catalog.has_namespace(name) {
            let message = format!("the namespace `{name}` is in use by other operations");
            return Err(CallError::access_denied(message));
        }
        let holder = Holder::from(&**identity);
        let (name_permit, evicted) = self.acquire_name(name, &holder, max)?;
        let bytes_permit = self.bytes.try_acquire(&holder, 0)?;
        let route = SpokeRoute::new(SourceKind::Spoke, name);
        let entry = SpokeEntry {
            owner: Arc::clone(identity),
            route: Arc::clone(&route),
            operations: Vec::new(),
            specs: None,
            since: epoch_ms(),
            disconnect_sequence: 0,
            name_permit,
            bytes_permit,
        };
        self.spokes.insert(name.to_owned(), entry);
        Ok((route, evicted))
    }

    /// Takes a name out of the share of an identity, unless the operator configured it. If a limit
    /// is reached, the name that has been offline the longest is evicted: one of the same identity
    /// if its share is reached, else one of any. Returns the operations of the evicted name.
    fn acquire_name(
        &mut self,
        name: &str,
        holder: &Holder,
        max: usize,
    ) -> Result<(Option<SharePermit>, Vec<OperationId>), CallError> {
        if self.configs.contains_key(name) {
            return Ok((None, Vec::new()));
        }
        if max == 0 {
            let message = format!("the spoke name `{name}` is not configured on this hub");
            return Err(CallError::access_denied(message));
        }
        let reached = match self.names.try_acquire(holder, 1) {
            Ok(permit) => return Ok((Some(permit), Vec::new())),
            Err(reached) => reached,
        };
        let is_candidate = |permit: &SharePermit| reached.is_total() || permit.holder() == holder;
        let offline = self.spokes.iter().filter(|(_, entry)| {
            !entry.route.is_online() && entry.name_permit.as_ref().is_some_and(is_candidate)
        });
        let oldest = offline.min_by_key(|(_, entry)| entry.disconnect_sequence);
        let oldest = oldest.map(|(name, _)| name.clone()).ok_or(reached)?;
        let evicted = self.spokes.remove(&oldest).map(|entry| entry.operations);
        Ok((Some(self.names.try_acquire(holder, 1)?), evicted.unwrap_or_default()))
    }

    /// Sets the connection of a name; returns the ids of operations that the name no longer has.
    pub(super) fn attach(
        &mut self,
        name: &str,
        peer: u64,
        client: Client,
        operations: Vec<OperationId>,
        registered_specs: Option<Arc<Vec<Value>>>,
    ) -> Vec<OperationId> {
        let Some(entry) = self.spokes.get_mut(name) else { return Vec::new() };
        if !entry.route.is_served_by(peer) {
            entry.since = epoch_ms();
        }
        entry.route.set_connection(peer, client);
        entry.specs = registered_specs;
        self.replace_operations(name, operations)
    }

    /// Marks the spokes of a closed connection as offline and returns the registry changes.
    pub(super) fn detach(&mut self, connection_id: u64, catalog: &Catalog) -> Vec<Change> {
        let mut changes = Vec::new();
        for entry in
            self.spokes.values_mut().filter(|entry| entry.route.is_served_by(connection_id))
        {
            entry.route.current.store(None);
            self.disconnects += 1;
            (entry.disconnect_sequence, entry.since) = (self.disconnects, epoch_ms());
            tracing::info!(spoke = &*entry.route.source.name, "spoke disconnected");
            let operations = entry.operations.iter().filter_map(|id| catalog.get(id.as_str()));
            changes.extend(
                operations.map(|operation| {
                    Change::Replace(Operation::clone(operation).with_offline(true))
                }),
            );
        }
        changes
    }

    /// Returns the number of online and offline names.
    pub(super) fn count(&self) -> (usize, usize) {
        let online = self.spokes.values().filter(|entry| entry.route.is_online()).count();
        (online, self.spokes.len() - online)
    }
}
