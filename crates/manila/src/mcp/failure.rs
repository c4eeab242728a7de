//! Why a request got no result, and what the caller of an operation is told.

use std::fmt;

use serde_json::{Value, json};

use super::rpc::RpcError;
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
    Unauthorised(String),
    /// It took too long.
    TimedOut(String),
    /// What came back cannot be used.
    Unusable(String),
    /// The server wants something from a person, and nobody may be asked.
    NeedsInput(String),
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
                | Self::Unauthorised(_)
        )
    }

    pub(super) fn into_call_error(self, source: &str) -> CallError {
        let message = format!("`{source}`: {self}");
        match self {
            Self::Lost { sent: false, .. }
            | Self::SessionGone { is_certain: true }
            | Self::Unauthorised(_) => CallError::unavailable(message).before_sending(),
            Self::Lost { .. } | Self::SessionGone { .. } => CallError::unavailable(message),
            Self::TimedOut(_) => CallError::timeout(message),
            Self::Rpc(error) => rpc_error(*error),
            Self::Refused { error: Some(error), .. } => rpc_error(*error),
            Self::Refused { status, words, .. } => refusal(status, message, &words),
            Self::Unusable(_) | Self::NeedsInput(_) => CallError::execution(message),
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

/// What the server said is for the caller; its code and data go along.
fn rpc_error(error: RpcError) -> CallError {
    let RpcError { code, message, data } = error;
    let message =
        if message.is_empty() { format!("the server failed with {code}") } else { message };
    let mut details = json!({"jsonrpcCode": code});
    if let (Some(data), Value::Object(members)) = (data, &mut details) {
        members.insert("data".to_owned(), data);
    }
    match code {
        RpcError::METHOD_NOT_FOUND => {
            CallError::new(ErrorCode::OperationNotFound, message).with_details(details)
        }
        RpcError::INVALID_PARAMS => {
            let issue = json!([{"path": "", "message": message}]);
            CallError::validation(message, &[]).with_details(issue)
        }
        _ => CallError::execution(message).with_details(details),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { words, .. }
            | Self::Unauthorised(words)
            | Self::TimedOut(words)
            | Self::Unusable(words)
            | Self::NeedsInput(words) => f.write_str(words),
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
}
