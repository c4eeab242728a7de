//! Applies the differences between the sources of two configurations.

use std::collections::BTreeMap;
use std::mem::replace;
use std::time::Duration;

use toolpost::connection::{ConnectionStatus, ReconnectSettings};
use toolpost::hub::Upstream;
use toolpost::openapi::{Namespaces, OpenApiSettings};
use toolpost::protocol::Secret;
use toolpost::transport::WsConnector;
use toolpost::{AccessControl, Change, Operation, OperationId};

use super::mcp_env::{SourceError, service_hooks, spec_transform, spoke_config};
use super::running::{RunningSource, SourceConnection};
use super::{Sources, set_source_access};
use crate::config::{Config, SourceChange, SourceConfig, SourceKind};

/// Changes to the sources, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceDiff {
    /// Sources that are new.
    pub added: Vec<String>,
    /// Sources that were removed.
    pub removed: Vec<String>,
    /// Sources with a changed connection, which were restarted.
    pub changed: Vec<String>,
    /// Sources with the same connection whose operations are adjusted differently.
    pub adjusted: Vec<String>,
    /// Sources that did not change.
    pub unchanged: Vec<String>,
}

impl Sources {
    /// Applies the sources of another configuration. Unchanged sources keep their processes,
    /// sessions and calls. A source with a changed connection is restarted, and the old one has
    /// `timeout` to finish its calls in flight.
    pub async fn apply_config(&mut self, config: &Config, timeout: Duration) -> SourceDiff {
        let mut changes = SourceDiff::default();
        let configured: BTreeMap<_, _> =
            config.sources.iter().map(|source| (source.name.as_str(), source)).collect();
        let removed_names =
            self.entries.keys().filter(|name| !configured.contains_key(name.as_str()));
        for name in removed_names.cloned().collect::<Vec<_>>() {
            if let Some(entry) = self.entries.remove(&name) {
                self.retire(&name, entry.connection, timeout).await;
                self.gateway.hub().remove_spoke(&name);
            }
            self.gateway
                .pipeline()
                .registry()
                .set_namespace_access(&name, AccessControl::default());
            changes.removed.push(name);
        }
        for (name, source) in configured {
            set_source_access(&self.gateway, source);
            let change = self.entries.get(name).map(|entry| source.change_from(&entry.config));
            let list = match change {
                None => &mut changes.added,
                Some(SourceChange::Unchanged) => &mut changes.unchanged,
                Some(SourceChange::Adjustments) => &mut changes.adjusted,
                Some(_) => &mut changes.changed,
            };
            list.push(name.to_owned());
            if !matches!(change, None | Some(SourceChange::Unchanged)) {
                self.apply_access(source);
            }
            match change {
                None => {
                    let entry = RunningSource::start(&self.gateway, &self.mcp_env, source);
                    self.entries.insert(name.to_owned(), entry);
                }
                Some(SourceChange::Unchanged) => {}
                Some(SourceChange::Adjustments) if !self.has_foreign_namespaces(name) => {
                    self.apply_adjustments(source);
                }
                Some(_) => self.reconnect(source, timeout).await,
            }
        }
        changes
    }

    /// Whether the operations of a source are in other namespaces. They cannot be distinguished
    /// from others there, so the source is removed before it is restarted.
    fn has_foreign_namespaces(&self, name: &str) -> bool {
        let kind = self.entries.get(name).map(|entry| &entry.config.kind);
        matches!(kind, Some(SourceKind::OpenApi(settings)) if settings.namespaces == Namespaces::Keep)
    }

    /// Applies the new access to the registered operations of a source at once. Listing them again
    /// may take a while, and the old operations serve calls until then.
    fn apply_access(&self, source: &SourceConfig) {
        let Some(entry) = self.entries.get(&source.name) else { return };
        if !matches!(entry.connection, SourceConnection::Mcp(_) | SourceConnection::OpenApi(_)) {
            return;
        }
        let registry = self.gateway.pipeline().registry();
        let catalog = registry.catalog();
        let changes = catalog.namespace(&source.name).iter().map(|operation| {
            let mut spec = operation.spec().clone();
            entry.config.adjustments.source_name(&operation.spec().name).clone_into(&mut spec.name);
            match source.adjustments.apply(spec) {
                None => Change::Unregister(operation.id().clone()),
                Some((spec, _)) => {
                    let operation = Operation::clone(operation);
                    Change::Replace(operation.with_access(spec.access_control, spec.approval))
                }
            }
        });
        registry.apply(changes.collect::<Vec<_>>()).expect("replacing cannot clash");
    }

    /// Applies new adjustments to a source whose connection is unchanged.
    fn apply_adjustments(&mut self, source: &SourceConfig) {
        self.gateway.hub().configure_spoke(&source.name, spoke_config(source));
        let Some(entry) = self.entries.get_mut(&source.name) else { return };
        entry.config = source.clone();
        match (&entry.connection, &source.kind) {
            (SourceConnection::Mcp(server), SourceKind::Mcp(settings)) => {
                server.set_transform(Some(spec_transform(&source.adjustments)), settings.timeout);
            }
            // The document is read again. There is no process or session to end.
            (SourceConnection::OpenApi(_), SourceKind::OpenApi(settings)) => {
                self.replace_service(source, settings);
            }
            _ => {}
        }
    }

