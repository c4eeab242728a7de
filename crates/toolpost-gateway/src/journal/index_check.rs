//! Whether the index finds what the records hold: whoever takes a line out of it hides calls from
//! searches, although every record is there.

use std::collections::VecDeque;

use super::index::{Index, OpenBlock, StoredBlock};
use super::reader::Chain;
use super::record::{RecordKind, RecordSummary, StoredRecord, TOKEN_PREFIX, fast_summary};

/// The records of a chain as they are read, beside the stretches of its index.
pub(super) struct IndexCheck {
    index: Index,
    /// The stretches that are still to come.
    stored_blocks: VecDeque<StoredBlock>,
    /// What the records say that the first of them should hold.
    expected: OpenBlock,
    segment: u64,
    offset: u64,
    mismatch: Option<(u64, u64)>,
}

impl IndexCheck {
    /// Begins behind the last record that was removed. An index that is not there or cannot be read
    /// hides nothing: then a search reads everything.
    pub(super) fn start(chain: &Chain, removed: u64) -> Option<Self> {
        let index = Index::open_read_only(&chain.segments.folder().join(super::INDEX_FILE)).ok()?;
        let written = index.stored_blocks().ok()?;
        // Files up to there were about to be removed.
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

    /// The next file begins.
    pub(super) fn start_segment(&mut self, segment: u64) {
        if !self.expected.is_empty() {
            self.mark_mismatch();
        }
        (self.segment, self.offset) = (segment, 0);
    }

    /// The next record, whose line has so many bytes. What is behind the last stretch is read by every
    /// search.
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

    /// The records of the first stretch of which the index says too little, or of which there are none.
    pub(super) fn finish(mut self) -> Option<(u64, u64)> {
        if !self.stored_blocks.is_empty() {
            self.mark_mismatch();
        }
        self.mismatch
    }

    fn close_block(&mut self) {
        let open = std::mem::take(&mut self.expected);
        let Some(written) = self.stored_blocks.pop_front() else { return };
        // What cannot be read any more hides nothing either.
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

/// Most records are as this program writes them, and need no reader of JSON.
fn add_record(open: &mut OpenBlock, content: &[u8], bytes: u64) {
    let nothing =
        RecordSummary { time: i64::MIN, kind: RecordKind::Checkpoint, operation: "", identity: "" };
    if let Some(record_summary) = fast_summary(content).filter(has_plain_names) {
        return open.add(&record_summary, bytes);
    }
    let stored = StoredRecord::parse(content);
    let record_summary = stored.as_ref().map(StoredRecord::summary).filter(has_plain_names);
    // The index knows names that the record has cut or masked.
    let is_cut = memchr::memmem::find(content, b"\"identityCut\":").is_some();
    open.add(&record_summary.filter(|_| !is_cut).unwrap_or(nothing), bytes);
}

fn has_plain_names(record_summary: &RecordSummary<'_>) -> bool {
    let is_masked = |name: &str| memchr::memmem::find(name.as_bytes(), TOKEN_PREFIX).is_some();
    !record_summary.operation.is_empty()
        && !is_masked(record_summary.operation)
        && !is_masked(record_summary.identity)
}
