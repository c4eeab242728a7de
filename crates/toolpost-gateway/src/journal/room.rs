//! Messages of rooms, written down before anybody is shown them, and read again by the room.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use toolpost::epoch_ms;

use super::index::Mark;
use super::messages::{self, Noted, Sought};
use super::queue::{self, Wait};
use super::record::{Facts, Members, What};
use super::{Journal, Mode};

/// A message that a room is about to hand on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomEntry<'a> {
    pub(crate) room: &'a str,
    pub(crate) who: &'a str,
    /// The id of the message.
    pub(crate) id: &'a str,
    /// The message whole, as JSON. It has no limit here: a room has its own.
    pub(crate) message: &'a str,
    /// What let it pass, as JSON.
    pub(crate) allowed_by: Option<&'a str>,
}

/// A message that a room does not hand on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoomRefusal<'a> {
    pub(crate) room: &'a str,
    pub(crate) who: &'a str,
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
pub(crate) struct Written(queue::Written);

impl Future for Written {
    type Output = Result<(), Arc<str>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let told = Pin::new(&mut self.0).poll(context);
        told.map(|told| told.unwrap_or_else(|_| Err("the journal was closed".into())))
    }
}

/// A message as a room reads it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredEntry {
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
    pub(crate) fn message(&self, entry: &RoomEntry<'_>) -> Option<Written> {
        let shared = &self.0.shared;
        // What is known not to work is not tried, so that what was refused does not turn up later.
        if shared.queue.trouble().is_some() {
            return None;
        }
        let time = epoch_ms();
        let facts = Facts { time, what: What::Message, operation: entry.room, who: entry.who };
        let taken = shared.queue.add(&facts, &entry.content(time), self.wait_for_message())?;
        taken.written.map(Written)
    }

    /// Whether nothing can be written at the moment.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.0.shared.queue.trouble().is_some()
    }

    /// Writes down that a message was refused. Nobody waits for it; one that cannot be taken is lost, and
    /// counted.
    pub(crate) fn refusal(&self, refusal: &RoomRefusal<'_>) {
        let shared = &self.0.shared;
        let time = epoch_ms();
        let facts = Facts { time, what: What::Refusal, operation: refusal.room, who: refusal.who };
        if shared.queue.add(&facts, &refusal.content(time), Wait::Never).is_none() {
            shared.lose();
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
    pub(crate) fn messages(
        &self,
        room: &str,
        most: usize,
        most_bytes: usize,
    ) -> io::Result<Vec<StoredEntry>> {
        let mut chains = Vec::new();
        let is_room = |name: &str| name == room;
        for chain in self.archive().chains()? {
            let is_own = chain.gateway_id == self.gateway_id();
            let sought = Sought {
                until: if is_own { i64::MAX } else { self.0.opened },
                marks: &[Mark::Message],
                most,
                most_bytes,
                ..Sought::of(&is_room)
            };
            match messages::look(&chain, &sought) {
                Ok(noted) => chains.push((is_own, noted)),
                Err(error) if is_own => return Err(io::Error::other(error)),
                Err(error) => {
                    let gateway_id = chain.gateway_id;
                    tracing::warn!(gateway_id, %error, "messages of another journal are left out");
                }
            }
        }
        Ok(newest(in_order(chains), most, most_bytes))
    }

    fn wait_for_message(&self) -> Wait {
        match self.0.settings.mode {
            Mode::Sync => Wait::ForDisk,
            _ => Wait::ForFile,
        }
    }
}

impl RoomEntry<'_> {
    fn content(&self, time: i64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.message.len() + 512);
        let mut members = Members::begin(&mut out, "message", time);
        members.add("id", self.id);
        members.add("room", self.room);
        members.add("who", self.who);
        if let Some(allowed_by) = self.allowed_by {
            members.add_json("allowedBy", allowed_by);
        }
        members.add_json("message", self.message);
        members.end();
        out
    }
}

impl RoomRefusal<'_> {
    fn content(&self, time: i64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut members = Members::begin(&mut out, "refusal", time);
        if let Some(id) = self.id {
            members.add("id", id);
        }
        members.add("room", self.room);
        members.add("who", self.who);
        members.add("attemptedKind", self.attempted_kind);
        members.add("error", self.error);
        members.add("reason", self.reason);
        members.end();
        out
    }
}

/// The messages of several chains, oldest first. In one chain they stay as they are, also where a clock
/// was set back.
fn in_order(chains: Vec<(bool, Vec<Noted>)>) -> Vec<StoredEntry> {
    let mut all = Vec::new();
    for (is_own, noted) in chains {
        let mut latest = i64::MIN;
        for noted in noted.into_iter().rev() {
            latest = latest.max(noted.time);
            all.extend(stored(&noted).map(|entry| ((latest, is_own), entry)));
        }
    }
    all.sort_by_key(|(key, _)| *key);
    all.into_iter().map(|(_, entry)| entry).collect()
}

fn stored(noted: &Noted) -> Option<StoredEntry> {
    let message = messages::message_of(&noted.content)?.to_owned();
    Some(StoredEntry { seq: noted.seq, time: noted.time, message })
}

fn newest(mut entries: Vec<StoredEntry>, most: usize, most_bytes: usize) -> Vec<StoredEntry> {
    let mut bytes = 0_usize;
    let fits = |entry: &&StoredEntry| {
        bytes = bytes.saturating_add(entry.message.len());
        bytes <= most_bytes
    };
    let kept = entries.iter().rev().take(most).take_while(fits).count();
    entries.split_off(entries.len() - kept)
}
