//! Following the journal: calls as they end, read from the files behind the one who writes them.

use std::collections::HashMap;
use std::io;

use serde_json::Value;
use tokio::sync::watch;
use toolpost::HandlerError;

use super::archive::Chain;
use super::joined::joined;
use super::operations::{aside, unreadable};
use super::query;
use super::record::{Stored, What};
use super::segment::End;
use super::stretch::contents;
use super::{Committed, Journal};
use crate::config::Glob;

/// How much is read at once, unless a record is longer. Whoever follows slowly is behind in the files,
/// and holds no more than this.
const TURN: u64 = 1024 * 1024;
/// How many calls that have not ended are remembered, and how many bytes of them.
const MOST_OPEN: usize = 10_000;
const MOST_OPEN_BYTES: usize = 16 * 1024 * 1024;

/// Which calls somebody wants to see.
pub(super) struct Wanted {
    pub(super) operation: Option<Glob>,
    pub(super) who: Option<String>,
    pub(super) errors: bool,
}

/// Somebody who reads what is written behind the one who writes it.
pub(super) struct Following {
    chain: Chain,
    committed: watch::Receiver<Committed>,
    /// The first record of the file that he reads, and up to where he has.
    segment: u64,
    bytes: u64,
    wanted: Wanted,
    /// Calls that have begun; those that are forgotten are looked up when they end.
    open: HashMap<u64, Vec<u8>>,
    open_bytes: usize,
}

pub(super) type Calls = Vec<Result<Value, HandlerError>>;

impl Following {
    pub(super) fn new(journal: &Journal, chain: Chain, wanted: Wanted) -> Self {
        let committed = journal.committed();
        let End { segment, bytes, .. } = committed.borrow().end;
        let open = HashMap::new();
        Self { chain, committed, segment, bytes, wanted, open, open_bytes: 0 }
    }

    /// The next calls that ended; `None` when the journal is closed.
    pub(super) async fn next(mut self) -> Option<(Calls, Self)> {
        loop {
            let end = self.committed.borrow_and_update().end;
            if (self.segment, self.bytes) == (end.segment, end.bytes) {
                self.committed.changed().await.ok()?;
                continue;
            }
            let found;
            (found, self) = aside(move || (self.turn(end), self)).await.ok()?;
            if !found.is_empty() {
                return Some((found, self));
            }
        }
    }

    /// Reads on, but not all at once.
    fn turn(&mut self, end: End) -> Calls {
        self.read_on(end).unwrap_or_else(|error| {
            // What cannot be read is not tried for ever.
            (self.segment, self.bytes) = (end.segment, end.bytes);
            vec![Err(unreadable(error.into()))]
        })
    }

    fn read_on(&mut self, end: End) -> io::Result<Calls> {
        let mut found = Vec::new();
        let text = self.whole_records(end)?;
        if text.is_empty() {
            self.next_file(end)?;
        }
        for content in contents(&text) {
            self.read_one(content, &mut found);
        }
        self.bytes += text.len() as u64;
        Ok(found)
    }

    /// What comes next in this file. Nothing is its end, or that it was removed.
    fn whole_records(&self, end: End) -> io::Result<Vec<u8>> {
        let is_last = self.segment == end.segment;
        let left = if is_last { end.bytes.saturating_sub(self.bytes) } else { u64::MAX };
        let mut most = TURN;
        loop {
            let read = self.chain.segments.read(self.segment, self.bytes, most.min(left));
            let mut text = match read {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                read => read?,
            };
            let whole = memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1);
            if whole > 0 || (text.len() as u64) < most {
                text.truncate(whole);
                return Ok(text);
            }
            most *= 2;
        }
    }

    fn next_file(&mut self, end: End) -> io::Result<()> {
        let list = self.chain.segments.list()?;
        let next = list.into_iter().find(|&first| first > self.segment && first <= end.segment);
        (self.segment, self.bytes) = match next {
            Some(next) => (next, 0),
            None => (end.segment, end.bytes),
        };
        Ok(())
    }

    fn read_one(&mut self, content: &[u8], found: &mut Calls) {
        let Some(stored) = Stored::parse(content) else { return };
        match stored.facts().what {
            What::Enter => self.remember(stored.seq, content),
            What::Exit { enter, failed } => {
                let begun = self.open.remove(&enter);
                self.open_bytes -= begun.as_ref().map_or(0, Vec::len);
                if !self.wanted.fits(&stored, failed) {
                    return;
                }
                let call = match begun {
                    Some(begun) => Some(joined(&self.chain.gateway_id, &begun, Some(content))),
                    None => query::call(&self.chain, &enter.to_string()).ok().flatten(),
                };
                found.extend(call.map(Ok));
            }
            What::Message | What::Refusal | What::Checkpoint => {}
        }
    }

    /// Who follows for ever does not remember for ever.
    fn remember(&mut self, seq: u64, content: &[u8]) {
        if self.open.len() >= MOST_OPEN || self.open_bytes >= MOST_OPEN_BYTES {
            self.open.clear();
            self.open_bytes = 0;
        }
        self.open_bytes += content.len();
        self.open.insert(seq, content.to_vec());
    }
}

impl Wanted {
    fn fits(&self, stored: &Stored<'_>, failed: bool) -> bool {
        (failed || !self.errors)
            && self.who.as_ref().is_none_or(|who| *who == stored.who)
            && self.operation.as_ref().is_none_or(|glob| glob.matches(&stored.operation))
    }
}
