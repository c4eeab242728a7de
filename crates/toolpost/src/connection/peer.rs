//! What the parts of a connection share: the queue to the peer and the two tables of requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::ConnectionSettings;
use super::values::Sender as ValueSender;
use crate::error::CallError;
use crate::handler::{AbortHandle, ProgressSender};
use crate::link::{CloseReason, Closing};
use crate::outcome::Outcome;
use crate::protocol::{Consumer, Control, Event, Patience, Pending, Received, Serving, Topics};

pub(super) struct Peer {
    pub(super) outgoing: mpsc::Sender<Event>,
    pub(super) closing: Closing,
    pub(super) settings: ConnectionSettings,
    state: Mutex<State>,
    /// Tells the driver that there is something in the outbox or that an alarm came closer.
    pub(super) wake: Notify,
    /// Tells whoever waits for it that a request of the peer has ended.
    ended: Notify,
}

struct State {
    pending: Pending<Waiter>,
    serving: Serving<Running>,
    topics: Topics,
    /// What could not wait for room: last words about requests, room for more values, refusals. The
    /// driver does not read on while much of it waits, and requests of ours are bounded themselves.
    outbox: VecDeque<Event>,
    /// The moment at which the driver looks again.
    armed: Option<Instant>,
    is_lost: bool,
}

/// Whoever waits for answers.
pub(super) struct Waiter {
    pub(super) to: AnswerTo,
    pub(super) progress: ProgressSender,
}

pub(super) enum AnswerTo {
    Call(oneshot::Sender<Result<Outcome, CallError>>),
    Subscription(ValueSender),
}

/// What runs for a request of the peer.
pub(super) struct Running {
    pub(super) abort: Option<AbortHandle>,
    /// Room for values that the peer has granted, where it counts them.
    pub(super) credit: Option<Arc<Semaphore>>,
    /// Whether its first answer is its last.
    pub(super) answers_once: bool,
}

