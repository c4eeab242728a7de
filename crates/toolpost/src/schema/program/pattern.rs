//! Regular expressions: linear where they can be, bounded where they cannot.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

/// A compiled `pattern`, or a name of `patternProperties`.
pub(in crate::schema) enum PatternMatcher {
    /// The linear engine, on the pattern translated from ECMAScript.
    Linear(Box<regex::Regex>),
    /// Look-around and back-references go to the crate's engine, which bounds its backtracking.
    Bounded(Box<jsonschema::Validator>),
}

impl PatternMatcher {
    /// `None` when the pattern is none, which the crate has reported before.
    pub(in crate::schema) fn compile(pattern: &str) -> Option<Self> {
        let linear = jsonschema_regex::to_rust_regex(pattern)
            .ok()
            .and_then(|translated| regex::Regex::new(&translated).ok());
        if let Some(regex) = linear {
            return Some(Self::Linear(Box::new(regex)));
        }
        let validator = jsonschema::options().build(&json!({ "pattern": pattern })).ok()?;
        Some(Self::Bounded(Box::new(validator)))
    }

    pub(in crate::schema) fn matches(&self, text: &str) -> bool {
        match self {
            // The engine is known to panic on a few rare patterns; such a pattern matches nothing.
            Self::Linear(regex) => {
                catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).unwrap_or(false)
            }
            Self::Bounded(alone) => alone.is_valid(&Value::String(text.to_owned())),
        }
    }
}
