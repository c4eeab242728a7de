//! One place where a value does not fit its schema.

use jsonschema::error::ValidationErrorKind;
use serde::{Deserialize, Serialize};

/// A place and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Issue {
    /// JSON Pointer into the value; empty for the value itself.
    pub path: String,
    /// What does not fit, in words for a person.
    pub message: String,
}

impl Issue {
    /// An issue found by something other than a schema.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// The same issue of a value that stands at `path` in a larger one.
    pub(super) fn prefixed(mut self, path: &str) -> Self {
        self.path.insert_str(0, path);
        self
    }

    /// A missing property is named by its own path, since that is the place to mend.
    pub(super) fn from_validation(error: &jsonschema::ValidationError<'_>) -> Self {
        let path = error.instance_path();
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let missing = path.join(property.as_str().unwrap_or_default());
                Self::new(missing.to_string(), "this property is required and missing")
            }
            _ => Self::new(path.to_string(), truncate_message(error.to_string())),
        }
    }
}

/// Messages quote the value, and a value can be the whole input.
fn truncate_message(message: String) -> String {
    const MAX_MESSAGE_CHARS: usize = 400;
    if message.chars().nth(MAX_MESSAGE_CHARS).is_none() {
        return message;
    }
    let keep = |characters: &mut dyn Iterator<Item = char>| -> String { characters.collect() };
    let start = keep(&mut message.chars().take(MAX_MESSAGE_CHARS / 2));
    let end: String = message.chars().rev().take(MAX_MESSAGE_CHARS / 2).collect();
    format!("{start} … {}", keep(&mut end.chars().rev()))
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
