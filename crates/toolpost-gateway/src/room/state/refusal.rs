//! Why something is refused: a code for programs, words for people.

use serde_json::{Map, Value};

/// Why something is refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) error: &'static str,
    pub(crate) message: String,
    /// What else is told, beside the kind that was attempted.
    pub(crate) details: Map<String, Value>,
}

impl Refusal {
    pub(crate) fn new(error: &'static str, message: impl Into<String>) -> Self {
        Self { error, message: message.into(), details: Map::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_message", message)
    }

    pub(super) fn capability(message: impl Into<String>) -> Self {
        Self::new("capability_violation", message)
    }

    pub(super) fn no_participant(id: &str) -> Self {
        Self::new("participant_not_found", format!("nobody called `{}` is here", short(id)))
    }
}

/// A text of somebody else, cut where it is too long to be repeated.
pub(super) fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(100).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
