//! Whether the index finds what the records hold: whoever takes a line out of it hides calls from
//! searches, although every record is there.

use std::collections::VecDeque;

use super::archive::Chain;
use super::index::{Index, OpenBlock, Written};
use super::record::{Facts, Stored, TOKEN, What, quick_facts};

/// The records of a chain as they are read, beside the stretches of its index.
pub(super) struct Comparison {
    index: Index,
    /// The stretches that are still to come.
    written: VecDeque<Written>,
    /// What the records say that the first of them should hold.
    open: OpenBlock,
    segment: u64,
    offset: u64,
    wrong: Option<(u64, u64)>,
}

impl Comparison {
    /// Begins behind the last record that was removed. An index that is not there or cannot be read
    /// hides nothing: then a search reads everything.
    pub(super) fn begin(chain: &Chain, removed: u64) -> Option<Self> {
        let index = Index::look(&chain.segments.folder().join(super::INDEX)).ok()?;
        let written = index.written().ok()?;
        // Files up to there were about to be removed.
        let written = written.into_iter().filter(|block| block.segment > removed).collect();
        let open = OpenBlock::default();
        Some(Self { index, written, open, segment: 0, offset: 0, wrong: None })
    }

    /// The next file begins.
    pub(super) fn file(&mut self, segment: u64) {
        if !self.open.is_empty() {
            self.fail();
        }
        (self.segment, self.offset) = (segment, 0);
    }

    /// The next record, whose line has so many bytes. What is behind the last stretch is read by every
    /// search.
    pub(super) fn record(&mut self, seq: u64, content: &[u8], bytes: u64) {
        let Some(written) = self.written.front().filter(|_| self.wrong.is_none()) else { return };
        if self.open.is_empty() {
            self.open = OpenBlock::at(self.segment, self.offset, seq);
            if !written.begins_as(&self.open) {
                self.wrong = Some((seq, written.first_seq.max(seq)));
                return;
            }
        }
        let end = written.offset + written.bytes;
        add(&mut self.open, content, bytes);
        self.offset += bytes;
        if self.offset >= end {
            self.close();
        }
    }

    /// The records of the first stretch of which the index says too little, or of which there are none.
    pub(super) fn end(mut self) -> Option<(u64, u64)> {
        if !self.written.is_empty() {
            self.fail();
        }
        self.wrong
    }

    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        let Some(written) = self.written.pop_front() else { return };
        // What cannot be read any more hides nothing either.
        if !self.index.covers(&written, &open).unwrap_or(true) {
            self.wrong.get_or_insert((written.first_seq, written.last_seq));
        }
    }

    fn fail(&mut self) {
        if let Some(written) = self.written.front() {
            self.wrong.get_or_insert((written.first_seq, written.last_seq));
        }
    }
}

/// Most records are as this program writes them, and need no reader of JSON.
fn add(open: &mut OpenBlock, content: &[u8], bytes: u64) {
    let nothing = Facts { time: i64::MIN, what: What::Checkpoint, operation: "", who: "" };
    if let Some(facts) = quick_facts(content).filter(is_named) {
        return open.add(&facts, bytes);
    }
    let stored = Stored::parse(content);
    let facts = stored.as_ref().map(Stored::facts).filter(is_named);
    // The index knows names that the record has cut or masked.
    let is_cut = memchr::memmem::find(content, b"\"whoCut\":").is_some();
    open.add(&facts.filter(|_| !is_cut).unwrap_or(nothing), bytes);
}

fn is_named(facts: &Facts<'_>) -> bool {
    let is_masked = |name: &str| memchr::memmem::find(name.as_bytes(), TOKEN).is_some();
    !facts.operation.is_empty() && !is_masked(facts.operation) && !is_masked(facts.who)
}
