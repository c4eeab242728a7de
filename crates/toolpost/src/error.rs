//! The one error that leaves a call, and what handlers may return instead of it.

mod status_codes;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::schema::Issue;
use crate::spec::OperationKind;

pub use status_codes::ErrorCodeInfo;

/// Why a call failed: a code from a closed set or declared by the operation, and words for a person.
///
/// The message is for the caller. What only an operator should read is the
/// [`source`](StdError::source), which is logged and never sent.
///
/// ```
/// use toolpost::CallError;
///
/// let error = CallError::unavailable("the spoke `box` is offline");
/// assert_eq!(error.code().as_str(), "UNAVAILABLE");
/// assert_eq!(
///     serde_json::to_value(&error).unwrap(),
///     serde_json::json!({
///         "code": "UNAVAILABLE",
///         "message": "the spoke `box` is offline",
///         "retryable": false,
///     }),
/// );
/// ```
#[derive(Debug, Clone)]
pub struct CallError {
    // Boxed, because a `Result` is as large as its larger half and most calls succeed.
    inner: Box<CallErrorInner>,
}

#[derive(Debug, Clone)]
struct CallErrorInner {
    code: ErrorCode,
    message: Cow<'static, str>,
    details: Option<Value>,
    /// Whether a retry can help and is safe; decided when the call is settled.
    retryable: bool,
    /// Whether the same call could succeed a moment later, safe or not.
    transient: bool,
    /// Whether the one who failed knows that nothing had been sent.
    not_sent: bool,
    /// Whether it came out of a nested call: what it says about that call says nothing about what
    /// the caller had done before.
    nested: bool,
    /// Whether a limit of this process refused the call, and not one of whoever was called.
    local_limit: bool,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The closed set of infrastructure codes, and whatever codes operations declare.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// No such operation, or one without a handler.
    OperationNotFound,
    /// The caller may not call this.
    AccessDenied,
    /// The input does not fit its schema.
    ValidationError,
    /// The deadline passed.
    Timeout,
    /// The caller, or the call it is part of, gave up.
    Aborted,
    /// The handler failed in a way it did not declare.
    ExecutionError,
    /// Something failed that nobody could name.
    UnknownError,
    /// The output does not fit its schema, and the policy does not forgive it.
    OutputValidationFailed,
    /// The source of the operation is down.
    Unavailable,
    /// A limit was reached; nothing was started.
    Overloaded,
    /// A code that the operation declares.
    Domain(Arc<str>),
}

/// Who can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorOrigin {
    /// The caller: what was asked cannot be done as asked.
    Caller,
    /// The operation: it ran and failed.
    Operation,
    /// What lies between the two.
    Infrastructure,
}

impl ErrorCode {
    /// The code as it stands on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OperationNotFound => "OPERATION_NOT_FOUND",
            Self::AccessDenied => "ACCESS_DENIED",
            Self::ValidationError => "VALIDATION_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::Aborted => "ABORTED",
            Self::ExecutionError => "EXECUTION_ERROR",
            Self::UnknownError => "UNKNOWN_ERROR",
            Self::OutputValidationFailed => "OUTPUT_VALIDATION_FAILED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Overloaded => "OVERLOADED",
            Self::Domain(code) => code,
        }
    }

    /// Who can do something about it.
    pub fn origin(&self) -> ErrorOrigin {
        self.info().origin
    }
}

impl From<&str> for ErrorCode {
    fn from(code: &str) -> Self {
        match code {
            "OPERATION_NOT_FOUND" => Self::OperationNotFound,
            "ACCESS_DENIED" => Self::AccessDenied,
            "VALIDATION_ERROR" => Self::ValidationError,
            "TIMEOUT" => Self::Timeout,
            "ABORTED" => Self::Aborted,
            "EXECUTION_ERROR" => Self::ExecutionError,
            "UNKNOWN_ERROR" => Self::UnknownError,
            "OUTPUT_VALIDATION_FAILED" => Self::OutputValidationFailed,
            "UNAVAILABLE" => Self::Unavailable,
            "OVERLOADED" => Self::Overloaded,
            declared => Self::Domain(declared.into()),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl CallError {
    /// An error with any code; the constructors below are named after the usual ones.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let transient = code.info().transient;
        Self {
            inner: Box::new(CallErrorInner {
                code,
                message: message.into(),
                details: None,
                retryable: false,
                transient,
                not_sent: false,
                nested: false,
                local_limit: false,
                cause: None,
            }),
        }
    }

    /// There is no operation of that id.
    pub fn operation_not_found(id: &str) -> Self {
        Self::new(ErrorCode::OperationNotFound, format!("Operation not found: {id}"))
    }

    /// The operation is known, but nobody here can run it.
    pub fn no_handler(id: &str) -> Self {
        let message = format!("No handler registered for operation: {id}");
        Self::new(ErrorCode::OperationNotFound, message)
    }

    /// The caller may not do this.
    pub fn access_denied(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::AccessDenied, message)
    }

    /// The input does not fit, at these places.
    pub fn validation(message: impl Into<Cow<'static, str>>, issues: &[Issue]) -> Self {
        let list = issues.iter().map(|issue| {
            let members = [("path", &issue.path), ("message", &issue.message)];
            Value::Object(
                members.map(|(k, v)| (k.to_owned(), Value::from(v.clone()))).into_iter().collect(),
            )
        });
        Self::new(ErrorCode::ValidationError, message).with_details(list.collect::<Vec<_>>())
    }

    /// The deadline passed.
    pub fn timeout(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Timeout, message)
    }

