//! Search for calls and room messages: the index selects the blocks, and the records are matched
//! against the filter.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;

use serde_json::Value;
use serde_json::value::RawValue;
use toolpost::json::RawObject;

use super::call_view::{merge_records, record_view};
use super::chain::LINE_PREFIX_LEN;
use super::index::{Block, BlockMark, Index};
use super::layout::Chain;
use super::record::{RecordKind, StoredRecord};
use crate::glob::Glob;
use crate::kind_filter::KindFilter;

#[derive(Debug, Clone)]
pub(super) struct RecordFilter {
    /// Gateway whose journal is searched; `None` searches every journal in the folder.
    pub(super) gateway: Option<String>,
    /// Calls or failed calls; or messages, rejections or both.
    pub(super) marks: &'static [BlockMark],
    /// Only these operations or rooms.
    pub(super) name: Option<Glob>,
    pub(super) identity: Option<String>,
    /// Only messages, and rejections of messages, of these kinds.
    pub(super) kinds: Option<KindFilter>,
    /// Only records written at or after this time, in milliseconds since the Unix epoch.
    pub(super) since: i64,
    /// Only records written before this time.
    pub(super) until: i64,
    /// Only records before this sequence number.
    pub(super) before: u64,
    pub(super) limit: usize,
    /// Maximum total size of the messages after the first one.
    pub(super) max_bytes: usize,
}

impl Default for RecordFilter {
    fn default() -> Self {
        Self {
            gateway: None,
            marks: &[BlockMark::Call],
            name: None,
            identity: None,
            kinds: None,
            since: i64::MIN,
            until: i64::MAX,
            before: u64::MAX,
            limit: 50,
            max_bytes: usize::MAX,
        }
    }
}

impl RecordFilter {
    /// Whether a record has the requested operation or room, and identity.
    pub(super) fn matches_names(&self, stored: &StoredRecord<'_>) -> bool {
        self.identity.as_ref().is_none_or(|identity| *identity == stored.identity)
            && self.name.as_ref().is_none_or(|name| name.matches(&stored.name))
    }

    pub(super) fn only_failed(&self) -> bool {
        self.marks == [BlockMark::Failed]
    }

    fn matches(&self, stored: &StoredRecord<'_>) -> bool {
        let mark = match stored.kind {
            RecordKind::Enter if self.only_failed() => BlockMark::Failed,
            RecordKind::Enter => BlockMark::Call,
            RecordKind::Message => BlockMark::Message,
            RecordKind::Rejection => BlockMark::Rejection,
            _ => return false,
        };
        self.marks.contains(&mark)
            && stored.seq < self.before
            && (self.since..self.until).contains(&stored.time)
            && self.matches_names(stored)
    }

