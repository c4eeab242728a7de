//! The mutable set of operations. Readers use immutable snapshots of it.

mod catalog;
mod search;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::access::AccessControl;
use crate::operation::{Operation, OperationError};
use crate::spec::OperationId;

pub(crate) use catalog::Viewer;
pub use catalog::{Catalog, ResolvedOperation, suggest_name};
pub use search::{SearchHit, SearchResults};

use catalog::NamespaceState;

/// The operations of a process. Clones share the same operations.
///
/// A change builds a new [`Catalog`] and swaps it in atomically, so readers never see a partial
/// change. [`Registry::apply`] batches many changes into one new catalog.
#[derive(Debug, Clone)]
pub struct Registry(Arc<RegistryShared>);

#[derive(Debug)]
struct RegistryShared {
    catalog: ArcSwap<Catalog>,
    /// Held while a new catalog is built, so that concurrent changes are not lost.
    write_lock: Mutex<()>,
    /// Number of changes so far. Receivers only observe that it changed.
    version: watch::Sender<u64>,
    /// Notified when the state of a namespace changes.
    namespace_changes: watch::Sender<()>,
}

/// A change to a registry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Change {
    /// Adds an operation. A duplicate id is an error.
    Register(Operation),
    /// Adds an operation, or replaces the one with the same id.
    Replace(Operation),
    /// Removes an operation. Does nothing if it is not registered.
    Unregister(OperationId),
}

impl Default for Registry {
    fn default() -> Self {
        Self(Arc::new(RegistryShared {
            catalog: ArcSwap::from_pointee(Catalog::default()),
            write_lock: Mutex::new(()),
            version: watch::Sender::new(0),
            namespace_changes: watch::Sender::new(()),
        }))
    }
}

