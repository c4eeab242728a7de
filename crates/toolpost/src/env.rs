//! Calling other operations from a handler.

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

/// A handler's way to the operations of some namespaces.
///
/// Each call through it is trusted, has a fresh request id and this call's id as its parent, what
/// is left of this call's deadline, and ends when this call is canceled.
///
/// # Cancellation
///
/// Dropping a nested future cancels a query or a stream; a mutation that was already dispatched
/// runs to its end, as everywhere.
#[doc(alias = "Env")]
#[derive(Debug, Clone)]
pub struct OperationEnv {
    context: CallContext,
    /// `None` means every namespace; an empty list means none.
    namespaces: Option<Vec<String>>,
    timeout: Option<Duration>,
    /// Whether progress goes on to whoever watches the caller.
    forwards_progress: bool,
}

/// Gives a handler a way to call the operations of `namespaces`, and of no others.
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
    /// A way to the operations of every namespace.
    pub fn all_namespaces(context: &CallContext) -> Self {
        Self { context: context.clone(), namespaces: None, timeout: None, forwards_progress: false }
    }

    /// Bounds each call by this time as well; the shorter of it and the remaining deadline wins.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Shows the progress of what is called to whoever watches this call.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.forwards_progress = true;
        self
    }

    /// Calls an operation and waits for its envelope.
    ///
    /// # Errors
    ///
    /// `ACCESS_DENIED` outside the namespaces, and whatever the operation fails with.
    #[doc(alias = "execute")]
    pub async fn call_trusted(
        &self,
        operation: &str,
        input: impl Into<Payload>,
    ) -> Result<Envelope<Value>, CallError> {
        let envelope = self.call_nested(operation, input.into()).await?;
        envelope.into_value().map_err(|error| output_mismatch(&error))
    }

    /// As [`OperationEnv::call_trusted`], with Rust types on both sides.
    ///
    /// # Errors
    ///
    /// As [`OperationEnv::call_trusted`], and when one of the types does not fit.
    #[doc(alias = "execute_as")]
    pub async fn call_trusted_as<T: DeserializeOwned>(
        &self,
        operation: &str,
        input: impl Serialize,
    ) -> Result<Envelope<T>, CallError> {
        let envelope = self.call_nested(operation, Payload::from_serialize(&input)?).await?;
        envelope.into_typed().map_err(|error| output_mismatch(&error))
    }

    /// Subscribes to an operation; the request goes out when the stream is first polled.
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
            let message = format!("{by} may not call into the namespace `{namespace}`");
            return Err(CallError::access_denied(message));
        }
        Ok(NestedCall {
            from: &self.context,
            operation,
            input,
            timeout: self.timeout,
            authority: NestedAuthority::Trusted,
            forwards_progress: self.forwards_progress,
        })
    }
}

/// Calls an operation as the one who called this handler: with that one's rights, and as untrusted
/// as if the request had come in at a endpoint.
pub(crate) async fn call_as_caller(
    context: &CallContext,
    operation: &str,
    input: Payload,
) -> Result<Outcome, CallError> {
    let nested_authority = NestedAuthority::AsCaller;
    let call = NestedCall {
        from: context,
        operation,
        input,
        timeout: None,
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
