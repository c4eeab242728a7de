//! What each error code means at every endpoint: HTTP status, JSON-RPC code, exit code, retry.
//!
//! Every endpoint uses this table, and `docs/errors.md` is generated from it.

use super::{ErrorCode, ErrorOrigin};

/// What one code means at every endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorCodeInfo {
    /// What happened, in a few words.
    pub description: &'static str,
    /// Who can do something about it.
    pub origin: ErrorOrigin,
    /// The status of an HTTP answer. A declared error may have a status of its own.
    pub http_status: u16,
    /// The code of the JSON-RPC error that it is outside of tools; the result of a tool is `isError`.
    pub json_rpc_code: i64,
    /// The exit code of the command line.
    pub exit_code: u8,
    /// Whether the same call could succeed a moment later, safe or not.
    pub transient: bool,
    /// Whether, once the handler was entered, it leaves open what was done by then. A declared error
    /// is a definite answer, and a refusal says that nothing was started.
    pub may_have_executed: bool,
}

/// What JSON-RPC calls parameters that do not fit.
const INVALID_PARAMS: i64 = -32_602;
/// What JSON-RPC calls everything that it has no number for.
const INTERNAL_ERROR: i64 = -32_603;

/// The exit code of a call that failed; wrong words and gateways that are not there have others.
const CALL_FAILED: u8 = 1;

impl ErrorCode {
    /// The codes that there are whatever operations declare.
    pub const INFRASTRUCTURE: [Self; 10] = [
        Self::OperationNotFound,
        Self::AccessDenied,
        Self::ValidationError,
        Self::Timeout,
        Self::Aborted,
        Self::ExecutionError,
        Self::UnknownError,
        Self::OutputValidationFailed,
        Self::Unavailable,
        Self::Overloaded,
    ];

    /// What it means at every endpoint.
    pub fn info(&self) -> ErrorCodeInfo {
        match self {
            Self::OperationNotFound => {
                ErrorCodeInfo::new("no such operation", ErrorOrigin::Caller, 404)
            }
            Self::AccessDenied => ErrorCodeInfo::new(
                "the caller is not allowed to call this operation",
                ErrorOrigin::Caller,
                403,
            ),
            Self::ValidationError => ErrorCodeInfo {
                json_rpc_code: INVALID_PARAMS,
                ..ErrorCodeInfo::new("the input does not fit its schema", ErrorOrigin::Caller, 422)
            },
            Self::Timeout => {
                ErrorCodeInfo::new("the deadline passed", ErrorOrigin::Infrastructure, 504)
                    .transient()
                    .may_have_executed()
            }
            Self::Aborted => {
                ErrorCodeInfo::new("the caller canceled the call", ErrorOrigin::Caller, 503)
                    .may_have_executed()
            }
            Self::ExecutionError => ErrorCodeInfo::new(
                "the operation failed with an undeclared error",
                ErrorOrigin::Operation,
                502,
            )
            .may_have_executed(),
            Self::UnknownError => {
                ErrorCodeInfo::new("unknown failure", ErrorOrigin::Infrastructure, 500)
                    .may_have_executed()
            }
            Self::OutputValidationFailed => ErrorCodeInfo::new(
                "the output does not fit its schema",
                ErrorOrigin::Operation,
                502,
            )
            .may_have_executed(),
            Self::Unavailable => {
                ErrorCodeInfo::new("the source is unavailable", ErrorOrigin::Infrastructure, 503)
                    .transient()
                    .may_have_executed()
            }
            Self::Overloaded => {
                ErrorCodeInfo::new("a limit was reached", ErrorOrigin::Infrastructure, 429)
                    .transient()
            }
            Self::Domain(_) => {
                ErrorCodeInfo::new("the operation declares this error", ErrorOrigin::Operation, 502)
            }
        }
    }
}

impl ErrorCodeInfo {
    const fn new(description: &'static str, origin: ErrorOrigin, http_status: u16) -> Self {
        Self {
            description,
            origin,
            http_status,
            json_rpc_code: INTERNAL_ERROR,
            exit_code: CALL_FAILED,
            transient: false,
            may_have_executed: false,
        }
    }

    const fn transient(self) -> Self {
        Self { transient: true, ..self }
    }

    const fn may_have_executed(self) -> Self {
        Self { may_have_executed: true, ..self }
    }
}
