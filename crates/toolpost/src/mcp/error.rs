//! Why a request got no result, and what the caller of an operation is told.

use std::fmt;

use serde_json::{Map, Value, json};

use super::rpc::RpcError;
use crate::error::{CallError, ErrorCode};
use crate::loopback::LoopbackError;

/// Why a request got no result.
#[derive(Debug, Clone)]
pub(super) enum RequestError {
    /// The server is not there any more, or never was.
    Disconnected {
        message: String,
        /// Whether the request may have reached it.
        sent: bool,
    },
    /// The server forgot our session.
    SessionNotFound {
        /// Whether it said so in the words of the protocol, so that nothing was done.
        is_confirmed: bool,
    },
    /// The server answered with an error.
    Rpc(Box<RpcError>),
    /// An HTTP server answered with a status that is none of success.
    HttpStatus { status: u16, error: Option<Box<RpcError>>, body: String },
    /// Somebody has to agree first.
    Unauthorized(String),
    /// It took too long.
    TimedOut(String),
    /// What came back cannot be used.
    InvalidResponse(String),
    /// The server wants something from a person, and nobody may be asked.
    InputUnavailable(String),
    /// The server wants something from whoever called, who was told.
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
            "the response has {bytes} bytes or more, and {max} are allowed; raise `message_bytes` of \
             the source"
        ))
    }

    /// The JSON-RPC error, wherever it came.
    pub(super) fn rpc(&self) -> Option<&RpcError> {
        match self {
            Self::Rpc(error) | Self::HttpStatus { error: Some(error), .. } => Some(error),
            _ => None,
        }
    }

    /// Whether the same server could answer after it was connected anew.
    pub(super) fn is_disconnect(&self) -> bool {
        matches!(self, Self::Disconnected { .. } | Self::SessionNotFound { .. })
    }

    /// Whether it is certain that the server did nothing.
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
        match self {
            Self::Disconnected { sent: false, .. }
            | Self::SessionNotFound { is_confirmed: true }
            | Self::Unauthorized(_) => CallError::unavailable(message).not_sent(),
            Self::Disconnected { .. } | Self::SessionNotFound { .. } => {
                CallError::unavailable(message)
            }
            Self::TimedOut(_) => CallError::timeout(message),
            Self::Rpc(error) => rpc_error(*error),
            Self::HttpStatus { error: Some(error), .. } => rpc_error(*error),
            Self::HttpStatus { status, body: body_text, .. } => {
                http_status_error(status, message, &body_text)
            }
            Self::InvalidResponse(_) | Self::InputUnavailable(_) => CallError::execution(message),
            Self::InputRequired(error) => error,
        }
    }
}

fn http_status_error(status: u16, message: String, body_text: &str) -> CallError {
    let details = json!({"statusCode": status, "body": body_text});
    match status {
        429 => CallError::overloaded(message).with_details(details),
        502..=504 => CallError::unavailable(message).with_details(details),
        _ => CallError::execution(message).with_details(details),
    }
}

/// What a server answered instead of a result, in the words of JSON-RPC.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ServerError<'a> {
    /// Its number.
    pub code: i64,
    /// Its words.
    pub message: &'a str,
    /// What else it said.
    pub data: Option<&'a Value>,
}

/// The error of an MCP server that a call failed with, as the server said it; `None` if the call
/// failed for another reason.
pub fn server_error(error: &CallError) -> Option<ServerError<'_>> {
    let details = match error.details()? {
        Value::Array(issues) => issues.first()?,
        details => details,
    };
    let code = details.get(CODE_MEMBER)?.as_i64()?;
    let message = if details.get(EMPTY_MESSAGE_MEMBER).is_some() { "" } else { error.message() };
    Some(ServerError { code, message, data: details.get("data") })
}

/// The details that hold what the server said.
const CODE_MEMBER: &str = "jsonrpcCode";
/// Says that the server itself had no words.
const EMPTY_MESSAGE_MEMBER: &str = "jsonrpcSilent";

/// What the server said is for the caller; its code and data go along, so that [`server_error`] can
/// find them.
fn rpc_error(error: RpcError) -> CallError {
    let RpcError { code, message, data } = error;
    let mut details = Map::from_iter([(CODE_MEMBER.to_owned(), code.into())]);
    details.extend(data.map(|data| ("data".to_owned(), data)));
    let message = match message.is_empty() {
        true => {
            details.insert(EMPTY_MESSAGE_MEMBER.to_owned(), true.into());
            format!("the server returned error {code}")
        }
        false => message,
    };
    match code {
        RpcError::METHOD_NOT_FOUND => {
            CallError::new(ErrorCode::OperationNotFound, message).with_details(details)
        }
        RpcError::INVALID_PARAMS => {
            // The details of this code are a list of issues; this is the only one.
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
            Self::SessionNotFound { .. } => f.write_str("the server no longer knows this session"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_error_maps_to_call_error_code() {
        let rejected =
            |status| RequestError::HttpStatus { status, error: None, body: "no".to_owned() };
        let rpc = |code| RequestError::rpc_error(RpcError::new(code, "message of the server"));
        let rows = [
            (RequestError::unreachable("away"), "UNAVAILABLE", "`x`: away"),
            (RequestError::disconnected("gone"), "UNAVAILABLE", "`x`: gone"),
            (
                RequestError::SessionNotFound { is_confirmed: true },
                "UNAVAILABLE",
                "`x`: the server no longer knows this session",
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
            let original = RpcError { code, message: message.to_owned(), data: data.clone() };
            let error = RequestError::rpc_error(original).into_call_error("x");
            // As it would be behind a hub.
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
}
