//! Search for calls: the index selects the blocks, and the records are matched against the filter.

use std::collections::{BTreeSet, HashMap};
use std::io;

use serde_json::Value;

use super::block_reader::{BlockRange, BlockReader, record_contents, with_index_fallback};
use super::call_view::merge_records;
use super::index::{BlockMark, BlockQuery, Index};
use super::reader::Chain;
use super::record::{RecordKind, StoredRecord};
use crate::glob::Glob;

/// Filter for calls.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallFilter {
    /// Gateway whose journal is searched; `None` searches every journal in the folder.
    pub gateway: Option<String>,
    /// Only operations that match; `*` matches anything.
    pub operation: Option<Glob>,
    /// Only calls by this identity.
    pub identity: Option<String>,
    /// Only calls that started at or after this time, in milliseconds since the Unix epoch.
    pub since: i64,
    /// Only calls whose first record is before this sequence number.
    pub before: u64,
    /// Only failed calls.
    pub errors: bool,
    /// Maximum number of calls.
    pub limit: usize,
}

impl Default for CallFilter {
    fn default() -> Self {
        let (since, before, limit) = (i64::MIN, u64::MAX, 50);
        Self { gateway: None, operation: None, identity: None, since, before, errors: false, limit }
    }
}

/// Why a search of the journal failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The records cannot be read.
    #[error("the journal cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The index cannot be read.
    #[error("the index of the journal cannot be read: {0}")]
    Index(#[from] rusqlite::Error),
}

/// A call found by a search.
#[derive(Debug)]
pub(super) struct CallRecord {
    pub(super) time: i64,
    pub(super) seq: u64,
    pub(super) value: Value,
}

/// Returns the matching calls of a chain, newest first.
pub(super) fn calls(chain: &Chain, filter: &CallFilter) -> Result<Vec<CallRecord>, QueryError> {
    with_index_fallback(chain, |index| calls_with_index(chain, filter, index))
}

/// Like [`calls`], but runs `hook` between the unindexed and the indexed records.
#[cfg(test)]
pub(super) fn calls_with_hook(
    chain: &Chain,
    filter: &CallFilter,
    hook: impl FnOnce(),
) -> Result<Vec<CallRecord>, QueryError> {
    let index = Index::open_read_only(&chain.segments.folder().join(super::INDEX_FILE))?;
    let mut search = CallSearch::new(chain, filter, index)?;
    search.scan_unindexed()?;
    hook();
    search.scan_indexed()?;
    Ok(search.found)
}

/// Returns one call: by the sequence number of its first record, or the newest with this request
/// id.
pub(super) fn call(chain: &Chain, id: &str) -> Result<Option<Value>, QueryError> {
    with_index_fallback(chain, |index| call_with_index(chain, id, index))
}

fn calls_with_index(
    chain: &Chain,
    filter: &CallFilter,
    index: Index,
) -> Result<Vec<CallRecord>, QueryError> {
    let mut search = CallSearch::new(chain, filter, index)?;
    search.scan_unindexed()?;
    search.scan_indexed()?;
    Ok(search.found)
}

fn call_with_index(chain: &Chain, id: &str, index: Index) -> Result<Option<Value>, QueryError> {
    let filter = CallFilter::default();
    let mut search = CallSearch::new(chain, &filter, index)?;
    let is_number = id.len() < 16 && id.bytes().all(|byte| byte.is_ascii_digit());
    let seq = match id.parse() {
        Ok(number) if is_number => Some(number),
        _ => search.seq_of_request(id)?,
    };
    let Some(seq) = seq else { return Ok(None) };
    search.find_call(seq)
}

struct CallSearch<'a> {
    blocks: BlockReader<'a>,
    filter: &'a CallFilter,
    found: Vec<CallRecord>,
    /// Exit records of calls that started before the blocks read so far, by the sequence number of
    /// the enter record.
    exits: HashMap<u64, Vec<u8>>,
    /// Failed calls with an exit record in the unindexed range and an earlier enter record.
    failed_before: BTreeSet<u64>,
}

impl<'a> CallSearch<'a> {
    fn new(chain: &'a Chain, filter: &'a CallFilter, index: Index) -> Result<Self, QueryError> {
        let blocks = BlockReader::new(chain, index)?;
        let (found, ends, failed) = (Vec::new(), HashMap::new(), BTreeSet::new());
        Ok(Self { blocks, filter, found, exits: ends, failed_before: failed })
    }

    fn is_done(&self) -> bool {
        self.found.len() >= self.filter.limit
    }

    fn scan_unindexed(&mut self) -> Result<(), QueryError> {
        for block in self.blocks.unindexed()? {
            self.scan_block(&block)?;
        }
        Ok(())
    }

    fn scan_indexed(&mut self) -> Result<(), QueryError> {
        for block in self.candidate_blocks()? {
            self.scan_block(&block)?;
        }
        Ok(())
    }

    fn scan_block(&mut self, block: &BlockRange) -> Result<(), QueryError> {
        if self.is_done() {
            return Ok(());
        }
        let text = self.blocks.read(block)?;
        self.scan_records(&text)
    }

