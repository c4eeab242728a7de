//! Stored messages of a room and the ids in use.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::ConnectionId;
use crate::room::RoomSettings;
use crate::room::message::RoomMessage;

const MAX_IDS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct History {
    entries: VecDeque<(Arc<RoomMessage>, usize)>,
    bytes: usize,
}

impl History {
    pub(super) fn add(&mut self, message: Arc<RoomMessage>, settings: &RoomSettings) {
        let bytes = message.approximate_size();
        self.bytes += bytes;
        self.entries.push_back((message, bytes));
        self.truncate(settings.max_history_messages, settings.max_history_bytes);
    }

    pub(super) fn truncate(&mut self, max_messages: usize, max_bytes: usize) {
        while self.entries.len() > max_messages
            || (self.bytes > max_bytes && self.entries.len() > 1)
        {
            let Some((_, bytes)) = self.entries.pop_front() else { break };
            self.bytes -= bytes;
        }
    }

    pub(super) fn has_sender(&self, from: &str) -> bool {
        self.entries.iter().any(|(message, _)| &*message.from == from)
    }

    /// Returns up to `limit` messages, newest first, before the message with this id or time; empty
    /// for an unknown id.
    pub(super) fn page(&self, limit: usize, before: Option<&str>) -> Vec<Arc<RoomMessage>> {
        let end = match before {
            None => self.entries.len(),
            Some(cursor) => self.position(cursor),
        };
        let page = self.entries.iter().take(end).rev().take(limit);
        page.map(|(message, _)| Arc::clone(message)).collect()
    }

    fn position(&self, cursor: &str) -> usize {
        // The oldest match: ids can repeat, and paging must terminate.
        let by_id = self.entries.iter().position(|(message, _)| &*message.id == cursor);
        // Timestamps sort as strings. Any other cursor is an id that is no longer stored.
        let is_time = cursor.len() >= 20 && cursor.as_bytes()[4] == b'-' && cursor.contains('T');
        let by_time = || {
            let count = self.entries.iter().filter(|(message, _)| &*message.ts < cursor).count();
            if is_time { count } else { 0 }
        };
        by_id.unwrap_or_else(by_time)
    }

    pub(super) fn latest(&self, max_messages: usize) -> impl Iterator<Item = &Arc<RoomMessage>> {
        let skipped = self.entries.len().saturating_sub(max_messages);
        self.entries.iter().skip(skipped).map(|(message, _)| message)
    }
}

/// Ids of recent messages. A restarted client may count from the beginning, so a participant can
/// reuse the ids of its earlier connections.
#[derive(Debug, Default)]
pub(super) struct MessageIds {
    owners: HashMap<Box<str>, (Arc<str>, ConnectionId)>,
    order: VecDeque<Box<str>>,
}

impl MessageIds {
    pub(super) fn is_in_use(&self, id: &str, from: &str, connection: ConnectionId) -> bool {
        let id_owner = self.owners.get(id);
        id_owner.is_some_and(|(owner, when)| &**owner != from || *when == connection)
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.owners.contains_key(id)
    }

    pub(super) fn add(&mut self, id: &str, from: &Arc<str>, connection: ConnectionId) {
        if self.owners.insert(id.into(), (Arc::clone(from), connection)).is_none() {
            self.order.push_back(id.into());
        }
        while self.order.len() > MAX_IDS {
            if let Some(oldest) = self.order.pop_front() {
                self.owners.remove(&oldest);
            }
        }
    }
}
