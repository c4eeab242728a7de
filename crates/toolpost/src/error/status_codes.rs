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
    /// JSON-RPC error code, except for tool calls, which return a result with `isError` instead.
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
    pub const INFRASTRUCTURE: [Self; 12] = [
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
        Self::IdempotencyConflict,
        Self::Interrupted,
    ];

    /// Returns how endpoints report the code.
    pub fn info(&self) -> ErrorCodeInfo {
        use ErrorOrigin::{Caller, Infrastructure, Operation};
        let (description, origin, http_status, transient, may_have_executed) = match self {
            Self::OperationNotFound => ("no such operation", Caller, 404, false, false),
            Self::AccessDenied => {
                ("the caller is not allowed to call this operation", Caller, 403, false, false)
            }
            Self::ValidationError => {
                ("the input does not match its schema", Caller, 422, false, false)
            }
            Self::Timeout => ("the deadline passed", Infrastructure, 504, true, true),
            Self::Aborted => ("the caller canceled the call", Caller, 503, false, true),
            Self::ExecutionError => {
                ("the operation failed with an undeclared error", Operation, 502, false, true)
            }
            Self::UnknownError => ("unknown failure", Infrastructure, 500, false, true),
            Self::OutputValidationFailed => {
                ("the output does not match its schema", Operation, 502, false, true)
            }
            Self::Unavailable => ("the source is unavailable", Infrastructure, 503, true, true),
            Self::Overloaded => ("a limit was reached", Infrastructure, 429, true, false),
            Self::IdempotencyConflict => {
                ("the idempotency key was used with another input", Caller, 422, false, false)
            }
            Self::Interrupted => {
                ("the gateway stopped while the call ran", Infrastructure, 500, false, true)
            }
            Self::Domain(_) => ("the operation declares this error", Operation, 502, false, false),
        };
        let json_rpc_code = match self {
            Self::ValidationError => INVALID_PARAMS,
            _ => INTERNAL_ERROR,
        };
        ErrorCodeInfo {
            description,
            origin,
            http_status,
            json_rpc_code,
            exit_code: CALL_FAILED,
            transient,
            may_have_executed,
        }
    }
}
