//! Errors of requests to a server and their conversion to call errors.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::rpc::RpcError;
use crate::error::{CallError, ErrorCode};
use crate::loopback::LoopbackError;

/// Why a request failed.
#[derive(Debug, Clone)]
pub(super) enum RequestError {
    /// The server disconnected or could not be reached.
    Disconnected {
        message: String,
        /// Whether the request may have reached the server.
        sent: bool,
    },
    /// The server does not know the session.
    SessionNotFound {
        /// Whether the server responded with 404, so that the request was not executed.
        is_confirmed: bool,
    },
    /// The server returned a JSON-RPC error.
    Rpc(Box<RpcError>),
    /// An HTTP server responded with a status other than success.
    HttpStatus {
        status: u16,
        error: Option<Box<RpcError>>,
        body: String,
        retry_after: Option<Duration>,
    },
    /// Authorization is missing or was rejected.
    Unauthorized(String),
    /// The request timed out.
    TimedOut(String),
    /// The response is invalid.
    InvalidResponse(String),
    /// The server requires input that is not available.
    InputUnavailable(String),
    /// The server requires input from the caller, and the error carries the input requests.
    InputRequired(CallError),
}

impl From<LoopbackError> for RequestError {
    fn from(error: LoopbackError) -> Self {
        match error {
            LoopbackError::InvalidRequest(words) => Self::unreachable(words),
            LoopbackError::Unreachable(words) => {
                Self::unreachable(format!("the server cannot be reached: {words}"))
            }
            LoopbackError::Disconnected { reason: words, sent } => {
                Self::Disconnected { message: words, sent }
            }
        }
    }
}

impl RequestError {
    pub(super) fn disconnected(reason: impl Into<String>) -> Self {
        Self::Disconnected { message: reason.into(), sent: true }
    }

    pub(super) fn unreachable(reason: impl Into<String>) -> Self {
        Self::Disconnected { message: reason.into(), sent: false }
    }

    pub(super) fn rpc_error(error: RpcError) -> Self {
        Self::Rpc(Box::new(error))
    }

    pub(super) fn too_large(bytes: usize, max: usize) -> Self {
        Self::InvalidResponse(format!(
            "the response has at least {bytes} bytes, and the limit is {max}; raise `message_bytes` of \
             the source"
        ))
    }

    /// Returns the JSON-RPC error, from the response or from the body of an HTTP error.
    pub(super) fn rpc(&self) -> Option<&RpcError> {
        match self {
            Self::Rpc(error) | Self::HttpStatus { error: Some(error), .. } => Some(error),
            _ => None,
        }
    }

    /// Whether a new connection to the server may succeed.
    pub(super) fn is_disconnect(&self) -> bool {
        matches!(self, Self::Disconnected { .. } | Self::SessionNotFound { .. })
    }

    /// Whether a server rejected POST as one of 2024-11-05 does at the URL of its event stream.
    pub(super) fn is_rejected_post(&self) -> bool {
        matches!(self, Self::HttpStatus { status: 400 | 404 | 405, .. })
    }

    /// Whether it is certain that the server did not execute the request.
    pub(super) fn was_not_sent(&self) -> bool {
        matches!(
            self,
            Self::Disconnected { sent: false, .. }
                | Self::SessionNotFound { is_confirmed: true }
                | Self::Unauthorized(_)
        )
    }

    pub(super) fn into_call_error(self, source: &str) -> CallError {
        let message = format!("`{source}`: {self}");
        let delay = match &self {
            Self::HttpStatus { retry_after, .. } => *retry_after,
            _ => None,
        };
        let error = match self {
            _ if self.was_not_sent() => CallError::unavailable(message).not_sent(),
            Self::Disconnected { .. } | Self::SessionNotFound { .. } | Self::Unauthorized(_) => {
                CallError::unavailable(message)
            }
            Self::TimedOut(_) => CallError::timeout(message),
            Self::Rpc(error) | Self::HttpStatus { error: Some(error), .. } => rpc_error(*error),
            Self::HttpStatus { status, body, .. } => {
                let error = match status {
                    429 => CallError::overloaded(message),
                    502..=504 => CallError::unavailable(message),
                    _ => CallError::execution(message),
                };
                error.with_details(json!({"statusCode": status, "body": body}))
            }
            Self::InvalidResponse(_) | Self::InputUnavailable(_) => CallError::execution(message),
            Self::InputRequired(error) => error,
        };
        match delay {
            Some(delay) => error.with_retry_after(delay),
            None => error,
        }
    }
}

