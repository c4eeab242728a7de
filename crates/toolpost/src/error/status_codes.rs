//! Mapping of error codes to HTTP status, JSON-RPC code, exit code and retry behavior.
//!
//! Every endpoint uses this table, and `docs/errors.md` is generated from it.

use super::{ErrorCode, ErrorOrigin};

/// How endpoints report one error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorCodeInfo {
    /// Short description.
    pub description: &'static str,
    /// Which side caused the error and can fix it.
    pub origin: ErrorOrigin,
    /// HTTP status. A declared error may define its own.
    pub http_status: u16,
    /// JSON-RPC error code outside of tool calls. A tool call returns a result with `isError`
    /// instead.
    pub json_rpc_code: i64,
    /// Exit code of the command line.
    pub exit_code: u8,
    /// Whether the same call may succeed later, regardless of whether a retry is safe.
    pub transient: bool,
    /// Whether the operation may have had an effect when a dispatched call fails with this code.
    /// Declared errors are definite results, and rejections mean that nothing was started.
    pub may_have_executed: bool,
}

/// JSON-RPC code for invalid parameters.
const INVALID_PARAMS: i64 = -32_602;
/// JSON-RPC code for internal errors, used for every error without a code of its own.
const INTERNAL_ERROR: i64 = -32_603;

/// Exit code of a failed call. Usage errors and unreachable gateways have other exit codes.
const CALL_FAILED: u8 = 1;

impl ErrorCode {
    /// The predefined codes.
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

    /// Returns the meaning of the code at every endpoint.
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
