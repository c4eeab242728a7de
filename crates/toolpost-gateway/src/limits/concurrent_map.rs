//! A map by name for frequent lookups and rare insertions.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

/// Maximum number of entries. Names are external input; names beyond the maximum share one entry.
const MAX_ENTRIES: usize = 4_096;

pub(crate) type MapSnapshot<T> = HashMap<Box<str>, Arc<T>, foldhash::fast::RandomState>;

/// Map with lock-free reads. Each insertion copies the map.
pub(crate) struct ConcurrentMap<T> {
    table: ArcSwap<MapSnapshot<T>>,
    /// Locked while the table is changed.
    write_lock: Mutex<()>,
}

impl<T> Default for ConcurrentMap<T> {
    fn default() -> Self {
        Self { table: ArcSwap::default(), write_lock: Mutex::default() }
    }
}

impl<T> ConcurrentMap<T> {
    /// Returns a snapshot of all entries.
    pub(crate) fn all(&self) -> Arc<MapSnapshot<T>> {
        self.table.load_full()
    }

    /// Returns the value of this name, or inserts the result of `new`.
    pub(crate) fn get_or_insert(&self, name: &str, new: impl FnOnce() -> T) -> Arc<T> {
        if let Some(known) = self.table.load().get(name) {
            return Arc::clone(known);
        }
        let _changing = self.write_lock.lock();
        let before = self.table.load();
        let name = if before.len() < MAX_ENTRIES { name } else { "" };
        if let Some(known) = before.get(name) {
            return Arc::clone(known);
        }
        let added = Arc::new(new());
        let mut after = MapSnapshot::clone(&before);
        after.insert(name.into(), Arc::clone(&added));
        self.table.store(Arc::new(after));
        added
    }

    /// Replaces each entry for which `change` returns a value.
    pub(crate) fn update_each(&self, change: impl Fn(&str, &T) -> Option<T>) {
        let _changing = self.write_lock.lock();
        let mut after = MapSnapshot::clone(&self.table.load());
        for (name, known) in &mut after {
            if let Some(other) = change(name, known) {
                *known = Arc::new(other);
            }
        }
        self.table.store(Arc::new(after));
    }
}
