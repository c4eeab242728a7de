//! [`CallError`], the error of every call, and the errors that handlers can return.

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

/// The error that a failed call returns: a predefined or operation-declared code and a
/// human-readable message.
///
/// The message is sent to the caller. Details for the operator belong in the
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
    // Boxed to keep `Result` small, since most calls succeed.
    inner: Box<CallErrorInner>,
}

#[derive(Debug, Clone)]
struct CallErrorInner {
    code: ErrorCode,
    message: Cow<'static, str>,
    details: Option<Value>,
    /// Whether a retry is safe and may succeed. Set when the call is finalized.
    retryable: bool,
    /// Whether the same call may succeed later, regardless of whether a retry is safe.
    transient: bool,
    /// Whether the request is known not to have been sent.
    not_sent: bool,
    /// Whether the error is from a nested call. Its flags then describe the nested call, not what
    /// the caller had done before.
    nested: bool,
    /// Whether the error is that of an earlier call with the same idempotency key.
    replayed: bool,
    /// The limit of this process that rejected the call.
    local_limit: Option<Limit>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// An error code: one of the predefined infrastructure codes, or a code that an operation declares.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The operation does not exist or has no handler.
    OperationNotFound,
    /// The caller lacks permission to call the operation.
    AccessDenied,
    /// The input does not match its schema.
    ValidationError,
    /// The deadline of the call passed.
    Timeout,
    /// The caller or the parent call canceled the call.
    Aborted,
    /// The handler failed with an error that the operation does not declare.
    ExecutionError,
    /// Unknown failure.
    UnknownError,
    /// The output does not match its schema, and the output policy rejects it.
    OutputValidationFailed,
    /// The source of the operation is not available.
    Unavailable,
    /// A limit was reached. The call was not started.
    Overloaded,
    /// The idempotency key was used with another input.
    IdempotencyConflict,
    /// The process stopped while the call ran.
    Interrupted,
    /// An error code that the operation declares.
    Domain(Arc<str>),
}

/// A limit that can reject a call, named after its setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Connections per address before authentication.
    AddressConnections,
    /// An open circuit breaker.
    Breaker,
    /// Calls in flight per caller.
    CallerCalls,
    /// Connections per caller.
    CallerConnections,
    /// Memory of the inputs of a caller.
    CallerInputBytes,
    /// Memory of the operations that an identity registers.
    CallerRegistrationBytes,
    /// Rooms opened by one caller.
    CallerRooms,
    /// Names of spokes per identity.
    CallerSpokes,
    /// Open subscriptions per caller.
    CallerSubscriptions,
    /// Calls in flight.
    Calls,
    /// Call rate per caller.
    CallsPerMinute,
    /// Connections.
    Connections,
    /// Calls waiting for an exclusive operation.
    ExclusiveQueue,
    /// Number of idempotency keys.
    IdempotencyMax,
    /// Size of the outcomes of calls with an idempotency key.
    IdempotencyMaxSize,
    /// Memory of inputs.
    InputBytes,
    /// Nesting depth of calls.
    Nesting,
    /// Time spent in a source's queue.
    QueueWait,
    /// Memory of the operations that spokes register.
    RegistrationBytes,
    /// Open rooms.
    Rooms,
    /// Calls in flight per source.
    SourceCalls,
    /// Length of a source's queue.
    SourceQueue,
    /// Names of spokes.
    Spokes,
}

impl Limit {
    /// All limits, sorted by name.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Which side caused an error and can fix it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorOrigin {
    /// The caller: the request is not valid or not allowed.
    Caller,
    /// The operation, which ran and failed.
    Operation,
    /// The infrastructure between the caller and the operation.
    Infrastructure,
}

impl ErrorCode {
    /// Returns the code as written on the wire.
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
            Self::IdempotencyConflict => "IDEMPOTENCY_CONFLICT",
            Self::Interrupted => "INTERRUPTED",
            Self::Domain(code) => code,
        }
    }

    /// Which side caused the error and can fix it.
    pub fn origin(&self) -> ErrorOrigin {
        self.info().origin
    }
}

