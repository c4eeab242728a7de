//! Room messages: recorded before delivery, and read back by the room.

use std::io;

use toolpost::epoch_ms;

use super::index::BlockMark;
use super::queue::{Durability, WriteReceipt};
use super::record::{RecordKind, RecordSummary};
use super::search::{FoundRecord, RecordFilter, message_json, search};
use super::{Journal, JournalMode};
use crate::glob::Glob;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomMessageRecord<'a> {
    pub(crate) room: &'a str,
    pub(crate) identity: &'a str,
    pub(crate) id: &'a str,
    /// The complete message as JSON. The journal sets no limit; the room has its own.
    pub(crate) message: &'a str,
    /// Capability that allowed the message, as JSON.
    pub(crate) allowed_by: Option<&'a str>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomRejectionRecord<'a> {
    pub(crate) room: &'a str,
    pub(crate) identity: &'a str,
    pub(crate) attempted_kind: &'a str,
    pub(crate) error: &'a str,
    pub(crate) reason: &'a str,
    /// Id of the message, if it had one.
    pub(crate) id: Option<&'a str>,
}

/// A message read back from the journal by a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) seq: u64,
    /// Time of the record, in milliseconds since the Unix epoch.
    pub(crate) time: i64,
    /// The message as JSON, with gateway tokens masked.
    pub(crate) message: String,
}

impl Journal {
    /// Records a room message. Returns a receipt to be awaited before the message is delivered: the
    /// message then survives a process crash and, in `sync` mode, a machine crash. Returns `None` if
    /// the queue is full or writes are failing; the message must then not be delivered.
    pub(crate) fn record_message(&self, entry: &RoomMessageRecord<'_>) -> Option<WriteReceipt> {
        // Not queued while writes fail, so that a rejected message is not written later.
        if self.is_failing() {
            return None;
        }
        let (time, kind) = (epoch_ms(), RecordKind::Message);
        let summary = RecordSummary { time, kind, name: entry.room, identity: entry.identity };
        let durability = match self.0.settings.mode {
            JournalMode::Sync => Durability::Synced,
            _ => Durability::Written,
        };
        let queued = self.0.shared.record(&summary, durability, |members| {
            members.add("id", entry.id);
            members.add("room", entry.room);
            members.add("identity", entry.identity);
            if let Some(allowed_by) = entry.allowed_by {
                members.add_json("allowedBy", allowed_by);
            }
            members.add_json("message", entry.message);
        });
        queued.map(|queued| queued.receipt)
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.0.shared.queue.write_error().is_some()
    }

    /// Records the rejection of a message without waiting for the write. A record that cannot be
    /// queued is lost and counted.
    pub(crate) fn record_rejection(&self, entry: &RoomRejectionRecord<'_>) {
        let (time, kind) = (epoch_ms(), RecordKind::Rejection);
        let summary = RecordSummary { time, kind, name: entry.room, identity: entry.identity };
        let queued = self.0.shared.record(&summary, Durability::Async, |members| {
            members.add_some("id", entry.id);
            members.add("room", entry.room);
            members.add("identity", entry.identity);
            members.add("attemptedKind", entry.attempted_kind);
            members.add("error", entry.error);
            members.add("reason", entry.reason);
        });
        if queued.is_none() {
            self.0.shared.count_lost_record();
        }
    }

    /// Returns the newest messages of a room, oldest first, limited by count and total bytes.
    /// Blocks on file access.
    ///
    /// The messages are those of this chain and, from the other chains in the folder, those
    /// recorded before this one was opened: a process that cannot continue the chain of a room
    /// creates a new one.
    ///
    /// # Errors
    ///
    /// The files of this chain cannot be read. Other chains that cannot be read are skipped with a
    /// warning in the log.
    pub(crate) fn recent_messages(
        &self,
        room: &str,
        max: usize,
        max_bytes: usize,
    ) -> io::Result<Vec<StoredMessage>> {
        let mut all = Vec::new();
        for chain in self.0.layout.chains()? {
            let is_own = chain.gateway_id == self.gateway_id();
            let filter = RecordFilter {
                marks: &[BlockMark::Message],
                // A room name has no `*`, so it matches only itself.
                name: Some(Glob::new(room)),
                until: if is_own { i64::MAX } else { self.0.opened_at },
                limit: max,
                max_bytes,
                ..RecordFilter::default()
            };
            match search(&chain, &filter) {
                Ok(records) => all.extend(in_order(is_own, records)),
                Err(error) if is_own => return Err(io::Error::other(error)),
                Err(error) => {
                    let gateway_id = chain.gateway_id;
                    tracing::warn!(gateway_id, %error, "journal chain is not readable; its messages are skipped");
                }
            }
        }
        all.sort_by_key(|(key, _)| *key);
        Ok(take_newest(all.into_iter().map(|(_, message)| message).collect(), max, max_bytes))
    }
}

/// Returns the messages of a chain, oldest first, with keys to merge them with those of other
/// chains. The order within a chain is kept, even if the clock was set back.
fn in_order(
    is_own: bool,
    records: Vec<FoundRecord>,
) -> impl Iterator<Item = ((i64, bool), StoredMessage)> {
    let mut latest = i64::MIN;
    records.into_iter().rev().filter_map(move |FoundRecord { seq, time, content, .. }| {
        latest = latest.max(time);
        let message = message_json(&content)?.to_owned();
        Some(((latest, is_own), StoredMessage { seq, time, message }))
    })
}

fn take_newest(
    mut entries: Vec<StoredMessage>,
    max: usize,
    max_bytes: usize,
) -> Vec<StoredMessage> {
    let mut bytes = 0_usize;
    let fits = |entry: &&StoredMessage| {
        bytes = bytes.saturating_add(entry.message.len());
        bytes <= max_bytes
    };
    let retained = entries.iter().rev().take(max).take_while(fits).count();
    entries.split_off(entries.len() - retained)
}
