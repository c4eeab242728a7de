//! The requests that wait for an answer: what each event and each passing moment does to them.
//!
//! Nothing here does I/O or reads a clock, so every rule is a row of a table in the tests. Whoever
//! waits is a `W` that is handed out with what has happened to it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::event::CallEvent;
use crate::error::CallError;
use crate::handler::Progress;
use crate::outcome::Outcome;

/// Everything that was asked for on one link and is not answered yet.
#[derive(Debug)]
pub struct PendingRequests<W> {
    entries: HashMap<Arc<str>, PendingEntry<W>, foldhash::fast::RandomState>,
    /// When to look again, at the latest. An entry that has moved or gone leaves its old line here,
    /// which is thrown away when its time comes or when most of the lines are such.
    deadlines: BinaryHeap<Reverse<(Instant, Arc<str>)>>,
}

#[derive(Debug)]
struct PendingEntry<W> {
    waiter: W,
    consumer: Consumer,
    deadline: Option<Instant>,
    idle: Option<IdleTimeout>,
}

#[derive(Debug, Clone, Copy)]
struct IdleTimeout {
    timeout: Duration,
    expires_at: Instant,
}

/// What the one who asked makes of the answers; the request is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumer {
    /// Takes one answer.
    Call,
    /// Takes answers until the end.
    Subscription,
}

/// When a request is given up.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestTimeouts {
    /// At this moment.
    pub deadline: Option<Instant>,
    /// When nothing has been heard for this long.
    pub idle: Option<Duration>,
}

