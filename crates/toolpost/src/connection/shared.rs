//! Shared state of a connection: the queue to the peer, and pending and in-flight requests.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::ConnectionSettings;
use super::stream::ValueSender;
use crate::error::CallError;
use crate::handler::{AbortHandle, ProgressSender};
use crate::outcome::Outcome;
use crate::protocol::{
    CallEvent, Consumer, Control, EventEffect, InflightRequests, PendingRequests, RequestTimeouts,
    Topics,
};
use crate::transport::{CloseHandle, CloseReason, EventSender};

pub(super) struct PeerHandle {
    pub(super) outgoing: EventSender,
    pub(super) close_handle: CloseHandle,
    pub(super) settings: ConnectionSettings,
    state: Mutex<ConnectionState>,
    /// Wakes the event loop when the outbox has events or the next deadline moved forward.
    pub(super) wake: Notify,
    /// Notified when a request of the peer ends.
    request_ended: Notify,
}

struct ConnectionState {
    pending: PendingRequests<Waiter>,
    inflight: InflightRequests<InflightRequest>,
    topics: Topics,
    /// Events that must not wait for send capacity: aborts, flow-control credit and errors. The
    /// event loop stops reading while the outbox is full; requests of this side have their own
    /// limit.
    outbox: VecDeque<CallEvent>,
    /// The deadline that the event loop's timer is set to.
    timer_deadline: Option<Instant>,
    is_disconnected: bool,
}

/// Receiver of the responses to a request.
pub(super) struct Waiter {
    pub(super) sink: ResponseSink,
    pub(super) progress: ProgressSender,
}

pub(super) enum ResponseSink {
    Call(oneshot::Sender<Result<Outcome, CallError>>),
    Subscription(ValueSender),
}

/// An in-flight request from the peer.
pub(super) struct InflightRequest {
    pub(super) abort: Option<AbortHandle>,
    /// Credit for values granted by the peer, if the peer uses flow control.
    pub(super) credit: Option<Arc<Semaphore>>,
    /// Whether the first response ends the request.
    pub(super) single_response: bool,
}

