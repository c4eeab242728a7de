//! Regular expressions: linear time where possible, otherwise bounded backtracking.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

/// A compiled `pattern` or `patternProperties` key.
pub(crate) enum PatternMatcher {
    /// Linear-time engine, with the pattern translated from ECMAScript.
    Linear(Box<regex::Regex>),
    /// An engine with bounded backtracking, for look-around and back-references.
    Bounded(Box<jsonschema::Validator>),
}

impl PatternMatcher {
    /// Compiles a pattern; `None` if it is invalid, which was reported before.
    pub(crate) fn compile(pattern: &str) -> Option<Self> {
        let linear = jsonschema_regex::to_rust_regex(pattern)
            .ok()
            .and_then(|translated| regex::Regex::new(&translated).ok());
        if let Some(regex) = linear {
            return Some(Self::Linear(Box::new(regex)));
        }
        let validator = jsonschema::options().build(&json!({ "pattern": pattern })).ok()?;
        Some(Self::Bounded(Box::new(validator)))
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        match self {
            // The engine panics on a few rare patterns; these match nothing.
            Self::Linear(regex) => {
                catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).unwrap_or(false)
            }
            Self::Bounded(alone) => alone.is_valid(&Value::String(text.to_owned())),
        }
    }
}