    /// Restarts a source with a changed connection.
    async fn reconnect(&mut self, source: &SourceConfig, timeout: Duration) {
        let is_scattered = self.has_foreign_namespaces(&source.name);
        let Some(entry) = self.entries.get_mut(&source.name) else { return };
        let old_connection = replace(&mut entry.connection, SourceConnection::Disabled);
        match (old_connection, &source.kind) {
            (SourceConnection::Mcp(before), SourceKind::Mcp(settings)) => {
                self.gateway.hub().configure_spoke(&source.name, spoke_config(source));
                let (settings, hooks) = self.mcp_env.prepare(settings, &source.adjustments);
                let registry = self.gateway.pipeline().registry();
                let server = before.replace_with(registry, &source.name, settings, hooks, timeout);
                self.insert_entry(source, Ok(SourceConnection::Mcp(server)));
            }
            (before @ SourceConnection::OpenApi(_), SourceKind::OpenApi(settings))
                if !is_scattered =>
            {
                self.gateway.hub().configure_spoke(&source.name, spoke_config(source));
                entry.connection = before;
                self.replace_service(source, settings);
            }
            (SourceConnection::Hub(before), SourceKind::Hub { url, token }) => {
                self.gateway.hub().configure_spoke(&source.name, spoke_config(source));
                let token = token.as_ref().map(|token| Secret::new(token.reveal()));
                let connector =
                    WsConnector::with_settings(url, token, self.gateway.0.settings.websocket);
                self.reconnect_hub(source, connector, before, timeout);
            }
            (before, _) => {
                self.retire(&source.name, before, timeout).await;
                self.gateway.hub().remove_spoke(&source.name);
                let entry = RunningSource::start(&self.gateway, &self.mcp_env, source);
                self.entries.insert(source.name.clone(), entry);
            }
        }
    }

    fn reconnect_hub(
        &mut self,
        source: &SourceConfig,
        connector: Result<WsConnector, toolpost::transport::ConnectError>,
        before: Upstream,
        timeout: Duration,
    ) {
        let connector = match connector {
            Ok(connector) => connector,
            Err(error) => return self.insert_entry(source, Err(error.into())),
        };
        let settings = ReconnectSettings::default();
        let hub = Upstream::start(self.gateway.hub(), &source.name, connector, settings);
        let mut status = hub.status();
        self.retiring.spawn(async move {
            // The old connection serves calls until the new one is established or known to be down.
            let known =
                status.wait_for(|status| !matches!(status, ConnectionStatus::Connecting(None)));
            let _ = tokio::time::timeout(timeout, known).await;
            before.drain(timeout).await;
        });
        self.insert_entry(source, Ok(SourceConnection::Hub(hub)));
    }

    /// Replaces an HTTP service. One with invalid settings is disabled.
    fn replace_service(&mut self, source: &SourceConfig, settings: &OpenApiSettings) {
        let Some(entry) = self.entries.get_mut(&source.name) else { return };
        let SourceConnection::OpenApi(before) =
            replace(&mut entry.connection, SourceConnection::Disabled)
        else {
            return;
        };
        let registry = self.gateway.pipeline().registry();
        let hooks = service_hooks(&source.adjustments);
        let connection = match before.replace_with(registry, &source.name, settings.clone(), hooks)
        {
            Ok(service) => Ok(SourceConnection::OpenApi(service)),
            Err((before, error)) => {
                // Dropping the service unregisters its operations.
                drop(before);
                let name = source.name.clone();
                Err(SourceError::Service { name, error: Box::new(error) })
            }
        };
        self.insert_entry(source, connection);
    }

    fn insert_entry(
        &mut self,
        source: &SourceConfig,
        connection: Result<SourceConnection, SourceError>,
    ) {
        let entry = RunningSource::with_connection(&self.gateway, source, connection);
        self.entries.insert(source.name.clone(), entry);
    }

    /// Unregisters the operations of a source at once and lets its calls in flight finish.
    async fn retire(&self, name: &str, connection: SourceConnection, timeout: Duration) {
        let operation_ids = match connection {
            SourceConnection::Mcp(server) => {
                let (operation_ids, leaving) = server.release_operations(timeout).await;
                self.retiring.spawn(leaving);
                operation_ids
            }
            SourceConnection::OpenApi(service) => service.release_operations().await,
            SourceConnection::Hub(hub) => {
                self.gateway.hub().detach(name);
                self.retiring.spawn(hub.drain(timeout));
                Vec::new()
            }
            SourceConnection::Spoke | SourceConnection::Disabled => Vec::new(),
        };
        self.unregister(name, operation_ids);
    }

    fn unregister(&self, name: &str, operations: Vec<OperationId>) {
        let registry = self.gateway.pipeline().registry();
        let removals = operations.into_iter().map(Change::Unregister);
        registry.apply(removals).expect("removing cannot clash");
        registry.mark_ready(name);
    }
}
