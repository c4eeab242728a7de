//! Pending requests: how events and timeouts change them.
//!
//! This module performs no I/O and does not read the clock. `W` is the waiter of a request; it is
//! returned together with the effect on the request.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::event::CallEvent;
use crate::error::CallError;
use crate::handler::Progress;
use crate::outcome::Outcome;

/// Requests sent over one transport that have not ended yet.
#[derive(Debug)]
pub struct PendingRequests<W> {
    entries: HashMap<Arc<str>, PendingEntry<W>, foldhash::fast::RandomState>,
    /// Times at which to check requests. Stale items are dropped when their time is reached or when
    /// they are the majority.
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

/// How the caller consumes responses. The request is the same in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumer {
    /// Expects one response.
    Call,
    /// Accepts responses until the end of the stream.
    Subscription,
}

/// Timeouts of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestTimeouts {
    /// Time at which the request expires.
    pub deadline: Option<Instant>,
    /// Maximum time between events of the request.
    pub idle: Option<Duration>,
}

/// Effect of an event on the pending requests.
#[derive(Debug)]
#[must_use]
pub enum EventEffect<'a, W> {
    /// A value of a subscription; more values can follow.
    Value(&'a mut W, Outcome),
    /// The request ended and its waiter was removed. `Ok(None)` is the end of a subscription.
    Ended(W, Result<Option<Outcome>, CallError>),
    /// Progress of a request that continues.
    Progress(&'a mut W, Progress),
    /// A value without a pending request. The peer should stop sending.
    Unsolicited,
    /// An event without a pending request.
    Ignored,
}

/// A request that timed out, with the error for its waiter and for the peer.
#[derive(Debug)]
pub struct ExpiredRequest<W> {
    /// The request.
    pub id: Arc<str>,
    /// The waiter of the request.
    pub waiter: W,
    /// The timeout error.
    pub error: CallError,
}

impl<W> Default for PendingRequests<W> {
    fn default() -> Self {
        Self { entries: HashMap::default(), deadlines: BinaryHeap::new() }
    }
}

impl<W> PendingRequests<W> {
    /// Returns the number of pending requests.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no request is pending.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a request with this id is pending.
    pub fn contains(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// Adds a request.
    ///
    /// # Errors
    ///
    /// Returns the waiter if the id is in use.
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

    /// Applies an event and returns its effect.
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

    /// Removes a request that its waiter no longer needs.
    pub fn remove(&mut self, id: &str) -> Option<W> {
        let entry = self.entries.remove(id)?;
        self.compact_deadlines();
        Some(entry.waiter)
    }

    /// Removes and returns the requests that timed out. The idle timeout restarts for a waiter for
    /// which `is_lagging` returns true: it has not consumed the values it already received, so the
    /// peer is not at fault.
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
                // The timeout moved, or the id belongs to a newer request.
                None => {
                    if let Some(at) = entry.next_timeout() {
                        self.deadlines.push(Reverse((at, id)));
                    }
                }
            }
        }
        expired
    }

    /// Returns the earliest time at which [`PendingRequests::expire`] may have work to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes all requests and returns their waiters. Used when the transport is closed.
    pub fn drain(&mut self) -> Vec<W> {
        self.deadlines.clear();
        self.entries.drain().map(|(_, entry)| entry.waiter).collect()
    }

    #[cfg(test)]
    pub(super) fn deadline_count(&self) -> usize {
        self.deadlines.len()
    }

    fn handle_response(&mut self, now: Instant, id: &str, outcome: Outcome) -> EventEffect<'_, W> {
        match self.entries.get(id).map(|entry| entry.consumer) {
            None => EventEffect::Unsolicited,
            Some(Consumer::Call) => self.finish(id, |_| Ok(Some(outcome))),
            Some(Consumer::Subscription) => match self.touch(now, id) {
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

    /// Returns the entry and restarts its idle timeout; [`PendingRequests::expire`] reschedules it.
    fn touch(&mut self, now: Instant, id: &str) -> Option<&mut PendingEntry<W>> {
        let entry = self.entries.get_mut(id)?;
        entry.idle = entry.idle.and_then(|idle| IdleTimeout::new(now, idle.timeout));
        Some(entry)
    }

    /// Drops the deadlines of removed requests when they are the majority.
    fn compact_deadlines(&mut self) {
        if self.deadlines.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.deadlines.retain(|Reverse((_, id))| entries.contains_key(id));
        }
    }
}

impl IdleTimeout {
    /// Returns `None` if the expiry time overflows the clock; such a timeout never expires.
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
