//! What became of a document, for people and for the command line.

use serde::Serialize;

use super::super::schema::Warning;
use super::Import;
use crate::spec::{Kind, OperationSpec};

/// An operation that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Skipped {
    /// The method as it would be sent.
    pub method: String,
    /// The path as the document has it.
    pub path: String,
    /// Why it cannot be called.
    pub reason: String,
}

/// Everything that an import found, as it is listed and printed.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// What can be called.
    pub operations: Vec<OperationSpec>,
    /// What cannot.
    pub skipped: Vec<Skipped>,
    /// What is odd about the document.
    pub warnings: Vec<Warning>,
}

/// How many of each there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Operations that read.
    pub queries: usize,
    /// Operations that write.
    pub mutations: usize,
    /// Operations that stream.
    pub subscriptions: usize,
    /// Operations that were not imported.
    pub skipped: usize,
    /// Oddities.
    pub warnings: usize,
}

impl Skipped {
    pub(crate) fn new(method: &str, path: &str, reason: String) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), reason }
    }
}

impl Report {
    /// How many of each there are.
    pub fn counts(&self) -> Counts {
        let kinds = self.operations.iter().map(|spec| spec.kind);
        Counts::new(kinds, self.skipped.len(), self.warnings.len())
    }
}

impl Counts {
    pub(crate) fn new(kinds: impl Iterator<Item = Kind>, skipped: usize, warnings: usize) -> Self {
        let mut counts = Self { skipped, warnings, ..Self::default() };
        for kind in kinds {
            match kind {
                Kind::Query => counts.queries += 1,
                Kind::Mutation => counts.mutations += 1,
                Kind::Subscription => counts.subscriptions += 1,
            }
        }
        counts
    }
}

impl From<Import> for Report {
    fn from(import: Import) -> Self {
        let operations = import.operations.into_iter().map(|imported| imported.spec).collect();
        Self { operations, skipped: import.skipped, warnings: import.warnings }
    }
}
