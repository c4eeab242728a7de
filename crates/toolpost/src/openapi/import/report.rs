//! What became of a document, for people and for the command line.

use serde::Serialize;

use super::super::schema::DocumentWarning;
use super::ImportResult;
use crate::spec::{OperationKind, OperationSpec};

/// An operation that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkippedOperation {
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
pub struct ImportReport {
    /// What can be called.
    pub operations: Vec<OperationSpec>,
    /// What cannot.
    pub skipped: Vec<SkippedOperation>,
    /// What is odd about the document.
    pub warnings: Vec<DocumentWarning>,
}

/// How many of each there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OperationCounts {
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

impl SkippedOperation {
    pub(crate) fn new(method: &str, path: &str, reason: String) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), reason }
    }
}

impl ImportReport {
    /// How many of each there are.
    pub fn counts(&self) -> OperationCounts {
        let kinds = self.operations.iter().map(|spec| spec.kind);
        OperationCounts::new(kinds, self.skipped.len(), self.warnings.len())
    }
}

impl OperationCounts {
    pub(crate) fn new(
        kinds: impl Iterator<Item = OperationKind>,
        skipped: usize,
        warnings: usize,
    ) -> Self {
        let mut counts = Self { skipped, warnings, ..Self::default() };
        for kind in kinds {
            match kind {
                OperationKind::Query => counts.queries += 1,
                OperationKind::Mutation => counts.mutations += 1,
                OperationKind::Subscription => counts.subscriptions += 1,
            }
        }
        counts
    }
}

impl From<ImportResult> for ImportReport {
    fn from(import: ImportResult) -> Self {
        let operations = import.operations.into_iter().map(|imported| imported.spec).collect();
        Self { operations, skipped: import.skipped, warnings: import.warnings }
    }
}
