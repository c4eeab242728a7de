//! Report of an import, for display and for the command line.

use serde::Serialize;

use super::super::schema::DocumentWarning;
use super::ImportResult;
use crate::spec::{OperationKind, OperationSpec};

/// An operation that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkippedOperation {
    /// HTTP method of the operation.
    pub method: String,
    /// Path as declared in the document.
    pub path: String,
    /// Why the operation cannot be called.
    pub reason: String,
}

/// Result of an import, for display.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// Imported operations.
    pub operations: Vec<OperationSpec>,
    /// Operations that were not imported.
    pub skipped: Vec<SkippedOperation>,
    /// Problems in the document that do not prevent the import.
    pub warnings: Vec<DocumentWarning>,
}

/// Number of operations by kind, of skipped operations and of warnings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OperationCounts {
    /// Number of queries.
    pub queries: usize,
    /// Number of mutations.
    pub mutations: usize,
    /// Number of subscriptions.
    pub subscriptions: usize,
    /// Number of operations that were not imported.
    pub skipped: usize,
    /// Number of warnings.
    pub warnings: usize,
}

impl SkippedOperation {
    pub(crate) fn new(method: &str, path: &str, reason: String) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), reason }
    }
}

impl ImportReport {
    /// Counts operations by kind, skipped operations and warnings.
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
