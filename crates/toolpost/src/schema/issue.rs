//! Validation issues.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Message of an issue about a missing property.
pub(crate) const MISSING_PROPERTY: &str = "required property is missing";

/// A validation error and its location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Issue {
    /// JSON Pointer to the invalid value; empty for the root.
    pub path: String,
    /// Human-readable description of the error.
    pub message: String,
}

impl Issue {
    /// Creates an issue, for checks other than schema validation.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Truncates a text to `max` characters.
pub(super) fn truncate(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

impl std::fmt::Display for Issue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = if self.path.is_empty() { "(root)" } else { &self.path };
        write!(f, "{at}: {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::schema::Schema;

    #[test]
    fn issue_message_truncates_large_value() {
        let schema = Schema::new(json!({"type": "object"})).unwrap();
        let large = json!(vec!["ä"; 100_000]);
        let issues = schema.validate(&large).unwrap();
        assert_eq!(issues.len(), 1);
        assert!(issues[0].message.len() < 2_000, "{}", issues[0].message.len());
        assert!(issues[0].message.ends_with("is not of type \"object\""), "{}", issues[0].message);
    }
}
