//! Who can be asked something while a call runs.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::value::RawValue;

use crate::error::{CallError, ErrorCode};

/// Somebody behind a call who can be asked, in one of two ways. Endpoints that have nobody give none.
#[derive(Clone)]
#[non_exhaustive]
pub enum ClientChannel {
    /// He is there while the call runs.
    Live(Arc<dyn RespondToServer>),
    /// He is told at the end of the call what is wanted, and calls again with the answers.
    MultiRoundTrip(Arc<MultiRoundTrip>),
}

/// Somebody who answers while a call runs.
pub trait RespondToServer: Send + Sync {
    /// What he can be asked: a JSON object with a member for each topic, as he said it.
    fn client_capabilities(&self) -> &RawValue;

    /// Asks, and waits for the answer for as long as whoever asks does.
    ///
    /// # Cancellation
    ///
    /// Dropping the future takes the question back; an answer that comes after that is lost.
    fn request(
        &self,
        request: ServerRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, ServerRequestError>>;
}

/// Something that is asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerRequest {
    /// What kind of answer is wanted, in words that both ends know.
    pub method: Box<str>,
    /// The question itself.
    pub params: Option<Box<RawValue>>,
}

impl ServerRequest {
    /// A question of some kind.
    pub fn new(kind: impl Into<Box<str>>, params: Option<Box<RawValue>>) -> Self {
        Self { method: kind.into(), params }
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ServerRequestError {
    /// What he said instead, as JSON.
    #[error("the client rejected the request")]
    Rejected(Box<RawValue>),
    /// He could not be asked, or went away.
    #[error("{0}")]
    Unreachable(String),
}

/// Somebody who is asked by the end of a call. Nothing of him is kept: whatever is needed to go on
/// comes back with the next call.
#[derive(Debug, Default)]
pub struct MultiRoundTrip {
    /// What he can be asked, as in [`RespondToServer::client_capabilities`].
    pub client_capabilities: Option<Box<RawValue>>,
    /// The answers to what was wanted before.
    pub input_responses: Option<Box<RawValue>>,
    /// What whoever asked before gave him to bring back.
    pub request_state: Option<Box<RawValue>>,
    /// What is wanted now.
    input_requests: OnceLock<Box<RawValue>>,
}

/// The code of a call that ended with a question. Nothing failed, but nothing is done either.
const INPUT_REQUIRED: &str = "INPUT_REQUIRED";

impl MultiRoundTrip {
    /// Somebody who can be asked this, and brings that along.
    pub fn new(
        client_capabilities: Option<Box<RawValue>>,
        input_responses: Option<Box<RawValue>>,
        request_state: Option<Box<RawValue>>,
    ) -> Self {
        Self {
            client_capabilities,
            input_responses,
            request_state,
            input_requests: OnceLock::new(),
        }
    }

    /// Leaves word of what is wanted, and gives the error that the call is to end with.
    pub fn require_input(&self, requests: Box<RawValue>) -> CallError {
        // Of several in one call the first is told; the others are asked again by the next call.
        let _ = self.input_requests.set(requests);
        let message = "more input is required; call again with it";
        CallError::new(ErrorCode::from(INPUT_REQUIRED), message)
    }

    /// What is wanted, if that is what the call ended with.
    pub fn required_input(&self, error: &CallError) -> Option<&RawValue> {
        let is_input_required = error.code().as_str() == INPUT_REQUIRED;
        self.input_requests.get().filter(|_| is_input_required).map(|requests| &**requests)
    }
}

impl ClientChannel {
    /// What can be asked: a JSON object with a member for each topic.
    pub fn client_capabilities(&self) -> Option<&RawValue> {
        match self {
            Self::Live(present) => Some(present.client_capabilities()),
            Self::MultiRoundTrip(returning) => returning.client_capabilities.as_deref(),
        }
    }
}

impl std::fmt::Debug for ClientChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Live(_) => "ClientChannel::Live",
            Self::MultiRoundTrip(_) => "ClientChannel::MultiRoundTrip",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_input_returned_only_for_its_own_error() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let round_trip = MultiRoundTrip::default();
        let other = CallError::timeout("late");
        let input_error = CallError::new(ErrorCode::from(INPUT_REQUIRED), "of somebody else");
        assert!(round_trip.required_input(&input_error).is_none(), "nothing was left");
        let error = round_trip.require_input(raw("1"));
        assert_eq!(error.code().as_str(), "INPUT_REQUIRED");
        round_trip.require_input(raw("2"));
        assert_eq!(round_trip.required_input(&error).unwrap().get(), "1");
        assert!(round_trip.required_input(&other).is_none());
    }
}
