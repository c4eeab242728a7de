//! From the sources of one configuration to those of another, touching only what is different.

use std::collections::BTreeMap;
use std::mem::replace;
use std::time::Duration;

use toolpost::connection::{SessionSettings, Status};
use toolpost::hub::Upstream;
use toolpost::link::WsConnector;
use toolpost::openapi::{Namespaces, OpenApiSettings};
use toolpost::protocol::Secret;
use toolpost::{AccessControl, Change, Operation, OperationId};

use super::entry::{Body, Entry};
use super::parts::{SourceError, adjust, rules, service_hooks};
use super::{Sources, guard};
use crate::config::{Config, SourceChange, SourceConfig, SourceKind};

/// What became of the sources, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceChanges {
    /// Those that were not there.
    pub added: Vec<String>,
    /// Those that are not there any more.
    pub removed: Vec<String>,
    /// Those that are reached otherwise, and were started anew.
    pub changed: Vec<String>,
    /// Those that are reached as before, and whose operations are adjusted otherwise.
    pub adjusted: Vec<String>,
    /// Those that nobody touched.
    pub unchanged: Vec<String>,
}

impl Sources {
    /// Makes them those of another configuration. What did not change is not touched: its processes,
    /// its sessions and its calls go on. What is reached otherwise is started anew, and the old one has
    /// `patience` for its calls in flight.
    pub async fn change(&mut self, config: &Config, patience: Duration) -> SourceChanges {
        let mut changes = SourceChanges::default();
        let wanted: BTreeMap<_, _> =
            config.sources.iter().map(|source| (source.name.as_str(), source)).collect();
        let gone = self.entries.keys().filter(|name| !wanted.contains_key(name.as_str()));
        for name in gone.cloned().collect::<Vec<_>>() {
            if let Some(entry) = self.entries.remove(&name) {
                self.end(&name, entry.body, patience).await;
                self.gateway.hub().forget(&name);
            }
            self.gateway.pipeline().registry().guard(&name, AccessControl::default());
            changes.removed.push(name);
        }
        for (name, source) in wanted {
            guard(&self.gateway, source);
            let change = self.entries.get(name).map(|entry| source.change_from(&entry.config));
            let list = match change {
                None => &mut changes.added,
                Some(SourceChange::Nothing) => &mut changes.unchanged,
                Some(SourceChange::Adjustments) => &mut changes.adjusted,
                Some(_) => &mut changes.changed,
            };
            list.push(name.to_owned());
            if !matches!(change, None | Some(SourceChange::Nothing)) {
                self.restrict(source);
            }
            match change {
                None => {
                    let entry = Entry::start(&self.gateway, &self.parts, source);
                    self.entries.insert(name.to_owned(), entry);
                }
                Some(SourceChange::Nothing) => {}
                Some(SourceChange::Adjustments) if !self.is_scattered(name) => self.adjust(source),
                Some(_) => self.reach_otherwise(source, patience).await,
            }
        }
        changes
    }

    /// Whether the operations of a source lie in namespaces of others, where nobody can tell which are
    /// its own; it is taken out before it is started anew.
    fn is_scattered(&self, name: &str) -> bool {
        let kind = self.entries.get(name).map(|entry| &entry.config.kind);
        matches!(kind, Some(SourceKind::OpenApi(settings)) if settings.namespaces == Namespaces::Keep)
    }

