//! The event loop of a connection: handles incoming events and request deadlines.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use super::IncomingRequests;
use super::shared::{InflightRequest, PeerHandle};
use crate::error::CallError;
use crate::protocol::{CallEvent, FrameError, RequestEvent};
use crate::transport::SEND_QUEUE_CAPACITY;

pub(super) type IncomingEvent = Result<CallEvent, FrameError>;

/// Maximum number of events handled in a row before the loop polls its other work.
const MAX_EVENTS_PER_BATCH: usize = 64;

/// Maximum number of events waiting for send capacity, beyond the requests in flight. At the limit
/// the connection stops reading, so a peer that does not read cannot request more.
const MAX_BACKLOG: usize = 1_024;

/// Maximum time without reading while too many bytes are queued.
const MAX_READ_PAUSE: Duration = Duration::from_millis(100);

/// Reads events until the end. It never waits for send capacity: two such peers would deadlock.
pub(super) async fn run(
    peer: &Arc<PeerHandle>,
    mut incoming: BoxStream<'static, IncomingEvent>,
    incoming_requests: &IncomingRequests,
    tasks: &mut JoinSet<()>,
) {
    let mut timer = DeadlineTimer::new();
    let mut is_flushed = true;
    let mut may_read = true;
    // The futures are kept across iterations, so that their wakers stay registered.
    let mut closed = std::pin::pin!(peer.close_handle.closed());
    let mut wake = std::pin::pin!(peer.wake.notified());
    loop {
        timer.set(peer.arm_timer());
        tokio::select! {
            biased;
            () = &mut closed => return,
            () = &mut wake => wake.set(peer.wake.notified()),
            () = timer.expired() => peer.expire_requests(),
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            // Wakes the loop to flush the outbox when the send queue has capacity.
            ready = tokio::time::timeout(MAX_READ_PAUSE, peer.outgoing.ready()),
                if !is_flushed || !peer.outgoing.has_size_capacity() =>
            {
                // Two peers that wait for each other to read would deadlock.
                if ready.is_err() && let Some(event) = incoming.next().now_or_never() {
                    let Some(event) = event else { return };
                    handle_event(peer, event, incoming_requests, tasks).await;
                }
            }
            event = incoming.next(), if may_read => match event {
                Some(event) => handle_event(peer, event, incoming_requests, tasks).await,
                None => return,
            },
        }
        for _ in 0..MAX_EVENTS_PER_BATCH {
            if !may_read || peer.outgoing.capacity() < SEND_QUEUE_CAPACITY / 2 {
                break;
            }
            match incoming.next().now_or_never() {
                Some(Some(event)) => handle_event(peer, event, incoming_requests, tasks).await,
                Some(None) => return,
                None => break,
            }
        }
        while tasks.try_join_next().is_some() {}
        is_flushed = peer.flush_outbox();
        may_read = tasks.len() < peer.settings.max_inflight + MAX_BACKLOG
            && peer.outbox_len() < MAX_BACKLOG
            && peer.outgoing.has_size_capacity();
        if !is_flushed || peer.outgoing.capacity() < SEND_QUEUE_CAPACITY / 2 {
            // Yield, because the pump that sends queued events runs in the same async task.
            tokio::task::yield_now().await;
        }
    }
}

async fn handle_event(
    peer: &Arc<PeerHandle>,
    event: IncomingEvent,
    incoming_requests: &IncomingRequests,
    tasks: &mut JoinSet<()>,
) {
    match event {
        Ok(CallEvent::Requested(request)) => {
            handle_request(peer, *request, incoming_requests, tasks).await;
        }
        Ok(CallEvent::Aborted { id, reason }) => peer.handle_abort(id, reason),
        Ok(CallEvent::Control(control)) => peer.handle_control(control),
        Ok(reply) => peer.handle_response(reply),
        Err(error) => {
            tracing::debug!(%error, id = &*error.id, "invalid frame");
            if error.is_response {
                tracing::warn!(%error, id = &*error.id, "peer sent an invalid response");
                let message = format!("the peer sent an invalid response: {error}");
                peer.fail_request(&error.id, CallError::execution(message));
            }
            send_or_spawn(peer, error.to_event(), tasks);
        }
    }
}

async fn handle_request(
    peer: &Arc<PeerHandle>,
    request: RequestEvent,
    incoming_requests: &IncomingRequests,
    tasks: &mut JoinSet<()>,
) {
    if let Err(error) = peer.admit_request(&request.id) {
        return match incoming_requests {
            IncomingRequests::Call(handler) => handler.reject(peer, request, error, tasks),
            _ => send_or_spawn(peer, CallEvent::Failed { id: request.id, error }, tasks),
        };
    }
    match incoming_requests {
        IncomingRequests::Reject => {
            let error = CallError::operation_not_found(&request.operation);
            send_or_spawn(peer, CallEvent::Failed { id: request.id, error }, tasks);
        }
        IncomingRequests::Call(handler) => handler.serve(peer, request, tasks),
        IncomingRequests::Channel(sender) => {
            // Toolpost subscribers always set a window. A request of another client without one may
            // be either kind; treating it as a call only frees its table entry early.
            let answers_once = request.window.is_none();
            let running =
                InflightRequest { abort: None, credit: None, single_response: answers_once };
            peer.begin_request(Arc::clone(&request.id), running);
            if let Err(rejected) = sender.send(request).await {
                let id = rejected.0.id;
                peer.end_request(&id);
                let error = CallError::unavailable("this connection no longer accepts requests");
                send_or_spawn(peer, CallEvent::Failed { id, error }, tasks);
            }
        }
    }
}

/// Sends an event at once, or in a spawned task if the send queue is full.
pub(super) fn send_or_spawn(peer: &Arc<PeerHandle>, event: CallEvent, tasks: &mut JoinSet<()>) {
    if let Err(tokio::sync::mpsc::error::TrySendError::Full(event)) = peer.outgoing.try_send(event)
    {
        let outgoing = peer.outgoing.clone();
        tasks.spawn(async move { drop(outgoing.send(event).await) });
    }
}

/// A single timer, set to the earliest deadline of all pending requests.
struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl DeadlineTimer {
    fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep_until(Instant::now())), at: None }
    }

    fn set(&mut self, at: Option<Instant>) {
        if let Some(at) = at.filter(|_| at != self.at) {
            self.sleep.as_mut().reset(at);
        }
        self.at = at;
    }

    async fn expired(&mut self) {
        match self.at {
            Some(_) => self.sleep.as_mut().await,
            None => std::future::pending().await,
        }
    }
}
