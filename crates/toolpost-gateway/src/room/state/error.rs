//! Why something is refused: a code for programs, words for people.

use serde_json::{Map, Value};

/// Why something is refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoomError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// What else is told, beside the kind that was attempted.
    pub(crate) details: Map<String, Value>,
}

impl RoomError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    pub(crate) fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_message", message)
    }

    pub(super) fn capability_violation(message: impl Into<String>) -> Self {
        Self::new("capability_violation", message)
    }

    pub(super) fn participant_not_found(id: &str) -> Self {
        Self::new("participant_not_found", format!("no participant is named `{}`", truncate(id)))
    }
}

/// A text of somebody else, cut where it is too long to be repeated.
pub(super) fn truncate(text: &str) -> String {
    let mut truncated: String = text.chars().take(100).collect();
    if truncated.len() < text.len() {
        truncated.push('…');
    }
    truncated
}
