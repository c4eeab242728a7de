//! Calling operations wherever they are.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use serde_json::Value;

use super::remote::{self, OnBehalfOf, OutgoingRequest};
use super::shared::PeerHandle;
use crate::access::Authority;
use crate::envelope::Envelope;
use crate::error::CallError;
use crate::handler::{AbortHandle, RequestId};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::pipeline::{Call, CallRequest, Pipeline, StartedCall, Subscription};
use crate::protocol::CallEvent;
use crate::transport::CloseReason;

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
/// let client = Client::in_process(Pipeline::new(registry), Authority::untrusted(None));
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
    Remote(Arc<PeerHandle>),
}

/// Something that was to be an answer is not an envelope.
#[derive(Debug, thiserror::Error)]
#[error("a response must be an envelope: `data` and a `meta` with its source")]
pub struct NotAnEnvelope(pub Payload);

impl Client {
    /// A client of a pipeline in this process, on somebody's authority.
    pub fn in_process(pipeline: Pipeline, authority: Authority) -> Self {
        Self(Route::InProcess { pipeline, authority })
    }

    pub(super) fn remote(peer: Arc<PeerHandle>) -> Self {
        Self(Route::Remote(peer))
    }

    /// Calls an operation; of a subscription it takes the first value.
    ///
    /// # Cancellation
    ///
    /// Dropping the call aborts it at its far end, a mutation too. So does its deadline.
    pub fn call(&self, request: CallRequest<'_>) -> ClientCall {
        self.call_on_behalf(request, None)
    }

