//! Rejections: an error code and a human-readable message.

use serde_json::{Map, Value};

use crate::room::capability::DenialReason;
use crate::room::message::{MessageKind, MessageParseError, RejectionCode, quoted};

/// Why a message or a join is rejected.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoomError {
    pub(crate) code: RejectionCode,
    pub(crate) message: String,
    /// Full kind of the rejected message, once it is known.
    pub(crate) kind: Option<Box<str>>,
    /// Additional members of the error payload.
    pub(crate) details: Map<String, Value>,
}

impl RejectionCode {
    pub(crate) fn error(self, message: impl Into<String>) -> RoomError {
        RoomError { code: self, message: message.into(), kind: None, details: Map::new() }
    }
}

impl From<DenialReason<'_>> for RoomError {
    fn from(reason: DenialReason<'_>) -> Self {
        RejectionCode::CapabilityViolation.error(reason.to_string())
    }
}

impl RoomError {
    pub(crate) fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn of_kind(self, kind: &MessageKind) -> Self {
        Self { kind: Some(kind.full().into()), ..self }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        RejectionCode::InvalidMessage.error(message)
    }

    pub(super) fn participant_not_found(id: &str) -> Self {
        let message = format!("no participant is named {}", quoted(id));
        RejectionCode::ParticipantNotFound.error(message)
    }
}

impl From<MessageParseError> for RoomError {
    fn from(error: MessageParseError) -> Self {
        error.code.error(error.message)
    }
}