    /// The caller, or the call it is part of, gave up.
    pub fn aborted(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Aborted, message)
    }

    /// The handler failed in a way it did not declare.
    pub fn execution(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::ExecutionError, message)
    }

    /// Something failed that nobody could name.
    pub fn unknown(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::UnknownError, message)
    }

    /// The output does not fit, and the policy does not forgive it.
    pub fn output_validation_failed(id: &str, issues: &[Issue]) -> Self {
        let mut error = Self::validation(format!("output of {id} does not fit its schema"), issues);
        error.inner.code = ErrorCode::OutputValidationFailed;
        error.inner.details = error.inner.details.map(|list| single_member("issues", list).into());
        error
    }

    /// The source of the operation is down.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Unavailable, message)
    }

    /// A limit was reached, and nothing was started.
    pub fn overloaded(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Overloaded, message)
    }

    /// Adds what a program needs to know beyond the code.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Value>) -> Self {
        self.inner.details = Some(details.into());
        self
    }

    /// Adds the reason that only the log shows.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.cause = Some(cause.into().into());
        self
    }

    /// Says the same in other words.
    #[must_use]
    pub(crate) fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.inner.message = message.into();
        self
    }

    /// Says that the same call could succeed a moment later.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.inner.transient = true;
        self
    }

    /// Says that the same call fails until somebody has changed something.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.inner.transient = false;
        self
    }

    /// Says which limit refused the call, by the name of its setting.
    #[must_use]
    pub fn with_limit(mut self, name: &'static str) -> Self {
        self.insert_detail("limit", name.into());
        self.inner.local_limit = true;
        self
    }

    /// Which limit refused the call, if one did.
    pub fn limit(&self) -> Option<&str> {
        self.details()?.get("limit")?.as_str()
    }

    /// Which limit of this process refused this very call: not what a peer says of its own limits,
    /// nor what became of a call inside this one.
    pub fn local_limit(&self) -> Option<&str> {
        self.limit().filter(|_| self.inner.local_limit && !self.inner.nested)
    }

    /// Says when the same call may be made again.
    #[must_use]
    pub fn with_retry_after(mut self, time: Duration) -> Self {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.insert_detail("retryAfterMs", millis.into());
        self
    }

    /// When the same call may be made again, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        let millis = self.details()?.get("retryAfterMs")?.as_u64()?;
        Some(Duration::from_millis(millis))
    }

    /// Says that nothing had been sent when this failed, so that any call may be repeated.
    #[must_use]
    pub fn not_sent(mut self) -> Self {
        self.inner.not_sent = true;
        self
    }

    /// The code.
    pub fn code(&self) -> &ErrorCode {
        &self.inner.code
    }

    /// The words for the caller.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// What a program needs to know beyond the code.
    pub fn details(&self) -> Option<&Value> {
        self.inner.details.as_ref()
    }

    /// Whether the caller may simply call again: it is safe, and it can help.
    pub fn is_retryable(&self) -> bool {
        self.inner.retryable
    }

    /// Whether the operation may have had its effect although the call failed.
    pub fn may_have_run(&self) -> bool {
        self.details().and_then(|details| details.get("mayHaveRun")) == Some(&Value::Bool(true))
    }

    /// Decides `retryable` and `mayHaveRun`, once, when it is known how far the call came.
    ///
    /// The rule is the same for what the caller is told and for every automatic retry: repeating
    /// is safe if nothing was sent, or if the operation is a query or declared idempotent.
    #[must_use]
    pub(crate) fn finalize(mut self, progress: RetryContext) -> Self {
        let started = progress.dispatched && !self.inner.not_sent;
        let safe = !started || progress.kind == OperationKind::Query || progress.idempotent;
        if !safe && (self.inner.code.info().may_have_executed || self.inner.nested) {
            self.insert_detail("mayHaveRun", Value::Bool(true));
        }
        self.inner.retryable = safe && self.inner.transient && !self.may_have_run();
        self.inner.not_sent = false;
        self
    }

    /// The same error as the handler sees it whose call failed inside its own.
    #[must_use]
    pub(crate) fn into_nested(mut self) -> Self {
        self.inner.nested = true;
        self
    }

    /// Whether it is known that nothing had been sent.
    pub(crate) fn was_not_sent(&self) -> bool {
        self.inner.not_sent
    }

    /// Whether it came out of a nested call, whose words it then may repeat.
    pub fn is_nested(&self) -> bool {
        self.inner.nested
    }

    fn insert_detail(&mut self, name: &str, value: Value) {
        let mut members = match self.inner.details.take() {
            Some(Value::Object(members)) => members,
            Some(other) => single_member("details", other),
            None => Map::new(),
        };
        members.insert(name.to_owned(), value);
        self.inner.details = Some(Value::Object(members));
    }
}