impl From<&str> for ErrorCode {
    fn from(code: &str) -> Self {
        let predefined = Self::INFRASTRUCTURE.iter().find(|known| known.as_str() == code);
        predefined.cloned().unwrap_or_else(|| Self::Domain(code.into()))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl CallError {
    /// Creates an error with any code. The common codes have their own constructors.
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
                replayed: false,
                local_limit: None,
                cause: None,
            }),
        }
    }

    /// Creates an `OPERATION_NOT_FOUND` error: no operation has this id.
    pub fn operation_not_found(id: &str) -> Self {
        Self::new(ErrorCode::OperationNotFound, format!("Operation not found: {id}"))
    }

    /// Creates an `OPERATION_NOT_FOUND` error: the operation is registered without a handler.
    pub fn no_handler(id: &str) -> Self {
        let message = format!("No handler registered for operation: {id}");
        Self::new(ErrorCode::OperationNotFound, message)
    }

    /// Creates an `ACCESS_DENIED` error: the caller lacks permission.
    pub fn access_denied(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::AccessDenied, message)
    }

    /// Creates a `VALIDATION_ERROR` that lists the issues found in the input.
    pub fn validation(message: impl Into<Cow<'static, str>>, issues: &[Issue]) -> Self {
        let list = issues.iter().map(|issue| {
            let members = [("path", &issue.path), ("message", &issue.message)];
            Value::Object(
                members.map(|(k, v)| (k.to_owned(), Value::from(v.clone()))).into_iter().collect(),
            )
        });
        Self::new(ErrorCode::ValidationError, message).with_details(list.collect::<Vec<_>>())
    }

    /// Creates a `TIMEOUT` error: the deadline of the call passed.
    pub fn timeout(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Timeout, message)
    }

    /// Creates an `ABORTED` error: the caller or the parent call canceled the call.
    pub fn aborted(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Aborted, message)
    }

    /// Creates an `EXECUTION_ERROR`: the handler failed with an error that the operation does not
    /// declare.
    pub fn execution(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::ExecutionError, message)
    }

    /// Creates an `UNKNOWN_ERROR`, for a failure that no other code describes.
    pub fn unknown(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::UnknownError, message)
    }

    /// Creates an `OUTPUT_VALIDATION_FAILED` error that lists the issues found in the output.
    pub fn output_validation_failed(id: &str, issues: &[Issue]) -> Self {
        let mut error =
            Self::validation(format!("output of {id} does not match its schema"), issues);
        error.inner.code = ErrorCode::OutputValidationFailed;
        error.inner.details = error.inner.details.map(|list| single_member("issues", list).into());
        error
    }

    /// Adds the invalid data to the details of an `OUTPUT_VALIDATION_FAILED` error.
    #[must_use]
    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.insert_detail("data", data);
        self
    }

    /// Creates an `UNAVAILABLE` error: the source of the operation is not available.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Unavailable, message)
    }

    /// Creates an `OVERLOADED` error: a limit was reached and the call was not started.
    pub fn overloaded(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Overloaded, message)
    }

    /// Creates an `IDEMPOTENCY_CONFLICT` error: the key was used with another input.
    pub fn idempotency_conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::IdempotencyConflict, message)
    }

    /// Creates an `INTERRUPTED` error: the process stopped while the call ran.
    pub fn interrupted(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Interrupted, message)
    }

    /// Adds machine-readable details.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Value>) -> Self {
        self.inner.details = Some(details.into());
        self
    }

    /// Sets the underlying cause, which is shown only in logs.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.cause = Some(cause.into().into());
        self
    }

    /// Replaces the message.
    #[must_use]
    pub(crate) fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.inner.message = message.into();
        self
    }

    /// Marks the error as temporary: the same call may succeed later.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.inner.transient = true;
        self
    }

    /// Marks the error as permanent: the same call keeps failing until the configuration changes.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.inner.transient = false;
        self
    }

    /// Sets the limit that rejected the call.
    #[must_use]
    pub fn with_limit(mut self, limit: Limit) -> Self {
        self.insert_detail("limit", limit.as_str().into());
        self.inner.local_limit = Some(limit);
        self
    }

    /// Returns the name of the limit that rejected the call, if any.
    pub fn limit(&self) -> Option<&str> {
        self.details()?.get("limit")?.as_str()
    }

    /// Returns the limit of this process that rejected the call, if any. Limits that a peer or a
    /// nested call reported are excluded.
    pub fn local_limit(&self) -> Option<Limit> {
        self.inner.local_limit.filter(|_| !self.inner.nested)
    }

    /// Sets the time after which the call may be retried.
    #[must_use]
    pub fn with_retry_after(mut self, time: Duration) -> Self {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.insert_detail("retryAfterMs", millis.into());
        self
    }

    /// Returns the time after which the call may be retried, if known.
    pub fn retry_after(&self) -> Option<Duration> {
        let millis = self.details()?.get("retryAfterMs")?.as_u64()?;
        Some(Duration::from_millis(millis))
    }

    /// Adds the id of the most similar operation, if the called one does not exist.
    #[must_use]
    pub(crate) fn with_suggestion(mut self, id: &str) -> Self {
        self.insert_detail("suggestion", id.into());
        self
    }

    /// Returns the id of the most similar operation, if known.
    pub(crate) fn suggestion(&self) -> Option<&str> {
        self.details()?.get("suggestion")?.as_str()
    }

    /// Marks the request as not sent, which makes a retry safe for every kind of operation.
    #[must_use]
    pub fn not_sent(mut self) -> Self {
        self.inner.not_sent = true;
        self
    }

    /// Returns the error code.
    pub fn code(&self) -> &ErrorCode {
        &self.inner.code
    }

    /// Returns the message for the caller.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Returns the machine-readable details.
    pub fn details(&self) -> Option<&Value> {
        self.inner.details.as_ref()
    }

    /// Whether the caller can retry: a retry is safe and may succeed.
    pub fn is_retryable(&self) -> bool {
        self.inner.retryable
    }

    /// Whether the operation may have taken effect although the call failed.
    pub fn may_have_run(&self) -> bool {
        self.details().and_then(|details| details.get("mayHaveRun")) == Some(&Value::Bool(true))
    }

    /// Sets `retryable` and `mayHaveRun`, once it is known how far the call got.
    ///
    /// Callers and automatic retries follow the same rule: a retry is safe if nothing was sent, or
    /// if the operation is a query or declared idempotent.
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

    /// Marks the error as coming from a nested call.
    #[must_use]
    pub(crate) fn into_nested(mut self) -> Self {
        self.inner.nested = true;
        self
    }

    /// Marks the error as that of an earlier call.
    #[must_use]
    pub(crate) fn into_replayed(mut self) -> Self {
        self.inner.replayed = true;
        self
    }

    /// Whether the error is that of an earlier call with the same idempotency key.
    pub fn is_replayed(&self) -> bool {
        self.inner.replayed
    }

    /// Whether the request is known not to have been sent.
    pub(crate) fn was_not_sent(&self) -> bool {
        self.inner.not_sent
    }

    /// Whether the error is from a nested call; its message may quote that call.
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

