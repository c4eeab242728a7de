//! Follows the journal: reads ended calls from the files after they are written.

use std::collections::HashMap;
use std::io;

use serde_json::Value;
use tokio::sync::watch;
use toolpost::HandlerError;

use super::Journal;
use super::call_view::merge_records;
use super::chain::LINE_PREFIX_LEN;
use super::layout::Chain;
use super::operations::{read_error, run_blocking};
use super::record::{RecordKind, StoredRecord};
use super::search::{RecordFilter, find_call};
use super::segment::ChainEnd;
use crate::data::if_exists;

/// Maximum number of bytes read at once, unless a record is longer. A slow follower lags behind in
/// the files and buffers no more than this.
const READ_CHUNK_BYTES: u64 = 1024 * 1024;
/// Maximum number of running calls that are remembered; [`MAX_OPEN_BYTES`] limits their size.
const MAX_OPEN_CALLS: usize = 10_000;
const MAX_OPEN_BYTES: usize = 16 * 1024 * 1024;

/// A follower of a chain, which reads records after they are committed.
pub(super) struct Tail {
    chain: Chain,
    committed: watch::Receiver<ChainEnd>,
    /// Segment being read, by its first record, and the read position in it.
    segment: u64,
    bytes: u64,
    filter: RecordFilter,
    /// Enter records of running calls. Evicted ones are looked up when the call ends.
    open_calls: HashMap<u64, Vec<u8>>,
    open_bytes: usize,
}

pub(super) type EndedCalls = Vec<Result<Value, HandlerError>>;

impl Tail {
    pub(super) fn new(journal: &Journal, chain: Chain, filter: RecordFilter) -> Self {
        let committed = journal.0.shared.committed.subscribe();
        let ChainEnd { segment, bytes, .. } = *committed.borrow();
        let open_calls = HashMap::new();
        Self { chain, committed, segment, bytes, filter, open_calls, open_bytes: 0 }
    }

    /// Returns the next ended calls, or `None` when the journal is closed.
    pub(super) async fn next(mut self) -> Option<(EndedCalls, Self)> {
        loop {
            let end = *self.committed.borrow_and_update();
            if (self.segment, self.bytes) == (end.segment, end.bytes) {
                self.committed.changed().await.ok()?;
                continue;
            }
            let read;
            (read, self) = run_blocking(move || (self.read_chunk(end), self)).await.ok()?;
            let found = read.unwrap_or_else(|error| {
                // Skip to the end instead of retrying indefinitely.
                (self.segment, self.bytes) = (end.segment, end.bytes);
                vec![Err(read_error(error.into()))]
            });
            if !found.is_empty() {
                return Some((found, self));
            }
        }
    }

    fn read_chunk(&mut self, end: ChainEnd) -> io::Result<EndedCalls> {
        let mut found = Vec::new();
        let is_last = self.segment == end.segment;
        let limit = if is_last { end.bytes } else { u64::MAX };
        let until = limit.min(self.bytes + READ_CHUNK_BYTES);
        let start = self.bytes;
        // The segment may have been removed.
        let mut lines = if_exists(self.chain.segments.lines(self.segment, start))?;
        while self.bytes < until
            && let Some(lines) = &mut lines
            && let Some(line) = lines.next()?
        {
            self.bytes += line.len() as u64 + 1;
            self.handle_record(line.get(LINE_PREFIX_LEN..).unwrap_or_default(), &mut found);
        }
        if self.bytes == start {
            self.advance_segment(end)?;
        }
        Ok(found)
    }

    fn advance_segment(&mut self, end: ChainEnd) -> io::Result<()> {
        let list = self.chain.segments.list()?;
        let next = list.into_iter().find(|&first| first > self.segment && first <= end.segment);
        (self.segment, self.bytes) = match next {
            Some(next) => (next, 0),
            None => (end.segment, end.bytes),
        };
        Ok(())
    }

    fn handle_record(&mut self, content: &[u8], found: &mut EndedCalls) {
        let Some(stored) = StoredRecord::parse(content) else { return };
        match stored.kind {
            RecordKind::Enter => self.track_open_call(stored.seq, content),
            RecordKind::Exit { enter, failed } => {
                let begun = self.open_calls.remove(&enter);
                self.open_bytes -= begun.as_ref().map_or(0, Vec::len);
                if !failed && self.filter.only_failed() || !self.filter.matches_names(&stored) {
                    return;
                }
                let call = match begun {
                    Some(begun) => {
                        Some(merge_records(&self.chain.gateway_id, &begun, Some(content)))
                    }
                    None => find_call(&self.chain, enter).ok().flatten(),
                };
                found.extend(call.map(Ok));
            }
            RecordKind::Message
            | RecordKind::Rejection
            | RecordKind::Checkpoint
            | RecordKind::Signature
            | RecordKind::Close => {}
        }
    }

    /// Stores the enter record of a running call. Clears all of them when the limit is reached.
    fn track_open_call(&mut self, seq: u64, content: &[u8]) {
        if self.open_calls.len() >= MAX_OPEN_CALLS || self.open_bytes >= MAX_OPEN_BYTES {
            self.open_calls.clear();
            self.open_bytes = 0;
        }
        self.open_bytes += content.len();
        self.open_calls.insert(seq, content.to_vec());
    }
}
