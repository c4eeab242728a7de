//! What runs when an operation is called, and what it is given.

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

/// Answers once; the open set behind queries and mutations.
///
/// # Cancellation
///
/// Cancellation is a signal: [`CallContext::canceled`]. The caller is answered at once; the
/// future is then polled on for the pipeline's wind-up time, and dropped after that.
pub trait OnceHandler: Send + Sync + 'static {
    /// Starts the work of one call.
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<HandlerOutput, HandlerError>>;
}

/// Answers many times; the open set behind subscriptions.
///
/// # Cancellation
///
/// As for [`OnceHandler`]. The stream is polled only when its consumer wants the next value.
pub trait StreamHandler: Send + Sync + 'static {
    /// Starts the stream of one subscription.
    fn subscribe(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxStream<'static, Result<HandlerOutput, HandlerError>>;
}

/// What a handler returned, and therefore how the result pipeline treats it.
#[derive(Debug)]
#[non_exhaustive]
pub enum HandlerOutput {
    /// The value of a Rust type: plain data, whatever it looks like.
    Data(Payload),
    /// JSON from a dynamic handler or a wire: an envelope if it looks like one.
    Dynamic(Payload),
    /// An envelope, made by an adapter.
    Envelope(Envelope<Payload>),
    /// An envelope whose data is of one of the shapes that the operation declares, and which one.
    WithSchema(Envelope<Payload>, Schema),
    /// What another call ended with, handed on with its repairs and warnings.
    Forwarded(Outcome),
}

impl HandlerOutput {
    /// A value that no Rust type stands behind.
    pub fn dynamic(value: Value) -> Self {
        Self::Dynamic(value.into())
    }
}

/// The two kinds of handler.
#[derive(Clone)]
#[non_exhaustive]
pub enum Handler {
    /// For queries and mutations.
    Once(Arc<dyn OnceHandler>),
    /// For subscriptions.
    Stream(Arc<dyn StreamHandler>),
}

impl Handler {
    /// Whether this kind of handler can serve that kind of operation.
    pub fn supports(&self, kind: OperationKind) -> bool {
        match self {
            Self::Once(_) => kind != OperationKind::Subscription,
            Self::Stream(_) => kind == OperationKind::Subscription,
        }
    }

    /// A once handler from a function over JSON; its result may be an envelope.
    pub fn once_fn<F, Fut>(function: F) -> Self
    where
        F: Fn(CallContext, Payload) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HandlerOutput, HandlerError>> + Send + 'static,
    {
        Self::Once(Arc::new(OnceFn(function)))
    }

    /// A stream handler from a function over JSON; each value may be an envelope.
    pub fn stream_fn<F, S>(function: F) -> Self
    where
        F: Fn(CallContext, Payload) -> S + Send + Sync + 'static,
        S: futures::Stream<Item = Result<HandlerOutput, HandlerError>> + Send + 'static,
    {
        Self::Stream(Arc::new(StreamFn(function)))
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

struct OnceFn<F>(F);

impl<F, Fut> OnceHandler for OnceFn<F>
where
    F: Fn(CallContext, Payload) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<HandlerOutput, HandlerError>> + Send + 'static,
{
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<HandlerOutput, HandlerError>> {
        Box::pin((self.0)(context, input))
    }
}

struct StreamFn<F>(F);

impl<F, S> StreamHandler for StreamFn<F>
where
    F: Fn(CallContext, Payload) -> S + Send + Sync + 'static,
    S: futures::Stream<Item = Result<HandlerOutput, HandlerError>> + Send + 'static,
{
    fn subscribe(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxStream<'static, Result<HandlerOutput, HandlerError>> {
        Box::pin((self.0)(context, input))
    }
}
