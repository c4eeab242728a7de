//! Typed handlers: functions that take and return `serde` and `schemars` types.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CallContext, HandlerOutput, HandlerResult, OnceHandler, StreamHandler};
use crate::error::{CallError, HandlerError};
use crate::payload::Payload;
use crate::schema::{Issue, Schema};

/// An `async fn` that can serve queries and mutations: `async fn(Input) -> Result<Output, E>`,
/// with or without a [`CallContext`] as its first argument.
pub trait IntoOnceHandler<Marker> {
    /// Returns the handler with its input and output schemas.
    fn into_handler(self) -> (Arc<dyn OnceHandler>, Schema, Schema);
}

/// A function that can serve subscriptions: `fn(Input) -> impl Stream<Item = Result<Output, E>>`,
/// with or without a [`CallContext`] as its first argument.
pub trait IntoStreamHandler<Marker> {
    /// Returns the handler with its input schema and the schema of its values.
    fn into_handler(self) -> (Arc<dyn StreamHandler>, Schema, Schema);
}

/// Implements a handler trait for functions with or without a context.
macro_rules! impl_into_handler {
    ($into:ident, $handler:ident, $returns:ident<$item:ident>, $run:ident $(, $context:ident)?) => {
        impl<F, I, R, O, E> $into<fn($($context,)? I) -> Result<O, E>> for F
        where
            F: Fn($($context,)? I) -> R + Send + Sync + 'static,
            I: DeserializeOwned + JsonSchema + 'static,
            R: $returns<$item = Result<O, E>> + Send + 'static,
            O: Serialize + JsonSchema + 'static,
            E: Into<HandlerError> + 'static,
        {
            #[allow(unused_variables, reason = "only some functions take the context")]
            fn into_handler(self) -> (Arc<dyn $handler>, Schema, Schema) {
                let run = move |context: CallContext, input: Payload| {
                    $run(input, |input| self($(std::convert::identity::<$context>(context),)? input))
                };
                (Arc::new(run), Schema::of::<I>(), Schema::of_serialized::<O>())
            }
        }
    };
}

impl_into_handler!(IntoOnceHandler, OnceHandler, Future<Output>, call_typed);
impl_into_handler!(IntoOnceHandler, OnceHandler, Future<Output>, call_typed, CallContext);
impl_into_handler!(IntoStreamHandler, StreamHandler, Stream<Item>, subscribe_typed);
impl_into_handler!(IntoStreamHandler, StreamHandler, Stream<Item>, subscribe_typed, CallContext);

fn call_typed<I, Fut, O, E>(
    input: Payload,
    run: impl FnOnce(I) -> Fut,
) -> BoxFuture<'static, HandlerResult>
where
    I: DeserializeOwned,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    O: Serialize + 'static,
    E: Into<HandlerError> + 'static,
{
    match parse_input(input) {
        Ok(input) => run(input).map(serialize_output).boxed(),
        Err(error) => std::future::ready(Err(error)).boxed(),
    }
}

fn subscribe_typed<I, S, O, E>(
    input: Payload,
    run: impl FnOnce(I) -> S,
) -> BoxStream<'static, HandlerResult>
where
    I: DeserializeOwned,
    S: Stream<Item = Result<O, E>> + Send + 'static,
    O: Serialize + 'static,
    E: Into<HandlerError> + 'static,
{
    match parse_input(input) {
        Ok(input) => run(input).map(serialize_output).boxed(),
        Err(error) => futures::stream::once(std::future::ready(Err(error))).boxed(),
    }
}

/// Deserializes the input. A type can be stricter than its schema and reject valid input.
fn parse_input<I: DeserializeOwned>(input: Payload) -> Result<I, HandlerError> {
    input.into_typed().map_err(|error| {
        let issue = Issue::new("", error.to_string());
        CallError::validation("invalid input", &[issue]).not_sent().into()
    })
}

fn serialize_output<O: Serialize, E: Into<HandlerError>>(result: Result<O, E>) -> HandlerResult {
    let value = serde_json::to_value(result.map_err(Into::into)?)?;
    Ok(HandlerOutput::Data(value.into()))
}
