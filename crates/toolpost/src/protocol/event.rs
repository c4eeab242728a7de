//! What two processes say to each other: six events and a few control frames.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::access::Identity;
use crate::error::CallError;
use crate::handler::Progress;
use crate::outcome::Outcome;
use crate::payload::Payload;

/// One event about one request, as both ends of a link see it.
///
/// On the wire it is `{"type", "id", "payload"}`; [`CallEvent::to_json`] and [`CallEvent::from_json`] are
/// the two ways. A link inside a process hands it over as it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallEvent {
    /// Somebody asks for an operation.
    Requested(Box<RequestEvent>),
    /// An answer: one for a call, many for a subscription.
    Responded {
        /// Which request it answers.
        id: Arc<str>,
        /// The envelope, with repairs and warnings beside it.
        outcome: Outcome,
    },
    /// How far a request has come.
    Progress {
        /// Which request it is about.
        id: Arc<str>,
        /// How far.
        progress: Progress,
    },
    /// The end of a subscription.
    Completed {
        /// Which request has ended.
        id: Arc<str>,
    },
    /// One of the two does not want to go on.
    Aborted {
        /// Which request.
        id: Arc<str>,
        /// Why, for a person.
        reason: Option<String>,
    },
    /// The request failed.
    Failed {
        /// Which request.
        id: Arc<str>,
        /// Why.
        error: CallError,
    },
    /// About the link itself.
    Control(Control),
}

/// What is asked for, and by when.
#[derive(Debug)]
#[non_exhaustive]
pub struct RequestEvent {
    /// The id of the request; the answers carry it.
    pub id: Arc<str>,
    /// Which operation.
    pub operation: Arc<str>,
    /// What it is given.
    pub input: Payload,
    /// The request that this one is part of.
    pub parent_id: Option<Arc<str>>,
    /// When the caller stops waiting, in milliseconds since 1970.
    pub deadline: Option<i64>,
    /// How long the caller waits, in milliseconds, for peers whose clocks differ.
    pub timeout_ms: Option<u64>,
    /// How long a subscription may be silent, in milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// How many values the caller takes before it grants more with [`Control::More`]; without it
    /// the values come as fast as the link takes them.
    pub window: Option<u32>,
    /// On whose behalf; a hub puts the authenticated identity in its place.
    pub identity: Option<Arc<Identity>>,
    /// What comes beside the input, such as a trace context.
    pub metadata: Option<Arc<Map<String, Value>>>,
}

/// Frames about the link itself; their types begin with `__` and their id is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Who is speaking; the first frame of a peer that could not send a header.
    Auth(Secret),
    /// Wants the events of a topic, `type:id`. Answers come to whoever asked without it.
    Subscribe(String),
    /// Takes one [`Control::Subscribe`] back.
    Unsubscribe(String),
    /// Room for more values of a subscription.
    More {
        /// Which request.
        id: Arc<str>,
        /// How many.
        count: u32,
    },
}

/// A token on its way to whoever checks it; it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one who checks it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl RequestEvent {
    /// The least that makes a request.
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
            identity: None,
            metadata: None,
        }
    }

    /// How long the caller still waits at `now` (milliseconds since 1970): the shorter of the two
    /// ways to say it.
    pub fn remaining_ms(&self, now: i64) -> Option<u64> {
        let absolute = self.deadline.map(|at| u64::try_from(at.saturating_sub(now)).unwrap_or(0));
        absolute.into_iter().chain(self.timeout_ms).min()
    }
}

impl CallEvent {
    /// The request that the event is about; control frames are about none.
    pub fn id(&self) -> &str {
        match self {
            Self::Requested(request) => &request.id,
            Self::Responded { id, .. }
            | Self::Progress { id, .. }
            | Self::Completed { id }
            | Self::Aborted { id, .. }
            | Self::Failed { id, .. } => id,
            Self::Control(_) => "",
        }
    }

    /// As [`CallEvent::id`], to be kept.
    pub(crate) fn shared_id(&self) -> Arc<str> {
        match self {
            Self::Requested(request) => Arc::clone(&request.id),
            Self::Responded { id, .. }
            | Self::Progress { id, .. }
            | Self::Completed { id }
            | Self::Aborted { id, .. }
            | Self::Failed { id, .. } => Arc::clone(id),
            Self::Control(_) => "".into(),
        }
    }

    /// The name of its type on the wire.
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

/// The types as they stand on the wire.
pub(super) mod names {
    pub(in crate::protocol) const REQUESTED: &str = "call.requested";
    pub(in crate::protocol) const RESPONDED: &str = "call.responded";
    pub(in crate::protocol) const PROGRESS: &str = "call.progress";
    pub(in crate::protocol) const COMPLETED: &str = "call.completed";
    pub(in crate::protocol) const ABORTED: &str = "call.aborted";
    pub(in crate::protocol) const ERROR: &str = "call.error";
    pub(in crate::protocol) const AUTH: &str = "__auth";
    pub(in crate::protocol) const SUBSCRIBE: &str = "__subscribe";
    pub(in crate::protocol) const UNSUBSCRIBE: &str = "__unsubscribe";
    pub(in crate::protocol) const MORE: &str = "__more";

    pub(in crate::protocol) const ALL: [&str; 10] = [
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
