//! The requests that wait for an answer: what each event and each passing moment does to them.
//!
//! Nothing here does I/O or reads a clock, so every rule is a row of a table in the tests. Whoever
//! waits is a `W` that is handed out with what has happened to it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::event::Event;
use crate::error::CallError;
use crate::handler::Progress;
use crate::outcome::Outcome;

/// Everything that was asked for on one link and is not answered yet.
#[derive(Debug)]
pub struct Pending<W> {
    entries: HashMap<Arc<str>, Entry<W>, foldhash::fast::RandomState>,
    /// When to look again, at the latest. An entry that has moved or gone leaves its old line here,
    /// which is thrown away when its time comes or when most of the lines are such.
    alarms: BinaryHeap<Reverse<(Instant, Arc<str>)>>,
}

#[derive(Debug)]
struct Entry<W> {
    waiter: W,
    consumer: Consumer,
    deadline: Option<Instant>,
    idle: Option<Idle>,
}

#[derive(Debug, Clone, Copy)]
struct Idle {
    longest: Duration,
    until: Instant,
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
pub struct Patience {
    /// At this moment.
    pub deadline: Option<Instant>,
    /// When nothing has been heard for this long.
    pub idle: Option<Duration>,
}

/// What an event did.
#[derive(Debug)]
#[must_use]
pub enum Received<'a, W> {
    /// A value of a subscription; the next may follow.
    Value(&'a mut W, Outcome),
    /// The request has ended and its waiter is out of the table. `Ok(None)` is the end of a
    /// subscription.
    Ended(W, Result<Option<Outcome>, CallError>),
    /// It goes on.
    Progress(&'a mut W, Progress),
    /// A value that nobody waits for: its source should stop.
    Unwanted,
    /// Nothing that anybody waits for.
    Ignored,
}

/// A request that was given up, and what its waiter and the far end are told.
#[derive(Debug)]
pub struct Expired<W> {
    /// The request.
    pub id: Arc<str>,
    /// Whoever waited.
    pub waiter: W,
    /// What it is told.
    pub error: CallError,
}

impl<W> Default for Pending<W> {
    fn default() -> Self {
        Self { entries: HashMap::default(), alarms: BinaryHeap::new() }
    }
}

impl<W> Pending<W> {
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
    pub fn open(
        &mut self,
        now: Instant,
        id: Arc<str>,
        consumer: Consumer,
        patience: Patience,
        waiter: W,
    ) -> Result<(), W> {
        if self.contains(&id) {
            return Err(waiter);
        }
        let idle = patience.idle.and_then(|longest| Idle::from(now, longest));
        let entry = Entry { waiter, consumer, deadline: patience.deadline, idle };
        if let Some(at) = entry.due() {
            self.alarms.push(Reverse((at, Arc::clone(&id))));
        }
        self.entries.insert(id, entry);
        Ok(())
    }

    /// Takes an event in, and says what it did.
    pub fn receive(&mut self, now: Instant, event: Event) -> Received<'_, W> {
        match event {
            Event::Responded { id, outcome } => self.respond(now, &id, outcome),
            Event::Progress { id, progress } => match self.hear(now, &id) {
                Some(entry) => Received::Progress(&mut entry.waiter, progress),
                None => Received::Ignored,
            },
            Event::Completed { id } => self.end(&id, |consumer| match consumer {
                Consumer::Subscription => Ok(None),
                Consumer::Call => {
                    Err(CallError::aborted("the far end completed the call without an answer"))
                }
            }),
            Event::Aborted { id, reason } => self.end(&id, |_| Err(aborted_by_peer(reason))),
            Event::Failed { id, error } => self.end(&id, |_| Err(error)),
            Event::Requested(_) | Event::Control(_) => Received::Ignored,
        }
    }

    /// Takes a request out because its waiter does not want it any more.
    pub fn leave(&mut self, id: &str) -> Option<W> {
        let entry = self.entries.remove(id)?;
        self.sweep();
        Some(entry.waiter)
    }

    /// Takes out what has run out of time. A waiter that `lags` has not taken what it was given: it
    /// is not kept waiting by a silence.
    pub fn expire(&mut self, now: Instant, lags: impl Fn(&W) -> bool) -> Vec<Expired<W>> {
        let mut expired = Vec::new();
        while self.alarms.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, id))) = self.alarms.pop() else { break };
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            if lags(&entry.waiter) {
                entry.idle = entry.idle.and_then(|idle| Idle::from(now, idle.longest));
            }
            match entry.overdue(now) {
                Some(error) => {
                    if let Some(entry) = self.entries.remove(&id) {
                        expired.push(Expired { id, waiter: entry.waiter, error });
                    }
                }
                // Heard of since the alarm was set, or another request under an old id.
                None => {
                    if let Some(at) = entry.due() {
                        self.alarms.push(Reverse((at, id)));
                    }
                }
            }
        }
        expired
    }

    /// When [`Pending::expire`] has something to do, at the earliest.
    pub fn next_alarm(&self) -> Option<Instant> {
        self.alarms.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes everything out: the link is gone, and nobody waits for a deadline.
    pub fn lose(&mut self) -> Vec<W> {
        self.alarms.clear();
        self.entries.drain().map(|(_, entry)| entry.waiter).collect()
    }

    #[cfg(test)]
    pub(super) fn alarms_held(&self) -> usize {
        self.alarms.len()
    }

    fn respond(&mut self, now: Instant, id: &str, outcome: Outcome) -> Received<'_, W> {
        let consumer = match self.entries.get(id) {
            Some(entry) => entry.consumer,
            None => return Received::Unwanted,
        };
        match consumer {
            Consumer::Call => self.end(id, |_| Ok(Some(outcome))),
            Consumer::Subscription => match self.hear(now, id) {
                Some(entry) => Received::Value(&mut entry.waiter, outcome),
                None => Received::Ignored,
            },
        }
    }

    fn end(
        &mut self,
        id: &str,
        how: impl FnOnce(Consumer) -> Result<Option<Outcome>, CallError>,
    ) -> Received<'_, W> {
        let Some(entry) = self.entries.remove(id) else { return Received::Ignored };
        self.sweep();
        Received::Ended(entry.waiter, how(entry.consumer))
    }

    /// The entry, whose idle time begins anew. Its alarm is not moved: it finds out by itself.
    fn hear(&mut self, now: Instant, id: &str) -> Option<&mut Entry<W>> {
        let entry = self.entries.get_mut(id)?;
        entry.idle = entry.idle.and_then(|idle| Idle::from(now, idle.longest));
        Some(entry)
    }

    /// Throws the alarms of answered requests away once they are the most part.
    fn sweep(&mut self) {
        if self.alarms.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.alarms.retain(|Reverse((_, id))| entries.contains_key(id));
        }
    }
}

impl Idle {
    /// A wait beyond the end of the clock never ends.
    fn from(now: Instant, longest: Duration) -> Option<Self> {
        Some(Self { longest, until: now.checked_add(longest)? })
    }
}

impl<W> Entry<W> {
    fn due(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.idle.map(|idle| idle.until)).min()
    }

    fn overdue(&self, now: Instant) -> Option<CallError> {
        if self.deadline.is_some_and(|at| at <= now) {
            return Some(CallError::timeout("the deadline of the call passed"));
        }
        let silent = self.idle.is_some_and(|idle| idle.until <= now);
        silent.then(|| CallError::timeout("the subscription was silent for too long"))
    }
}

fn aborted_by_peer(reason: Option<String>) -> CallError {
    match reason {
        Some(reason) => CallError::aborted(format!("the far end aborted the call: {reason}")),
        None => CallError::aborted("the far end aborted the call"),
    }
}
