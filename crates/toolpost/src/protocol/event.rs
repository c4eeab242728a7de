//! Messages of the call protocol: six events and a few control frames.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::access::Identity;
use crate::error::CallError;
use crate::handler::Progress;
use crate::outcome::Outcome;
use crate::payload::Payload;

/// An event of the call protocol.
///
/// The wire format is `{"type", "id", "payload"}`; [`CallEvent::to_json`] and
/// [`CallEvent::from_json`] convert to and from it. The in-process transport passes events without
/// serializing them.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallEvent {
    /// A request to call an operation.
    Requested(Box<RequestEvent>),
    /// A response: one for a call, any number for a subscription.
    Responded {
        /// The id of the request.
        id: Arc<str>,
        /// The envelope with its repairs and warnings.
        outcome: Outcome,
    },
    /// Progress of a request.
    Progress {
        /// Id of the request.
        id: Arc<str>,
        /// The progress report.
        progress: Progress,
    },
    /// The subscription ended.
    Completed {
        /// Id of the request.
        id: Arc<str>,
    },
    /// The caller or the peer aborted the request.
    Aborted {
        /// Id of the request.
        id: Arc<str>,
        /// Human-readable reason.
        reason: Option<String>,
    },
    /// The request failed.
    Failed {
        /// Id of the request.
        id: Arc<str>,
        /// The error.
        error: CallError,
    },
    /// A control frame of the connection.
    Control(Control),
}

/// A request to call an operation.
#[derive(Debug)]
#[non_exhaustive]
pub struct RequestEvent {
    /// The id of the request. Its responses carry the same id.
    pub id: Arc<str>,
    /// Id of the operation to call.
    pub operation: Arc<str>,
    /// The input of the operation.
    pub input: Payload,
    /// Id of the parent request, if this is a nested call.
    pub parent_id: Option<Arc<str>>,
    /// Deadline of the call, in milliseconds since the Unix epoch.
    pub deadline: Option<i64>,
    /// Timeout of the call in milliseconds. Does not depend on synchronized clocks.
    pub timeout_ms: Option<u64>,
    /// Maximum time between events of a subscription, in milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// Number of values the caller accepts before it grants more with [`Control::More`]. If `None`,
    /// values are sent as fast as the transport accepts them.
    pub window: Option<u32>,
    /// The idempotency key of the call.
    pub idempotency_key: Option<Arc<str>>,
    /// The identity of the caller. A hub replaces it with the authenticated identity.
    pub identity: Option<Arc<Identity>>,
    /// Metadata of the request, such as a trace context.
    pub metadata: Option<Arc<Map<String, Value>>>,
}

/// Control frames of the connection. Their types start with `__` and their id is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// An access token; the first frame of a peer that cannot send an HTTP header.
    Auth(Secret),
    /// Subscribes to a topic, `type:id`. Responses are sent to the caller without a subscription.
    Subscribe(String),
    /// Cancels one [`Control::Subscribe`].
    Unsubscribe(String),
    /// Grants more values to a subscription.
    More {
        /// Id of the request.
        id: Arc<str>,
        /// Number of values.
        count: u32,
    },
}

/// A secret, such as a token. It is omitted from debug output.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the secret text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl RequestEvent {
    /// Creates a request with only the required fields.
    pub fn new(id: Arc<str>, operation: impl Into<Arc<str>>, input: Payload) -> Self {
        Self {
            id,
            operation: operation.into(),
            input,
            parent_id: None,
            deadline: None,
            timeout_ms: None,
            idle_timeout_ms: None,
            window: None,
            idempotency_key: None,
            identity: None,
            metadata: None,
        }
    }

    /// Returns the remaining milliseconds at `now` that `deadline` and `timeout_ms` allow.
    pub fn remaining_ms(&self, now: i64) -> Option<u64> {
        let absolute = self.deadline.map(|at| u64::try_from(at.saturating_sub(now)).unwrap_or(0));
        absolute.into_iter().chain(self.timeout_ms).min()
    }
}

impl CallEvent {
    /// Returns the id of the request; empty for control frames.
    pub fn id(&self) -> &str {
        self.request_id().map_or("", |id| id)
    }

    /// Returns [`CallEvent::id`] as a shared string.
    pub(crate) fn shared_id(&self) -> Arc<str> {
        self.request_id().cloned().unwrap_or_default()
    }

    fn request_id(&self) -> Option<&Arc<str>> {
        match self {
            Self::Requested(request) => Some(&request.id),
            Self::Responded { id, .. }
            | Self::Progress { id, .. }
            | Self::Completed { id }
            | Self::Aborted { id, .. }
            | Self::Failed { id, .. } => Some(id),
            Self::Control(_) => None,
        }
    }

    /// Returns the event type as written on the wire.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Requested(_) => names::REQUESTED,
            Self::Responded { .. } => names::RESPONDED,
            Self::Progress { .. } => names::PROGRESS,
            Self::Completed { .. } => names::COMPLETED,
            Self::Aborted { .. } => names::ABORTED,
            Self::Failed { .. } => names::ERROR,
            Self::Control(Control::Auth(_)) => names::AUTH,
            Self::Control(Control::Subscribe(_)) => names::SUBSCRIBE,
            Self::Control(Control::Unsubscribe(_)) => names::UNSUBSCRIBE,
            Self::Control(Control::More { .. }) => names::MORE,
        }
    }
}

/// Event types as they appear on the wire.
pub(super) mod names {
    pub(crate) const REQUESTED: &str = "call.requested";
    pub(crate) const RESPONDED: &str = "call.responded";
    pub(crate) const PROGRESS: &str = "call.progress";
    pub(crate) const COMPLETED: &str = "call.completed";
    pub(crate) const ABORTED: &str = "call.aborted";
    pub(crate) const ERROR: &str = "call.error";
    pub(crate) const AUTH: &str = "__auth";
    pub(crate) const SUBSCRIBE: &str = "__subscribe";
    pub(crate) const UNSUBSCRIBE: &str = "__unsubscribe";
    pub(crate) const MORE: &str = "__more";

    pub(crate) const ALL: [&str; 10] = [
        REQUESTED,
        RESPONDED,
        PROGRESS,
        COMPLETED,
        ABORTED,
        ERROR,
        AUTH,
        SUBSCRIBE,
        UNSUBSCRIBE,
        MORE,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_ms_uses_shorter_of_deadline_and_timeout() {
        for (deadline, timeout_ms, remaining) in [
            (None, None, None),
            (Some(1_500), None, Some(500)),
            (None, Some(300), Some(300)),
            (Some(1_500), Some(300), Some(300)),
            (Some(1_100), Some(300), Some(100)),
            (Some(900), Some(300), Some(0)),
            (Some(i64::MIN), None, Some(0)),
            (Some(i64::MAX), None, Some(i64::MAX.unsigned_abs() - 1_000)),
        ] {
            let mut request = RequestEvent::new("r".into(), "a.b", Payload::empty_object());
            (request.deadline, request.timeout_ms) = (deadline, timeout_ms);
            assert_eq!(request.remaining_ms(1_000), remaining, "{deadline:?} {timeout_ms:?}");
        }
    }

    #[test]
    fn secret_debug_hides_token() {
        let event = CallEvent::Control(Control::Auth(Secret::new("tpt_secret")));
        assert!(!format!("{event:?}").contains("tpt_"), "{event:?}");
    }
}
