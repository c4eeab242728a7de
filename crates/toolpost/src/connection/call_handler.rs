//! Runs requests from a peer as calls in a pipeline.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::event_loop::send_or_spawn;
use super::shared::{InflightRequest, PeerHandle};
use crate::access::{Authority, Identity};
use crate::clock;
use crate::error::CallError;
use crate::handler::{AbortHandle, Attachment, ProgressSender, RequestId};
use crate::outcome::Outcome;
use crate::pipeline::{Call, CallRequest, Endpoint, Pipeline, StartedCall, Subscription};
use crate::protocol::{CallEvent, RequestEvent};
use crate::transport::{EventSender, SEND_QUEUE_CAPACITY};

/// Runs requests from a peer in a pipeline. Calls over a connection are never trusted.
#[derive(Debug, Clone)]
pub struct CallHandler {
    pipeline: Pipeline,
    caller_identity: CallerIdentity,
    attached: Option<Attachment>,
    draining: CancellationToken,
}

/// The identity that incoming requests are attributed to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallerIdentity {
    /// The identity authenticated for the connection; the identity in the events is ignored.
    Authenticated(Option<Arc<Identity>>),
    /// The identity in the events: the peer is a hub that has authenticated its callers.
    Forwarded,
}

impl CallHandler {
    /// Creates a handler that runs requests in `pipeline`.
    pub fn new(pipeline: Pipeline, caller_identity: CallerIdentity) -> Self {
        let draining = CancellationToken::new();
        Self { pipeline, caller_identity, attached: None, draining }
    }

    /// Attaches a value that handlers can read, such as the connection of the call.
    #[must_use]
    pub(crate) fn with_attachment(mut self, attached: Attachment) -> Self {
        self.attached = Some(attached);
        self
    }

    /// Sets the token that starts draining: new requests are rejected and streams end.
    #[must_use]
    pub fn with_drain_token(mut self, draining: CancellationToken) -> Self {
        self.draining = draining;
        self
    }

    pub(super) fn serve(
        &self,
        peer: &Arc<PeerHandle>,
        request: RequestEvent,
        tasks: &mut JoinSet<()>,
    ) {
        if self.draining.is_cancelled() {
            return self.reject(peer, request, shutting_down(), tasks);
        }
        let (id, operation) = (Arc::clone(&request.id), Arc::clone(&request.operation));
        let window = request.window;
        let (request, authority) = self.to_call_request(peer, &operation, request);
        // A request with a window is a subscription and expects a completion event.
        let started = match window {
            Some(_) => StartedCall::Stream(self.pipeline.start_subscription(request, authority)),
            None => self.pipeline.start(request, authority),
        };
        let mut call = match started {
            StartedCall::Call(call) => call,
            StartedCall::Stream(values) => {
                return self.serve_stream(peer, id, values, window, tasks);
            }
        };
        // Most calls complete on the first poll and need no async task.
        if let Some(result) = (&mut call).now_or_never() {
            return send_or_spawn(peer, response_event(id, result), tasks);
        }
        let running = InflightRequest {
            abort: Some(call.abort_handle()),
            credit: None,
            single_response: true,
        };
        peer.begin_request(Arc::clone(&id), running);
        tasks.spawn(RespondingCall::Running { call, peer: Arc::clone(peer), id });
    }

    /// Rejects a request before it becomes a call, and records the rejection.
    pub(super) fn reject(
        &self,
        peer: &Arc<PeerHandle>,
        request: RequestEvent,
        error: CallError,
        tasks: &mut JoinSet<()>,
    ) {
        let event = CallEvent::Failed { id: Arc::clone(&request.id), error: error.clone() };
        let (handler, connection) = (self.clone(), Arc::clone(peer));
        let recording = async move {
            let operation = Arc::clone(&request.operation);
            let (request, authority) = handler.to_call_request(&connection, &operation, request);
            handler.pipeline.record_rejected(request, authority, &error).await;
        };
        let mut recording = recording.boxed();
        if (&mut recording).now_or_never().is_some() {
            return send_or_spawn(peer, event, tasks);
        }
        let outgoing = peer.outgoing.clone();
        tasks.spawn(async move {
            recording.await;
            // The send fails only if the peer has disconnected.
            drop(outgoing.send(event).await);
        });
    }

