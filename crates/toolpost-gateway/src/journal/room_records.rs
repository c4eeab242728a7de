//! Room messages: recorded before delivery, and read back by the room.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use toolpost::epoch_ms;

use super::index::BlockMark;
use super::messages::{self, MessageQuery, MessageRecord};
use super::queue::{self, Durability};
use super::record::{RecordKind, RecordSummary, RecordWriter};
use super::{Journal, JournalMode};

/// A message that a room is about to deliver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomMessageRecord<'a> {
    pub(crate) room: &'a str,
    pub(crate) identity: &'a str,
    /// Id of the message.
    pub(crate) id: &'a str,
    /// The complete message as JSON. The journal sets no limit; the room has its own.
    pub(crate) message: &'a str,
    /// Capability that allowed the message, as JSON.
    pub(crate) allowed_by: Option<&'a str>,
}

/// A message that a room rejected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomRejectionRecord<'a> {
    pub(crate) room: &'a str,
    pub(crate) identity: &'a str,
    /// Kind of the message.
    pub(crate) attempted_kind: &'a str,
    /// Error code.
    pub(crate) error: &'a str,
    pub(crate) reason: &'a str,
    /// Id of the message, if it had one.
    pub(crate) id: Option<&'a str>,
}

/// Receipt of a recorded message, to be awaited before the message is delivered. Resolves when the
/// message survives a process crash and, in `sync` mode, a machine crash; or to the reason why it
/// does not. A message that could not be written may still be written later, so a rejected message
/// can appear in the journal.
///
/// # Cancellation
///
/// Dropping the receipt does not affect what is written.
#[derive(Debug)]
pub(crate) struct MessageReceipt(queue::WriteReceipt);

impl Future for MessageReceipt {
    type Output = Result<(), Arc<str>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let write_result = Pin::new(&mut self.0).poll(context);
        write_result.map(|write_result| {
            write_result.unwrap_or_else(|_| Err("the journal was closed".into()))
        })
    }
}

/// A message read back from the journal by a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    /// Sequence number in its chain.
    pub(crate) seq: u64,
    /// Time of the record, in milliseconds since the Unix epoch.
    pub(crate) time: i64,
    /// The message as JSON, with gateway tokens masked.
    pub(crate) message: String,
}

impl Journal {
    /// Records a room message. Returns `None` if the queue is full or writes are failing; the
    /// message must then not be delivered.
    pub(crate) fn record_message(&self, entry: &RoomMessageRecord<'_>) -> Option<MessageReceipt> {
        let shared = &self.0.shared;
        // Not queued while writes fail, so that a rejected message is not written later.
        if shared.queue.write_error().is_some() {
            return None;
        }
        let time = epoch_ms();
        let summary = RecordSummary {
            time,
            kind: RecordKind::Message,
            operation: entry.room,
            identity: entry.identity,
        };
        let taken = shared.queue.push(&summary, &entry.encode(time), self.message_durability())?;
        taken.receipt.map(MessageReceipt)
    }

    /// Whether writes to the journal currently fail.
    pub(crate) fn is_failing(&self) -> bool {
        self.0.shared.queue.write_error().is_some()
    }

    /// Records the rejection of a message without waiting for the write. A record that cannot be
    /// queued is lost and counted.
    pub(crate) fn record_rejection(&self, rejection: &RoomRejectionRecord<'_>) {
        let shared = &self.0.shared;
        let time = epoch_ms();
        let summary = RecordSummary {
            time,
            kind: RecordKind::Rejection,
            operation: rejection.room,
            identity: rejection.identity,
        };
        if shared.queue.push(&summary, &rejection.encode(time), Durability::Async).is_none() {
            shared.count_lost_record();
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
        let mut chains = Vec::new();
        let is_room = |name: &str| name == room;
        for chain in self.reader().chains()? {
            let is_own = chain.gateway_id == self.gateway_id();
            let query = MessageQuery {
                until: if is_own { i64::MAX } else { self.0.opened_at },
                marks: &[BlockMark::Message],
                max_count: max,
                max_bytes,
                ..MessageQuery::all_in(&is_room)
            };
            match messages::search(&chain, &query) {
                Ok(records) => chains.push((is_own, records)),
                Err(error) if is_own => return Err(io::Error::other(error)),
                Err(error) => {
                    let gateway_id = chain.gateway_id;
                    tracing::warn!(gateway_id, %error, "skipping messages of an unreadable chain");
                }
            }
        }
        Ok(take_newest(merge_chains(chains), max, max_bytes))
    }

    fn message_durability(&self) -> Durability {
        match self.0.settings.mode {
            JournalMode::Sync => Durability::Synced,
            _ => Durability::Written,
        }
    }
}

impl RoomMessageRecord<'_> {
    fn encode(&self, time: i64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.message.len() + 512);
        let mut members = RecordWriter::start(&mut out, "message", time);
        members.add("id", self.id);
        members.add("room", self.room);
        members.add("identity", self.identity);
        if let Some(allowed_by) = self.allowed_by {
            members.add_json("allowedBy", allowed_by);
        }
        members.add_json("message", self.message);
        members.finish();
        out
    }
}

impl RoomRejectionRecord<'_> {
    fn encode(&self, time: i64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut members = RecordWriter::start(&mut out, "rejection", time);
        if let Some(id) = self.id {
            members.add("id", id);
        }
        members.add("room", self.room);
        members.add("identity", self.identity);
        members.add("attemptedKind", self.attempted_kind);
        members.add("error", self.error);
        members.add("reason", self.reason);
        members.finish();
        out
    }
}

/// Merges the messages of several chains, oldest first. The order within a chain is kept, even if
/// the clock was set back.
fn merge_chains(chains: Vec<(bool, Vec<MessageRecord>)>) -> Vec<StoredMessage> {
    let mut all = Vec::new();
    for (is_own, records) in chains {
        let mut latest = i64::MIN;
        for records in records.into_iter().rev() {
            latest = latest.max(records.time);
            all.extend(to_stored_message(&records).map(|entry| ((latest, is_own), entry)));
        }
    }
    all.sort_by_key(|(key, _)| *key);
    all.into_iter().map(|(_, entry)| entry).collect()
}

fn to_stored_message(record: &MessageRecord) -> Option<StoredMessage> {
    let message = messages::message_json(&record.content)?.to_owned();
    Some(StoredMessage { seq: record.seq, time: record.time, message })
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