/// What an event did.
#[derive(Debug)]
#[must_use]
pub enum EventEffect<'a, W> {
    /// A value of a subscription; the next may follow.
    Value(&'a mut W, Outcome),
    /// The request has ended and its waiter is out of the table. `Ok(None)` is the end of a
    /// subscription.
    Ended(W, Result<Option<Outcome>, CallError>),
    /// It goes on.
    Progress(&'a mut W, Progress),
    /// A value that nobody waits for: its source should stop.
    Unsolicited,
    /// Nothing that anybody waits for.
    Ignored,
}

/// A request that was given up, and what its waiter and the far end are told.
#[derive(Debug)]
pub struct ExpiredRequest<W> {
    /// The request.
    pub id: Arc<str>,
    /// Whoever waited.
    pub waiter: W,
    /// What it is told.
    pub error: CallError,
}

impl<W> Default for PendingRequests<W> {
    fn default() -> Self {
        Self { entries: HashMap::default(), deadlines: BinaryHeap::new() }
    }
}

impl<W> PendingRequests<W> {
    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there is a request of that id.
    pub fn contains(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// Takes a request in.
    ///
    /// # Errors
    ///
    /// The id is in use; the waiter comes back.
    pub fn insert(
        &mut self,
        now: Instant,
        id: Arc<str>,
        consumer: Consumer,
        timeouts: RequestTimeouts,
        waiter: W,
    ) -> Result<(), W> {
        if self.contains(&id) {
            return Err(waiter);
        }
        let idle = timeouts.idle.and_then(|timeout| IdleTimeout::new(now, timeout));
        let entry = PendingEntry { waiter, consumer, deadline: timeouts.deadline, idle };
        if let Some(at) = entry.next_timeout() {
            self.deadlines.push(Reverse((at, Arc::clone(&id))));
        }
        self.entries.insert(id, entry);
        Ok(())
    }

    /// Takes an event in, and says what it did.
    pub fn handle_event(&mut self, now: Instant, event: CallEvent) -> EventEffect<'_, W> {
        match event {
            CallEvent::Responded { id, outcome } => self.handle_response(now, &id, outcome),
            CallEvent::Progress { id, progress } => match self.touch(now, &id) {
                Some(entry) => EventEffect::Progress(&mut entry.waiter, progress),
                None => EventEffect::Ignored,
            },
            CallEvent::Completed { id } => self.finish(&id, |consumer| match consumer {
                Consumer::Subscription => Ok(None),
                Consumer::Call => {
                    Err(CallError::aborted("the peer completed the call without a response"))
                }
            }),
            CallEvent::Aborted { id, reason } => self.finish(&id, |_| Err(aborted_by_peer(reason))),
            CallEvent::Failed { id, error } => self.finish(&id, |_| Err(error)),
            CallEvent::Requested(_) | CallEvent::Control(_) => EventEffect::Ignored,
        }
    }

    /// Takes a request out because its waiter does not want it any more.
    pub fn remove(&mut self, id: &str) -> Option<W> {
        let entry = self.entries.remove(id)?;
        self.compact_deadlines();
        Some(entry.waiter)
    }

    /// Takes out what has run out of time. A waiter that `lags` has not taken what it was given: it
    /// is not kept waiting by a silence.
    pub fn expire(
        &mut self,
        now: Instant,
        is_lagging: impl Fn(&W) -> bool,
    ) -> Vec<ExpiredRequest<W>> {
        let mut expired = Vec::new();
        while self.deadlines.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, id))) = self.deadlines.pop() else { break };
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            if is_lagging(&entry.waiter) {
                entry.idle = entry.idle.and_then(|idle| IdleTimeout::new(now, idle.timeout));
            }
            match entry.timeout_error(now) {
                Some(error) => {
                    if let Some(entry) = self.entries.remove(&id) {
                        expired.push(ExpiredRequest { id, waiter: entry.waiter, error });
                    }
                }
                // Heard of since the alarm was set, or another request under an old id.
                None => {
                    if let Some(at) = entry.next_timeout() {
                        self.deadlines.push(Reverse((at, id)));
                    }
                }
            }
        }
        expired
    }

    /// When [`PendingRequests::expire`] has something to do, at the earliest.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes everything out: the link is gone, and nobody waits for a deadline.
    pub fn drain(&mut self) -> Vec<W> {
        self.deadlines.clear();
        self.entries.drain().map(|(_, entry)| entry.waiter).collect()
    }

    #[cfg(test)]
    pub(super) fn deadline_count(&self) -> usize {
        self.deadlines.len()
    }

    fn handle_response(&mut self, now: Instant, id: &str, outcome: Outcome) -> EventEffect<'_, W> {
        let consumer = match self.entries.get(id) {
            Some(entry) => entry.consumer,
            None => return EventEffect::Unsolicited,
        };
        match consumer {
            Consumer::Call => self.finish(id, |_| Ok(Some(outcome))),
            Consumer::Subscription => match self.touch(now, id) {
                Some(entry) => EventEffect::Value(&mut entry.waiter, outcome),
                None => EventEffect::Ignored,
            },
        }
    }

    fn finish(
        &mut self,
        id: &str,
        result_for: impl FnOnce(Consumer) -> Result<Option<Outcome>, CallError>,
    ) -> EventEffect<'_, W> {
        let Some(entry) = self.entries.remove(id) else { return EventEffect::Ignored };
        self.compact_deadlines();
        EventEffect::Ended(entry.waiter, result_for(entry.consumer))
    }

    /// The entry, whose idle time begins anew. Its alarm is not moved: it finds out by itself.
    fn touch(&mut self, now: Instant, id: &str) -> Option<&mut PendingEntry<W>> {
        let entry = self.entries.get_mut(id)?;
        entry.idle = entry.idle.and_then(|idle| IdleTimeout::new(now, idle.timeout));
        Some(entry)
    }

    /// Throws the alarms of answered requests away once they are the most part.
    fn compact_deadlines(&mut self) {
        if self.deadlines.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.deadlines.retain(|Reverse((_, id))| entries.contains_key(id));
        }
    }
}

impl IdleTimeout {
    /// A wait beyond the end of the clock never ends.
    fn new(now: Instant, timeout: Duration) -> Option<Self> {
        Some(Self { timeout, expires_at: now.checked_add(timeout)? })
    }
}

impl<W> PendingEntry<W> {
    fn next_timeout(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.idle.map(|idle| idle.expires_at)).min()
    }

    fn timeout_error(&self, now: Instant) -> Option<CallError> {
        if self.deadline.is_some_and(|at| at <= now) {
            return Some(CallError::timeout("the deadline of the call passed"));
        }
        let silent = self.idle.is_some_and(|idle| idle.expires_at <= now);
        silent.then(|| CallError::timeout("the subscription exceeded its idle timeout"))
    }
}

fn aborted_by_peer(reason: Option<String>) -> CallError {
    match reason {
        Some(reason) => CallError::aborted(format!("the peer aborted the call: {reason}")),
        None => CallError::aborted("the peer aborted the call"),
    }
}
