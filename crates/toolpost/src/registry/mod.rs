//! The registry takes changes; everybody else reads immutable snapshots of it.

mod catalog;
mod search;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::access::AccessControl;
use crate::operation::{Operation, OperationError};
use crate::spec::OperationId;

pub(crate) use catalog::Asker;
pub use catalog::{Catalog, nearest};
pub use search::SearchHit;

use catalog::Absence;

/// The operations of a process. Cloning it shares them.
///
/// A change builds a new [`Catalog`] and swaps it in whole, so that nobody ever sees half of it;
/// many changes at once cost as much as one, through [`Registry::apply`].
#[derive(Debug, Clone)]
pub struct Registry(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    catalog: ArcSwap<Catalog>,
    /// Held while a new catalog is built, so that no change is lost to another.
    writing: Mutex<()>,
    /// The number of changes so far; receivers care that it moved, not by how much.
    changed: watch::Sender<u64>,
}

/// One change of a registry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Change {
    /// Adds an operation; a taken id is an error.
    Register(Operation),
    /// Adds an operation, or puts it in place of the one with the same id.
    Replace(Operation),
    /// Removes an operation; nothing happens if it is not there.
    Unregister(OperationId),
}

impl Default for Registry {
    fn default() -> Self {
        Self(Arc::new(Shared {
            catalog: ArcSwap::from_pointee(Catalog::default()),
            writing: Mutex::new(()),
            changed: watch::Sender::new(0),
        }))
    }
}

impl Registry {
    /// A registry without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one operation.
    ///
    /// # Errors
    ///
    /// [`OperationError::Duplicate`] if the id is taken.
    pub fn register(&self, operation: Operation) -> Result<(), OperationError> {
        self.apply([Change::Register(operation)]).map(drop)
    }

    /// Adds one operation, or puts it in place of the one with the same id.
    pub fn replace(&self, operation: Operation) {
        self.apply([Change::Replace(operation)]).expect("replacing cannot clash");
    }

    /// Removes one operation, and says whether it was there.
    pub fn unregister(&self, id: &OperationId) -> bool {
        self.apply([Change::Unregister(id.clone())]).expect("removing cannot clash")
    }

