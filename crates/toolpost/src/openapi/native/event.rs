//! What an event of another gateway's stream says.

use serde::Deserialize;

use super::answer;
use crate::error::CallError;
use crate::openapi::response::Redacted;
use crate::outcome::Outcome;

/// What an event says.
#[derive(Debug)]
pub(in crate::openapi) enum Event {
    Value(Box<Outcome>),
    /// So many events are lost; `None` if the stream is another one than before.
    Gap(Option<u64>),
    /// The last word of a stream that failed.
    Failed(CallError),
    /// The last word of one that did not.
    Complete,
    /// It cannot be read, for this reason.
    Odd(String),
}

impl Event {
    /// Reads an event by its type. One of a type that is not known is odd, and the stream goes on.
    pub(in crate::openapi) fn read(kind: &str, data: &str, redacted: &Redacted) -> Self {
        let odd = |error: serde_json::Error| Self::Odd(format!("an event cannot be read: {error}"));
        match kind {
            "message" => {
                answer::read(data.as_bytes()).map_or_else(odd, |read| Self::Value(Box::new(read)))
            }
            "gap" => serde_json::from_str(data).map_or_else(odd, |gap: Gap| gap.into()),
            "error" => {
                let unsaid = || CallError::execution("the stream failed, and nobody said why");
                let error = answer::error(data.as_bytes(), redacted);
                Self::Failed(error.unwrap_or_else(unsaid))
            }
            "complete" => Self::Complete,
            other => Self::Odd(format!("an event is of the type `{other}`, which is not known")),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gap {
    lost: Option<u64>,
    #[serde(default)]
    is_new: bool,
}

impl From<Gap> for Event {
    fn from(gap: Gap) -> Self {
        Self::Gap(gap.lost.filter(|_| !gap.is_new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the type of an event, its data, and a word of what it says.
    #[test]
    fn events_say_what_they_are() {
        let value = r#"{"data":1,"meta":{"source":"local","operationId":"a.b","timestamp":1}}"#;
        for (kind, data, expected) in [
            ("message", value, "Value("),
            ("message", "1", "Odd("),
            ("message", "", "Odd("),
            ("gap", r#"{"lost":12,"isNew":false}"#, "Gap(Some(12))"),
            ("gap", r#"{"lost":null,"isNew":true}"#, "Gap(None)"),
            ("gap", r#"{"lost":-1}"#, "Odd("),
            ("gap", "x", "Odd("),
            ("error", r#"{"error":{"code":"TIMEOUT","message":"late"}}"#, "late"),
            ("error", "x", "nobody said why"),
            ("complete", "{}", "Complete"),
            ("complete", "", "Complete"),
            ("news", value, "`news`"),
        ] {
            let read = format!("{:?}", Event::read(kind, data, &Redacted::default()));
            assert!(read.contains(expected), "{kind} {data}: {read}");
        }
    }
}
