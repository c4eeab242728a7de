//! Warnings about a schema, each reported once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Issue;
use super::program::PropertyDefault;
use crate::json::JsonPointer;

/// The warnings about a schema that were not reported yet.
#[derive(Default)]
pub(super) struct SchemaWarnings {
    /// Whether `found` has unreported warnings. Checked for every value, so it is not locked.
    has_unreported: AtomicBool,
    found: Mutex<FoundWarnings>,
}

#[derive(Default)]
struct FoundWarnings {
    unreported: Vec<Issue>,
    /// Locations of defaults that were rejected for some value.
    rejected: HashSet<String>,
}

impl SchemaWarnings {
    pub(super) fn new(unreported: Vec<Issue>) -> Self {
        let has_unreported = AtomicBool::new(!unreported.is_empty());
        let found = FoundWarnings { unreported, rejected: HashSet::new() };
        Self { has_unreported, found: Mutex::new(found) }
    }

    /// Adds a warning for each default that was not rejected before.
    pub(super) fn add_rejected(&self, rejected: &[&PropertyDefault]) {
        if rejected.is_empty() {
            return;
        }
        let mut found = self.found.lock();
        for PropertyDefault { pointer, .. } in rejected {
            if found.rejected.insert(pointer.to_string()) {
                found.unreported.push(rejected_default(pointer));
                self.has_unreported.store(true, Ordering::Release);
            }
        }
    }

    pub(super) fn take(&self) -> Vec<Issue> {
        if !self.has_unreported.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut found = self.found.lock();
        self.has_unreported.store(false, Ordering::Release);
        std::mem::take(&mut found.unreported)
    }
}

fn rejected_default(pointer: &JsonPointer) -> Issue {
    Issue::new(
        pointer.as_str(),
        "the default is not filled in where it would make the value invalid",
    )
}
