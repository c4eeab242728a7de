//! Messages of rooms, written down before anybody is shown them, and read again by the room.

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

/// A message that a room is about to hand on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomMessageRecord<'a> {
    pub(crate) room: &'a str,
    pub(crate) identity: &'a str,
    /// The id of the message.
    pub(crate) id: &'a str,
    /// The message whole, as JSON. It has no limit here: a room has its own.
    pub(crate) message: &'a str,
    /// What let it pass, as JSON.
    pub(crate) allowed_by: Option<&'a str>,
}

/// A message that a room does not hand on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomRejectionRecord<'a> {
    pub(crate) room: &'a str,
    pub(crate) identity: &'a str,
    /// Of what kind the message was.
    pub(crate) attempted_kind: &'a str,
    /// The code of the error.
    pub(crate) error: &'a str,
    pub(crate) reason: &'a str,
    /// The id of the message, if it had one.
    pub(crate) id: Option<&'a str>,
}

/// To be waited for before anybody is shown a message. Resolves when the message outlives this process, in `sync` also the machine's running; or to why it
/// does not. One that could not be written may still be when there is room again, so whoever was refused
/// may find it in the journal later.
///
/// # Cancellation
///
/// Whoever does not wait any more changes nothing about what is written.
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

/// A message as a room reads it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    /// Its number in its chain.
    pub(crate) seq: u64,
    /// When it was written down, in milliseconds since 1970.
    pub(crate) time: i64,
    /// As JSON; tokens of gateways are hidden.
    pub(crate) message: String,
}

impl Journal {
    /// Writes down a message of a room. `None` is one that cannot be taken, because too much is waiting
    /// or nothing can be written at the moment: then nobody may be shown it.
    pub(crate) fn record_message(&self, entry: &RoomMessageRecord<'_>) -> Option<MessageReceipt> {
        let shared = &self.0.shared;
        // What is known not to work is not tried, so that what was refused does not turn up later.
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

    /// Whether nothing can be written at the moment.
    pub(crate) fn is_failing(&self) -> bool {
        self.0.shared.queue.write_error().is_some()
    }

    /// Writes down that a message was refused. Nobody waits for it; one that cannot be taken is lost, and
    /// counted.
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

    /// The newest messages of a room, oldest first, at most so many and with so many bytes together. It
    /// reads files, so it blocks.
    ///
    /// They are those of this chain, and of the other chains of the folder what was there when this one
    /// was opened: whoever could not go on with the chain of a room has begun another.
    ///
    /// # Errors
    ///
    /// The files of this chain cannot be read. Others that cannot be read are left out, which is told in
    /// the log.
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

/// The messages of several chains, oldest first. In one chain they stay as they are, also where a clock
/// was set back.
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