    /// Makes all changes at once, or none of them, and says whether anything changed. Listeners are
    /// told only if it did.
    ///
    /// # Errors
    ///
    /// The first change that cannot be made; the registry is then as it was.
    pub fn apply(&self, changes: impl IntoIterator<Item = Change>) -> Result<bool, OperationError> {
        let guard = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut operations = self.catalog().operations();
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
            let before = self.catalog();
            let (expected, guards) = (Arc::clone(before.expected()), Arc::clone(before.guards()));
            self.0.catalog.store(Arc::new(Catalog::new(operations, expected, guards)));
            drop(guard);
            self.0.changed.send_modify(|changes| *changes += 1);
        }
        Ok(changed)
    }

    /// Says that the operations of a namespace are still to come, and why they are not there: until
    /// then they are unavailable, which is something else than unknown.
    pub fn expect(&self, namespace: &str, reason: impl Into<String>) {
        let absence = Absence::NotYet(reason.into());
        self.change_expected(|expected| drop(expected.insert(namespace.to_owned(), absence)));
    }

    /// Says that the operations of a namespace cannot come as it is, and why: they are unavailable,
    /// and trying again does not help.
    pub fn disable(&self, namespace: &str, reason: impl Into<String>) {
        let absence = Absence::Disabled(reason.into());
        self.change_expected(|expected| drop(expected.insert(namespace.to_owned(), absence)));
    }

    /// Says who hears why the operations of a namespace are not there: those who could call them.
    /// Whoever else asks is told only that they are not.
    pub fn guard(&self, namespace: &str, access: AccessControl) {
        let _guard = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = self.catalog();
        let mut guards = HashMap::clone(catalog.guards());
        if access.is_open() {
            guards.remove(namespace);
        } else {
            guards.insert(namespace.to_owned(), access);
        }
        let expected = Arc::clone(catalog.expected());
        let catalog = Catalog::new(catalog.operations(), expected, Arc::new(guards));
        self.0.catalog.store(Arc::new(catalog));
    }

    /// Says that a namespace has what it has: whatever is not there is unknown.
    pub fn settle(&self, namespace: &str) {
        if self.catalog().expected().contains_key(namespace) {
            self.change_expected(|expected| drop(expected.remove(namespace)));
        }
    }

    fn change_expected(&self, change: impl FnOnce(&mut HashMap<String, Absence>)) {
        let _guard = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = self.catalog();
        let mut expected = HashMap::clone(catalog.expected());
        change(&mut expected);
        let guards = Arc::clone(catalog.guards());
        let catalog = Catalog::new(catalog.operations(), Arc::new(expected), guards);
        self.0.catalog.store(Arc::new(catalog));
    }

    /// What is registered now; later changes are not seen in it.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog.load_full()
    }

    /// Tells whoever holds the receiver that something changed since it last looked.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Identity;
    use crate::error::CallProgress;
    use crate::spec::{Kind, OperationSpec};

    /// Each row: who asks, and what he is told about a source that is late and about one that is
    /// disabled, both for those who hold a scope.
    #[test]
    fn why_something_is_not_there_is_for_those_who_could_call_it() {
        let registry = Registry::new();
        let access =
            AccessControl { required_scopes: vec!["boxes".to_owned()], ..AccessControl::default() };
        for name in ["late", "off"] {
            registry.guard(name, access.clone());
        }
        registry.expect("late", "no such file: /opt/box");
        registry.disable("off", "`BOX_KEY` is not set");
        // What is registered later keeps all of it.
        registry.register(operation("box.b")).unwrap();
        let [ada, bob] = ["ada", "bob"].map(Identity::new);
        let ada = ada.with_scopes(["boxes"]);
        let late = ": no such file: /opt/box";
        let off = ": `BOX_KEY` is not set";
        for (caller, of_late, of_off) in [
            (Asker::Process, late, off),
            (Asker::Outside(Some(&ada)), late, off),
            (Asker::Outside(Some(&bob)), "", ""),
            (Asker::Outside(None), "", ""),
        ] {
            let progress = CallProgress { kind: Kind::Query, idempotent: false, dispatched: false };
            let said = |id| {
                let error = registry.catalog().missing(id, caller).settled(progress);
                (error.message().to_owned(), error.is_retryable())
            };
            let expected = (format!("`late` is not there yet{of_late}"), true);
            assert_eq!(said("late.a"), expected, "{caller:?}");
            let expected = (format!("`off` is disabled{of_off}"), false);
            assert_eq!(said("off.a"), expected, "{caller:?}");
        }
        assert!(registry.catalog().expects_any());
        registry.settle("late");
        assert!(!registry.catalog().expects_any() && registry.catalog().expects("off"));
    }

    #[test]
    fn what_is_expected_is_unavailable_and_not_unknown() {
        let registry = Registry::new();
        let said = |id: &str| {
            let error = registry.catalog().missing(id, Asker::Process);
            format!("{}: {}", error.code(), error.message())
        };
        assert_eq!(said("box.a"), "OPERATION_NOT_FOUND: Operation not found: box.a");
        registry.expect("box", "it starts");
        assert_eq!(said("box.a"), "UNAVAILABLE: `box` is not there yet: it starts");
        registry.register(operation("box.b")).unwrap();
        assert_eq!(said("box.a"), "UNAVAILABLE: `box` is not there yet: it starts");
        assert_eq!(said("boxes.a"), "OPERATION_NOT_FOUND: Operation not found: boxes.a");
        registry.settle("box");
        assert_eq!(said("box.a"), "OPERATION_NOT_FOUND: Operation not found: box.a");
        assert!(registry.catalog().get("box.b").is_some());
    }

    fn operation(id: &str) -> Operation {
        let spec = OperationSpec::new(&id.parse().unwrap(), Kind::Query);
        Operation::from_spec(spec).build().unwrap()
    }

    fn ids(catalog: &Catalog) -> Vec<&str> {
        catalog.list().iter().map(|operation| operation.id().as_str()).collect()
    }

    #[test]
    fn a_snapshot_does_not_change() {
        let registry = Registry::new();
        registry.register(operation("demo.b")).unwrap();
        let before = registry.catalog();
        registry.register(operation("demo.a")).unwrap();
        registry.unregister(&"demo.b".parse().unwrap());
        assert_eq!(ids(&before), ["demo.b"]);
        assert_eq!(ids(&registry.catalog()), ["demo.a"]);
    }

    #[test]
    fn a_taken_id_is_refused_unless_it_is_to_be_replaced() {
        let registry = Registry::new();
        registry.register(operation("demo.a")).unwrap();
        let id: OperationId = "demo.a".parse().unwrap();
        assert_eq!(registry.register(operation("demo.a")), Err(OperationError::Duplicate(id)));
        registry.replace(operation("demo.a"));
        assert_eq!(ids(&registry.catalog()), ["demo.a"]);
    }

    #[test]
    fn a_batch_that_fails_changes_nothing() {
        let registry = Registry::new();
        let batch = ["demo.a", "demo.b", "demo.a"].map(|id| Change::Register(operation(id)));
        assert!(registry.apply(batch).is_err());
        assert_eq!(ids(&registry.catalog()), [""; 0]);
    }

    #[test]
    fn listeners_are_told_of_changes_and_of_nothing_else() {
        let registry = Registry::new();
        let mut changes = registry.changes();
        assert!(!changes.has_changed().unwrap());
        registry.register(operation("demo.a")).unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(registry.register(operation("demo.a")).is_err());
        assert!(!registry.unregister(&"demo.none".parse().unwrap()));
        assert!(!changes.has_changed().unwrap());
    }
}
