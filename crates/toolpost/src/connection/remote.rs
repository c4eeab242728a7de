//! Outgoing requests over a connection.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot};

use super::shared::{PeerHandle, ResponseSink, Waiter};
use super::stream;
use crate::access::Identity;
use crate::clock;
use crate::error::CallError;
use crate::handler::{ProgressSender, RequestId, deadline_after};
use crate::outcome::Outcome;
use crate::pipeline::CallRequest;
use crate::protocol::{CallEvent, Consumer, Control, RequestEvent, RequestTimeouts};

/// Marks a forwarded call, with the identity of its original caller if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct OnBehalfOf(pub(crate) Option<Arc<Identity>>);

/// A request that has an id but is not sent yet.
pub(super) struct OutgoingRequest {
    /// Boxed once here and sent in the same allocation.
    request: Box<RequestEvent>,
    timeouts: RequestTimeouts,
    progress: ProgressSender,
}

impl OutgoingRequest {
    /// Builds the request event; a call without a timeout gets `default_timeout`.
    ///
    /// A forwarded call gets a new id, with the caller's id as its parent. The caller's id may
    /// already be in use on this connection.
    pub(super) fn new(
        call: CallRequest<'_>,
        on_behalf_of: Option<OnBehalfOf>,
        default_timeout: Option<Duration>,
    ) -> Self {
        let id = call.request_id.unwrap_or_else(RequestId::generate).to_shared();
        let mut request = Box::new(RequestEvent::new(id, call.operation, call.input));
        let timeout = call.timeout.or(default_timeout);
        request.timeout_ms = timeout.map(milliseconds);
        request.deadline = timeout.map(|timeout| {
            let ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
            clock::epoch_ms().saturating_add(ms)
        });
        request.idle_timeout_ms = call.idle_timeout.map(milliseconds);
        request.parent_id = call.parent_request_id.map(|parent| parent.to_shared());
        request.metadata = call.metadata;
        request.idempotency_key = call.idempotency_key;
        if let Some(OnBehalfOf(identity)) = on_behalf_of {
            let own = RequestId::generate().to_shared();
            request.parent_id = Some(std::mem::replace(&mut request.id, own));
            request.identity = identity;
        }
        let timeouts =
            RequestTimeouts { deadline: timeout.and_then(deadline_after), idle: call.idle_timeout };
        Self { request, timeouts, progress: call.progress }
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.request.id
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Window used until the size of the values is known.
const INITIAL_WINDOW: u32 = 8;

/// Cancels the request, here and at the peer, if it is dropped before the request ends.
struct RequestGuard {
    peer: Arc<PeerHandle>,
    id: Arc<str>,
    was_sent: bool,
    is_finished: bool,
}

impl RequestGuard {
    /// Marks the call as finished. A missing response means that the connection was lost.
    fn finish(mut self, result: Option<Result<Outcome, CallError>>) -> Result<Outcome, CallError> {
        self.is_finished = true;
        result.unwrap_or_else(|| Err(self.peer.closed_error()))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if !self.is_finished {
            self.peer.cancel_request(&self.id, "the caller canceled the call", self.was_sent);
        }
    }
}

/// A call that waits for capacity and returns whether it was sent. Boxed because most calls find
/// capacity at once, and tens of thousands may be waiting for a response.
type WaitingCall = Option<BoxFuture<'static, bool>>;

pub(super) async fn call(
    peer: Arc<PeerHandle>,
    outgoing_request: OutgoingRequest,
) -> Result<Outcome, CallError> {
    let (mut guard, mut response, waiting) = start_call(&peer, outgoing_request)?;
    if let Some(sending) = waiting {
        // A request that times out while waiting for capacity fails without being sent.
        tokio::select! {
            biased;
            result = &mut response => return guard.finish(result.ok()),
            sent = sending => guard.was_sent = sent,
        }
    }
    let result = response.await.ok();
    guard.finish(result)
}

type ResponseReceiver = oneshot::Receiver<Result<Outcome, CallError>>;

fn start_call(
    peer: &Arc<PeerHandle>,
    outgoing_request: OutgoingRequest,
) -> Result<(RequestGuard, ResponseReceiver, WaitingCall), CallError> {
    let (reply, response) = oneshot::channel();
    let (mut guard, event) =
        register(peer, outgoing_request, Consumer::Call, ResponseSink::Call(reply))?;
    let waiting = match peer.outgoing.try_send(event) {
        Ok(()) => None,
        Err(mpsc::error::TrySendError::Closed(_)) => return Err(peer.closed_error().not_sent()),
        Err(mpsc::error::TrySendError::Full(event)) => {
            let outgoing = peer.outgoing.clone();
            Some(async move { outgoing.send(event).await.is_ok() }.boxed())
        }
    };
    guard.was_sent = waiting.is_none();
    Ok((guard, response, waiting))
}

fn register(
    peer: &Arc<PeerHandle>,
    outgoing_request: OutgoingRequest,
    consumer: Consumer,
    to: ResponseSink,
) -> Result<(RequestGuard, CallEvent), CallError> {
    let OutgoingRequest { request, timeouts, progress } = outgoing_request;
    let id = Arc::clone(&request.id);
    peer.register_request(&id, consumer, timeouts, Waiter { sink: to, progress })?;
    let guard = RequestGuard { peer: Arc::clone(peer), id, was_sent: false, is_finished: false };
    Ok((guard, CallEvent::Requested(request)))
}

/// Returns the values of a subscription. The request is sent when the stream is first polled.
pub(super) fn subscribe(
    peer: Arc<PeerHandle>,
    outgoing_request: OutgoingRequest,
) -> BoxStream<'static, Result<Outcome, CallError>> {
    async move {
        match start_subscription(&peer, outgoing_request).await {
            Ok(stream) => stream.into_stream().left_stream(),
            Err(error) => futures::stream::once(std::future::ready(Err(error))).right_stream(),
        }
    }
    .flatten_stream()
    .boxed()
}

async fn start_subscription(
    peer: &Arc<PeerHandle>,
    mut outgoing_request: OutgoingRequest,
) -> Result<RemoteStream, CallError> {
    let window = INITIAL_WINDOW.min(peer.settings.max_window.max(1));
    outgoing_request.request.window = Some(window);
    let (sender, mut values) = stream::channel(&peer.settings);
    let (mut guard, event) = register(
        peer,
        outgoing_request,
        Consumer::Subscription,
        ResponseSink::Subscription(sender),
    )?;
    let outgoing = peer.outgoing.clone();
    tokio::select! {
        biased;
        sent = outgoing.send(event) => match sent {
            Ok(()) => guard.was_sent = true,
            Err(_) => return Err(peer.closed_error().not_sent()),
        },
        // Nothing was sent, so this can only be the end of the stream.
        _ = values.next() => {}
    }
    Ok(RemoteStream { guard, values, window, consumed: 0 })
}

struct RemoteStream {
    guard: RequestGuard,
    values: stream::ValueReceiver,
    /// Maximum number of values in transit or not yet consumed.
    window: u32,
    /// Values consumed since credit was last granted.
    consumed: u32,
}

impl RemoteStream {
    fn into_stream(self) -> impl futures::Stream<Item = Result<Outcome, CallError>> + Send {
        futures::stream::unfold(Some(self), async |stream| {
            let mut stream = stream?;
            match stream.values.next().await {
                Some(outcome) => {
                    stream.grant_credit();
                    Some((Ok(outcome), Some(stream)))
                }
                None => {
                    stream.guard.is_finished = true;
                    let error = stream.values.take_error()?;
                    Some((Err(error), None))
                }
            }
        })
    }

    fn grant_credit(&mut self) {
        self.consumed += 1;
        if self.consumed < (self.window / 2).max(1) {
            return;
        }
        let count = std::mem::take(&mut self.consumed) + self.grow_window();
        let id = Arc::clone(&self.guard.id);
        self.guard.peer.enqueue(CallEvent::Control(Control::More { id, count }));
    }

    /// Doubles the window up to `max_window`, and returns the added credit. The window does not
    /// grow if values of the largest size seen would fill more than half of `max_buffered_bytes`.
    fn grow_window(&mut self) -> u32 {
        let settings = &self.guard.peer.settings;
        let wider = self.window.saturating_mul(2).min(settings.max_window);
        let size = self.values.largest_value().saturating_mul(wider as usize);
        if size > settings.max_buffered_bytes / 2 {
            return 0;
        }
        let more = wider.saturating_sub(self.window);
        self.window += more;
        more
    }
}
