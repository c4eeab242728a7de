//! What runs when an operation is called, and what it is given.

mod cancellation;
mod context;
mod default_deadline;
mod progress;
mod request_id;
mod respondent;
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
use crate::spec::Kind;

pub use cancellation::AbortHandle;
pub use context::CallContext;
pub(crate) use context::{Attachment, Beginning, NestedCall, NestedStanding, Nesting, from_now};
pub(crate) use default_deadline::Pause;
pub use progress::{LogLine, Progress, ProgressSender, Watch};
pub use request_id::RequestId;
pub use respondent::{Question, Respond, Respondent, Returning, Unanswered};
pub use typed::{IntoOnceHandler, IntoStreamHandler};

/// Answers once; the open set behind queries and mutations.
///
/// # Cancellation
///
/// Cancellation is a signal: [`CallContext::cancelled`]. The caller is answered at once; the
/// future is then polled on for the pipeline's wind-up time, and dropped after that.
pub trait OnceHandler: Send + Sync + 'static {
    /// Starts the work of one call.
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<Output, HandlerError>>;
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
    ) -> BoxStream<'static, Result<Output, HandlerError>>;
}

/// What a handler returned, and therefore how the result pipeline treats it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// The value of a Rust type: plain data, whatever it looks like.
    Data(Payload),
    /// JSON from a dynamic handler or a wire: an envelope if it looks like one.
    Dynamic(Payload),
    /// An envelope, made by an adapter.
    Envelope(Envelope<Payload>),
    /// An envelope whose data is of one of the shapes that the operation declares, and which one.
    Shaped(Envelope<Payload>, Schema),
    /// What another call ended with, handed on with its repairs and warnings.
    Relayed(Outcome),
}

impl Output {
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
    pub fn serves(&self, kind: Kind) -> bool {
        match self {
            Self::Once(_) => kind != Kind::Subscription,
            Self::Stream(_) => kind == Kind::Subscription,
        }
    }

    /// A once handler from a function over JSON; its result may be an envelope.
    pub fn once_fn<F, Fut>(function: F) -> Self
    where
        F: Fn(CallContext, Payload) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, HandlerError>> + Send + 'static,
    {
        Self::Once(Arc::new(OnceFn(function)))
    }

    /// A stream handler from a function over JSON; each value may be an envelope.
    pub fn stream_fn<F, S>(function: F) -> Self
    where
        F: Fn(CallContext, Payload) -> S + Send + Sync + 'static,
        S: futures::Stream<Item = Result<Output, HandlerError>> + Send + 'static,
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
    Fut: Future<Output = Result<Output, HandlerError>> + Send + 'static,
{
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<Output, HandlerError>> {
        Box::pin((self.0)(context, input))
    }
}

struct StreamFn<F>(F);

impl<F, S> StreamHandler for StreamFn<F>
where
    F: Fn(CallContext, Payload) -> S + Send + Sync + 'static,
    S: futures::Stream<Item = Result<Output, HandlerError>> + Send + 'static,
{
    fn subscribe(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxStream<'static, Result<Output, HandlerError>> {
        Box::pin((self.0)(context, input))
    }
}
