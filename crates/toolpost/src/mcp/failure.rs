//! Why a request got no result, and what the caller of an operation is told.

use std::fmt;

use serde_json::{Map, Value, json};

use super::rpc::RpcError;
use crate::direct::DirectError;
use crate::error::{CallError, ErrorCode};

/// Why a request got no result.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The server is not there any more, or never was.
    Lost {
        words: String,
        /// Whether the request may have reached it.
        sent: bool,
    },
    /// The server forgot our session.
    SessionGone {
        /// Whether it said so in the words of the protocol, so that nothing was done.
        is_certain: bool,
    },
    /// The server answered with an error.
    Rpc(Box<RpcError>),
    /// An HTTP server answered with a status that is none of success.
    Refused { status: u16, error: Option<Box<RpcError>>, words: String },
    /// Somebody has to agree first.
    Unauthorized(String),
    /// It took too long.
    TimedOut(String),
    /// What came back cannot be used.
    Unusable(String),
    /// The server wants something from a person, and nobody may be asked.
    NeedsInput(String),
    /// The server wants something from whoever called, who was told.
    Asked(CallError),
}

impl From<DirectError> for Failure {
    fn from(error: DirectError) -> Self {
        match error {
            DirectError::Unsendable(words) => Self::unreachable(words),
            DirectError::Unreachable(words) => {
                Self::unreachable(format!("the server cannot be reached: {words}"))
            }
            DirectError::Lost { words, sent } => Self::Lost { words, sent },
        }
    }
}

impl Failure {
    pub(super) fn lost(words: impl Into<String>) -> Self {
        Self::Lost { words: words.into(), sent: true }
    }

    pub(super) fn unreachable(words: impl Into<String>) -> Self {
        Self::Lost { words: words.into(), sent: false }
    }

    pub(super) fn rpc_error(error: RpcError) -> Self {
        Self::Rpc(Box::new(error))
    }

    pub(super) fn too_large(bytes: usize, most: usize) -> Self {
        Self::Unusable(format!(
            "the answer has {bytes} bytes or more, and {most} are allowed; raise `message_bytes` of \
             the source"
        ))
    }

    /// The JSON-RPC error, wherever it came.
    pub(super) fn rpc(&self) -> Option<&RpcError> {
        match self {
            Self::Rpc(error) | Self::Refused { error: Some(error), .. } => Some(error),
            _ => None,
        }
    }

    /// Whether the same server could answer after it was connected anew.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::SessionGone { .. })
    }

    /// Whether it is certain that the server did nothing.
    pub(super) fn is_before_sending(&self) -> bool {
        matches!(
            self,
            Self::Lost { sent: false, .. }
                | Self::SessionGone { is_certain: true }
                | Self::Unauthorized(_)
        )
    }

    pub(super) fn into_call_error(self, source: &str) -> CallError {
        let message = format!("`{source}`: {self}");
        match self {
            Self::Lost { sent: false, .. }
            | Self::SessionGone { is_certain: true }
            | Self::Unauthorized(_) => CallError::unavailable(message).before_sending(),
            Self::Lost { .. } | Self::SessionGone { .. } => CallError::unavailable(message),
            Self::TimedOut(_) => CallError::timeout(message),
            Self::Rpc(error) => rpc_error(*error),
            Self::Refused { error: Some(error), .. } => rpc_error(*error),
            Self::Refused { status, words, .. } => refusal(status, message, &words),
            Self::Unusable(_) | Self::NeedsInput(_) => CallError::execution(message),
            Self::Asked(error) => error,
        }
    }
}

fn refusal(status: u16, message: String, words: &str) -> CallError {
    let details = json!({"statusCode": status, "body": words});
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
    let code = details.get(CODE)?.as_i64()?;
    let message = if details.get(SILENT).is_some() { "" } else { error.message() };
    Some(ServerError { code, message, data: details.get("data") })
}

/// The details that hold what the server said.
const CODE: &str = "jsonrpcCode";
/// Says that the server itself had no words.
const SILENT: &str = "jsonrpcSilent";

