//! Immutable snapshots of the registry.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::search::{SearchIndex, SearchResults};
use crate::access::{AccessControl, Identity};
use crate::error::{CallError, RetryContext};
use crate::operation::Operation;
use crate::spec::{OperationId, OperationKind};

type OperationMap = HashMap<OperationId, Arc<Operation>, foldhash::fast::RandomState>;

/// Why the operations of a namespace are unavailable.
#[derive(Debug, Clone)]
pub(super) enum NamespaceState {
    /// The source is starting and has not provided its operations yet.
    Starting,
    /// The source has not provided its operations yet. Holds the reason.
    Pending(String),
    /// The operations stay unavailable until the configuration changes. Holds the reason.
    Disabled(String),
}

/// An immutable snapshot of the registered operations.
#[derive(Debug, Default)]
pub struct Catalog {
    pub(super) operations: OperationMap,
    /// Namespaces whose operations are pending or disabled, with the reason.
    pub(super) namespace_states: Arc<HashMap<String, NamespaceState>>,
    /// Which callers see why the operations of a namespace are unavailable. Without an entry, all
    /// callers do.
    pub(super) namespace_access: Arc<HashMap<String, AccessControl>>,
    /// Instructions for models, by namespace.
    pub(super) instructions: Arc<BTreeMap<String, Arc<str>>>,
    /// Operations sorted by id. Built on the first listing, since most catalogs are never listed.
    sorted: OnceLock<Vec<Arc<Operation>>>,
    /// Search index, built on the first search.
    index: OnceLock<SearchIndex>,
}

/// An operation together with the snapshot that contains it. Calls use that snapshot, so the
/// operation cannot change between the lookup and the call.
#[derive(Debug, Clone)]
pub struct ResolvedOperation {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) operation: Arc<Operation>,
}

impl Deref for ResolvedOperation {
    type Target = Arc<Operation>;

    fn deref(&self) -> &Arc<Operation> {
        &self.operation
    }
}

impl ResolvedOperation {
    /// Returns the snapshot.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
}

/// The recipient of an error message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Viewer<'a> {
    /// This process, not acting for a caller.
    Process,
    /// A caller admitted by an endpoint, including nested calls that a handler makes for that
    /// caller.
    External(Option<&'a Identity>),
}

// An id hashes and compares like its text, so a lookup needs no allocation.
impl Borrow<str> for OperationId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Hash for OperationId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Catalog {
    /// Returns a copy to build the next snapshot from.
    pub(super) fn copy(&self) -> Self {
        Self {
            operations: self.operations.clone(),
            namespace_states: Arc::clone(&self.namespace_states),
            namespace_access: Arc::clone(&self.namespace_access),
            instructions: Arc::clone(&self.instructions),
            ..Self::default()
        }
    }

    /// Returns the error for an id that is not in the catalog: the operation does not exist, or its
    /// namespace is pending or disabled. The reason can contain commands and variable names, so it
    /// is included only for callers with access to the namespace.
    pub(crate) fn not_found_error(&self, id: &str, caller: Viewer<'_>) -> CallError {
        let namespace = id.split_once('.').map_or(id, |(namespace, _)| namespace);
        let Some(state) = self.namespace_states.get(namespace) else {
            return CallError::operation_not_found(id);
        };
        let reason = match (self.can_see_reason(namespace, caller), state) {
            (true, NamespaceState::Starting) => ": it is starting".to_owned(),
            (true, NamespaceState::Pending(reason) | NamespaceState::Disabled(reason)) => {
                format!(": {reason}")
            }
            (false, _) => String::new(),
        };
        let error = match state {
            NamespaceState::Starting | NamespaceState::Pending(_) => {
                CallError::unavailable(format!("`{namespace}` is not ready yet{reason}"))
            }
            NamespaceState::Disabled(_) => {
                CallError::unavailable(format!("`{namespace}` is disabled{reason}")).permanent()
            }
        };
        error.not_sent()
    }

