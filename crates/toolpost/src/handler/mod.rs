//! Operation handlers and the call context they receive.

mod cancellation;
mod client_channel;
mod context;
mod default_deadline;
mod progress;
mod request_id;
mod typed;

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use serde_json::Value;

use crate::envelope::Envelope;
use crate::error::HandlerError;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::OperationKind;

pub use cancellation::AbortHandle;
pub use client_channel::{
    ClientChannel, MultiRoundTrip, RespondToServer, ServerRequest, ServerRequestError,
};
pub use context::CallContext;
pub(crate) use context::{
    Attachment, CallStart, NestedAuthority, NestedCall, NestedCaller, deadline_after,
};
pub(crate) use default_deadline::DeadlinePause;
pub use progress::{LogMessage, Progress, ProgressObserver, ProgressSender};
pub use request_id::RequestId;
pub use typed::{IntoOnceHandler, IntoStreamHandler};

/// Handler of a query or mutation; returns one result.
///
/// # Cancellation
///
/// [`CallContext::canceled`] signals cancellation. The caller receives its error immediately. The
/// future is polled for up to `PipelineSettings::cancel_grace` and then dropped.
pub trait OnceHandler: Send + Sync + 'static {
    /// Starts one call.
    fn call(&self, context: CallContext, input: Payload) -> BoxFuture<'static, HandlerResult>;
}

/// Handler of a subscription; returns a stream of values.
///
/// # Cancellation
///
/// Same as for [`OnceHandler`]. The stream is polled only when the consumer requests a value.
pub trait StreamHandler: Send + Sync + 'static {
    /// Starts one subscription.
    fn subscribe(&self, context: CallContext, input: Payload) -> BoxStream<'static, HandlerResult>;
}

/// The output of a handler. The variant determines how the result stage processes it.
#[derive(Debug)]
#[non_exhaustive]
pub enum HandlerOutput {
    /// A serialized Rust value. It is always plain data, even if it has the shape of an envelope.
    Data(Payload),
    /// JSON from a dynamic handler or a remote source; an envelope if it has the shape of one.
    Dynamic(Payload),
    /// An envelope built by an adapter.
    Envelope(Envelope<Payload>),
    /// An envelope, and the declared output schema that its data must match.
    WithSchema(Envelope<Payload>, Schema),
    /// The outcome of another call, forwarded with its repairs and warnings.
    Forwarded(Outcome),
}

impl HandlerOutput {
    /// Wraps a JSON value, which may be an envelope.
    pub fn dynamic(value: Value) -> Self {
        Self::Dynamic(value.into())
    }
}

/// The result of a handler, or one value of its stream.
pub(crate) type HandlerResult = Result<HandlerOutput, HandlerError>;

/// A handler, either for single results or for streams.
#[derive(Clone)]
#[non_exhaustive]
pub enum Handler {
    /// Handles queries and mutations.
    Once(Arc<dyn OnceHandler>),
    /// Handles subscriptions.
    Stream(Arc<dyn StreamHandler>),
}

impl Handler {
    /// Whether this handler can serve operations of `kind`.
    pub fn supports(&self, kind: OperationKind) -> bool {
        match self {
            Self::Once(_) => kind != OperationKind::Subscription,
            Self::Stream(_) => kind == OperationKind::Subscription,
        }
    }

    /// Creates a handler for queries and mutations from a function that takes JSON. With
    /// [`HandlerOutput::Dynamic`], the result may be an envelope.
    pub fn once_fn<F, Fut>(function: F) -> Self
    where
        F: Fn(CallContext, Payload) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        Self::Once(Arc::new(move |context, input| function(context, input).boxed()))
    }

    /// Creates a handler for subscriptions from a function that takes JSON. With
    /// [`HandlerOutput::Dynamic`], each value may be an envelope.
    pub fn stream_fn<F, S>(function: F) -> Self
    where
        F: Fn(CallContext, Payload) -> S + Send + Sync + 'static,
        S: futures::Stream<Item = HandlerResult> + Send + 'static,
    {
        Self::Stream(Arc::new(move |context, input| function(context, input).boxed()))
    }
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Once(_) => "Handler::Once",
            Self::Stream(_) => "Handler::Stream",
        })
    }
}

impl<F> OnceHandler for F
where
    F: Fn(CallContext, Payload) -> BoxFuture<'static, HandlerResult> + Send + Sync + 'static,
{
    fn call(&self, context: CallContext, input: Payload) -> BoxFuture<'static, HandlerResult> {
        self(context, input)
    }
}

impl<F> StreamHandler for F
where
    F: Fn(CallContext, Payload) -> BoxStream<'static, HandlerResult> + Send + Sync + 'static,
{
    fn subscribe(&self, context: CallContext, input: Payload) -> BoxStream<'static, HandlerResult> {
        self(context, input)
    }
}
