//! Events of another gateway's stream.

use serde::Deserialize;

use super::response;
use crate::error::CallError;
use crate::json::error_message;
use crate::openapi::response::SecretRedactor;
use crate::outcome::Outcome;

/// A parsed event.
#[derive(Debug)]
pub(in crate::openapi) enum PeerEvent {
    Value(Box<Outcome>),
    /// Number of lost events, or `None` if the stream has restarted.
    Gap(Option<u64>),
    /// Last event of a failed stream.
    Failed(CallError),
    /// Last event of a successful stream.
    Complete,
    /// The event cannot be decoded, for this reason.
    Invalid(String),
}

impl PeerEvent {
    /// Parses an event by its type. An unknown type is invalid, and the stream continues.
    pub(in crate::openapi) fn parse(kind: &str, data: &str, redactor: &SecretRedactor) -> Self {
        let invalid = |error: serde_json::Error| {
            Self::Invalid(format!("invalid event: {}", error_message(&error)))
        };
        match kind {
            "message" => response::decode_outcome(data.as_bytes())
                .map_or_else(invalid, |read| Self::Value(Box::new(read))),
            "gap" => serde_json::from_str(data)
                .map_or_else(invalid, |gap: GapData| Self::Gap(gap.lost.filter(|_| !gap.is_new))),
            "error" => {
                let unknown_reason = || CallError::execution("the stream failed without a reason");
                let error = response::decode_problem(data.as_bytes(), redactor);
                Self::Failed(error.unwrap_or_else(unknown_reason))
            }
            "complete" => Self::Complete,
            other => Self::Invalid(format!("unknown event type `{other}`")),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GapData {
    lost: Option<u64>,
    #[serde(default)]
    is_new: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the event type, its data and part of the expected debug output.
    #[test]
    fn peer_events_parse_by_type() {
        let value = r#"{"data":1,"meta":{"source":"local","operationId":"a.b","timestamp":1}}"#;
        for (kind, data, expected) in [
            ("message", value, "Value("),
            ("message", "1", "Invalid("),
            ("message", "", "Invalid("),
            ("gap", r#"{"lost":12,"isNew":false}"#, "Gap(Some(12))"),
            ("gap", r#"{"lost":null,"isNew":true}"#, "Gap(None)"),
            ("gap", r#"{"lost":-1}"#, "Invalid("),
            ("gap", "x", "Invalid("),
            ("message", "1", "expected an object"),
            ("gap", "7", "invalid type: integer `7`, expected an object"),
            ("error", r#"{"error":{"code":"TIMEOUT","message":"late"}}"#, "late"),
            ("error", "x", "without a reason"),
            ("complete", "{}", "Complete"),
            ("complete", "", "Complete"),
            ("news", value, "`news`"),
        ] {
            let read = format!("{:?}", PeerEvent::parse(kind, data, &SecretRedactor::default()));
            assert!(read.contains(expected), "{kind} {data}: {read}");
        }
    }
}