    fn to_call_request<'a>(
        &self,
        peer: &Arc<PeerHandle>,
        operation: &'a str,
        request: RequestEvent,
    ) -> (CallRequest<'a>, Authority) {
        let remaining = request.remaining_ms(clock::epoch_ms());
        let identity = match &self.caller_identity {
            CallerIdentity::Authenticated(identity) => identity.clone(),
            CallerIdentity::Forwarded => request.identity,
        };
        let mut call = CallRequest::new(operation, request.input)
            .request_id(Arc::clone(&request.id))
            .endpoint(Endpoint::Hub)
            .progress(progress_sender(peer, request.id))
            .shared_metadata(request.metadata)
            .idempotency_key(request.idempotency_key)
            .timeout(remaining.map(Duration::from_millis));
        if let Some(idle) = request.idle_timeout_ms {
            call = call.idle_timeout(Duration::from_millis(idle));
        }
        if let Some(parent) = request.parent_id {
            call = call.parent_request_id(RequestId::from(parent));
        }
        if let Some(attached) = &self.attached {
            call = call.attach_any(Arc::clone(attached));
        }
        (call, Authority::untrusted(identity))
    }

    fn serve_stream(
        &self,
        peer: &Arc<PeerHandle>,
        id: Arc<str>,
        values: Subscription,
        window: Option<u32>,
        tasks: &mut JoinSet<()>,
    ) {
        let credit = window.map(|window| Arc::new(Semaphore::new(window as usize)));
        let abort = values.abort_handle();
        let running = InflightRequest {
            abort: Some(abort.clone()),
            credit: credit.clone(),
            single_response: false,
        };
        peer.begin_request(Arc::clone(&id), running);
        let streaming = ServedStream {
            peer: Arc::clone(peer),
            id,
            values,
            credit,
            abort,
            draining: self.draining.clone(),
        };
        tasks.spawn(streaming.run());
    }
}

/// A call whose response is sent to the peer. It is a hand-written future: tens of thousands may be
/// pending, and an `async` block would reserve space for state that few of them need.
enum RespondingCall {
    Running {
        call: Call,
        peer: Arc<PeerHandle>,
        id: Arc<str>,
    },
    /// Completed; waiting for capacity in the send queue.
    Sending(BoxFuture<'static, ()>),
    Done,
}

impl Future for RespondingCall {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Running { call, .. } = &mut *self {
            let result = ready!(Pin::new(call).poll(cx));
            let Self::Running { peer, id, .. } = std::mem::replace(&mut *self, Self::Done) else {
                return Poll::Ready(());
            };
            peer.end_request(&id);
            // A closed queue means that the peer has disconnected.
            if let Err(TrySendError::Full(event)) =
                peer.outgoing.try_send(response_event(id, result))
            {
                let outgoing = peer.outgoing.clone();
                *self = Self::Sending(async move { drop(outgoing.send(event).await) }.boxed());
            }
        }
        match &mut *self {
            Self::Sending(sending) => sending.as_mut().poll(cx),
            Self::Running { .. } | Self::Done => Poll::Ready(()),
        }
    }
}

fn response_event(id: Arc<str>, result: Result<Outcome, CallError>) -> CallEvent {
    match result {
        Ok(outcome) => CallEvent::Responded { id, outcome },
        Err(error) => CallEvent::Failed { id, error },
    }
}

fn shutting_down() -> CallError {
    CallError::unavailable("the peer is shutting down")
}

/// Returns a sender that forwards progress to the peer. Reports are dropped once the connection has
/// ended and while the send queue is at least half full.
fn progress_sender(peer: &Arc<PeerHandle>, id: Arc<str>) -> ProgressSender {
    let peer = Arc::downgrade(peer);
    ProgressSender::from_fn(move |progress| {
        let peer = peer.upgrade();
        let has_capacity =
            |peer: &Arc<PeerHandle>| peer.outgoing.capacity() > SEND_QUEUE_CAPACITY / 2;
        if let Some(peer) = peer.filter(has_capacity) {
            let _ = peer.outgoing.try_send(CallEvent::Progress { id: Arc::clone(&id), progress });
        }
    })
}

/// A subscription of the peer. It is polled only while the send queue has capacity.
struct ServedStream {
    peer: Arc<PeerHandle>,
    id: Arc<str>,
    values: Subscription,
    credit: Option<Arc<Semaphore>>,
    abort: AbortHandle,
    draining: CancellationToken,
}

impl ServedStream {
    async fn run(mut self) {
        let last = loop {
            // After cancellation, the next poll of the subscription returns the error.
            tokio::select! {
                biased;
                () = self.abort.canceled_or_expired() => {}
                () = self.draining.cancelled() => {
                    break CallEvent::Failed { id: Arc::clone(&self.id), error: shutting_down() };
                }
                () = wait_for_capacity(self.credit.as_deref(), &self.peer.outgoing) => {}
            }
            let value = tokio::select! {
                biased;
                value = self.values.next() => value,
                () = self.draining.cancelled() => Some(Err(shutting_down())),
            };
            let id = Arc::clone(&self.id);
            match value {
                Some(Ok(outcome)) => {
                    if self.peer.outgoing.send(CallEvent::Responded { id, outcome }).await.is_err()
                    {
                        return;
                    }
                }
                Some(Err(error)) => break CallEvent::Failed { id, error },
                None => break CallEvent::Completed { id },
            }
        };
        self.peer.end_request(&self.id);
        let _ = self.peer.outgoing.send(last).await;
    }
}

/// Waits until the peer has granted credit for another value and the send queue has capacity.
async fn wait_for_capacity(credit: Option<&Semaphore>, outgoing: &EventSender) {
    if let Some(credit) = credit
        && let Ok(permit) = credit.acquire().await
    {
        permit.forget();
    }
    // Does not reserve the capacity, because the next value may take long to arrive.
    if outgoing.capacity() == 0 {
        outgoing.ready().await;
    }
}