impl Peer {
    pub(super) fn new(
        outgoing: mpsc::Sender<Event>,
        closing: Closing,
        settings: ConnectionSettings,
    ) -> Self {
        let state = State {
            pending: Pending::default(),
            serving: Serving::new(settings.serving),
            topics: Topics::default(),
            outbox: VecDeque::new(),
            armed: None,
            is_lost: false,
        };
        Self {
            outgoing,
            closing,
            settings,
            state: Mutex::new(state),
            wake: Notify::new(),
            ended: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pending(&self) -> usize {
        self.state().pending.len()
    }

    pub(super) fn outbox(&self) -> usize {
        self.state().outbox.len()
    }

    pub(super) fn serving(&self) -> usize {
        self.state().serving.len()
    }

    /// Takes a request of ours in.
    pub(super) fn open(
        &self,
        id: &Arc<str>,
        consumer: Consumer,
        patience: Patience,
        waiter: Waiter,
    ) -> Result<(), CallError> {
        let mut state = self.state();
        if state.is_lost || self.closing.is_closed() {
            return Err(self.gone().before_sending());
        }
        if state.pending.len() >= self.settings.pending {
            let most = self.settings.pending;
            let message = format!("{most} requests are pending on this connection, the limit");
            return Err(CallError::overloaded(message).before_sending());
        }
        let now = Instant::now();
        if state.pending.open(now, Arc::clone(id), consumer, patience, waiter).is_err() {
            let message = format!("the request id `{id}` is already in use on this connection");
            return Err(CallError::validation(message, &[]).before_sending());
        }
        let next = state.pending.next_alarm();
        let is_sooner = next.is_some_and(|next| state.armed.is_none_or(|armed| next < armed));
        drop(state);
        if is_sooner {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Gives a request of ours up; the far end is told if it was asked.
    pub(super) fn leave(
        &self,
        id: &Arc<str>,
        reason: Option<&str>,
        was_sent: bool,
    ) -> Option<Waiter> {
        let mut state = self.state();
        let waiter = state.pending.leave(id)?;
        if was_sent && !state.is_lost {
            self.say_soon(&mut state, aborted(id, reason));
        }
        Some(waiter)
    }

    /// Gives a request of ours up in the name of whoever waits for it, and says whether it was
    /// pending.
    pub(super) fn give_up(&self, id: &Arc<str>, reason: &str, error: CallError) -> bool {
        let Some(waiter) = self.leave(id, Some(reason), true) else { return false };
        waiter.end(Err(error));
        true
    }

    /// Says something without waiting for room; it goes out when there is some.
    pub(super) fn post(&self, event: Event) {
        let mut state = self.state();
        if !state.is_lost {
            self.say_soon(&mut state, event);
        }
    }

    fn say_soon(&self, state: &mut State, event: Event) {
        // Order matters: nothing overtakes what is already in the outbox.
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

    /// Moves what there is room for from the outbox to the queue, and says whether all went.
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

    /// The next alarm, which the driver will hear.
    pub(super) fn arm(&self) -> Option<Instant> {
        let mut state = self.state();
        state.armed = state.pending.next_alarm();
        state.armed
    }

    /// Gives up what has run out of time, here and at the far end.
    pub(super) fn expire(&self) {
        let mut state = self.state();
        let expired = state.pending.expire(Instant::now(), Waiter::lags);
        for gone in &expired {
            self.say_soon(&mut state, aborted(&gone.id, Some("the deadline passed")));
        }
        drop(state);
        for gone in expired {
            gone.waiter.end(Err(gone.error));
        }
    }

    /// An answer, or news about one.
    pub(super) fn receive(&self, event: Event) {
        let id = event.shared_id();
        let mut state = self.state();
        let overrun = match state.pending.receive(Instant::now(), event) {
            Received::Value(waiter, outcome) => waiter.value(outcome).err(),
            Received::Ended(waiter, how) => {
                drop(state);
                return waiter.end(how);
            }
            Received::Progress(waiter, progress) => {
                let watcher = waiter.progress.clone();
                drop(state);
                return watcher.send(progress);
            }
            Received::Unwanted => {
                // Its source streams to nobody, and should know.
                return self.say_soon(&mut state, aborted(&id, Some("nobody waits for it")));
            }
            Received::Ignored => return,
        };
        if let Some(error) = overrun {
            let waiter = state.pending.leave(&id);
            self.say_soon(&mut state, aborted(&id, Some("its consumer was too slow")));
            drop(state);
            if let Some(waiter) = waiter {
                waiter.end(Err(error));
            }
        }
    }

    /// Fails the request that a broken answer was meant for.
    pub(super) fn fail(&self, id: &str, error: CallError) {
        let waiter = self.state().pending.leave(id);
        if let Some(waiter) = waiter {
            waiter.end(Err(error));
        }
    }

    pub(super) fn admit(&self, id: &str) -> Result<(), CallError> {
        self.state().serving.admit(id)
    }

    pub(super) fn begin_serving(&self, id: Arc<str>, running: Running) {
        self.state().serving.begin(id, running);
    }

    pub(super) fn end_serving(&self, id: &str) {
        self.state().serving.end(id);
        self.ended.notify_waiters();
    }

    /// Waits until no request of the peer is being worked on.
    pub(super) async fn idle(&self) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // Listens before it looks, so that an end in between is not missed.
            ended.as_mut().enable();
            if self.serving() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// A request was answered, which ends a call and not a subscription.
    pub(super) fn answered(&self, id: &str) {
        let state = self.state();
        if state.serving.get(id).is_some_and(|running| running.answers_once) {
            drop(state);
            self.end_serving(id);
        }
    }

    /// The peer gives one of its requests up, or one of ours.
    pub(super) fn aborted(&self, id: Arc<str>, reason: Option<String>) {
        let state = self.state();
        let Some(running) = state.serving.get(&id) else {
            drop(state);
            return self.receive(Event::Aborted { id, reason });
        };
        match running.abort.clone() {
            Some(abort) => {
                drop(state);
                abort.abort(reason.unwrap_or_else(|| "the caller gave up".to_owned()));
            }
            // Whoever answers by hand finds out that nobody waits.
            None => {
                drop(state);
                self.end_serving(&id);
            }
        }
    }

    pub(super) fn control(&self, control: Control) {
        let mut state = self.state();
        let refused = match control {
            Control::Subscribe(topic) => state.topics.add(topic).err(),
            Control::Unsubscribe(topic) => state.topics.remove(&topic).err(),
            Control::More { id, count } => {
                let credit = state.serving.get(&id).and_then(|running| running.credit.as_ref());
                if let Some(credit) = credit {
                    grant(credit, count);
                }
                None
            }
            Control::Auth(_) => {
                let message = "`__auth` is the first frame of a connection or none";
                Some(CallError::validation(message, &[]))
            }
        };
        if let Some(error) = refused {
            self.say_soon(&mut state, Event::Failed { id: "".into(), error });
        }
    }

    /// Everything that is pending fails at once, since its answers can only come on this link.
    pub(super) fn lose(&self) {
        self.closing.close(CloseReason::lost("the connection was dropped"));
        let mut state = self.state();
        state.is_lost = true;
        state.outbox.clear();
        let waiters = state.pending.lose();
        let running = state.serving.take();
        drop(state);
        self.ended.notify_waiters();
        for waiter in waiters {
            waiter.end(Err(self.gone()));
        }
        drop(running);
    }

    pub(super) fn close_reason(&self) -> CloseReason {
        self.closing.reason().cloned().unwrap_or_else(CloseReason::done)
    }

    /// Why nothing can be asked on this link any more.
    pub(super) fn gone(&self) -> CallError {
        let reason = self.close_reason();
        if reason.code == CloseReason::UNAUTHENTICATED {
            return CallError::access_denied(format!("the far end refused us: {}", reason.words));
        }
        CallError::unavailable(format!("the connection was lost: {reason}"))
    }
}

impl Waiter {
    /// Whether it has values left to take.
    fn lags(&self) -> bool {
        matches!(&self.to, AnswerTo::Subscription(values) if values.lags())
    }

    /// One more value, unless its consumer is too far behind.
    fn value(&mut self, outcome: Outcome) -> Result<(), CallError> {
        match &mut self.to {
            AnswerTo::Subscription(values) => values.send(outcome),
            AnswerTo::Call(_) => Ok(()),
        }
    }

    fn end(self, how: Result<Option<Outcome>, CallError>) {
        match self.to {
            AnswerTo::Call(reply) => {
                let none = || CallError::unknown("the call ended without an answer");
                // Whoever went away in this moment does not miss it.
                let _ = reply.send(how.and_then(|outcome| outcome.ok_or_else(none)));
            }
            AnswerTo::Subscription(values) => values.end(how.err()),
        }
    }
}

fn aborted(id: &Arc<str>, reason: Option<&str>) -> Event {
    Event::Aborted { id: Arc::clone(id), reason: reason.map(str::to_owned) }
}

/// A semaphore panics beyond its maximum, which a peer must not be able to reach.
fn grant(credit: &Semaphore, count: u32) {
    const MOST: usize = 1 << 20;
    let room = MOST.saturating_sub(credit.available_permits());
    credit.add_permits(room.min(count as usize));
}
