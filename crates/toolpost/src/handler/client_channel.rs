//! Requests from a handler to the client during a call.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::value::RawValue;

use crate::error::{CallError, ErrorCode};

/// Channel to the client of a call, for elicitation, sampling and roots.
#[derive(Clone)]
#[non_exhaustive]
pub enum ClientChannel {
    /// The client responds while the call runs.
    Live(Arc<dyn RespondToServer>),
    /// The call ends with the requests, and the client calls again with the responses.
    MultiRoundTrip(Arc<MultiRoundTrip>),
}

/// A client that responds to requests while a call runs.
pub trait RespondToServer: Send + Sync {
    /// Returns the capabilities that the client declared: a JSON object with a member for each.
    fn client_capabilities(&self) -> &RawValue;

    /// Sends a request to the client and waits for its response. Has no timeout.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the request; a later response is discarded.
    fn request(
        &self,
        request: ServerRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, ServerRequestError>>;
}

/// A request to the client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerRequest {
    /// Method name.
    pub method: Box<str>,
    /// Parameters of the request.
    pub params: Option<Box<RawValue>>,
}

impl ServerRequest {
    /// Creates a request with this method and these parameters.
    pub fn new(kind: impl Into<Box<str>>, params: Option<Box<RawValue>>) -> Self {
        Self { method: kind.into(), params }
    }
}

/// Why a request to the client has no response.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ServerRequestError {
    /// The error of the client, as JSON.
    #[error("the client rejected the request")]
    Rejected(Box<RawValue>),
    /// The client cannot be reached or has disconnected.
    #[error("{0}")]
    Unreachable(String),
}

/// A client that receives requests as the result of a call and responds with its next call, which
/// carries all state.
#[derive(Debug, Default)]
pub struct MultiRoundTrip {
    /// Capabilities of the client, as in [`RespondToServer::client_capabilities`].
    pub client_capabilities: Option<Box<RawValue>>,
    /// Responses to the requests of the previous call.
    pub input_responses: Option<Box<RawValue>>,
    /// Opaque state that the previous call gave to the client.
    pub request_state: Option<Box<RawValue>>,
    /// Requests of this call.
    input_requests: OnceLock<Box<RawValue>>,
}

/// Error code of a call that needs input from the client. The call is incomplete rather than
/// failed: the client calls again with the input.
const INPUT_REQUIRED: &str = "INPUT_REQUIRED";

impl MultiRoundTrip {
    /// Creates the channel from the members of the client's request.
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

    /// Stores the requests and returns the error that the call must end with.
    pub fn require_input(&self, requests: Box<RawValue>) -> CallError {
        // Only the first set of requests is kept; the next call makes the others again.
        let _ = self.input_requests.set(requests);
        let message = "more input is required; call again with it";
        CallError::new(ErrorCode::from(INPUT_REQUIRED), message)
    }

    /// Returns the stored requests if the call ended with their error.
    pub fn required_input(&self, error: &CallError) -> Option<&RawValue> {
        let is_input_required = error.code().as_str() == INPUT_REQUIRED;
        self.input_requests.get().filter(|_| is_input_required).map(|requests| &**requests)
    }
}

impl ClientChannel {
    /// Returns the capabilities of the client: a JSON object with a member for each.
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
        let input_error = CallError::new(ErrorCode::from(INPUT_REQUIRED), "of another handler");
        assert!(round_trip.required_input(&input_error).is_none(), "no input is pending");
        let error = round_trip.require_input(raw("1"));
        assert_eq!(error.code().as_str(), "INPUT_REQUIRED");
        round_trip.require_input(raw("2"));
        assert_eq!(round_trip.required_input(&error).unwrap().get(), "1");
        assert!(round_trip.required_input(&other).is_none());
    }
}
