//! Verifies that the index covers the records. Removing rows from the index hides calls from
//! searches even though every record is present.

use std::collections::VecDeque;

use super::index::{Index, OpenBlock, StoredBlock};
use super::reader::Chain;
use super::record::{RecordKind, RecordSummary, StoredRecord, TOKEN_PREFIX, fast_summary};

/// Compares the blocks of the index with the records of a chain while they are read.
pub(super) struct IndexCheck {
    index: Index,
    /// Blocks of the index not checked yet.
    stored_blocks: VecDeque<StoredBlock>,
    /// Expected contents of the current block, computed from the records.
    expected: OpenBlock,
    segment: u64,
    offset: u64,
    mismatch: Option<(u64, u64)>,
}

impl IndexCheck {
    /// Starts after the last removed record. An index that is missing or unreadable hides no
    /// records, because searches then read all of them.
    pub(super) fn start(chain: &Chain, removed: u64) -> Option<Self> {
        let index = Index::open_read_only(&chain.segments.folder().join(super::INDEX_FILE)).ok()?;
        let written = index.stored_blocks().ok()?;
        // Segments up to `removed` are due for removal.
        let written = written.into_iter().filter(|block| block.segment > removed).collect();
        let open = OpenBlock::default();
        Some(Self {
            index,
            stored_blocks: written,
            expected: open,
            segment: 0,
            offset: 0,
            mismatch: None,
        })
    }

    /// Starts the next segment.
    pub(super) fn start_segment(&mut self, segment: u64) {
        if !self.expected.is_empty() {
            self.mark_mismatch();
        }
        (self.segment, self.offset) = (segment, 0);
    }

    /// Checks the next record, whose line has `bytes` bytes. Records after the last indexed block
    /// need no check, because every search reads them.
    pub(super) fn check_record(&mut self, seq: u64, content: &[u8], bytes: u64) {
        let Some(written) = self.stored_blocks.front().filter(|_| self.mismatch.is_none()) else {
            return;
        };
        if self.expected.is_empty() {
            self.expected = OpenBlock::at(self.segment, self.offset, seq);
            if !written.starts_at(&self.expected) {
                self.mismatch = Some((seq, written.first_seq.max(seq)));
                return;
            }
        }
        let end = written.offset + written.bytes;
        add_record(&mut self.expected, content, bytes);
        self.offset += bytes;
        if self.offset >= end {
            self.close_block();
        }
    }

    /// Returns the first and last record of the first block that the index does not cover or that
    /// has no records.
    pub(super) fn finish(mut self) -> Option<(u64, u64)> {
        if !self.stored_blocks.is_empty() {
            self.mark_mismatch();
        }
        self.mismatch
    }

    fn close_block(&mut self) {
        let open = std::mem::take(&mut self.expected);
        let Some(written) = self.stored_blocks.pop_front() else { return };
        // An index that cannot be read hides nothing, because searches then read every record.
        if !self.index.covers(&written, &open).unwrap_or(true) {
            self.mismatch.get_or_insert((written.first_seq, written.last_seq));
        }
    }

    fn mark_mismatch(&mut self) {
        if let Some(written) = self.stored_blocks.front() {
            self.mismatch.get_or_insert((written.first_seq, written.last_seq));
        }
    }
}

/// Adds a record to the block. Most records have the usual layout and need no JSON parser.
fn add_record(open: &mut OpenBlock, content: &[u8], bytes: u64) {
    let nothing =
        RecordSummary { time: i64::MIN, kind: RecordKind::Checkpoint, operation: "", identity: "" };
    if let Some(record_summary) = fast_summary(content).filter(has_plain_names) {
        return open.add(&record_summary, bytes);
    }
    let stored = StoredRecord::parse(content);
    let record_summary = stored.as_ref().map(StoredRecord::summary).filter(has_plain_names);
    // The index may contain names that the record cuts or masks.
    let is_cut = memchr::memmem::find(content, b"\"identityCut\":").is_some();
    open.add(&record_summary.filter(|_| !is_cut).unwrap_or(nothing), bytes);
}

fn has_plain_names(record_summary: &RecordSummary<'_>) -> bool {
    let is_masked = |name: &str| memchr::memmem::find(name.as_bytes(), TOKEN_PREFIX).is_some();
    !record_summary.operation.is_empty()
        && !is_masked(record_summary.operation)
        && !is_masked(record_summary.identity)
}