    fn matches_kind(&self, content: &[u8]) -> bool {
        let Some(kinds) = &self.kinds else { return true };
        message_kind(content).is_some_and(|kind| kinds.matches(&kind))
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum QueryError {
    #[error("cannot read the journal: {0}")]
    Io(#[from] io::Error),
    #[error("cannot read the journal index: {0}")]
    Index(#[from] rusqlite::Error),
}

#[derive(Debug)]
pub(super) struct FoundRecord {
    pub(super) time: i64,
    pub(super) seq: u64,
    pub(super) content: Vec<u8>,
    is_call: bool,
    /// The exit record of a call that has ended.
    exit: Option<Vec<u8>>,
}

impl FoundRecord {
    pub(super) fn view(&self, gateway_id: &str) -> Value {
        match self.is_call {
            true => merge_records(gateway_id, &self.content, self.exit.as_deref()),
            false => record_view(gateway_id, &self.content),
        }
    }
}

/// Returns the matching records of a chain, newest first. If the index is damaged, every record is
/// read.
pub(super) fn search(chain: &Chain, filter: &RecordFilter) -> Result<Vec<FoundRecord>, QueryError> {
    let with_index = |index| {
        let mut search = Search::new(chain, filter, index)?;
        search.scan_unindexed()?;
        search.scan_indexed()?;
        Ok(search.found)
    };
    let index = Index::open_read_only(&chain.index_file());
    match index.map_err(QueryError::from).and_then(with_index) {
        Err(QueryError::Index(error)) => {
            tracing::warn!(%error, "journal index is not readable; it is rebuilt at the next start");
            with_index(Index::empty()?)
        }
        result => result,
    }
}

/// Returns the call whose first record has this sequence number.
pub(super) fn find_call(chain: &Chain, seq: u64) -> Result<Option<Value>, QueryError> {
    // The newest call up to this record.
    let filter =
        RecordFilter { before: seq.saturating_add(1), limit: 1, ..RecordFilter::default() };
    let found = search(chain, &filter)?.pop().filter(|found| found.seq == seq);
    Ok(found.map(|found| found.view(&chain.gateway_id)))
}

/// Returns up to `max` calls with this request id, newest first.
pub(super) fn find_request(chain: &Chain, id: &str, max: usize) -> Result<Vec<Value>, QueryError> {
    let seqs = seqs_of_request(chain, id, max)?;
    let calls = seqs.into_iter().map(|seq| find_call(chain, seq));
    calls.filter_map(Result::transpose).collect()
}

pub(super) struct Search<'a> {
    chain: &'a Chain,
    filter: &'a RecordFilter,
    index: Index,
    /// Last block of the index when the search started, with id 0 if there is none. Records after
    /// it are read without the index; a block closed during the search would yield them twice.
    last: Block,
    pub(super) found: Vec<FoundRecord>,
    bytes: usize,
    is_done: bool,
    /// Last removed record. Segments up to it are due for removal and not verified.
    removed: u64,
    /// Exit records of calls that started before the blocks read so far, by the sequence number of
    /// the enter record, and whether the calls failed.
    exits: HashMap<u64, (Vec<u8>, bool)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        chain: &'a Chain,
        filter: &'a RecordFilter,
        index: Index,
    ) -> Result<Self, QueryError> {
        let (last, is_done) = (index.last()?.unwrap_or_default(), filter.limit == 0);
        let (found, exits, removed) = (Vec::new(), HashMap::new(), removed_through(chain));
        Ok(Self { chain, filter, index, last, found, bytes: 0, is_done, removed, exits })
    }

    pub(super) fn scan_unindexed(&mut self) -> Result<(), QueryError> {
        let mut segments = self.chain.segments.list()?;
        segments.retain(|&segment| segment >= self.last.segment);
        segments.into_iter().rev().try_for_each(|segment| {
            let offset = if segment == self.last.segment { self.last.end() } else { 0 };
            self.scan(segment, offset, u64::MAX)
        })
    }

    /// Scans the indexed blocks that may contain matches, newest first.
    pub(super) fn scan_indexed(&mut self) -> Result<(), QueryError> {
        let mut blocks = self.index.blocks(self.filter)?;
        // The index marks a failed call when the block with its exit record is closed.
        let failed = self.exits.iter().filter(|(_, (_, failed))| *failed);
        for (&enter, _) in failed.filter(|_| self.filter.only_failed()) {
            blocks.extend(self.index.block_containing(enter)?);
        }
        blocks.retain(|block| block.id <= self.last.id);
        blocks.sort_by_key(|block| Reverse(block.id));
        blocks.dedup_by_key(|block| block.id);
        blocks.iter().try_for_each(|block| self.scan(block.segment, block.offset, block.bytes))
    }

    fn scan(&mut self, segment: u64, offset: u64, bytes: u64) -> Result<(), QueryError> {
        if self.is_done || segment <= self.removed {
            return Ok(());
        }
        let text = self.chain.segments.read(segment, offset, bytes)?;
        let mut exits = HashMap::new();
        for content in record_contents(&text).rev() {
            let Some(stored) = StoredRecord::parse(content) else { continue };
            if let RecordKind::Exit { enter, failed } = stored.kind {
                exits.insert(enter, (content, failed));
                continue;
            }
            let exit = exits.remove(&stored.seq);
            if self.filter.matches(&stored) && self.filter.matches_kind(content) {
                let exit = match (stored.kind, exit) {
                    (RecordKind::Enter, None) => self.exit_in_other_block(stored.seq)?,
                    (_, exit) => exit.map(|(exit, failed)| (exit.to_vec(), failed)),
                };
                self.push(&stored, content, exit);
            }
            if self.is_done {
                return Ok(());
            }
        }
        let exits = exits.into_iter();
        self.exits.extend(exits.map(|(enter, (exit, failed))| (enter, (exit.to_vec(), failed))));
        Ok(())
    }

    fn push(&mut self, stored: &StoredRecord<'_>, content: &[u8], exit: Option<(Vec<u8>, bool)>) {
        let is_call = stored.kind == RecordKind::Enter;
        if is_call && self.filter.only_failed() && !exit.as_ref().is_some_and(|exit| exit.1) {
            return;
        }
        if !is_call {
            let length = message_json(content).map_or(content.len(), str::len);
            self.bytes = self.bytes.saturating_add(length);
            if self.bytes > self.filter.max_bytes && !self.found.is_empty() {
                self.is_done = true;
                return;
            }
        }
        let (time, seq, exit) = (stored.time, stored.seq, exit.map(|exit| exit.0));
        self.found.push(FoundRecord { time, seq, content: content.to_vec(), is_call, exit });
        self.is_done = self.found.len() >= self.filter.limit;
    }

    /// Returns the exit record of a call that ended in another block, and whether the call failed.
    fn exit_in_other_block(&mut self, enter: u64) -> Result<Option<(Vec<u8>, bool)>, QueryError> {
        if let Some(exit) = self.exits.remove(&enter) {
            return Ok(Some(exit));
        }
        let block = self.index.exit_block(enter)?.filter(|block| block.segment > self.removed);
        let Some(block) = block else { return Ok(None) };
        let text = self.chain.segments.read(block.segment, block.offset, block.bytes)?;
        for content in record_contents(&text) {
            let kind = StoredRecord::parse(content).map(|stored| stored.kind);
            if let Some(RecordKind::Exit { enter, failed }) = kind {
                self.exits.insert(enter, (content.to_vec(), failed));
            }
        }
        Ok(self.exits.remove(&enter))
    }
}

/// Returns the sequence numbers of the first records of calls with this request id, newest first.
fn seqs_of_request(chain: &Chain, id: &str, max: usize) -> Result<Vec<u64>, QueryError> {
    // The end of an id, which may be preceded by the identity that chose it.
    let needle = Value::from(id).to_string().split_off(1);
    let is_match = |stored: &str| {
        let before = stored.strip_suffix(id);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let finder = memchr::memmem::FinderRev::new(needle.as_bytes());
    let mut seqs = Vec::new();
    let removed = removed_through(chain);
    let segments = chain.segments.list()?.into_iter().rev();
    for segment in segments.take_while(|&segment| segment > removed) {
        let text = chain.segments.read(segment, 0, u64::MAX)?;
        let mut end = text.len();
        while let Some(at) = finder.rfind(&text[..end]) {
            // The id may also occur in a message, or several times in the body of another record.
            end = memchr::memrchr(b'\n', &text[..at]).map_or(0, |at| at + 1);
            let stored = record_contents(&text[end..]).next().and_then(StoredRecord::parse);
            let seq = match stored.filter(|stored| is_match(&stored.id)) {
                Some(StoredRecord { kind: RecordKind::Exit { enter, .. }, .. }) => enter,
                Some(StoredRecord { kind: RecordKind::Enter, seq, .. }) => seq,
                _ => continue,
            };
            if !seqs.contains(&seq) {
                seqs.push(seq);
            }
            if seqs.len() >= max {
                return Ok(seqs);
            }
        }
    }
    Ok(seqs)
}

/// Returns the last removed record. Verification reports an invalid checkpoint.
fn removed_through(chain: &Chain) -> u64 {
    chain.start().map_or(0, |(removed, _)| removed)
}

/// Returns the contents of the records in a file range. Incomplete lines are skipped.
fn record_contents(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter_map(|line| line.strip_suffix(b"\n")?.get(LINE_PREFIX_LEN..))
}

pub(super) fn message_json(content: &[u8]) -> Option<&str> {
    let members = RawObject::parse(std::str::from_utf8(content).ok()?).ok()?;
    members.get("message").map(RawValue::get)
}

/// Returns the full kind of a message, or of the rejected one.
fn message_kind(content: &[u8]) -> Option<String> {
    let members = RawObject::parse(std::str::from_utf8(content).ok()?).ok()?;
    let kind = match members.get("message") {
        Some(message) => RawObject::parse(message.get()).ok()?.take("kind"),
        None => members.get("attemptedKind"),
    };
    serde_json::from_str(kind?.get()).ok()
}
