//! The operations of the embedded default, so that there is something to try.

mod demo;

use toolpost::{Change, Registry};

use crate::config::Config;
use crate::run::{Part, Reloaded};

/// A registry with every built-in operation.
pub fn registry() -> Registry {
    let registry = Registry::new();
    let operations = demo::operations().into_iter().map(Change::Register);
    registry.apply(operations).expect("built-in operations have different names");
    registry
}

/// A registry with the built-in operations that a configuration wants.
pub fn registry_for(config: &Config) -> Registry {
    if config.without_demo { Registry::new() } else { registry() }
}

/// Takes the operations to try out of a registry, or puts them into it, as the configuration says.
#[derive(Debug)]
pub struct BuiltIn(Registry);

impl BuiltIn {
    /// For the registry that [`registry_for`] has made.
    pub fn new(registry: Registry) -> Self {
        Self(registry)
    }

    /// Takes the operations to try out.
    pub fn remove(&self) {
        let gone = demo::operations();
        self.apply(gone.into_iter().map(|operation| Change::Unregister(operation.id().clone())));
    }

    fn add(&self) {
        self.apply(demo::operations().into_iter().map(Change::Replace));
    }

    fn apply(&self, changes: impl Iterator<Item = Change>) {
        self.0.apply(changes).expect("nothing is registered, so that nothing can clash");
    }
}

impl Part for BuiltIn {
    fn change(&self, before: &Config, now: &Config, report: &mut Reloaded) {
        match (before.without_demo, now.without_demo) {
            (false, true) => self.remove(),
            (true, false) => self.add(),
            _ => return,
        }
        let words = if now.without_demo { "left out" } else { "there" };
        report.notes.push(format!("the operations to try are {words} from now on"));
    }
}