    /// Lets who may call what hold at once for what a source offers already. To read its list again may
    /// take a while, and until then the old one answers.
    fn restrict(&self, source: &SourceConfig) {
        let Some(entry) = self.entries.get(&source.name) else { return };
        if !matches!(entry.body, Body::Server(_) | Body::Service(_)) {
            return;
        }
        let registry = self.gateway.pipeline().registry();
        let catalog = registry.catalog();
        let changes = catalog.namespace(&source.name).iter().map(|operation| {
            let mut spec = operation.spec().clone();
            entry.config.adjustments.own_name(&operation.spec().name).clone_into(&mut spec.name);
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

    /// Other adjustments for a source that is reached as before.
    fn adjust(&mut self, source: &SourceConfig) {
        self.gateway.hub().expect(&source.name, rules(source));
        let Some(entry) = self.entries.get_mut(&source.name) else { return };
        entry.config = source.clone();
        match (&entry.body, &source.kind) {
            (Body::Server(server), SourceKind::Mcp(settings)) => {
                server.adjust(Some(adjust(&source.adjustments)), settings.timeout);
            }
            // Its document is read again; there is no process and no session that would end.
            (Body::Service(_), SourceKind::OpenApi(settings)) => self.replace(source, settings),
            _ => {}
        }
    }

    /// Starts a source in the place of the one of before.
    async fn reach_otherwise(&mut self, source: &SourceConfig, patience: Duration) {
        let is_scattered = self.is_scattered(&source.name);
        let Some(entry) = self.entries.get_mut(&source.name) else { return };
        let body = replace(&mut entry.body, Body::Nothing);
        match (body, &source.kind) {
            (Body::Server(before), SourceKind::Mcp(settings)) => {
                self.gateway.hub().expect(&source.name, rules(source));
                let (settings, hooks) = self.parts.of(settings, &source.adjustments);
                let registry = self.gateway.pipeline().registry();
                let server = before.succeed(registry, &source.name, settings, hooks, patience);
                self.put(source, Ok(Body::Server(server)));
            }
            (before @ Body::Service(_), SourceKind::OpenApi(settings)) if !is_scattered => {
                self.gateway.hub().expect(&source.name, rules(source));
                entry.body = before;
                self.replace(source, settings);
            }
            (Body::Hub(before), SourceKind::Hub { url, token }) => {
                self.gateway.hub().expect(&source.name, rules(source));
                let token = token.as_ref().map(|token| Secret::new(token.reveal()));
                let connector = WsConnector::with(url, token, self.gateway.0.settings.websocket);
                self.join_otherwise(source, connector, before, patience);
            }
            (before, _) => {
                self.end(&source.name, before, patience).await;
                self.gateway.hub().forget(&source.name);
                let entry = Entry::start(&self.gateway, &self.parts, source);
                self.entries.insert(source.name.clone(), entry);
            }
        }
    }

    fn join_otherwise(
        &mut self,
        source: &SourceConfig,
        connector: Result<WsConnector, toolpost::link::ConnectError>,
        before: Upstream,
        patience: Duration,
    ) {
        let connector = match connector {
            Ok(connector) => connector,
            Err(error) => return self.put(source, Err(error.into())),
        };
        let settings = SessionSettings::default();
        let hub = Upstream::start(self.gateway.hub(), &source.name, connector, settings);
        let mut status = hub.status();
        self.leaving.spawn(async move {
            // The old one answers until the new one does, or is known not to.
            let known = status.wait_for(|status| !matches!(status, Status::Connecting(None)));
            let _ = tokio::time::timeout(patience, known).await;
            before.retire(patience).await;
        });
        self.put(source, Ok(Body::Hub(hub)));
    }

    /// An HTTP service in the place of the one of before; one that cannot be called as it is configured
    /// is disabled.
    fn replace(&mut self, source: &SourceConfig, settings: &OpenApiSettings) {
        let Some(entry) = self.entries.get_mut(&source.name) else { return };
        let Body::Service(before) = replace(&mut entry.body, Body::Nothing) else { return };
        let registry = self.gateway.pipeline().registry();
        let hooks = service_hooks(&source.adjustments);
        let body = match before.succeed(registry, &source.name, settings.clone(), hooks) {
            Ok(service) => Ok(Body::Service(service)),
            Err((before, error)) => {
                // Dropping it takes its operations away.
                drop(before);
                let name = source.name.clone();
                Err(SourceError::Service { name, error: Box::new(error) })
            }
        };
        self.put(source, body);
    }

    fn put(&mut self, source: &SourceConfig, body: Result<Body, SourceError>) {
        let entry = Entry::of(&self.gateway, source, body);
        self.entries.insert(source.name.clone(), entry);
    }

    /// Takes the operations of a source away at once, and lets its calls in flight come to their end.
    async fn end(&self, name: &str, body: Body, patience: Duration) {
        let offered = match body {
            Body::Server(server) => {
                let (offered, leaving) = server.hand_over(patience).await;
                self.leaving.spawn(leaving);
                offered
            }
            Body::Service(service) => service.hand_over().await,
            Body::Hub(hub) => {
                self.gateway.hub().release(name);
                self.leaving.spawn(hub.retire(patience));
                Vec::new()
            }
            Body::Spoke | Body::Nothing => Vec::new(),
        };
        self.take_out(name, offered);
    }

    fn take_out(&self, name: &str, operations: Vec<OperationId>) {
        let registry = self.gateway.pipeline().registry();
        let gone = operations.into_iter().map(Change::Unregister);
        registry.apply(gone).expect("removing cannot clash");
        registry.settle(name);
    }
}