/// How far a call came before it failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryContext {
    pub(crate) kind: OperationKind,
    pub(crate) idempotent: bool,
    pub(crate) dispatched: bool,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.inner.code, self.inner.message)
    }
}

impl StdError for CallError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.cause.as_ref().map(|cause| &**cause as &(dyn StdError + 'static))
    }
}

#[derive(Serialize)]
struct CallErrorOut<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Value>,
    retryable: bool,
}

#[derive(Deserialize)]
struct CallErrorIn {
    code: String,
    message: String,
    details: Option<Value>,
    #[serde(default)]
    retryable: bool,
}

impl Serialize for CallError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CallErrorOut {
            code: self.inner.code.as_str(),
            message: self.message(),
            details: self.details(),
            retryable: self.inner.retryable,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CallError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = CallErrorIn::deserialize(deserializer)?;
        let mut error = Self::new(wire.code.as_str().into(), wire.message);
        error.inner.details = wire.details;
        // The far end knows better than we do whether repeating helps.
        error.inner.retryable = wire.retryable;
        error.inner.transient = wire.retryable;
        Ok(error)
    }
}

/// An error that an operation declares in its `errorSchemas`.
///
/// A handler returns it with `?`; if the operation does not declare the code, the caller sees an
/// `EXECUTION_ERROR` with the undeclared code in its details.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {message}")]
pub struct DomainError {
    pub(crate) code: Arc<str>,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
}

impl DomainError {
    /// A declared error without details.
    pub fn new(code: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }

    /// Adds the value that the declared schema describes.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Value>) -> Self {
        self.details = Some(details.into());
        self
    }
}

/// Whatever a handler returns as its error: a [`CallError`] goes out as it is, a
/// [`DomainError`] under its declared code, and everything else as `EXECUTION_ERROR`.
///
/// Every `std::error::Error` converts into it, so `?` works on all of them.
#[derive(Debug)]
pub struct HandlerError(Box<dyn StdError + Send + Sync>);

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl HandlerError {
    /// Turns the handler's error into the call's, given the codes that the operation declares.
    pub(crate) fn into_call_error<'a>(
        self,
        mut declared: impl Iterator<Item = &'a str>,
    ) -> CallError {
        let error = match self.0.downcast::<CallError>() {
            Ok(error) => return *error,
            Err(other) => other,
        };
        match error.downcast::<DomainError>() {
            Ok(error) if declared.any(|code| code == &*error.code) => {
                let call_error = CallError::new(ErrorCode::Domain(error.code), error.message);
                match error.details {
                    Some(details) => call_error.with_details(details),
                    None => call_error,
                }
            }
            Ok(error) => undeclared_error(*error),
            Err(other) => CallError::execution(other.to_string()).with_cause(other),
        }
    }
}

fn undeclared_error(error: DomainError) -> CallError {
    let mut details = single_member("undeclaredCode", error.code.as_ref().into());
    if let Some(inner) = error.details {
        details.insert("details".to_owned(), inner);
    }
    CallError::execution(error.message).with_details(details)
}

