//! Calling operations wherever they are.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use serde_json::Value;

use super::peer::Peer;
use super::remote::{self, Asked, Behalf};
use crate::access::Authority;
use crate::envelope::Envelope;
use crate::error::CallError;
use crate::handler::{AbortHandle, RequestId};
use crate::link::CloseReason;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::pipeline::{Call, CallRequest, Pipeline, Started, Subscription};
use crate::protocol::Event;

/// Calls operations: of a pipeline in this process, or of whoever is at the other end of a link.
/// Cloning it is cheap.
///
/// ```
/// use toolpost::{Authority, CallRequest, HandlerError, Operation, Pipeline, Registry};
/// use toolpost::connection::Client;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let registry = Registry::new();
/// let length = async |text: String| Ok::<_, HandlerError>(text.len());
/// registry.register(Operation::query("text.length", length).build().unwrap()).unwrap();
///
/// let client = Client::in_process(Pipeline::new(registry), Authority::outside(None));
/// let outcome = client.call(CallRequest::new("text.length", json!("hello"))).await.unwrap();
/// assert_eq!(outcome.envelope.into_value().unwrap().data, 5);
/// # }
/// ```
#[derive(Clone)]
pub struct Client(Route);

#[derive(Clone)]
enum Route {
    /// No event is made, since nobody would read it: the request is handed to the pipeline.
    InProcess {
        pipeline: Pipeline,
        authority: Authority,
    },
    Remote(Arc<Peer>),
}

/// Something that was to be an answer is not an envelope.
#[derive(Debug, thiserror::Error)]
#[error("an answer is an envelope, with `data` and a `meta` that names its source")]
pub struct NotAnEnvelope(pub Payload);

impl Client {
    /// A client of a pipeline in this process, on somebody's authority.
    pub fn in_process(pipeline: Pipeline, authority: Authority) -> Self {
        Self(Route::InProcess { pipeline, authority })
    }

    pub(super) fn remote(peer: Arc<Peer>) -> Self {
        Self(Route::Remote(peer))
    }

    /// Calls an operation; of a subscription it takes the first value.
    ///
    /// # Cancellation
    ///
    /// Dropping the call aborts it at its far end, a mutation too. So does its deadline.
    pub fn call(&self, request: CallRequest<'_>) -> Calling {
        self.call_for(request, None)
    }

    /// A call on behalf of somebody, whom the far end is told.
    pub(crate) fn call_for(&self, request: CallRequest<'_>, behalf: Option<Behalf>) -> Calling {
        Calling(match &self.0 {
            Route::InProcess { pipeline, authority } => {
                in_process(pipeline, request, authority.clone())
            }
            Route::Remote(peer) => {
                let asked = Asked::new(request, behalf, peer.settings.call_timeout);
                let id = Arc::clone(asked.id());
                let running = remote::call(Arc::clone(peer), asked).boxed();
                CallingForm::Remote { peer: Arc::clone(peer), id, running, early: OnceLock::new() }
            }
        })
    }

    /// Subscribes to an operation; the request goes out when the stream is first polled.
    ///
    /// # Cancellation
    ///
    /// Dropping the stream aborts it at its far end.
    pub fn subscribe(
        &self,
        request: CallRequest<'_>,
    ) -> BoxStream<'static, Result<Outcome, CallError>> {
        self.subscribe_for(request, None)
    }

    pub(crate) fn subscribe_for(
        &self,
        request: CallRequest<'_>,
        behalf: Option<Behalf>,
    ) -> BoxStream<'static, Result<Outcome, CallError>> {
        match &self.0 {
            Route::InProcess { pipeline, authority } => {
                pipeline.start_subscription(request, authority.clone()).boxed()
            }
            Route::Remote(peer) => {
                remote::subscribe(Arc::clone(peer), Asked::new(request, behalf, None))
            }
        }
    }

    /// Calls an operation and parses what it gives.
    ///
    /// # Errors
    ///
    /// Whatever the call fails with.
    pub async fn execute(
        &self,
        operation: &str,
        input: impl Into<Payload>,
    ) -> Result<Envelope<Value>, CallError> {
        let outcome = self.call(CallRequest::new(operation, input)).await?;
        outcome.envelope.into_value().map_err(|error| {
            CallError::execution(format!("the output of {operation} cannot be read: {error}"))
        })
    }

    /// Answers a request of the peer; a call takes one answer, a subscription many. Waits for room.
    ///
    /// # Errors
    ///
    /// The output is not an envelope; nothing was sent.
    pub async fn respond(
        &self,
        id: &RequestId,
        output: impl Into<Payload>,
    ) -> Result<(), NotAnEnvelope> {
        let envelope = Envelope::detect_payload(output.into()).map_err(NotAnEnvelope)?;
        self.answer(Event::Responded { id: id.to_shared(), outcome: envelope.into() }).await;
        Ok(())
    }

    /// Fails a request of the peer.
    pub async fn emit_error(&self, id: &RequestId, error: CallError) {
        self.answer(Event::Failed { id: id.to_shared(), error }).await;
    }

    /// Ends a subscription of the peer.
    pub async fn complete(&self, id: &RequestId) {
        self.answer(Event::Completed { id: id.to_shared() }).await;
    }

    async fn answer(&self, event: Event) {
        if let Route::Remote(peer) = &self.0 {
            match event {
                Event::Responded { .. } => peer.answered(event.id()),
                _ => peer.end_serving(event.id()),
            }
            // A peer that is gone needs no answer.
            let _ = peer.outgoing.send(event).await;
        }
    }

    /// Gives a request up that was made through this connection, and says whether it was pending.
    pub fn abort(&self, id: &RequestId, reason: &str) -> bool {
        match &self.0 {
            Route::InProcess { .. } => false,
            Route::Remote(peer) => abort(peer, &id.to_shared(), reason),
        }
    }

    /// How many requests wait for an answer on this connection.
    pub fn pending_count(&self) -> usize {
        match &self.0 {
            Route::InProcess { pipeline, .. } => pipeline.in_flight(),
            Route::Remote(peer) => peer.pending(),
        }
    }

    /// How many requests of the peer are being worked on.
    pub fn serving_count(&self) -> usize {
        match &self.0 {
            Route::InProcess { .. } => 0,
            Route::Remote(peer) => peer.serving(),
        }
    }

    /// Waits until no request of the peer is being worked on.
    pub(crate) async fn idle(&self) {
        if let Route::Remote(peer) = &self.0 {
            peer.idle().await;
        }
    }

    /// Ends the connection, after what is queued has been sent.
    pub fn close(&self, reason: CloseReason) {
        if let Route::Remote(peer) = &self.0 {
            peer.closing.close(reason);
        }
    }

    /// Resolves when the connection has ended.
    pub async fn closed(&self) {
        match &self.0 {
            Route::InProcess { .. } => std::future::pending().await,
            Route::Remote(peer) => peer.closing.closed().await,
        }
    }

    /// Whether nothing can be asked any more.
    pub fn is_closed(&self) -> bool {
        matches!(&self.0, Route::Remote(peer) if peer.closing.is_closed())
    }

    /// Why it ended, once it has.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match &self.0 {
            Route::InProcess { .. } => None,
            Route::Remote(peer) => peer.closing.reason().cloned(),
        }
    }
}