/// JSON-RPC error that an MCP server returned.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ServerError<'a> {
    /// Error code.
    pub code: i64,
    /// The error message; empty if the server sent none.
    pub message: &'a str,
    /// Additional data.
    pub data: Option<&'a Value>,
}

/// Returns the JSON-RPC error from the MCP server, if that is why the call failed.
pub fn server_error(error: &CallError) -> Option<ServerError<'_>> {
    let details = match error.details()? {
        Value::Array(issues) => issues.first()?,
        details => details,
    };
    let code = details.get(CODE_MEMBER)?.as_i64()?;
    let message = if details.get(EMPTY_MESSAGE_MEMBER).is_some() { "" } else { error.message() };
    Some(ServerError { code, message, data: details.get("data") })
}

/// Member of the error details with the JSON-RPC code.
const CODE_MEMBER: &str = "jsonrpcCode";
/// Member of the error details that marks an empty server message.
const EMPTY_MESSAGE_MEMBER: &str = "jsonrpcSilent";

/// Converts a JSON-RPC error to a call error, with the details that [`server_error`] reads.
fn rpc_error(error: RpcError) -> CallError {
    let RpcError { code, message, data, .. } = error;
    let mut details = Map::from_iter([(CODE_MEMBER.to_owned(), code.into())]);
    details.extend(data.map(|data| ("data".to_owned(), data)));
    let message = if message.is_empty() {
        details.insert(EMPTY_MESSAGE_MEMBER.to_owned(), true.into());
        format!("the server returned error {code}")
    } else {
        message
    };
    match code {
        RpcError::METHOD_NOT_FOUND => {
            CallError::new(ErrorCode::OperationNotFound, message).with_details(details)
        }
        RpcError::INVALID_PARAMS => {
            // The details of a validation error are a list of issues.
            let mut issue = Map::from_iter([("path".to_owned(), "".into())]);
            issue.insert("message".to_owned(), message.as_str().into());
            issue.extend(details);
            CallError::validation(message, &[]).with_details(vec![issue])
        }
        _ => CallError::execution(message).with_details(details),
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected { message: text, .. }
            | Self::Unauthorized(text)
            | Self::TimedOut(text)
            | Self::InvalidResponse(text)
            | Self::InputUnavailable(text) => f.write_str(text),
            Self::InputRequired(error) => f.write_str(error.message()),
            Self::SessionNotFound { .. } => {
                f.write_str("the session no longer exists at the server")
            }
            Self::Rpc(error) | Self::HttpStatus { error: Some(error), .. } => {
                write!(f, "{} (JSON-RPC {})", error.message, error.code)
            }
            Self::HttpStatus { status, body: text, .. } if text.is_empty() => {
                write!(f, "the server responded with HTTP {status}")
            }
            Self::HttpStatus { status, body: text, .. } => {
                write!(f, "the server responded with HTTP {status}: {text}")
            }
        }
    }
}

