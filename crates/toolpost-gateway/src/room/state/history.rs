//! What was said, kept for those who come later, and the ids that were given.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::ConnectionId;
use crate::room::RoomSettings;
use crate::room::message::Message;

/// How many ids are known again.
const MOST_IDS: usize = 10_000;

/// What was said, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: VecDeque<(Arc<Message>, usize)>,
    bytes: usize,
}

impl History {
    pub(super) fn add(&mut self, message: Arc<Message>, settings: &RoomSettings) {
        let bytes = message.size();
        self.bytes += bytes;
        self.entries.push_back((message, bytes));
        self.bound(settings.history, settings.history_bytes);
    }

    pub(super) fn bound(&mut self, most: usize, most_bytes: usize) {
        while self.entries.len() > most || (self.bytes > most_bytes && self.entries.len() > 1) {
            let Some((_, bytes)) = self.entries.pop_front() else { break };
            self.bytes -= bytes;
        }
    }

    pub(super) fn has(&self, from: &str) -> bool {
        self.entries.iter().any(|(message, _)| &*message.from == from)
    }

    /// The newest first, from the one before that which is named by its id or its time. Nothing comes
    /// before what is not there.
    pub(super) fn page(&self, limit: usize, before: Option<&str>) -> Vec<Arc<Message>> {
        let end = match before {
            None => self.entries.len(),
            Some(named) => self.position(named),
        };
        let page = self.entries.iter().take(end).rev().take(limit);
        page.map(|(message, _)| Arc::clone(message)).collect()
    }

    fn position(&self, named: &str) -> usize {
        // The oldest: an id may come again, and whoever reads on from an old one must come to the end.
        let by_id = self.entries.iter().position(|(message, _)| &*message.id == named);
        // Times of this form are in order as texts; an id that is gone is no time.
        let is_time = named.len() >= 20 && named.as_bytes()[4] == b'-' && named.contains('T');
        let by_time = || {
            let count = self.entries.iter().filter(|(message, _)| &*message.ts < named).count();
            if is_time { count } else { 0 }
        };
        by_id.unwrap_or_else(by_time)
    }

    /// The last of them, the oldest first.
    pub(super) fn last(&self, most: usize) -> impl Iterator<Item = &Arc<Message>> {
        let skipped = self.entries.len().saturating_sub(most);
        self.entries.iter().skip(skipped).map(|(message, _)| message)
    }
}

/// The ids of what was said last. A program that was started again may count from the beginning, so an
/// id of an earlier connection may come again from the same participant.
#[derive(Debug, Default)]
pub(super) struct Ids {
    known: HashMap<Box<str>, (Arc<str>, ConnectionId)>,
    order: VecDeque<Box<str>>,
}

impl Ids {
    pub(super) fn is_taken(&self, id: &str, from: &str, connection: ConnectionId) -> bool {
        let taken = self.known.get(id);
        taken.is_some_and(|(who, when)| &**who != from || *when == connection)
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    pub(super) fn add(&mut self, id: &str, from: &Arc<str>, connection: ConnectionId) {
        if self.known.insert(id.into(), (Arc::clone(from), connection)).is_none() {
            self.order.push_back(id.into());
        }
        while self.order.len() > MOST_IDS {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}
