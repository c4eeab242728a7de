//! The operations of the embedded default, so that there is something to try.

mod demo;

use manila::{Change, Registry};

/// A registry with every built-in operation.
pub fn registry() -> Registry {
    let registry = Registry::new();
    let operations = demo::operations().into_iter().map(Change::Register);
    registry.apply(operations).expect("built-in operations have different names");
    registry
}
