//! Verifies that the index covers the records. Removing rows from the index hides calls from
//! searches even though every record is present.

use std::collections::VecDeque;

use super::index::{Block, Index, OpenBlock};
use super::layout::Chain;
use super::record::{RecordKind, RecordSummary, StoredRecord, TOKEN_PREFIX};

/// Compares the blocks of the index with the records of a chain while they are read.
pub(super) struct IndexCheck {
    index: Index,
    stored: VecDeque<Block>,
    /// Expected contents of the current block, computed from the records.
    expected: OpenBlock,
    mismatch: Option<(u64, u64)>,
}

impl IndexCheck {
    /// Starts after the last removed record. An index that is missing or unreadable hides no
    /// records, because searches then read all of them.
    pub(super) fn start(chain: &Chain, removed: u64) -> Option<Self> {
        let index = Index::open_read_only(&chain.index_file()).ok()?;
        // Segments up to `removed` are due for removal.
        let blocks = index.all().ok()?.into_iter().filter(|block| block.segment > removed);
        let (stored, expected) = (blocks.collect(), OpenBlock::default());
        Some(Self { index, stored, expected, mismatch: None })
    }

    pub(super) fn start_segment(&mut self, segment: u64) {
        if !self.expected.is_empty() {
            self.mark_mismatch();
        }
        self.expected = OpenBlock::at(segment, 0, segment);
    }

    /// Checks the next record, whose line has `bytes` bytes. Records after the last indexed block
    /// need no check, because every search reads them.
    pub(super) fn check_record(&mut self, content: &[u8], bytes: u64) {
        let Some(stored) = self.stored.front().filter(|_| self.mismatch.is_none()) else {
            return;
        };
        add_record(&mut self.expected, content, bytes);
        if self.expected.range.end() < stored.end() {
            return;
        }
        // An index that cannot be read hides nothing, because searches then read every record.
        if !self.index.covers(stored, &self.expected).unwrap_or(true) {
            return self.mark_mismatch();
        }
        self.stored.pop_front();
        self.expected = self.expected.next(self.expected.range.segment);
    }

    /// Returns the first and last record of the first block that the index does not cover or that
    /// has no records.
    pub(super) fn finish(mut self) -> Option<(u64, u64)> {
        self.mark_mismatch();
        self.mismatch
    }

    fn mark_mismatch(&mut self) {
        if let Some(stored) = self.stored.front() {
            self.mismatch.get_or_insert((stored.first_seq, stored.last_seq));
        }
    }
}

/// Adds a record to the block. A record with truncated or masked names is only counted, because the
/// index may contain the original names.
fn add_record(open: &mut OpenBlock, content: &[u8], bytes: u64) {
    let is_masked = |name: &str| memchr::memmem::find(name.as_bytes(), TOKEN_PREFIX).is_some();
    let has_plain_names = |stored: &StoredRecord<'_>| {
        let is_cut = stored.identity.is_empty()
            && memchr::memmem::find(content, b"\"identityCut\":").is_some();
        !stored.name.is_empty()
            && !is_cut
            && !is_masked(&stored.name)
            && !is_masked(&stored.identity)
    };
    let nothing =
        RecordSummary { time: i64::MIN, kind: RecordKind::Checkpoint, name: "", identity: "" };
    let stored = StoredRecord::parse(content).filter(has_plain_names);
    open.add(&stored.as_ref().map_or(nothing, StoredRecord::summary), bytes);
}