    /// A call on behalf of somebody, whom the far end is told.
    pub(crate) fn call_on_behalf(
        &self,
        request: CallRequest<'_>,
        on_behalf_of: Option<OnBehalfOf>,
    ) -> ClientCall {
        ClientCall(match &self.0 {
            Route::InProcess { pipeline, authority } => {
                in_process(pipeline, request, authority.clone())
            }
            Route::Remote(peer) => {
                let outgoing =
                    OutgoingRequest::new(request, on_behalf_of, peer.settings.call_timeout);
                let id = Arc::clone(outgoing.id());
                let running = remote::call(Arc::clone(peer), outgoing).boxed();
                ClientCallState::Remote {
                    peer: Arc::clone(peer),
                    id,
                    running,
                    early_abort: OnceLock::new(),
                }
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
        self.subscribe_on_behalf(request, None)
    }

    pub(crate) fn subscribe_on_behalf(
        &self,
        request: CallRequest<'_>,
        on_behalf_of: Option<OnBehalfOf>,
    ) -> BoxStream<'static, Result<Outcome, CallError>> {
        match &self.0 {
            Route::InProcess { pipeline, authority } => {
                pipeline.start_subscription(request, authority.clone()).boxed()
            }
            Route::Remote(peer) => remote::subscribe(
                Arc::clone(peer),
                OutgoingRequest::new(request, on_behalf_of, None),
            ),
        }
    }

    /// Calls an operation and parses its result as JSON.
    ///
    /// # Errors
    ///
    /// Whatever the call fails with.
    #[doc(alias = "execute")]
    pub async fn call_json(
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
        self.send_response(CallEvent::Responded { id: id.to_shared(), outcome: envelope.into() })
            .await;
        Ok(())
    }

    /// Fails a request of the peer.
    pub async fn emit_error(&self, id: &RequestId, error: CallError) {
        self.send_response(CallEvent::Failed { id: id.to_shared(), error }).await;
    }

    /// Ends a subscription of the peer.
    pub async fn complete(&self, id: &RequestId) {
        self.send_response(CallEvent::Completed { id: id.to_shared() }).await;
    }

    async fn send_response(&self, event: CallEvent) {
        if let Route::Remote(peer) = &self.0 {
            match event {
                CallEvent::Responded { .. } => peer.mark_responded(event.id()),
                _ => peer.end_request(event.id()),
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
            Route::Remote(peer) => peer.pending_count(),
        }
    }

    /// How many requests of the peer are being worked on.
    pub fn inflight_count(&self) -> usize {
        match &self.0 {
            Route::InProcess { .. } => 0,
            Route::Remote(peer) => peer.inflight_count(),
        }
    }

    /// Waits until no request of the peer is being worked on.
    pub(crate) async fn wait_idle(&self) {
        if let Route::Remote(peer) = &self.0 {
            peer.wait_idle().await;
        }
    }

    /// Ends the connection, after what is queued has been sent.
    pub fn close(&self, reason: CloseReason) {
        if let Route::Remote(peer) = &self.0 {
            peer.close_handle.close(reason);
        }
    }

    /// Resolves when the connection has ended.
    pub async fn closed(&self) {
        match &self.0 {
            Route::InProcess { .. } => std::future::pending().await,
            Route::Remote(peer) => peer.close_handle.closed().await,
        }
    }

    /// Whether nothing can be asked any more.
    pub fn is_closed(&self) -> bool {
        matches!(&self.0, Route::Remote(peer) if peer.close_handle.is_closed())
    }

    /// Why it ended, once it has.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match &self.0 {
            Route::InProcess { .. } => None,
            Route::Remote(peer) => peer.close_handle.reason().cloned(),
        }
    }
}

fn in_process(
    pipeline: &Pipeline,
    request: CallRequest<'_>,
    authority: Authority,
) -> ClientCallState {
    match pipeline.start_single(request, authority) {
        StartedCall::Stream(values) => ClientCallState::FirstValue(Some(values)),
        StartedCall::Call(call) => ClientCallState::InProcess(Some(call)),
    }
}

fn abort(peer: &PeerHandle, id: &Arc<str>, reason: &str) -> bool {
    let error = CallError::aborted(format!("the call was aborted: {reason}"));
    peer.abort_request(id, reason, error)
}

/// A call on its way; see [`Client::call`].
#[must_use = "a call does nothing until it is awaited"]
pub struct ClientCall(ClientCallState);

enum ClientCallState {
    InProcess(Option<Call>),
    /// A subscription, of which a call takes the first value.
    FirstValue(Option<Subscription>),
    Remote {
        peer: Arc<PeerHandle>,
        id: Arc<str>,
        running: BoxFuture<'static, Result<Outcome, CallError>>,
        /// Made with the first handle; most calls have none.
        early_abort: OnceLock<EarlyAbortReason>,
    },
}

/// The reason of an abort, kept for a call that is not pending yet: nobody has polled it.
type EarlyAbortReason = Arc<OnceLock<String>>;

/// Stops a call from somewhere else.
#[derive(Clone)]
pub struct ClientAbortHandle(AbortTarget);

#[derive(Clone)]
enum AbortTarget {
    InProcess(AbortHandle),
    Remote(Arc<PeerHandle>, Arc<str>, EarlyAbortReason),
    Finished,
}

impl ClientAbortHandle {
    /// Asks the call to stop, here and at its far end; a call that has ended is not disturbed.
    pub fn abort(&self, reason: &str) {
        match &self.0 {
            AbortTarget::InProcess(handle) => handle.abort(reason),
            AbortTarget::Remote(peer, id, early) => {
                let _ = early.set(reason.to_owned());
                abort(peer, id, reason);
            }
            AbortTarget::Finished => {}
        }
    }
}

impl ClientCall {
    /// A handle that stops it.
    pub fn abort_handle(&self) -> ClientAbortHandle {
        ClientAbortHandle(match &self.0 {
            ClientCallState::InProcess(Some(call)) => AbortTarget::InProcess(call.abort_handle()),
            ClientCallState::FirstValue(Some(values)) => {
                AbortTarget::InProcess(values.abort_handle())
            }
            ClientCallState::InProcess(None) | ClientCallState::FirstValue(None) => {
                AbortTarget::Finished
            }
            ClientCallState::Remote { peer, id, early_abort: early, .. } => {
                let early = Arc::clone(early.get_or_init(EarlyAbortReason::default));
                AbortTarget::Remote(Arc::clone(peer), Arc::clone(id), early)
            }
        })
    }
}

impl Future for ClientCall {
    type Output = Result<Outcome, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            ClientCallState::InProcess(call) => {
                let running = call.as_mut().expect("a call is not polled after completion");
                let polled = Pin::new(running).poll(cx);
                if polled.is_ready() {
                    *call = None;
                }
                polled
            }
            ClientCallState::FirstValue(values) => {
                let running = values.as_mut().expect("a call is not polled after completion");
                let first = ready!(Pin::new(running).poll_next(cx));
                // Its source is stopped by this.
                *values = None;
                let no_response =
                    || Err(CallError::aborted("the operation completed without a response"));
                Poll::Ready(first.unwrap_or_else(no_response))
            }
            ClientCallState::Remote { peer, id, running, early_abort: early } => {
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

impl Drop for ClientCall {
    fn drop(&mut self) {
        if let ClientCallState::InProcess(Some(call)) = &self.0 {
            call.abort_handle().abort("the caller canceled the call");
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("pending", &self.pending_count()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ClientCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCall").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ClientAbortHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientAbortHandle").finish_non_exhaustive()
    }
}