impl Registry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one operation.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Duplicate`] if the id is already registered.
    pub fn register(&self, operation: Operation) -> Result<(), OperationError> {
        self.apply([Change::Register(operation)]).map(drop)
    }

    /// Adds an operation, or replaces the one with the same id.
    pub fn replace(&self, operation: Operation) {
        self.apply([Change::Replace(operation)]).expect("only registering can fail");
    }

    /// Removes an operation. Returns whether it was registered.
    pub fn unregister(&self, id: &OperationId) -> bool {
        self.apply([Change::Unregister(id.clone())]).expect("only registering can fail")
    }

    /// Applies all changes atomically. Returns whether anything changed; receivers of
    /// [`Registry::watch_changes`] are notified only in that case.
    ///
    /// # Errors
    ///
    /// Returns the error of the first change that cannot be applied and leaves the registry
    /// unchanged.
    pub fn apply(&self, changes: impl IntoIterator<Item = Change>) -> Result<bool, OperationError> {
        let guard = self.0.write_lock.lock();
        let mut catalog = self.catalog().copy();
        let operations = &mut catalog.operations;
        let mut changed = false;
        for change in changes {
            match change {
                Change::Register(operation) if operations.contains_key(operation.id()) => {
                    return Err(OperationError::Duplicate(operation.id().clone()));
                }
                Change::Register(operation) | Change::Replace(operation) => {
                    operations.insert(operation.id().clone(), Arc::new(operation));
                    changed = true;
                }
                Change::Unregister(id) => changed |= operations.remove(&id).is_some(),
            }
        }
        if changed {
            self.0.catalog.store(Arc::new(catalog));
            drop(guard);
            self.0.version.send_modify(|changes| *changes += 1);
        }
        Ok(changed)
    }

    /// Marks the source of a namespace as starting. Calls to its operations wait for it.
    pub fn mark_starting(&self, namespace: &str) {
        self.set_namespace_state(namespace, Some(NamespaceState::Starting));
    }

    /// Waits until the source of the namespace, or every source, has started or failed to start.
    pub async fn wait_started(&self, namespace: Option<&str>) {
        let mut changes = self.0.namespace_changes.subscribe();
        // The sender lives as long as `self`.
        let _ = changes.wait_for(|()| !self.catalog().is_starting(namespace)).await;
    }

    /// Marks the operations of a namespace as pending, with the reason. Calls to them fail as
    /// unavailable rather than as unknown operations.
    pub fn mark_pending(&self, namespace: &str, reason: impl Into<String>) {
        self.set_namespace_state(namespace, Some(NamespaceState::Pending(reason.into())));
    }

    /// Marks the operations of a namespace as disabled, with the reason. Calls to them fail as
    /// unavailable and not retryable.
    pub fn mark_disabled(&self, namespace: &str, reason: impl Into<String>) {
        self.set_namespace_state(namespace, Some(NamespaceState::Disabled(reason.into())));
    }

    /// Restricts which callers see why the operations of a namespace are unavailable to those that
    /// `access` permits. Other callers see only that the operations are unavailable.
    pub fn set_namespace_access(&self, namespace: &str, access: AccessControl) {
        let _guard = self.0.write_lock.lock();
        let mut catalog = self.catalog().copy();
        let guard = (!access.is_open()).then_some(access);
        set_or_remove(Arc::make_mut(&mut catalog.namespace_access), namespace, guard);
        self.0.catalog.store(Arc::new(catalog));
    }

    /// Sets or removes the instructions for models about the operations of a namespace.
    pub fn set_instructions(&self, namespace: &str, instructions: Option<&str>) {
        let _guard = self.0.write_lock.lock();
        let current = self.catalog();
        if current.instructions.get(namespace).map(|text| &**text) == instructions {
            return;
        }
        let mut catalog = current.copy();
        let all = Arc::make_mut(&mut catalog.instructions);
        match instructions {
            Some(text) => all.insert(namespace.to_owned(), text.into()),
            None => all.remove(namespace),
        };
        self.0.catalog.store(Arc::new(catalog));
    }

    /// Marks a namespace as ready. Calls to ids that are not registered in it fail as unknown
    /// operations.
    pub fn mark_ready(&self, namespace: &str) {
        if self.catalog().is_pending(namespace) {
            self.set_namespace_state(namespace, None);
        }
    }

    fn set_namespace_state(&self, namespace: &str, state: Option<NamespaceState>) {
        let guard = self.0.write_lock.lock();
        let mut catalog = self.catalog().copy();
        set_or_remove(Arc::make_mut(&mut catalog.namespace_states), namespace, state);
        self.0.catalog.store(Arc::new(catalog));
        drop(guard);
        self.0.namespace_changes.send_replace(());
    }

    /// Returns a snapshot of the registered operations. Later changes do not affect it.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog.load_full()
    }

    /// Returns a receiver that is notified when the registry changes.
    pub fn watch_changes(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }
}

fn set_or_remove<T>(map: &mut HashMap<String, T>, namespace: &str, value: Option<T>) {
    match value {
        Some(value) => map.insert(namespace.to_owned(), value),
        None => map.remove(namespace),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Identity;
    use crate::error::RetryContext;
    use crate::spec::{OperationKind, OperationSpec};

    /// Each row: the caller, and the reason it sees for a pending and for a disabled namespace.
    /// Both namespaces require a scope.
    #[test]
    fn unavailable_reason_hidden_from_unauthorized_callers() {
        let registry = Registry::new();
        let access =
            AccessControl { required_scopes: vec!["boxes".to_owned()], ..AccessControl::default() };
        for name in ["late", "off"] {
            registry.set_namespace_access(name, access.clone());
        }
        registry.mark_pending("late", "no such file: /opt/box");
        registry.mark_disabled("off", "`BOX_KEY` is not set");
        // A later registration keeps the namespace states and their access control.
        registry.register(operation("box.b")).unwrap();
        let [ada, bob] = ["ada", "bob"].map(Identity::new);
        let ada = ada.with_scopes(["boxes"]);
        let late = ": no such file: /opt/box";
        let off = ": `BOX_KEY` is not set";
        for (caller, of_late, of_off) in [
            (Viewer::Process, late, off),
            (Viewer::External(Some(&ada)), late, off),
            (Viewer::External(Some(&bob)), "", ""),
            (Viewer::External(None), "", ""),
        ] {
            let progress =
                RetryContext { kind: OperationKind::Query, idempotent: false, dispatched: false };
            let error_text = |id| {
                let error = registry.catalog().not_found_error(id, caller).finalize(progress);
                (error.message().to_owned(), error.is_retryable())
            };
            let expected = (format!("`late` is not ready yet{of_late}"), true);
            assert_eq!(error_text("late.a"), expected, "{caller:?}");
            let expected = (format!("`off` is disabled{of_off}"), false);
            assert_eq!(error_text("off.a"), expected, "{caller:?}");
        }
        registry.mark_ready("late");
        assert!(!registry.catalog().is_pending("late") && registry.catalog().is_pending("off"));
    }

    #[test]
    fn pending_namespace_returns_unavailable() {
        let registry = Registry::new();
        let error_text = |id: &str| {
            let error = registry.catalog().not_found_error(id, Viewer::Process);
            format!("{}: {}", error.code(), error.message())
        };
        assert_eq!(error_text("box.a"), "OPERATION_NOT_FOUND: Operation not found: box.a");
        registry.mark_starting("box");
        assert_eq!(error_text("box.a"), "UNAVAILABLE: `box` is not ready yet: it is starting");
        assert!(registry.catalog().is_starting(Some("box")));
        registry.mark_pending("box", "it starts");
        assert!(!registry.catalog().is_starting(None));
        assert_eq!(error_text("box.a"), "UNAVAILABLE: `box` is not ready yet: it starts");
        registry.register(operation("box.b")).unwrap();
        assert_eq!(error_text("box.a"), "UNAVAILABLE: `box` is not ready yet: it starts");
        assert_eq!(error_text("boxes.a"), "OPERATION_NOT_FOUND: Operation not found: boxes.a");
        registry.mark_ready("box");
        assert_eq!(error_text("box.a"), "OPERATION_NOT_FOUND: Operation not found: box.a");
        assert!(registry.catalog().get("box.b").is_some());
    }

    fn operation(id: &str) -> Operation {
        let spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
        Operation::from_spec(spec).build().unwrap()
    }

    fn ids(catalog: &Catalog) -> Vec<&str> {
        catalog.list().iter().map(|operation| operation.id().as_str()).collect()
    }

    #[test]
    fn catalog_snapshot_is_immutable() {
        let registry = Registry::new();
        registry.register(operation("demo.b")).unwrap();
        let before = registry.catalog();
        registry.register(operation("demo.a")).unwrap();
        registry.unregister(&"demo.b".parse().unwrap());
        assert_eq!(ids(&before), ["demo.b"]);
        assert_eq!(ids(&registry.catalog()), ["demo.a"]);
    }

    #[test]
    fn register_rejects_duplicate_id_replace_accepts() {
        let registry = Registry::new();
        registry.register(operation("demo.a")).unwrap();
        let id: OperationId = "demo.a".parse().unwrap();
        assert_eq!(registry.register(operation("demo.a")), Err(OperationError::Duplicate(id)));
        registry.replace(operation("demo.a"));
        assert_eq!(ids(&registry.catalog()), ["demo.a"]);
    }

    #[test]
    fn apply_failed_batch_is_rolled_back() {
        let registry = Registry::new();
        let batch = ["demo.a", "demo.b", "demo.a"].map(|id| Change::Register(operation(id)));
        assert!(registry.apply(batch).is_err());
        assert_eq!(ids(&registry.catalog()), [""; 0]);
    }

    #[test]
    fn watch_changes_notifies_only_on_change() {
        let registry = Registry::new();
        let mut changes = registry.watch_changes();
        assert!(!changes.has_changed().unwrap());
        registry.register(operation("demo.a")).unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(registry.register(operation("demo.a")).is_err());
        assert!(!registry.unregister(&"demo.none".parse().unwrap()));
        assert!(!changes.has_changed().unwrap());
    }
}