/// What determines whether a failed call can be retried safely.
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
}

#[derive(Deserialize)]
struct CallErrorIn {
    code: String,
    message: String,
    details: Option<Value>,
    #[serde(default)]
    retryable: bool,
    #[serde(default)]
    replayed: bool,
}

impl Serialize for CallError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CallErrorOut {
            code: self.inner.code.as_str(),
            message: self.message(),
            details: self.details(),
            retryable: self.inner.retryable,
            replayed: self.inner.replayed,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CallError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = CallErrorIn::deserialize(deserializer)?;
        let mut error = Self::new(wire.code.as_str().into(), wire.message);
        error.inner.details = wire.details;
        // The peer determines whether a retry can help.
        error.inner.retryable = wire.retryable;
        error.inner.transient = wire.retryable;
        error.inner.replayed = wire.replayed;
        Ok(error)
    }
}

/// An error that an operation declares in its `errorSchemas`.
///
/// A handler returns it with `?`. If the operation does not declare the code, the caller receives
/// an `EXECUTION_ERROR` with the undeclared code in its details.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {message}")]
pub struct DomainError {
    pub(crate) code: Arc<str>,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
}

impl DomainError {
    /// Creates a declared error without details.
    pub fn new(code: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }

    /// Sets the details, which the declared schema describes.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Value>) -> Self {
        self.details = Some(details.into());
        self
    }
}

/// The error type of handlers. The caller receives a [`CallError`] unchanged, a [`DomainError`]
/// with its declared code, and any other error as `EXECUTION_ERROR`.
///
/// Every `std::error::Error` converts into it, so `?` works in handlers.
#[derive(Debug)]
pub struct HandlerError(Box<dyn StdError + Send + Sync>);

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl HandlerError {
    /// Converts the handler's error into a [`CallError`]. `declared` lists the codes that the
    /// operation declares.
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

    /// Each row: the error, the progress of the call, and the expected `retryable` and
    /// `mayHaveRun`.
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
