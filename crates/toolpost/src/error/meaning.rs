//! What a code means wherever a call can come in, in one table.
//!
//! Every door looks here, so that the same error is the same error everywhere. `docs/errors.md` is
//! written from it.

use super::{ErrorCode, Origin};

/// What one code means at every door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorMeaning {
    /// What happened, in a few words.
    pub words: &'static str,
    /// Who can do something about it.
    pub origin: Origin,
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
    pub leaves_doubt: bool,
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

    /// What it means at every door.
    pub fn meaning(&self) -> ErrorMeaning {
        match self {
            Self::OperationNotFound => {
                ErrorMeaning::new("there is no such operation", Origin::Caller, 404)
            }
            Self::AccessDenied => {
                ErrorMeaning::new("the caller may not call this", Origin::Caller, 403)
            }
            Self::ValidationError => ErrorMeaning {
                json_rpc_code: INVALID_PARAMS,
                ..ErrorMeaning::new("the input does not fit its schema", Origin::Caller, 422)
            },
            Self::Timeout => ErrorMeaning::new("the deadline passed", Origin::Infrastructure, 504)
                .transient()
                .doubtful(),
            Self::Aborted => {
                ErrorMeaning::new("the caller gave up", Origin::Caller, 503).doubtful()
            }
            Self::ExecutionError => {
                ErrorMeaning::new("it failed in a way not declared", Origin::Operation, 502)
                    .doubtful()
            }
            Self::UnknownError => {
                ErrorMeaning::new("nobody can say what failed", Origin::Infrastructure, 500)
                    .doubtful()
            }
            Self::OutputValidationFailed => {
                ErrorMeaning::new("the output does not fit its schema", Origin::Operation, 502)
                    .doubtful()
            }
            Self::Unavailable => {
                ErrorMeaning::new("its source is down", Origin::Infrastructure, 503)
                    .transient()
                    .doubtful()
            }
            Self::Overloaded => {
                ErrorMeaning::new("a limit was reached", Origin::Infrastructure, 429).transient()
            }
            Self::Domain(_) => {
                ErrorMeaning::new("the operation declares this error", Origin::Operation, 502)
            }
        }
    }
}

impl ErrorMeaning {
    const fn new(words: &'static str, origin: Origin, http_status: u16) -> Self {
        Self {
            words,
            origin,
            http_status,
            json_rpc_code: INTERNAL_ERROR,
            exit_code: CALL_FAILED,
            transient: false,
            leaves_doubt: false,
        }
    }

    const fn transient(self) -> Self {
        Self { transient: true, ..self }
    }

    const fn doubtful(self) -> Self {
        Self { leaves_doubt: true, ..self }
    }
}
