//! The demo operations of the embedded default configuration.

mod demo;

use toolpost::{Change, Registry};

use crate::config::Config;
use crate::runtime::{ReloadReport, Reloadable};

/// Returns a registry with every built-in operation.
pub fn registry() -> Registry {
    let registry = Registry::new();
    let operations = demo::operations().into_iter().map(Change::Register);
    registry.apply(operations).expect("built-in operations have different names");
    registry
}

/// Creates a registry with the built-in operations that the configuration enables.
pub fn registry_from_config(config: &Config) -> Registry {
    if config.without_demo { Registry::new() } else { registry() }
}

/// Registers or removes the demo operations according to the configuration.
#[derive(Debug)]
pub struct DemoOperations(Registry);

impl DemoOperations {
    /// Wraps the registry returned by [`registry_from_config`].
    pub fn new(registry: Registry) -> Self {
        Self(registry)
    }

    /// Removes the demo operations.
    pub fn remove(&self) {
        let removed = demo::operations();
        self.apply(removed.into_iter().map(|operation| Change::Unregister(operation.id().clone())));
    }

    fn add(&self) {
        self.apply(demo::operations().into_iter().map(Change::Replace));
    }

    fn apply(&self, changes: impl Iterator<Item = Change>) {
        self.0.apply(changes).expect("nothing is registered, so that nothing can clash");
    }
}

impl Reloadable for DemoOperations {
    fn apply_config(&self, before: &Config, now: &Config, report: &mut ReloadReport) {
        match (before.without_demo, now.without_demo) {
            (false, true) => self.remove(),
            (true, false) => self.add(),
            _ => return,
        }
        let state = if now.without_demo { "disabled" } else { "enabled" };
        report.notes.push(format!("demo operations {state}"));
    }
}
