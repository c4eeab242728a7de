//! Finding messages of rooms, and what rooms refused.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::archive::Chain;
use super::index::{Index, Mark, Wanted};
use super::query::QueryError;
use super::record::{Facts, Stored, What, quick_facts};
use super::stretch::{Stretches, contents, with_index};
use crate::config::Glob;

/// Which messages somebody wants to see.
#[derive(Debug, Clone)]
pub(super) struct MessageFilter {
    /// Of this gateway; else of every one that writes into the folder.
    pub(super) gateway: Option<String>,
    /// Of rooms that fit; `*` stands for anything.
    pub(super) room: Glob,
    pub(super) who: Option<String>,
    /// Written down at this time or later, in milliseconds since 1970.
    pub(super) since: i64,
    /// With a number before this one.
    pub(super) before: u64,
    /// Only what was refused.
    pub(super) errors: bool,
    pub(super) limit: usize,
}

/// What is looked for in one chain.
pub(super) struct Sought<'a> {
    /// Which rooms.
    pub(super) room: &'a dyn Fn(&str) -> bool,
    pub(super) who: Option<&'a str>,
    pub(super) since: i64,
    /// Written down before this time.
    pub(super) until: i64,
    pub(super) before: u64,
    /// Messages, refusals or both.
    pub(super) marks: &'a [Mark],
    pub(super) most: usize,
    /// How many bytes the messages may have together.
    pub(super) most_bytes: usize,
    /// So many are found however long they are.
    pub(super) least: usize,
}

/// A record of a room that was found.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) time: i64,
    pub(super) seq: u64,
    pub(super) content: Vec<u8>,
}

/// The records of a chain that fit, newest first.
pub(super) fn look(chain: &Chain, sought: &Sought<'_>) -> Result<Vec<Noted>, QueryError> {
    with_index(chain, |index| look_by(chain, sought, index))
}

fn look_by(chain: &Chain, sought: &Sought<'_>, index: Index) -> Result<Vec<Noted>, QueryError> {
    let stretches = Stretches::new(chain, index)?;
    let mut search = Search { sought, found: Vec::new(), bytes: 0, is_done: sought.most == 0 };
    for stretch in stretches.behind_index()? {
        if !search.is_done {
            search.look_through(&stretches.read(&stretch)?);
        }
    }
    let rooms = stretches.names(sought.room)?;
    for stretch in stretches.by_index(&sought.wanted(&rooms), [])? {
        if search.is_done {
            break;
        }
        search.look_through(&stretches.read(&stretch)?);
    }
    Ok(search.found)
}

impl<'a> Sought<'a> {
    /// Everything of these rooms.
    pub(super) fn of(room: &'a dyn Fn(&str) -> bool) -> Self {
        Self {
            room,
            who: None,
            since: i64::MIN,
            until: i64::MAX,
            before: u64::MAX,
            marks: &[Mark::Message, Mark::Refusal],
            most: usize::MAX,
            most_bytes: usize::MAX,
            least: 0,
        }
    }

    fn wanted(&self, rooms: &'a [i64]) -> Wanted<'a> {
        Wanted {
            marks: self.marks,
            operations: Some(rooms),
            who: self.who,
            since: self.since,
            before: self.before,
        }
    }

    fn fits(&self, facts: &Facts<'_>) -> bool {
        let mark = match facts.what {
            What::Message => Mark::Message,
            What::Refusal => Mark::Refusal,
            _ => return false,
        };
        self.marks.contains(&mark)
            && (self.since..self.until).contains(&facts.time)
            && self.who.is_none_or(|who| who == facts.who)
            && (self.room)(facts.operation)
    }
}

struct Search<'a> {
    sought: &'a Sought<'a>,
    found: Vec<Noted>,
    /// How many bytes the messages have that were found.
    bytes: usize,
    is_done: bool,
}

impl Search<'_> {
    fn look_through(&mut self, text: &[u8]) {
        for content in contents(text).rev() {
            if self.is_done {
                return;
            }
            // Most of what does not fit needs no reader of JSON.
            if quick_facts(content).is_none_or(|facts| self.sought.fits(&facts)) {
                self.look_at(content);
            }
        }
    }

    fn look_at(&mut self, content: &[u8]) {
        let Some(stored) = Stored::parse(content) else { return };
        if stored.seq >= self.sought.before || !self.sought.fits(&stored.facts()) {
            return;
        }
        let length = message_of(content).map_or(content.len(), str::len);
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes > self.sought.most_bytes && self.found.len() >= self.sought.least {
            self.is_done = true;
            return;
        }
        self.found.push(Noted { time: stored.time, seq: stored.seq, content: content.to_vec() });
        self.is_done = self.found.len() >= self.sought.most;
    }
}

/// The message in a record, as it stands there.
pub(super) fn message_of(content: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Holder<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let holder: Holder<'_> = serde_json::from_slice(content).ok()?;
    Some(holder.message.get())
}
