//! Applies the differences between the sources of two configurations.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use toolpost::{AccessControl, Change, Operation, RunningSource};

use super::start::{SourceEntry, source_hooks, spoke_config};
use super::{Sources, set_source_access};
use crate::config::{Config, SourceChange, SourceConfig, SourceKind};

/// Changes to the sources, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SourceDiff {
    /// Names of the sources that were added.
    pub added: Vec<String>,
    /// Sources that were removed.
    pub removed: Vec<String>,
    /// Names of the sources whose connection settings changed and that were restarted.
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
                self.retire(entry.source, timeout).await;
                self.context.hub.remove_spoke(&name);
            }
            self.context.registry.set_namespace_access(&name, AccessControl::default());
            changes.removed.push(name);
        }
        for (name, source) in configured {
            set_source_access(&self.context, source);
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
                    let entry = SourceEntry::start(&self.context, &self.mcp_env, source);
                    self.entries.insert(name.to_owned(), entry);
                }
                Some(SourceChange::Unchanged) => {}
                // The timeout of an HTTP service is part of its client.
                Some(SourceChange::Adjustments)
                    if !matches!(source.kind, SourceKind::OpenApi(_)) =>
                {
                    self.apply_adjustments(source).await;
                }
                Some(_) => self.replace(source, timeout).await,
            }
        }
        changes
    }

    /// Applies the new access to the registered operations of a source at once, because the old
    /// operations serve calls until they are listed again. For spokes, the hub does this.
    fn apply_access(&self, source: &SourceConfig) {
        let Some(SourceEntry { config, source: Some(_), .. }) = self.entries.get(&source.name)
        else {
            return;
        };
        let registry = &self.context.registry;
        let catalog = registry.catalog();
        let is_affected = |operation: &&std::sync::Arc<Operation>| {
            operation.source().is_some_and(|from| *from.name == source.name)
        };
        let changes = catalog.list().iter().filter(is_affected).map(|operation| {
            let mut spec = operation.spec().clone();
            config.adjustments.source_name(&operation.spec().name).clone_into(&mut spec.name);
            match source.adjustments.apply(spec) {
                None => Change::Unregister(operation.id().clone()),
                Some((spec, _)) => {
                    let operation = Operation::clone(operation);
                    Change::Replace(operation.with_access(spec.access_control, spec.approval))
                }
            }
        });
        registry.apply(changes.collect::<Vec<_>>()).expect("replacing cannot conflict");
    }

    /// Applies new adjustments to a source whose connection is unchanged.
    async fn apply_adjustments(&mut self, source: &SourceConfig) {
        self.context.hub.configure_spoke(&source.name, spoke_config(source));
        let Some(entry) = self.entries.get_mut(&source.name) else { return };
        entry.config = source.clone();
        if let Some(running) = &entry.source {
            running.set_hooks(source_hooks(source)).await;
        }
    }

    /// Replaces a source. The old one serves calls until the new one is ready or down.
    async fn replace(&mut self, source: &SourceConfig, timeout: Duration) {
        let Some(entry) = self.entries.remove(&source.name) else { return };
        let prepared = SourceEntry::prepare(&self.context, &self.mcp_env, source);
        let is_started = matches!(prepared, Ok(Some(_)));
        let before = match entry.source {
            Some(before) if is_started => {
                // The old connection to a hub serves the new adjustments until then.
                if matches!(entry.config.kind, SourceKind::Hub { .. }) {
                    before.set_hooks(source_hooks(source)).await;
                }
                Some((before, timeout))
            }
            before => {
                self.retire(before, timeout).await;
                self.context.hub.remove_spoke(&source.name);
                None
            }
        };
        let entry = SourceEntry::start_prepared(&self.context, source, prepared, before);
        self.entries.insert(source.name.clone(), entry);
    }

    /// Unregisters the operations of a source at once and lets its calls in flight finish.
    async fn retire(&self, source: Option<RunningSource>, timeout: Duration) {
        let Some(source) = source else { return };
        let name = source.name().to_owned();
        let (operations, draining) = source.release_operations(timeout).await;
        self.retiring.spawn(draining);
        let registry = &self.context.registry;
        let removals = operations.into_iter().map(Change::Unregister);
        registry.apply(removals).expect("removing cannot conflict");
        registry.mark_ready(&name);
    }
}