    fn can_see_reason(&self, namespace: &str, caller: Viewer<'_>) -> bool {
        let Some(guard) = self.namespace_access.get(namespace) else { return true };
        match caller {
            Viewer::Process => true,
            Viewer::External(identity) => guard.is_callable_by(identity),
        }
    }

    /// Whether the operations of the namespace are pending or disabled.
    pub fn is_pending(&self, namespace: &str) -> bool {
        self.namespace_states.contains_key(namespace)
    }

    /// Returns the namespaces whose sources are starting.
    pub fn starting(&self) -> impl Iterator<Item = &str> {
        let states = self.namespace_states.iter();
        let starting = states.filter(|(_, state)| matches!(state, NamespaceState::Starting));
        starting.map(|(namespace, _)| namespace.as_str())
    }

    /// Whether the source of the namespace is starting, or any source if there is no namespace.
    pub fn is_starting(&self, namespace: Option<&str>) -> bool {
        self.starting().any(|starting| namespace.is_none_or(|namespace| namespace == starting))
    }

    /// Returns the sources that are starting, without those that the caller cannot access.
    pub(crate) fn starting_for(&self, caller: Viewer<'_>) -> Vec<String> {
        let visible = self.starting().filter(|namespace| self.can_see_reason(namespace, caller));
        let mut visible: Vec<_> = visible.map(str::to_owned).collect();
        visible.sort_unstable();
        visible
    }

    /// Returns the instructions for models that sources provide, by namespace. Access is not
    /// checked.
    pub fn instructions(&self) -> &BTreeMap<String, Arc<str>> {
        &self.instructions
    }

    /// Returns the operation with the given id.
    pub fn get(&self, id: &str) -> Option<&Arc<Operation>> {
        self.operations.get(id)
    }

    /// Returns the operation with the given id, together with this snapshot.
    pub fn resolve(self: &Arc<Self>, id: &str) -> Option<ResolvedOperation> {
        self.get(id).map(|operation| self.resolved(operation))
    }

    /// Pairs an operation of this snapshot with the snapshot.
    pub fn resolved(self: &Arc<Self>, operation: &Arc<Operation>) -> ResolvedOperation {
        ResolvedOperation { catalog: Arc::clone(self), operation: Arc::clone(operation) }
    }

    /// Like [`Catalog::resolve`], but fails if the caller may not call the operation with any
    /// input.
    ///
    /// # Errors
    ///
    /// Returns the error that a call to the operation would fail with.
    pub fn resolve_for(
        self: &Arc<Self>,
        id: &str,
        identity: Option<&Identity>,
    ) -> Result<ResolvedOperation, CallError> {
        let not_found = || {
            let error = self.not_found_error(id, Viewer::External(identity));
            let kind = OperationKind::Query;
            error.finalize(RetryContext { kind, idempotent: false, dispatched: false })
        };
        let operation = self.resolve(id).ok_or_else(not_found)?;
        operation.spec().access_control.check_callable(identity)?;
        Ok(operation)
    }

    /// Returns all operations, sorted by id.
    pub fn list(&self) -> &[Arc<Operation>] {
        self.sorted.get_or_init(|| {
            let mut sorted: Vec<_> = self.operations.values().cloned().collect();
            sorted.sort_unstable_by(|a, b| a.id().cmp(b.id()));
            sorted
        })
    }

    /// Returns the operations of one namespace, sorted by id.
    pub fn namespace(&self, namespace: &str) -> &[Arc<Operation>] {
        let list = self.list();
        // Ids are sorted as text, so the ids of a namespace are contiguous.
        let prefix = format!("{namespace}.");
        let begin = list.partition_point(|operation| operation.id().as_str() < prefix.as_str());
        let rest = &list[begin..];
        let is_in_namespace =
            |operation: &Arc<Operation>| operation.id().as_str().starts_with(&prefix);
        &rest[..rest.partition_point(is_in_namespace)]
    }

