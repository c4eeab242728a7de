//! An immutable picture of what is registered.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use super::search::{Index, SearchHit};
use crate::access::{AccessControl, Identity};
use crate::error::CallError;
use crate::operation::Operation;
use crate::spec::OperationId;

pub(super) type Expected = Arc<HashMap<String, Absence>>;
pub(super) type Guards = Arc<HashMap<String, AccessControl>>;
pub(super) type Operations = HashMap<OperationId, Arc<Operation>, foldhash::fast::RandomState>;

/// Why the operations of a namespace are not there.
#[derive(Debug, Clone)]
pub(super) enum Absence {
    /// They are still to come.
    NotYet(String),
    /// They do not come before somebody changes how they are reached.
    Disabled(String),
}

/// What was registered at one moment.
#[derive(Debug, Default)]
pub struct Catalog {
    operations: Operations,
    /// Namespaces whose operations are still to come, and why they are not there.
    expected: Expected,
    /// Who hears why the operations of a namespace are not there; everybody, where nothing is said.
    guards: Guards,
    /// Sorted by id; made by the first listing, since most catalogs are never listed.
    sorted: OnceLock<Vec<Arc<Operation>>>,
    /// Made by the first search.
    index: OnceLock<Index>,
}

/// Who is told something.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asker<'a> {
    /// This process itself, on nobody's behalf.
    Process,
    /// Somebody whom a door has let in, also where a handler calls on for him.
    Outside(Option<&'a Identity>),
}

// An id hashes and compares as its text, so that a look-up needs no allocation.
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
    pub(super) fn new(operations: Operations, expected: Expected, guards: Guards) -> Self {
        Self { operations, expected, guards, ..Self::default() }
    }

    pub(super) fn expected(&self) -> &Expected {
        &self.expected
    }

    pub(super) fn guards(&self) -> &Guards {
        &self.guards
    }

    /// What a caller is told about an id that is not here: there is no such operation, or its source
    /// has not said yet what it has. Why that is so names commands and variables, and is for those
    /// who could call it.
    pub(crate) fn missing(&self, id: &str, caller: Asker<'_>) -> CallError {
        let namespace = id.split_once('.').map_or(id, |(namespace, _)| namespace);
        let Some(absence) = self.expected.get(namespace) else {
            return CallError::operation_not_found(id);
        };
        let reason = match (self.tells(namespace, caller), absence) {
            (true, Absence::NotYet(reason) | Absence::Disabled(reason)) => format!(": {reason}"),
            (false, _) => String::new(),
        };
        let error = match absence {
            Absence::NotYet(_) => {
                CallError::unavailable(format!("`{namespace}` is not there yet{reason}"))
            }
            Absence::Disabled(_) => {
                CallError::unavailable(format!("`{namespace}` is disabled{reason}")).lasting()
            }
        };
        error.before_sending()
    }

    fn tells(&self, namespace: &str, caller: Asker<'_>) -> bool {
        let Some(guard) = self.guards.get(namespace) else { return true };
        match caller {
            Asker::Process => true,
            Asker::Outside(identity) => guard.admits(identity),
        }
    }

    /// Whether a source of that name is still to say what it has.
    pub fn expects(&self, namespace: &str) -> bool {
        self.expected.contains_key(namespace)
    }

    /// Whether any source is still to say what it has, and may do so without anybody's doing.
    pub fn expects_any(&self) -> bool {
        self.expected.values().any(|absence| matches!(absence, Absence::NotYet(_)))
    }

    pub(super) fn operations(&self) -> Operations {
        self.operations.clone()
    }

    /// The operation of that id.
    pub fn get(&self, id: &str) -> Option<&Arc<Operation>> {
        self.operations.get(id)
    }

    /// Every operation, sorted by id.
    pub fn list(&self) -> &[Arc<Operation>] {
        self.sorted.get_or_init(|| {
            let mut sorted: Vec<_> = self.operations.values().cloned().collect();
            sorted.sort_unstable_by(|a, b| a.id().cmp(b.id()));
            sorted
        })
    }

    /// The operations of one namespace, sorted by id.
    pub fn namespace(&self, namespace: &str) -> &[Arc<Operation>] {
        let list = self.list();
        // Ids are sorted as texts, so that those of a namespace stand together.
        let prefix = format!("{namespace}.");
        let begin = list.partition_point(|operation| operation.id().as_str() < prefix.as_str());
        let rest = &list[begin..];
        let is_inside = |operation: &Arc<Operation>| operation.id().as_str().starts_with(&prefix);
        &rest[..rest.partition_point(is_inside)]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The operations that the words fit best, best first: by name, then tags, then description.
    pub fn search(&self, words: &str, limit: usize) -> Vec<SearchHit> {
        let index = self.index.get_or_init(|| Index::new(self.list()));
        index.search(words, limit, self.list())
    }

    /// The id that somebody who wrote `id` probably meant.
    pub fn nearest(&self, id: &str) -> Option<&OperationId> {
        let nearest = nearest(id, self.list().iter().map(|operation| operation.id().as_str()))?;
        self.get(nearest).map(|operation| operation.id())
    }
}

/// The longest name, in bytes, for which a nearer one is looked for.
const LONGEST_TYPED: usize = 80;

/// The name among `names` that somebody who wrote `wanted` probably meant.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody types so much by hand, and comparing takes time.
    if wanted.len() > LONGEST_TYPED {
        return None;
    }
    let wanted = wanted.to_lowercase();
    // A third of the letters may be wrong; beyond that it is a guess, not a suggestion.
    let most = wanted.chars().count().max(3) / 3;
    let is_near = |name: &&str| name.len().abs_diff(wanted.len()) <= most.saturating_mul(4);
    let near = names.filter(is_near);
    let scored = near.map(|name| (strsim::osa_distance(&wanted, &name.to_lowercase()), name));
    let (distance, nearest) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= most).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::spec::{Kind, OperationSpec};

    #[test]
    fn the_nearest_name_is_near() {
        let registry = Registry::new();
        for id in ["demo.add", "demo.note", "demo.clock", "github.issues/list"] {
            let spec = OperationSpec::new(&id.parse().unwrap(), Kind::Query);
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
            assert_eq!(catalog.nearest(wrong).map(OperationId::as_str), expected, "{wrong}");
        }
    }

    #[test]
    fn a_namespace_is_a_part_of_the_list() {
        let registry = Registry::new();
        for id in ["a.z", "a-b.c", "a.b.c", "ab.x", "a_b.c", "a1.b", "b.a"] {
            let spec = OperationSpec::new(&id.parse().unwrap(), Kind::Query);
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
