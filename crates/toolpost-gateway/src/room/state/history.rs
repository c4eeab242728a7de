//! Stored messages of a room and the ids in use.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::ConnectionId;
use crate::kind_filter::KindFilter;
use crate::room::RoomSettings;
use crate::room::message::{RoomMessage, parse_timestamp};

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

    /// Returns up to `limit` messages of these kinds, newest first, before the message with this id
    /// or time; empty for an unknown id.
    pub(super) fn page(
        &self,
        limit: usize,
        before: Option<&str>,
        kinds: Option<&KindFilter>,
    ) -> Vec<Arc<RoomMessage>> {
        let end = match before {
            None => self.entries.len(),
            Some(cursor) => self.position(cursor),
        };
        let is_match = |message: &&Arc<RoomMessage>| {
            kinds.is_none_or(|kinds| kinds.matches(message.kind.full()))
        };
        let messages = self.entries.iter().take(end).rev().map(|(message, _)| message);
        messages.filter(is_match).take(limit).cloned().collect()
    }

    /// Returns the last messages of these kinds, newest first: up to `limit`, and of at most
    /// `max_bytes`. Also returns whether there are more within `limit`.
    pub(super) fn last(
        &self,
        limit: usize,
        max_bytes: usize,
        kinds: Option<&KindFilter>,
    ) -> (Vec<Arc<RoomMessage>>, bool) {
        let mut messages = self.page(limit, None, kinds);
        let mut bytes = 0;
        let fitting = messages.iter().take_while(|message| {
            bytes += message.approximate_size();
            bytes <= max_bytes
        });
        let fitting = fitting.count();
        let is_truncated = fitting < messages.len();
        messages.truncate(fitting);
        (messages, is_truncated)
    }

    fn position(&self, cursor: &str) -> usize {
        // The oldest match: ids can repeat, and paging must terminate.
        let by_id = self.entries.iter().position(|(message, _)| &*message.id == cursor);
        let by_time = || {
            // Any other cursor is an id that is no longer stored.
            let time = parse_timestamp(cursor)?;
            let is_before = |ts: &str| parse_timestamp(ts).is_some_and(|ts| ts < time);
            Some(self.entries.iter().filter(|(message, _)| is_before(&message.ts)).count())
        };
        by_id.or_else(by_time).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<RoomMessage>> {
        self.entries.iter().map(|(message, _)| message)
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
