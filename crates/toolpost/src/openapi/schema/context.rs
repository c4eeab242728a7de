//! State shared by all schemas of a document.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::document::{DocumentSet, NodeRef};
use super::keyword::is_nullable;
use crate::schema::PatternCheck;

/// A document and the rules for reading its schemas.
#[derive(Debug)]
pub(crate) struct SchemaContext {
    pub(crate) documents: Arc<DocumentSet>,
    /// Whether keywords next to a `$ref` are ignored, as in versions before OpenAPI 3.1.
    pub(crate) ignores_ref_siblings: bool,
    /// Whether each pattern is valid. Compiling a pattern is expensive, and many are repeated.
    patterns: Mutex<KnownPatterns>,
}

#[derive(Debug, Default)]
struct KnownPatterns {
    are_valid: HashMap<String, bool>,
    check: PatternCheck,
}

impl SchemaContext {
    pub(crate) fn new(documents: Arc<DocumentSet>, ignores_ref_siblings: bool) -> Self {
        Self { documents, ignores_ref_siblings, patterns: Mutex::default() }
    }

    /// Whether the schema validator supports a pattern.
    pub(super) fn is_valid_pattern(&self, pattern: &str) -> bool {
        let mut patterns = self.patterns.lock();
        if let Some(known) = patterns.are_valid.get(pattern) {
            return *known;
        }
        let is_pattern = !is_foreign_pattern(pattern) && patterns.check.is_supported(pattern);
        patterns.are_valid.insert(pattern.to_owned(), is_pattern);
        is_pattern
    }

    /// Follows pure references, so that references to one schema have the same node.
    pub(super) fn canonical(&self, node_ref: NodeRef) -> NodeRef {
        let mut node = self.documents.node(node_ref);
        for _ in 0..64 {
            let is_lone_reference = self.ignores_ref_siblings || node.members().len() == 1;
            let reference = node.text("$ref").filter(|_| is_lone_reference && !is_nullable(node));
            match reference.and_then(|reference| node.resolve(reference).ok()) {
                Some(next) => node = next,
                None => return node.node_ref(),
            }
        }
        node_ref
    }
}

/// Whether a pattern has foreign syntax: slash delimiters or POSIX classes.
fn is_foreign_pattern(pattern: &str) -> bool {
    pattern.starts_with("/^") || pattern.contains("[[:") || pattern.contains("[^[:")
}