/// What the server said is for the caller; its code and data go along, so that [`server_error`] can
/// find them.
fn rpc_error(error: RpcError) -> CallError {
    let RpcError { code, message, data } = error;
    let mut said = Map::from_iter([(CODE.to_owned(), code.into())]);
    said.extend(data.map(|data| ("data".to_owned(), data)));
    let message = match message.is_empty() {
        true => {
            said.insert(SILENT.to_owned(), true.into());
            format!("the server failed with {code}")
        }
        false => message,
    };
    match code {
        RpcError::METHOD_NOT_FOUND => {
            CallError::new(ErrorCode::OperationNotFound, message).with_details(said)
        }
        RpcError::INVALID_PARAMS => {
            // The details of this code are a list of issues; this is the only one.
            let mut issue = Map::from_iter([("path".to_owned(), "".into())]);
            issue.insert("message".to_owned(), message.as_str().into());
            issue.extend(said);
            CallError::validation(message, &[]).with_details(vec![issue])
        }
        _ => CallError::execution(message).with_details(said),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { words, .. }
            | Self::Unauthorized(words)
            | Self::TimedOut(words)
            | Self::Unusable(words)
            | Self::NeedsInput(words) => f.write_str(words),
            Self::Asked(error) => f.write_str(error.message()),
            Self::SessionGone { .. } => {
                f.write_str("the server does not know our session any more")
            }
            Self::Rpc(error) | Self::Refused { error: Some(error), .. } => {
                write!(f, "{} (JSON-RPC {})", error.message, error.code)
            }
            Self::Refused { status, words, .. } if words.is_empty() => {
                write!(f, "the server answered with HTTP {status}")
            }
            Self::Refused { status, words, .. } => {
                write!(f, "the server answered with HTTP {status}: {words}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_code() {
        let refused = |status| Failure::Refused { status, error: None, words: "no".to_owned() };
        let rpc = |code| Failure::rpc_error(RpcError::new(code, "words of the server"));
        let rows = [
            (Failure::unreachable("away"), "UNAVAILABLE", "`x`: away"),
            (Failure::lost("gone"), "UNAVAILABLE", "`x`: gone"),
            (
                Failure::SessionGone { is_certain: true },
                "UNAVAILABLE",
                "`x`: the server does not know our session any more",
            ),
            (Failure::TimedOut("slow".to_owned()), "TIMEOUT", "`x`: slow"),
            (Failure::Unusable("odd".to_owned()), "EXECUTION_ERROR", "`x`: odd"),
            (refused(429), "OVERLOADED", "`x`: the server answered with HTTP 429: no"),
            (refused(503), "UNAVAILABLE", "`x`: the server answered with HTTP 503: no"),
            (refused(500), "EXECUTION_ERROR", "`x`: the server answered with HTTP 500: no"),
            (rpc(-32601), "OPERATION_NOT_FOUND", "words of the server"),
            (rpc(-32602), "VALIDATION_ERROR", "words of the server"),
            (rpc(-32000), "EXECUTION_ERROR", "words of the server"),
        ];
        for (failure, code, message) in rows {
            let row = format!("{failure:?}");
            let error = failure.into_call_error("x");
            assert_eq!((error.code().as_str(), error.message()), (code, message), "{row}");
        }
    }

    #[test]
    fn what_a_server_said_can_be_read_again() {
        let data = Some(json!({"uri": "a:b"}));
        for (code, message, data) in [
            (-32601, "no such method", &None),
            (-32602, "`size` must be even", &data),
            (-32602, "", &None),
            (-32002, "not found", &data),
            (-32050, "", &data),
            (0, "odd", &Some(json!([1]))),
        ] {
            let said = RpcError { code, message: message.to_owned(), data: data.clone() };
            let error = Failure::rpc_error(said).into_call_error("x");
            // As it would be behind a hub.
            let error = serde_json::from_value(serde_json::to_value(error).unwrap()).unwrap();
            let expected = ServerError { code, message, data: data.as_ref() };
            assert_eq!(server_error(&error), Some(expected));
            assert!(!error.message().is_empty());
        }
        for error in [
            Failure::lost("gone").into_call_error("x"),
            CallError::validation("no", &[]),
            CallError::access_denied("no").with_details(json!({"data": 1})),
        ] {
            assert_eq!(server_error(&error), None, "{error}");
        }
    }
}
