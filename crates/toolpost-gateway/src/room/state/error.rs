//! Rejections: an error code and a human-readable message.

use serde_json::{Map, Value};

/// Why a message or a join is rejected.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoomError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Additional members of the error payload.
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

/// Truncates untrusted text for an error message.
pub(super) fn truncate(text: &str) -> String {
    let mut truncated: String = text.chars().take(100).collect();
    if truncated.len() < text.len() {
        truncated.push('…');
    }
    truncated
}