/// An error from an MCP server is forwarded unchanged. Any other error is included in `data`.
impl From<CallError> for RpcError {
    fn from(error: CallError) -> Self {
        let whole = || serde_json::to_value(&error).ok();
        let Some(ServerError { code, message, data, .. }) = server_error(&error) else {
            let code = error.code().info().json_rpc_code;
            let message = error.message().to_owned();
            return Self { code, message, data: whole(), is_forwarded: false };
        };
        // These codes describe the connection to the source, not the connection to a client.
        let (code, data) = match code {
            Self::HEADER_MISMATCH | Self::UNSUPPORTED_VERSION => (Self::INTERNAL, whole()),
            code => (code, data.cloned()),
        };
        Self { code, message: message.to_owned(), data, is_forwarded: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_error_maps_to_call_error_code() {
        let rejected = |status| RequestError::HttpStatus {
            status,
            error: None,
            body: "no".to_owned(),
            retry_after: None,
        };
        let rpc = |code| RequestError::rpc_error(RpcError::new(code, "message of the server"));
        let rows = [
            (RequestError::unreachable("away"), "UNAVAILABLE", "`x`: away"),
            (RequestError::disconnected("gone"), "UNAVAILABLE", "`x`: gone"),
            (
                RequestError::SessionNotFound { is_confirmed: true },
                "UNAVAILABLE",
                "`x`: the session no longer exists at the server",
            ),
            (RequestError::TimedOut("slow".to_owned()), "TIMEOUT", "`x`: slow"),
            (RequestError::InvalidResponse("odd".to_owned()), "EXECUTION_ERROR", "`x`: odd"),
            (rejected(429), "OVERLOADED", "`x`: the server responded with HTTP 429: no"),
            (rejected(503), "UNAVAILABLE", "`x`: the server responded with HTTP 503: no"),
            (rejected(500), "EXECUTION_ERROR", "`x`: the server responded with HTTP 500: no"),
            (rpc(-32601), "OPERATION_NOT_FOUND", "message of the server"),
            (rpc(-32602), "VALIDATION_ERROR", "message of the server"),
            (rpc(-32000), "EXECUTION_ERROR", "message of the server"),
        ];
        for (failure, code, message) in rows {
            let row = format!("{failure:?}");
            let error = failure.into_call_error("x");
            assert_eq!((error.code().as_str(), error.message()), (code, message), "{row}");
        }
    }

    #[test]
    fn server_error_survives_call_error_round_trip() {
        let data = Some(json!({"uri": "a:b"}));
        for (code, message, data) in [
            (-32601, "no such method", &None),
            (-32602, "`size` must be even", &data),
            (-32602, "", &None),
            (-32002, "not found", &data),
            (-32050, "", &data),
            (0, "odd", &Some(json!([1]))),
        ] {
            let original = RpcError { data: data.clone(), ..RpcError::new(code, message) };
            let error = RequestError::rpc_error(original).into_call_error("x");
            // A hub serializes and deserializes the error.
            let error = serde_json::from_value(serde_json::to_value(error).unwrap()).unwrap();
            let expected = ServerError { code, message, data: data.as_ref() };
            assert_eq!(server_error(&error), Some(expected));
            assert!(!error.message().is_empty());
        }
        for error in [
            RequestError::disconnected("gone").into_call_error("x"),
            CallError::validation("no", &[]),
            CallError::access_denied("no").with_details(json!({"data": 1})),
        ] {
            assert_eq!(server_error(&error), None, "{error}");
        }
    }

    #[test]
    fn call_errors_convert_to_json_rpc_errors() {
        let own = |code: &str| json!({"code": code, "message": "no", "retryable": false});
        let validation = || CallError::validation("no", &[]);
        let rpc_details = json!({"jsonrpcCode": -32050, "data": [1]});
        let issue = json!([{"path": "", "message": "no", "jsonrpcCode": -32602, "data": {"a": 1}}]);
        let mut details = own("VALIDATION_ERROR");
        details["details"] = json!([]);
        for (error, code, data) in [
            (CallError::access_denied("no"), -32603, Some(own("ACCESS_DENIED"))),
            (CallError::timeout("no"), -32603, Some(own("TIMEOUT"))),
            (CallError::unavailable("no"), -32603, Some(own("UNAVAILABLE"))),
            (validation(), -32602, Some(details)),
            (CallError::execution("no").with_details(rpc_details), -32050, Some(json!([1]))),
            (validation().with_details(issue), -32602, Some(json!({"a": 1}))),
            (CallError::execution("no").with_details(json!({"jsonrpcCode": 7})), 7, None),
        ] {
            let row = format!("{error:?}");
            let is_foreign = error
                .details()
                .is_some_and(|rpc_details| rpc_details.to_string().contains("jsonrpcCode"));
            let expected =
                RpcError { code, message: "no".to_owned(), data, is_forwarded: is_foreign };
            assert_eq!(RpcError::from(error), expected, "{row}");
        }
    }
}
