//! What all schemas of one document share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use super::super::document::{Library, Node, Place};

/// A document whose schemas are read.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) library: Arc<Library>,
    /// Whether a `$ref` hides what stands beside it, as it does before OpenAPI 3.1.
    pub(crate) ref_hides_siblings: bool,
    /// Which patterns are regular expressions, since finding out is dear and many repeat.
    patterns: Mutex<HashMap<String, bool>>,
}

impl Context {
    pub(crate) fn new(library: Arc<Library>, ref_hides_siblings: bool) -> Self {
        Self { library, ref_hides_siblings, patterns: Mutex::default() }
    }

    /// Whether the engine that will run it takes the pattern.
    pub(super) fn is_pattern(&self, pattern: &str) -> bool {
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = patterns.get(pattern) {
            return *known;
        }
        let alone = json!({ "pattern": pattern });
        let builds = || jsonschema::options().should_validate_formats(false).build(&alone).is_ok();
        let is_pattern = !is_foreign(pattern) && builds();
        patterns.insert(pattern.to_owned(), is_pattern);
        is_pattern
    }

    /// Follows a schema that is nothing but a reference to what it stands for, so that two ways to
    /// one schema are seen to lead there.
    pub(super) fn canonical(&self, place: Place) -> Place {
        let mut at = place;
        for _ in 0..64 {
            let node = self.library.node(at);
            let alone = self.ref_hides_siblings || node.members().len() == 1;
            let reference = node.get("$ref").and_then(Node::as_str);
            match reference.filter(|_| alone && !super::keyword::is_nullable(node)) {
                Some(reference) => match self.library.resolve(at, reference) {
                    Ok(next) => at = next,
                    Err(_) => return at,
                },
                None => return at,
            }
        }
        place
    }
}

/// Whether a pattern would be read as something that its author never meant: between slashes, as
/// code has it, and with the classes of POSIX.
fn is_foreign(pattern: &str) -> bool {
    pattern.starts_with("/^") || pattern.contains("[[:") || pattern.contains("[^[:")
}