    /// Returns the indexed blocks that may contain matching calls, newest first.
    fn candidate_blocks(&self) -> Result<Vec<BlockRange>, QueryError> {
        let operations = match &self.filter.operation {
            Some(glob) => Some(self.blocks.name_ids(|name| glob.matches(name))?),
            None => None,
        };
        let began = self.failed_before.iter().copied();
        self.blocks.indexed(
            &BlockQuery {
                marks: if self.filter.errors { &[BlockMark::Failed] } else { &[BlockMark::Call] },
                operations: operations.as_deref(),
                identity: self.filter.identity.as_deref(),
                since: self.filter.since,
                before: self.filter.before,
            },
            began,
        )
    }

    fn scan_records(&mut self, text: &[u8]) -> Result<(), QueryError> {
        let mut enters = Vec::new();
        let mut ends = HashMap::new();
        for content in record_contents(text) {
            let Some(stored) = StoredRecord::parse(content) else { continue };
            match stored.summary().kind {
                RecordKind::Enter => enters.push((stored, content)),
                RecordKind::Exit { enter, failed } => drop(ends.insert(enter, (content, failed))),
                RecordKind::Message | RecordKind::Rejection | RecordKind::Checkpoint => {}
            }
        }
        for (stored, content) in enters.iter().rev() {
            let end = ends.remove(&stored.seq);
            if self.is_done() {
                return Ok(());
            }
            if self.matches(stored) {
                let end = match end {
                    Some((end, _)) => Some(end.to_vec()),
                    None => self.exit_record(stored.seq)?,
                };
                self.push_call(stored, content, end.as_deref());
            }
        }
        for (enter, (content, failed)) in ends {
            self.exits.insert(enter, content.to_vec());
            if failed && self.filter.errors {
                self.failed_before.insert(enter);
            }
        }
        Ok(())
    }

    fn matches(&self, stored: &StoredRecord<'_>) -> bool {
        let CallFilter { operation, identity: requested_identity, since, before, .. } = self.filter;
        stored.seq < *before
            && stored.time >= *since
            && requested_identity
                .as_ref()
                .is_none_or(|requested_identity| *requested_identity == stored.identity)
            && operation.as_ref().is_none_or(|glob| glob.matches(&stored.operation))
    }

    fn push_call(&mut self, stored: &StoredRecord<'_>, content: &[u8], end: Option<&[u8]>) {
        let failed = end
            .and_then(StoredRecord::parse)
            .is_some_and(|end| matches!(end.summary().kind, RecordKind::Exit { failed: true, .. }));
        if self.filter.errors && !failed {
            return;
        }
        let value = merge_records(self.blocks.gateway_id(), content, end);
        self.found.push(CallRecord { time: stored.time, seq: stored.seq, value });
    }

    /// Returns the exit record of a call that started in another block.
    fn exit_record(&mut self, enter: u64) -> Result<Option<Vec<u8>>, QueryError> {
        if let Some(end) = self.exits.remove(&enter) {
            return Ok(Some(end));
        }
        let Some(block) = self.blocks.exit_block(enter)? else { return Ok(None) };
        let text = self.blocks.read(&block)?;
        for content in record_contents(&text) {
            let Some(stored) = StoredRecord::parse(content) else { continue };
            if let RecordKind::Exit { enter: began, .. } = stored.summary().kind {
                self.exits.insert(began, content.to_vec());
            }
        }
        Ok(self.exits.remove(&enter))
    }

    /// Returns the sequence number of the first record of the newest call with this request id.
    fn seq_of_request(&self, id: &str) -> Result<Option<u64>, QueryError> {
        let needle = format!("\"id\":{}", Value::from(id));
        let finder = memchr::memmem::FinderRev::new(needle.as_bytes());
        for file in self.blocks.segments()? {
            let text = self.blocks.read(&file)?;
            let mut end = text.len();
            while let Some(at) = finder.rfind(&text[..end]) {
                let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |at| at + 1);
                let stored = record_contents(&text[start..]).next().and_then(StoredRecord::parse);
                match stored.filter(|stored| stored.id == id) {
                    Some(stored) => match stored.summary().kind {
                        RecordKind::Exit { enter, .. } => return Ok(Some(enter)),
                        RecordKind::Enter => return Ok(Some(stored.seq)),
                        // A message can have the same id.
                        _ => end = start,
                    },
                    // The id occurs in the body of another record, possibly several times.
                    None => end = start,
                }
            }
        }
        Ok(None)
    }

    /// Returns the call whose first record has this sequence number.
    fn find_call(&mut self, seq: u64) -> Result<Option<Value>, QueryError> {
        for block in self.blocks.unindexed()? {
            let text = self.blocks.read(&block)?;
            if let Some(found) = self.find_call_in(&text, seq)? {
                return Ok(Some(found));
            }
        }
        let Some(block) = self.blocks.block_containing(seq)? else { return Ok(None) };
        let text = self.blocks.read(&block)?;
        self.find_call_in(&text, seq)
    }

    fn find_call_in(&mut self, text: &[u8], seq: u64) -> Result<Option<Value>, QueryError> {
        let mut enter = None;
        for content in record_contents(text) {
            let Some(stored) = StoredRecord::parse(content) else { continue };
            match stored.summary().kind {
                RecordKind::Enter if stored.seq == seq => enter = Some(content),
                RecordKind::Exit { enter: began, .. } if began == seq => {
                    self.exits.insert(seq, content.to_vec());
                }
                _ => {}
            }
        }
        let Some(enter) = enter else { return Ok(None) };
        let end = self.exit_record(seq)?;
        Ok(Some(merge_records(self.blocks.gateway_id(), enter, end.as_deref())))
    }
}