fn single_member(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn retry_context(kind: OperationKind, idempotent: bool, dispatched: bool) -> RetryContext {
        RetryContext { kind, idempotent, dispatched }
    }

    /// Each row: the error, how far the call came, then `retryable` and `mayHaveRun`.
    #[test]
    fn finalize_sets_retryable_and_may_have_run() {
        use OperationKind::{Mutation, Query, Subscription};
        let rows = [
            (CallError::unavailable("x"), retry_context(Mutation, false, false), (true, false)),
            (CallError::unavailable("x"), retry_context(Mutation, false, true), (false, true)),
            (
                CallError::unavailable("x").not_sent(),
                retry_context(Mutation, false, true),
                (true, false),
            ),
            (CallError::unavailable("x"), retry_context(Mutation, true, true), (true, false)),
            (CallError::unavailable("x"), retry_context(Query, false, true), (true, false)),
            (CallError::unavailable("x"), retry_context(Subscription, false, true), (false, true)),
            (CallError::timeout("x"), retry_context(Query, false, true), (true, false)),
            (CallError::timeout("x"), retry_context(Mutation, false, true), (false, true)),
            (CallError::overloaded("x"), retry_context(Mutation, false, false), (true, false)),
            (CallError::aborted("x"), retry_context(Query, false, true), (false, false)),
            (CallError::aborted("x"), retry_context(Mutation, false, true), (false, true)),
            (CallError::execution("x"), retry_context(Query, false, true), (false, false)),
            (CallError::execution("x"), retry_context(Mutation, false, true), (false, true)),
            (
                CallError::execution("x").transient(),
                retry_context(Query, false, true),
                (true, false),
            ),
            (CallError::access_denied("x"), retry_context(Mutation, false, false), (false, false)),
            (
                CallError::validation("x", &[]),
                retry_context(Mutation, false, false),
                (false, false),
            ),
            (
                CallError::new("SOLD_OUT".into(), "x"),
                retry_context(Mutation, false, true),
                (false, false),
            ),
        ];
        for (error, progress, expected) in rows {
            let row = format!("{error} {progress:?}");
            let finalized = error.finalize(progress);
            assert_eq!((finalized.is_retryable(), finalized.may_have_run()), expected, "{row}");
        }
    }

    #[test]
    fn finalize_preserves_existing_details() {
        let mutation = retry_context(OperationKind::Mutation, false, true);
        let rows = [
            (json!({"statusCode": 500}), json!({"statusCode": 500, "mayHaveRun": true})),
            (json!([1]), json!({"details": [1], "mayHaveRun": true})),
        ];
        for (details, expected) in rows {
            let error = CallError::execution("x").with_details(details).finalize(mutation);
            assert_eq!(error.details(), Some(&expected));
        }
    }

    #[test]
    fn handler_error_maps_by_error_type() {
        let domain = || DomainError::new("SOLD_OUT", "none left").with_details(json!({"left": 0}));
        let rows: [(HandlerError, Value); 4] = [
            (
                CallError::access_denied("no").into(),
                json!({"code": "ACCESS_DENIED", "message": "no", "retryable": false}),
            ),
            (
                domain().into(),
                json!({"code": "SOLD_OUT", "message": "none left", "details": {"left": 0}, "retryable": false}),
            ),
            (
                DomainError::new("OTHER", "odd").into(),
                json!({"code": "EXECUTION_ERROR", "message": "odd", "details": {"undeclaredCode": "OTHER"}, "retryable": false}),
            ),
            (
                std::io::Error::other("disk").into(),
                json!({"code": "EXECUTION_ERROR", "message": "disk", "retryable": false}),
            ),
        ];
        for (error, expected) in rows {
            let mapped = error.into_call_error(["SOLD_OUT"].into_iter());
            assert_eq!(serde_json::to_value(&mapped).unwrap(), expected);
        }
    }

    #[test]
    fn error_code_round_trips_as_string() {
        for code in [
            "OPERATION_NOT_FOUND",
            "ACCESS_DENIED",
            "VALIDATION_ERROR",
            "TIMEOUT",
            "ABORTED",
            "EXECUTION_ERROR",
            "UNKNOWN_ERROR",
            "OUTPUT_VALIDATION_FAILED",
            "UNAVAILABLE",
            "OVERLOADED",
            "SOLD_OUT",
        ] {
            let wire =
                json!({"code": code, "message": "m", "details": {"a": 1}, "retryable": true});
            let error: CallError = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(matches!(error.code(), ErrorCode::Domain(_)), code == "SOLD_OUT");
            assert_eq!(serde_json::to_value(&error).unwrap(), wire);
        }
    }
}
