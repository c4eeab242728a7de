//! Clients that call operations in this process or over a connection.

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

/// Calls operations of a pipeline in this process, or of the peer at the other end of a connection.
/// Cheap to clone.
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
    /// Passes the request to the pipeline directly, without events.
    InProcess {
        pipeline: Pipeline,
        authority: Authority,
    },
    Remote(Arc<PeerHandle>),
}

/// Error returned by [`Client::respond`] if the response is not an envelope.
#[derive(Debug, thiserror::Error)]
#[error("a response must be an envelope: `data` and a `meta` with its source")]
pub struct NotAnEnvelope(pub Payload);

impl Client {
    /// Creates a client that calls a pipeline in this process with `authority`.
    pub fn in_process(pipeline: Pipeline, authority: Authority) -> Self {
        Self(Route::InProcess { pipeline, authority })
    }

    pub(super) fn remote(peer: Arc<PeerHandle>) -> Self {
        Self(Route::Remote(peer))
    }

    /// Calls an operation. For a subscription, returns its first value.
    ///
    /// # Cancellation
    ///
    /// Dropping the call or reaching its deadline aborts it at the peer, even if it is a mutation.
    pub fn call(&self, request: CallRequest<'_>) -> ClientCall {
        self.call_on_behalf(request, None)
    }

    /// Calls an operation on behalf of an identity, which is sent to the peer.
    pub(crate) fn call_on_behalf(
        &self,
        request: CallRequest<'_>,
        on_behalf_of: Option<OnBehalfOf>,
    ) -> ClientCall {
        ClientCall(match &self.0 {
            Route::InProcess { pipeline, authority } => {
                match pipeline.start_single(request, authority.clone()) {
                    StartedCall::Stream(values) => ClientCallState::FirstValue(Some(values)),
                    StartedCall::Call(call) => ClientCallState::InProcess(Some(call)),
                }
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

    /// Subscribes to an operation. The request is sent when the stream is first polled.
    ///
    /// # Cancellation
    ///
    /// Dropping the stream aborts the subscription at the peer.
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
    /// Returns the error of the call.
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

    /// Responds to a request from the peer: once for a call, any number of times for a
    /// subscription.
    ///
    /// # Errors
    ///
    /// Returns an error, and sends nothing, if the output is not an envelope.
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

    /// Responds to a request from the peer with an error.
    pub async fn emit_error(&self, id: &RequestId, error: CallError) {
        self.send_response(CallEvent::Failed { id: id.to_shared(), error }).await;
    }

    /// Completes a subscription that the peer started.
    pub async fn complete(&self, id: &RequestId) {
        self.send_response(CallEvent::Completed { id: id.to_shared() }).await;
    }

    async fn send_response(&self, event: CallEvent) {
        if let Route::Remote(peer) = &self.0 {
            match event {
                CallEvent::Responded { .. } => peer.mark_responded(event.id()),
                _ => peer.end_request(event.id()),
            }
            // The send fails only if the peer has disconnected.
            let _ = peer.outgoing.send(event).await;
        }
    }

    /// Aborts a request made through this connection and returns whether it was pending.
    pub fn abort(&self, id: &RequestId, reason: &str) -> bool {
        match &self.0 {
            Route::InProcess { .. } => false,
            Route::Remote(peer) => peer.abort_request(&id.to_shared(), reason),
        }
    }

    /// Returns the number of requests waiting for a response on this connection.
    pub fn pending_count(&self) -> usize {
        match &self.0 {
            Route::InProcess { pipeline, .. } => pipeline.in_flight(),
            Route::Remote(peer) => peer.pending_count(),
        }
    }

    /// Returns the number of requests from the peer that are in flight.
    pub fn inflight_count(&self) -> usize {
        match &self.0 {
            Route::InProcess { .. } => 0,
            Route::Remote(peer) => peer.inflight_count(),
        }
    }

    /// Waits until no request from the peer is in flight.
    pub(crate) async fn wait_idle(&self) {
        if let Route::Remote(peer) = &self.0 {
            peer.wait_idle().await;
        }
    }

    /// Closes the connection after the queued events have been sent.
    pub fn close(&self, reason: CloseReason) {
        if let Route::Remote(peer) = &self.0 {
            peer.close_handle.close(reason);
        }
    }

    /// Waits until the connection has ended. Never resolves for an in-process client.
    pub async fn closed(&self) {
        match &self.0 {
            Route::InProcess { .. } => std::future::pending().await,
            Route::Remote(peer) => peer.close_handle.closed().await,
        }
    }

    /// Whether the connection is closed, so that new requests fail.
    pub fn is_closed(&self) -> bool {
        matches!(&self.0, Route::Remote(peer) if peer.close_handle.is_closed())
    }

    /// Returns why the connection ended, or `None` while it is open.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match &self.0 {
            Route::InProcess { .. } => None,
            Route::Remote(peer) => peer.close_handle.reason().cloned(),
        }
    }
}

/// Future of a call; see [`Client::call`].
#[must_use = "a call does nothing until it is awaited"]
pub struct ClientCall(ClientCallState);

enum ClientCallState {
    InProcess(Option<Call>),
    /// A call to a subscription, which returns the first value.
    FirstValue(Option<Subscription>),
    Remote {
        peer: Arc<PeerHandle>,
        id: Arc<str>,
        running: BoxFuture<'static, Result<Outcome, CallError>>,
        /// Created with the first abort handle; most calls have none.
        early_abort: OnceLock<EarlyAbortReason>,
    },
}

/// Abort reason of a call that has not been polled yet and is therefore not pending.
type EarlyAbortReason = Arc<OnceLock<String>>;

/// Handle that aborts a [`ClientCall`].
#[derive(Clone)]
pub struct ClientAbortHandle(AbortTarget);

#[derive(Clone)]
enum AbortTarget {
    InProcess(AbortHandle),
    Remote(Arc<PeerHandle>, Arc<str>, EarlyAbortReason),
    Finished,
}

impl ClientAbortHandle {
    /// Aborts the call here and at the peer. Has no effect on a call that has ended.
    pub fn abort(&self, reason: &str) {
        match &self.0 {
            AbortTarget::InProcess(handle) => handle.abort(reason),
            AbortTarget::Remote(peer, id, early) => {
                let _ = early.set(reason.to_owned());
                peer.abort_request(id, reason);
            }
            AbortTarget::Finished => {}
        }
    }
}

impl ClientCall {
    /// Returns a handle that aborts the call.
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
                // Dropping the subscription cancels its handler.
                *values = None;
                let no_response =
                    || Err(CallError::aborted("the operation completed without a response"));
                Poll::Ready(first.unwrap_or_else(no_response))
            }
            ClientCallState::Remote { peer, id, running, early_abort: early } => {
                let polled = running.as_mut().poll(cx);
                // The first poll made the call pending. Apply an abort requested before it.
                match early.get().and_then(|early| early.get()) {
                    Some(reason) if polled.is_pending() && peer.abort_request(id, reason) => {
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

debug_fields!(client: Client, pending = client.pending_count());

debug_fields!(_call: ClientCall);

debug_fields!(_handle: ClientAbortHandle);