impl PeerHandle {
    pub(super) fn new(
        outgoing: EventSender,
        close_handle: CloseHandle,
        settings: ConnectionSettings,
    ) -> Self {
        let state = ConnectionState {
            pending: PendingRequests::default(),
            inflight: InflightRequests::new(settings.max_inflight),
            topics: Topics::default(),
            outbox: VecDeque::new(),
            timer_deadline: None,
            is_disconnected: false,
        };
        Self {
            outgoing,
            close_handle,
            settings,
            state: Mutex::new(state),
            wake: Notify::new(),
            request_ended: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }

    pub(super) fn pending_count(&self) -> usize {
        self.state().pending.len()
    }

    pub(super) fn outbox_len(&self) -> usize {
        self.state().outbox.len()
    }

    pub(super) fn inflight_count(&self) -> usize {
        self.state().inflight.len()
    }

    /// Adds an outgoing request to the pending table.
    pub(super) fn register_request(
        &self,
        id: &Arc<str>,
        consumer: Consumer,
        timeout: RequestTimeouts,
        waiter: Waiter,
    ) -> Result<(), CallError> {
        let mut state = self.state();
        if state.is_disconnected || self.close_handle.is_closed() {
            return Err(self.closed_error().not_sent());
        }
        if state.pending.len() >= self.settings.max_pending {
            let max = self.settings.max_pending;
            let message = format!("request limit reached: {max} pending on this connection");
            return Err(CallError::overloaded(message).not_sent());
        }
        let now = Instant::now();
        if state.pending.insert(now, Arc::clone(id), consumer, timeout, waiter).is_err() {
            let message = format!("the request id `{id}` is already in use on this connection");
            return Err(CallError::validation(message, &[]).not_sent());
        }
        let next = state.pending.next_deadline();
        let is_sooner =
            next.is_some_and(|next| state.timer_deadline.is_none_or(|armed| next < armed));
        drop(state);
        if is_sooner {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Cancels a request of this side and notifies the peer if the request was sent.
    pub(super) fn cancel_request(
        &self,
        id: &Arc<str>,
        reason: &str,
        was_sent: bool,
    ) -> Option<Waiter> {
        let mut state = self.state();
        let waiter = state.pending.remove(id)?;
        if was_sent && !state.is_disconnected {
            self.enqueue_locked(&mut state, aborted_event(id, reason));
        }
        Some(waiter)
    }

    /// Aborts a request of this side and returns whether it was pending.
    pub(super) fn abort_request(&self, id: &Arc<str>, reason: &str) -> bool {
        let Some(waiter) = self.cancel_request(id, reason, true) else { return false };
        waiter.finish(Err(CallError::aborted(format!("the call was aborted: {reason}"))));
        true
    }

    /// Sends an event without waiting; if the send queue is full, the event goes to the outbox.
    pub(super) fn enqueue(&self, event: CallEvent) {
        let mut state = self.state();
        if !state.is_disconnected {
            self.enqueue_locked(&mut state, event);
        }
    }

    fn enqueue_locked(&self, state: &mut ConnectionState, event: CallEvent) {
        // Preserves order: new events must not overtake the outbox.
        if state.outbox.is_empty() {
            match self.outgoing.try_send(event) {
                Err(mpsc::error::TrySendError::Full(event)) => state.outbox.push_back(event),
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
        } else {
            state.outbox.push_back(event);
        }
        self.wake.notify_one();
    }

    /// Moves events from the outbox to the send queue. Returns whether the outbox is empty.
    pub(super) fn flush_outbox(&self) -> bool {
        let mut state = self.state();
        while let Some(event) = state.outbox.pop_front() {
            if let Err(mpsc::error::TrySendError::Full(event)) = self.outgoing.try_send(event) {
                state.outbox.push_front(event);
                return false;
            }
        }
        true
    }

    /// Returns the earliest deadline and records it as the one the event loop waits for.
    pub(super) fn arm_timer(&self) -> Option<Instant> {
        let mut state = self.state();
        state.timer_deadline = state.pending.next_deadline();
        state.timer_deadline
    }

    /// Fails the requests whose deadline has passed and aborts them at the peer.
    pub(super) fn expire_requests(&self) {
        let mut state = self.state();
        let expired = state.pending.expire(Instant::now(), Waiter::is_lagging);
        for expired_request in &expired {
            let event = aborted_event(&expired_request.id, "the deadline passed");
            self.enqueue_locked(&mut state, event);
        }
        drop(state);
        for expired_request in expired {
            expired_request.waiter.finish(Err(expired_request.error));
        }
    }

    /// Handles a response, progress, completion, abort or error event for a request of this side.
    pub(super) fn handle_response(&self, event: CallEvent) {
        let id = event.shared_id();
        let mut state = self.state();
        let lag_error = match state.pending.handle_event(Instant::now(), event) {
            EventEffect::Value(waiter, outcome) => waiter.send_value(outcome).err(),
            EventEffect::Ended(waiter, result) => {
                drop(state);
                return waiter.finish(result);
            }
            EventEffect::Progress(waiter, progress) => {
                let watcher = waiter.progress.clone();
                drop(state);
                return watcher.send(progress);
            }
            EventEffect::Unsolicited => {
                // No consumer is left, so the peer should stop the stream.
                let event = aborted_event(&id, "no pending request has this id");
                return self.enqueue_locked(&mut state, event);
            }
            EventEffect::Ignored => return,
        };
        if let Some(error) = lag_error {
            let waiter = state.pending.remove(&id);
            self.enqueue_locked(&mut state, aborted_event(&id, "the consumer was too slow"));
            drop(state);
            if let Some(waiter) = waiter {
                waiter.finish(Err(error));
            }
        }
    }

    /// Fails the request that received an invalid response.
    pub(super) fn fail_request(&self, id: &str, error: CallError) {
        let waiter = self.state().pending.remove(id);
        if let Some(waiter) = waiter {
            waiter.finish(Err(error));
        }
    }

    pub(super) fn admit_request(&self, id: &str) -> Result<(), CallError> {
        self.state().inflight.admit(id)
    }

    pub(super) fn begin_request(&self, id: Arc<str>, running: InflightRequest) {
        self.state().inflight.insert(id, running);
    }

    pub(super) fn end_request(&self, id: &str) {
        self.state().inflight.remove(id);
        self.request_ended.notify_waiters();
    }

    /// Waits until no request from the peer is in flight.
    pub(super) async fn wait_idle(&self) {
        loop {
            let mut ended = std::pin::pin!(self.request_ended.notified());
            // Register before checking, so that a request ending in between is not missed.
            ended.as_mut().enable();
            if self.inflight_count() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Records a response to a request of the peer. This ends a call, but not a subscription.
    pub(super) fn mark_responded(&self, id: &str) {
        let state = self.state();
        if state.inflight.get(id).is_some_and(|running| running.single_response) {
            drop(state);
            self.end_request(id);
        }
    }

    /// Handles an abort from the peer, for one of its own requests or for one of this side.
    pub(super) fn handle_abort(&self, id: Arc<str>, reason: Option<String>) {
        let state = self.state();
        let Some(running) = state.inflight.get(&id) else {
            drop(state);
            return self.handle_response(CallEvent::Aborted { id, reason });
        };
        let abort = running.abort.clone();
        drop(state);
        match abort {
            Some(abort) => {
                abort.abort(reason.unwrap_or_else(|| "the caller canceled the call".to_owned()));
            }
            // The request is served over a channel and has no handle to abort.
            None => self.end_request(&id),
        }
    }

    pub(super) fn handle_control(&self, control: Control) {
        let mut state = self.state();
        let rejected = match control {
            Control::Subscribe(topic) => state.topics.add(topic).err(),
            Control::Unsubscribe(topic) => state.topics.remove(&topic).err(),
            Control::More { id, count } => {
                let credit = state.inflight.get(&id).and_then(|running| running.credit.as_ref());
                if let Some(credit) = credit {
                    add_credit(credit, count);
                }
                None
            }
            Control::Auth(_) => {
                let message = "`__auth` must be the first frame of a connection";
                Some(CallError::validation(message, &[]))
            }
        };
        if let Some(error) = rejected {
            self.enqueue_locked(&mut state, CallEvent::Failed { id: "".into(), error });
        }
    }

    /// Fails all pending requests; their responses cannot arrive on another connection.
    pub(super) fn disconnect(&self) {
        self.close_handle.close(CloseReason::abnormal("the connection was dropped"));
        let mut state = self.state();
        state.is_disconnected = true;
        state.outbox.clear();
        let waiters = state.pending.drain();
        let running = state.inflight.drain();
        drop(state);
        self.request_ended.notify_waiters();
        for waiter in waiters {
            waiter.finish(Err(self.closed_error()));
        }
        drop(running);
    }

    pub(super) fn close_reason(&self) -> CloseReason {
        self.close_handle.reason().cloned().unwrap_or_else(CloseReason::normal)
    }

    /// Error for requests on a closed connection.
    pub(super) fn closed_error(&self) -> CallError {
        let reason = self.close_reason();
        if reason.code == CloseReason::UNAUTHENTICATED {
            return CallError::access_denied(format!(
                "the peer rejected the connection: {}",
                reason.message
            ));
        }
        CallError::unavailable(format!("connection lost: {reason}"))
    }
}

impl Waiter {
    /// Whether the consumer has unread values.
    fn is_lagging(&self) -> bool {
        matches!(&self.sink, ResponseSink::Subscription(values) if values.is_lagging())
    }

    /// Queues one more value. Fails if the consumer is too far behind.
    fn send_value(&mut self, outcome: Outcome) -> Result<(), CallError> {
        match &mut self.sink {
            ResponseSink::Subscription(values) => values.send(outcome),
            ResponseSink::Call(_) => Ok(()),
        }
    }

    fn finish(self, result: Result<Option<Outcome>, CallError>) {
        match self.sink {
            ResponseSink::Call(reply) => {
                let no_response = || CallError::unknown("the call ended without a response");
                // The send fails only if the caller has dropped the call.
                let _ = reply.send(result.and_then(|outcome| outcome.ok_or_else(no_response)));
            }
            ResponseSink::Subscription(values) => values.close(result.err()),
        }
    }
}

fn aborted_event(id: &Arc<str>, reason: &str) -> CallEvent {
    CallEvent::Aborted { id: Arc::clone(id), reason: Some(reason.to_owned()) }
}

/// Adds credit up to a fixed maximum, because a semaphore panics when its permits overflow.
fn add_credit(credit: &Semaphore, count: u32) {
    const MAX_CREDIT: usize = 1 << 20;
    let available = MAX_CREDIT.saturating_sub(credit.available_permits());
    credit.add_permits(available.min(count as usize));
}
