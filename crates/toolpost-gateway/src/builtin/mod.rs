//! The demo operations of the embedded default configuration.

mod demo;

use toolpost::{Change, Registry};

/// Namespace of the demo operations.
pub(crate) const DEMO_NAMESPACE: &str = "demo";

/// Returns a registry with every built-in operation.
pub fn registry() -> Registry {
    let registry = Registry::new();
    set_demo_operations(&registry, true);
    registry
}

/// Registers the demo operations, or removes them.
pub fn set_demo_operations(registry: &Registry, is_enabled: bool) {
    let changes = demo::operations().into_iter().map(|operation| match is_enabled {
        true => Change::Replace(operation),
        false => Change::Unregister(operation.id().clone()),
    });
    registry.apply(changes).expect("replacing and removing cannot conflict");
}
