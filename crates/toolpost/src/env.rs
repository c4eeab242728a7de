//! Nested calls: how a handler calls other operations.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, future};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::envelope::Envelope;
use crate::error::CallError;
use crate::handler::{CallContext, NestedAuthority, NestedCall};
use crate::outcome::Outcome;
use crate::payload::{Payload, PayloadError};

/// Lets a handler call operations in selected namespaces.
///
/// Each nested call is trusted, has its own request id with the handler's call as parent, inherits
/// the remaining time of that call, and is canceled with it.
///
/// # Cancellation
///
/// Dropping a nested future cancels a query or a stream; a mutation that was already dispatched
/// runs to completion.
#[doc(alias = "Env")]
#[derive(Debug, Clone)]
pub struct OperationEnv {
    context: CallContext,
    /// Allowed namespaces. `None` allows all; an empty list allows none.
    namespaces: Option<Vec<String>>,
    timeout: Option<Duration>,
    /// Whether progress of nested calls is forwarded to the observer of this call.
    forwards_progress: bool,
}

/// Returns an environment through which a handler can call only the operations in `namespaces`.
///
/// ```
/// use toolpost::{CallContext, HandlerError, build_env};
/// use serde_json::{Value, json};
///
/// async fn double(context: CallContext, n: i64) -> Result<i64, HandlerError> {
///     let env = build_env(&context, ["demo"]);
///     let sum = env.call_trusted("demo.add", json!({"a": n, "b": n})).await?;
///     Ok(sum.data["sum"].as_i64().unwrap_or_default())
/// }
/// ```
pub fn build_env<S: Into<String>>(
    context: &CallContext,
    namespaces: impl IntoIterator<Item = S>,
) -> OperationEnv {
    OperationEnv {
        context: context.clone(),
        namespaces: Some(namespaces.into_iter().map(Into::into).collect()),
        timeout: None,
        forwards_progress: false,
    }
}

impl OperationEnv {
    /// Returns an environment for the operations in all namespaces.
    pub fn all_namespaces(context: &CallContext) -> Self {
        Self { context: context.clone(), namespaces: None, timeout: None, forwards_progress: false }
    }

    /// Sets a timeout for each nested call. The remaining time of this call still applies.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Forwards the progress of nested calls to the observer of this call.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.forwards_progress = true;
        self
    }

    /// Calls an operation and waits for its envelope.
    ///
    /// # Errors
    ///
    /// Returns `ACCESS_DENIED` for an operation outside the namespaces, or the error of the call.
    #[doc(alias = "execute")]
    pub async fn call_trusted(
        &self,
        operation: &str,
        input: impl Into<Payload>,
    ) -> Result<Envelope<Value>, CallError> {
        let envelope = self.call_nested(operation, input.into()).await?;
        envelope.into_value().map_err(|error| output_mismatch(&error))
    }

    /// Like [`OperationEnv::call_trusted`], with typed input and output.
    ///
    /// # Errors
    ///
    /// Same as [`OperationEnv::call_trusted`]. Also fails if the input cannot be serialized or the
    /// output does not match `T`.
    #[doc(alias = "execute_as")]
    pub async fn call_trusted_as<T: DeserializeOwned>(
        &self,
        operation: &str,
        input: impl Serialize,
    ) -> Result<Envelope<T>, CallError> {
        let envelope = self.call_nested(operation, Payload::from_serialize(&input)?).await?;
        envelope.into_typed().map_err(|error| output_mismatch(&error))
    }

    /// Subscribes to an operation. The request is sent when the stream is first polled.
    pub fn subscribe(
        &self,
        operation: &str,
        input: impl Into<Payload>,
    ) -> BoxStream<'static, Result<Envelope<Value>, CallError>> {
        let stream = match self.nested_call(operation, input.into()) {
            Ok(call) => self.context.nested_caller().subscribe(call),
            Err(error) => error_stream(error),
        };
        stream
            .map(|item| item?.envelope.into_value().map_err(|error| output_mismatch(&error)))
            .boxed()
    }

    async fn call_nested(
        &self,
        operation: &str,
        input: Payload,
    ) -> Result<Envelope<Payload>, CallError> {
        let call = self.nested_call(operation, input)?;
        Ok(self.context.nested_caller().call(call).await?.envelope)
    }

    fn nested_call<'a>(
        &'a self,
        operation: &'a str,
        input: Payload,
    ) -> Result<NestedCall<'a>, CallError> {
        let namespace = operation.split('.').next().unwrap_or_default();
        let open = self.namespaces.as_ref();
        if open.is_some_and(|open| !open.iter().any(|open| open == namespace)) {
            let by = self.context.operation();
            let message =
                format!("{by} is not allowed to call operations of the namespace `{namespace}`");
            return Err(CallError::access_denied(message));
        }
        Ok(NestedCall {
            from: &self.context,
            operation,
            input,
            timeout: self.timeout,
            idempotency_key: None,
            authority: NestedAuthority::Trusted,
            forwards_progress: self.forwards_progress,
        })
    }
}

/// Calls an operation with the identity and permissions of the handler's caller. The call is
/// untrusted, as if the request had arrived at an endpoint.
pub(crate) async fn call_as_caller(
    context: &CallContext,
    operation: &str,
    input: Payload,
    idempotency_key: Option<Arc<str>>,
) -> Result<Outcome, CallError> {
    let nested_authority = NestedAuthority::AsCaller;
    let call = NestedCall {
        from: context,
        operation,
        input,
        timeout: None,
        idempotency_key,
        authority: nested_authority,
        forwards_progress: true,
    };
    context.nested_caller().call(call).await
}

fn error_stream(error: CallError) -> BoxStream<'static, Result<Outcome, CallError>> {
    futures::stream::once(future::ready(Err(error))).boxed()
}

fn output_mismatch(error: &PayloadError) -> CallError {
    CallError::execution(format!("the output does not have the expected shape: {error}"))
}
