//! Things by name, looked up by every call and added seldom.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

/// How many names are told apart; the others share one. Names come from outside.
const MOST: usize = 4_096;

pub(crate) type Table<T> = HashMap<Box<str>, Arc<T>, foldhash::fast::RandomState>;

/// A table that is read without a lock. Adding copies it.
pub(crate) struct Named<T> {
    table: ArcSwap<Table<T>>,
    /// Held by whoever adds or takes away.
    changing: Mutex<()>,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self { table: ArcSwap::default(), changing: Mutex::default() }
    }
}

impl<T> Named<T> {
    /// Everything that there is.
    pub(crate) fn all(&self) -> Arc<Table<T>> {
        self.table.load_full()
    }

    /// What has this name; `new` makes it.
    pub(crate) fn get_or_insert(&self, name: &str, new: impl FnOnce() -> T) -> Arc<T> {
        if let Some(known) = self.table.load().get(name) {
            return Arc::clone(known);
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.table.load();
        let name = if before.len() < MOST { name } else { "" };
        if let Some(known) = before.get(name) {
            return Arc::clone(known);
        }
        let added = Arc::new(new());
        let mut after = Table::clone(&before);
        after.insert(name.into(), Arc::clone(&added));
        self.table.store(Arc::new(after));
        added
    }

    /// Puts something else in the place of each, where `change` makes something.
    pub(crate) fn change(&self, change: impl Fn(&str, &T) -> Option<T>) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = Table::clone(&self.table.load());
        for (name, known) in &mut after {
            if let Some(other) = change(name, known) {
                *known = Arc::new(other);
            }
        }
        self.table.store(Arc::new(after));
    }
}
