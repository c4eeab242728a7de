//! Validation issues.

use jsonschema::error::ValidationErrorKind;
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

    /// Prefixes the path of the issue with `path`.
    pub(super) fn prefixed(mut self, path: &str) -> Self {
        self.path.insert_str(0, path);
        self
    }

    /// Converts a validation error. The path of a missing property includes the property.
    pub(super) fn from_validation(error: &jsonschema::ValidationError<'_>) -> Self {
        let path = error.instance_path();
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let missing = path.join(property.as_str().unwrap_or_default());
                Self::new(missing.to_string(), MISSING_PROPERTY)
            }
            _ => Self::new(path.to_string(), truncate_message(error.to_string())),
        }
    }
}

/// Shortens a message, which can quote the whole input.
fn truncate_message(message: String) -> String {
    const MAX_MESSAGE_CHARS: usize = 400;
    if message.chars().nth(MAX_MESSAGE_CHARS).is_none() {
        return message;
    }
    let start: String = message.chars().take(MAX_MESSAGE_CHARS / 2).collect();
    let omitted = message.chars().count() - MAX_MESSAGE_CHARS / 2;
    let end: String = message.chars().skip(omitted).collect();
    format!("{start} … {end}")
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