fn in_process(pipeline: &Pipeline, request: CallRequest<'_>, authority: Authority) -> CallingForm {
    match pipeline.start_for_one(request, authority) {
        Started::Stream(values) => CallingForm::First(Some(values)),
        Started::Call(call) => CallingForm::InProcess(Some(call)),
    }
}

fn abort(peer: &Peer, id: &Arc<str>, reason: &str) -> bool {
    let error = CallError::aborted(format!("the call was aborted: {reason}"));
    peer.give_up(id, reason, error)
}

/// A call on its way; see [`Client::call`].
#[must_use = "a call does nothing until it is awaited"]
pub struct Calling(CallingForm);

enum CallingForm {
    InProcess(Option<Call>),
    /// A subscription, of which a call takes the first value.
    First(Option<Subscription>),
    Remote {
        peer: Arc<Peer>,
        id: Arc<str>,
        running: BoxFuture<'static, Result<Outcome, CallError>>,
        /// Made with the first handle; most calls have none.
        early: OnceLock<EarlyAbort>,
    },
}

/// The reason of an abort, kept for a call that is not pending yet: nobody has polled it.
type EarlyAbort = Arc<OnceLock<String>>;

/// Stops a call from somewhere else.
#[derive(Clone)]
pub struct CallAbort(AbortForm);

#[derive(Clone)]
enum AbortForm {
    InProcess(AbortHandle),
    Remote(Arc<Peer>, Arc<str>, EarlyAbort),
    Over,
}

impl CallAbort {
    /// Asks the call to stop, here and at its far end; a call that has ended is not disturbed.
    pub fn abort(&self, reason: &str) {
        match &self.0 {
            AbortForm::InProcess(handle) => handle.abort(reason),
            AbortForm::Remote(peer, id, early) => {
                let _ = early.set(reason.to_owned());
                abort(peer, id, reason);
            }
            AbortForm::Over => {}
        }
    }
}

impl Calling {
    /// A handle that stops it.
    pub fn abort_handle(&self) -> CallAbort {
        CallAbort(match &self.0 {
            CallingForm::InProcess(Some(call)) => AbortForm::InProcess(call.abort_handle()),
            CallingForm::First(Some(values)) => AbortForm::InProcess(values.abort_handle()),
            CallingForm::InProcess(None) | CallingForm::First(None) => AbortForm::Over,
            CallingForm::Remote { peer, id, early, .. } => {
                let early = Arc::clone(early.get_or_init(EarlyAbort::default));
                AbortForm::Remote(Arc::clone(peer), Arc::clone(id), early)
            }
        })
    }
}

impl Future for Calling {
    type Output = Result<Outcome, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            CallingForm::InProcess(call) => {
                let running = call.as_mut().expect("a call is not polled after it has answered");
                let polled = Pin::new(running).poll(cx);
                if polled.is_ready() {
                    *call = None;
                }
                polled
            }
            CallingForm::First(values) => {
                let running = values.as_mut().expect("a call is not polled after it has answered");
                let first = ready!(Pin::new(running).poll_next(cx));
                // Its source is stopped by this.
                *values = None;
                let none = || Err(CallError::aborted("the operation completed without an answer"));
                Poll::Ready(first.unwrap_or_else(none))
            }
            CallingForm::Remote { peer, id, running, early } => {
                let polled = running.as_mut().poll(cx);
                // Pending from here on, so that a handle finds it; this is for one that did not.
                match early.get().and_then(|early| early.get()) {
                    Some(reason) if polled.is_pending() && abort(peer, id, reason) => {
                        running.as_mut().poll(cx)
                    }
                    _ => polled,
                }
            }
        }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if let CallingForm::InProcess(Some(call)) = &self.0 {
            call.abort_handle().abort("the caller gave up");
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("pending", &self.pending_count()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Calling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calling").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CallAbort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallAbort").finish_non_exhaustive()
    }
}