    /// Whether there are operations in a namespace. Unlike a listing, this does not sort them.
    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        self.operations.keys().any(|id| id.namespace() == namespace)
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the catalog has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns up to `limit` operations that match the query, best match first, by BM25 over names,
    /// tags, descriptions and parameter names. Only the first 32 terms of the query count.
    pub fn search(&self, query: &str, limit: usize) -> SearchResults {
        self.search_visible(query, limit, |_| true, &|| false)
    }

    /// Like [`Catalog::search`], among the visible operations. Once `is_canceled` returns true, the
    /// search ends early.
    pub(crate) fn search_visible(
        &self,
        query: &str,
        limit: usize,
        is_visible: impl Fn(&Operation) -> bool,
        is_canceled: &dyn Fn() -> bool,
    ) -> SearchResults {
        self.search_index().search(query, limit, self.list(), is_visible, is_canceled)
    }

    /// Whether the search index is built. Building it takes a while for a large catalog.
    pub(crate) fn is_search_ready(&self) -> bool {
        self.index.get().is_some()
    }

    fn search_index(&self) -> &SearchIndex {
        self.index.get_or_init(|| SearchIndex::new(self.list()))
    }

    /// Returns the registered id most similar to a misspelled `id`.
    pub fn suggest(&self, id: &str) -> Option<&OperationId> {
        let nearest =
            suggest_name(id, self.list().iter().map(|operation| operation.id().as_str()))?;
        self.get(nearest).map(|operation| operation.id())
    }
}

/// Maximum length of a requested name, in bytes, for which a suggestion is computed.
const MAX_SUGGEST_LEN: usize = 80;

/// Returns the name most similar to a misspelled `requested`.
pub fn suggest_name<'a>(requested: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The comparison is slow for long names.
    if requested.len() > MAX_SUGGEST_LEN {
        return None;
    }
    let requested = requested.to_lowercase();
    // Up to a third of the characters may differ, and at least one.
    let limit = requested.chars().count().max(3) / 3;
    let is_similar_length =
        |name: &&str| name.len().abs_diff(requested.len()) <= limit.saturating_mul(4);
    let candidates = names.filter(is_similar_length);
    let scored =
        candidates.map(|name| (strsim::osa_distance(&requested, &name.to_lowercase()), name));
    let (distance, nearest) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= limit).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::spec::{OperationKind, OperationSpec};

    #[test]
    fn suggest_returns_closest_id_or_none() {
        let registry = Registry::new();
        for id in ["demo.add", "demo.note", "demo.clock", "github.issues/list"] {
            let spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
            registry.register(Operation::from_spec(spec).build().unwrap()).unwrap();
        }
        let catalog = registry.catalog();
        for (wrong, expected) in [
            ("demo.ad", Some("demo.add")),
            ("demo.dad", Some("demo.add")),
            ("Demo.Clok", Some("demo.clock")),
            ("github.issue/list", Some("github.issues/list")),
            ("weather.forecast", None),
            ("", None),
        ] {
            assert_eq!(catalog.suggest(wrong).map(OperationId::as_str), expected, "{wrong}");
        }
    }

    #[test]
    fn namespace_returns_contiguous_operations() {
        let registry = Registry::new();
        for id in ["a.z", "a-b.c", "a.b.c", "ab.x", "a_b.c", "a1.b", "b.a"] {
            let spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
            registry.register(Operation::from_spec(spec).build().unwrap()).unwrap();
        }
        let catalog = registry.catalog();
        let ids = |namespace: &str| -> Vec<String> {
            let operations = catalog.namespace(namespace).iter();
            operations.map(|operation| operation.id().to_string()).collect()
        };
        assert_eq!(ids("a"), ["a.b.c", "a.z"]);
        assert_eq!(ids("a-b"), ["a-b.c"]);
        assert_eq!(ids("b"), ["b.a"]);
        assert!(ids("c").is_empty() && ids("").is_empty());
    }
}
