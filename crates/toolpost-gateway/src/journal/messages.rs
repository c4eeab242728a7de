//! Search for room messages and rejections.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::block_reader::{BlockReader, record_contents, with_index_fallback};
use super::index::{BlockMark, BlockQuery, Index};
use super::query::QueryError;
use super::reader::Chain;
use super::record::{RecordKind, RecordSummary, StoredRecord, fast_summary};
use crate::glob::Glob;

/// Filter for room messages.
#[derive(Debug, Clone)]
pub(super) struct MessageFilter {
    /// Gateway whose journal is searched; `None` searches every journal in the folder.
    pub(super) gateway: Option<String>,
    /// Only rooms that match; `*` matches anything.
    pub(super) room: Glob,
    pub(super) identity: Option<String>,
    /// Only records written at or after this time, in milliseconds since the Unix epoch.
    pub(super) since: i64,
    /// Only records before this sequence number.
    pub(super) before: u64,
    /// Only rejections.
    pub(super) errors: bool,
    pub(super) limit: usize,
}

/// A query for messages in one chain.
pub(super) struct MessageQuery<'a> {
    /// Which rooms.
    pub(super) room: &'a dyn Fn(&str) -> bool,
    pub(super) identity: Option<&'a str>,
    pub(super) since: i64,
    /// Only records written before this time.
    pub(super) until: i64,
    pub(super) before: u64,
    /// Messages, rejections or both.
    pub(super) marks: &'a [BlockMark],
    pub(super) max_count: usize,
    /// Maximum total size of the messages.
    pub(super) max_bytes: usize,
    /// Number of messages returned regardless of `max_bytes`.
    pub(super) min_count: usize,
}

/// A room record found by a search.
#[derive(Debug)]
pub(super) struct MessageRecord {
    pub(super) time: i64,
    pub(super) seq: u64,
    pub(super) content: Vec<u8>,
}

/// Returns the matching records of a chain, newest first.
pub(super) fn search(
    chain: &Chain,
    query: &MessageQuery<'_>,
) -> Result<Vec<MessageRecord>, QueryError> {
    with_index_fallback(chain, |index| search_with_index(chain, query, index))
}

fn search_with_index(
    chain: &Chain,
    query: &MessageQuery<'_>,
    index: Index,
) -> Result<Vec<MessageRecord>, QueryError> {
    let blocks = BlockReader::new(chain, index)?;
    let mut search =
        MessageSearch { query, found: Vec::new(), bytes: 0, is_done: query.max_count == 0 };
    for block in blocks.unindexed()? {
        if !search.is_done {
            search.scan_block(&blocks.read(&block)?);
        }
    }
    let rooms = blocks.name_ids(query.room)?;
    for block in blocks.indexed(&query.block_query(&rooms), [])? {
        if search.is_done {
            break;
        }
        search.scan_block(&blocks.read(&block)?);
    }
    Ok(search.found)
}

impl<'a> MessageQuery<'a> {
    /// Returns a query for all messages and rejections of the matching rooms.
    pub(super) fn all_in(room: &'a dyn Fn(&str) -> bool) -> Self {
        Self {
            room,
            identity: None,
            since: i64::MIN,
            until: i64::MAX,
            before: u64::MAX,
            marks: &[BlockMark::Message, BlockMark::Rejection],
            max_count: usize::MAX,
            max_bytes: usize::MAX,
            min_count: 0,
        }
    }

    fn block_query(&self, rooms: &'a [i64]) -> BlockQuery<'a> {
        BlockQuery {
            marks: self.marks,
            operations: Some(rooms),
            identity: self.identity,
            since: self.since,
            before: self.before,
        }
    }

    fn matches(&self, summary: &RecordSummary<'_>) -> bool {
        let mark = match summary.kind {
            RecordKind::Message => BlockMark::Message,
            RecordKind::Rejection => BlockMark::Rejection,
            _ => return false,
        };
        self.marks.contains(&mark)
            && (self.since..self.until).contains(&summary.time)
            && self.identity.is_none_or(|identity| identity == summary.identity)
            && (self.room)(summary.operation)
    }
}

struct MessageSearch<'a> {
    query: &'a MessageQuery<'a>,
    found: Vec<MessageRecord>,
    /// Total size of the messages found.
    bytes: usize,
    is_done: bool,
}

impl MessageSearch<'_> {
    fn scan_block(&mut self, text: &[u8]) {
        for content in record_contents(text).rev() {
            if self.is_done {
                return;
            }
            // Most records that do not match are skipped without a JSON parser.
            if fast_summary(content).is_none_or(|summary| self.query.matches(&summary)) {
                self.check_record(content);
            }
        }
    }

    fn check_record(&mut self, content: &[u8]) {
        let Some(stored) = StoredRecord::parse(content) else { return };
        if stored.seq >= self.query.before || !self.query.matches(&stored.summary()) {
            return;
        }
        let length = message_json(content).map_or(content.len(), str::len);
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes > self.query.max_bytes && self.found.len() >= self.query.min_count {
            self.is_done = true;
            return;
        }
        self.found.push(MessageRecord {
            time: stored.time,
            seq: stored.seq,
            content: content.to_vec(),
        });
        self.is_done = self.found.len() >= self.query.max_count;
    }
}

/// Returns the message in a record as raw JSON.
pub(super) fn message_json(content: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct MessageField<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let record: MessageField<'_> = serde_json::from_slice(content).ok()?;
    Some(record.message.get())
}
