//! The end of a chain: encodes queued records as lines and writes them to the last segment.
//!
//! In mode `batch`, the thread that ends a call writes the queued records itself, which takes a few
//! microseconds. The writer thread signs and syncs them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use toolpost::epoch_ms;

use super::head::{PositionKind, SignedPosition};
use super::key::SigningKey;
use super::queue::{GROUP_BYTES, Group, Queue, WriteResult};
use super::record::{RecordKind, RecordSummary, RecordWriter};
use super::segment::{ChainEnd, Seal};

/// Size of the records that are not synced from which on only the writer thread writes, so that a slow
/// fsync slows down the callers.
const MAX_UNSYNCED_BYTES: usize = 4 * 1024 * 1024;

pub(super) struct Appender {
    key: Arc<SigningKey>,
    file: Arc<File>,
    max_segment_bytes: u64,
    /// End of the chain, including lines that are not in the file yet.
    end: ChainEnd,
    seal: Seal,
    unsynced: UnsyncedRecords,
    /// Number of bytes of the lines that are in the file.
    written: usize,
    /// Whether the file position may differ from the end of the written lines.
    needs_seek: bool,
    /// Buffers, reused to avoid allocations.
    incoming: Group,
    content: Vec<u8>,
}

/// Records that are not synced. They are kept until they are, because a failed fsync may have lost
/// them.
#[derive(Default)]
pub(super) struct UnsyncedRecords {
    pub(super) lines: Vec<u8>,
    pub(super) group: Group,
    /// Length of each line.
    pub(super) lengths: Vec<usize>,
}

impl UnsyncedRecords {
    fn append(&mut self, more: &mut Self) {
        self.lines.append(&mut more.lines);
        self.group.append(&mut more.group);
        self.lengths.append(&mut more.lengths);
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(GROUP_BYTES);
        self.group.clear();
        self.lengths.clear();
        self.lengths.shrink_to(GROUP_BYTES / size_of::<usize>());
    }
}

impl Appender {
    pub(super) fn new(
        key: Arc<SigningKey>,
        file: File,
        (end, seal): (ChainEnd, Seal),
        max_segment_bytes: u64,
    ) -> Self {
        Self {
            key,
            file: Arc::new(file),
            max_segment_bytes,
            end,
            seal,
            unsynced: UnsyncedRecords::default(),
            written: 0,
            needs_seek: false,
            incoming: Group::default(),
            content: Vec::new(),
        }
    }

    pub(super) fn end(&self) -> ChainEnd {
        self.end
    }

    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Whether the next segment must be started before more records are written.
    pub(super) fn is_full(&self) -> bool {
        self.end.bytes >= self.max_segment_bytes
    }

    /// Whether a caller may write records.
    pub(super) fn has_capacity(&self) -> bool {
        !self.is_full() && self.unsynced.lines.len() < MAX_UNSYNCED_BYTES
    }

    pub(super) fn has_written(&self, seq: u64) -> bool {
        self.end.seq >= seq && self.written == self.unsynced.lines.len()
    }

    /// Number of records that are not synced.
    pub(super) fn unsynced_count(&self) -> usize {
        self.unsynced.group.len()
    }

    /// Writes the queued records to the file.
    pub(super) fn write_queued(&mut self, queue: &Queue) -> io::Result<()> {
        // After a failure, records stay in the queue, whose size is bounded.
        self.write_lines()?;
        queue.take(&mut self.incoming);
        self.encode_incoming();
        self.write_lines()
    }

    /// Writes the queued records to the file, and after them the signature of all records that have
    /// none.
    pub(super) fn write_signed(&mut self, queue: &Queue, about: PositionKind) -> io::Result<()> {
        self.write_lines()?;
        let is_needed = match about {
            PositionKind::Close => self.seal != Seal::Closed,
            _ => self.seal == Seal::Unsigned,
        };
        let signs = queue.take_and_reserve(&mut self.incoming, is_needed);
        self.encode_incoming();
        if signs {
            self.encode_signature(about);
        }
        self.write_lines()
    }

    /// Encodes the incoming records as lines.
    fn encode_incoming(&mut self) {
        let UnsyncedRecords { lines, group, lengths } = &mut self.unsynced;
        for rest in self.incoming.contents() {
            let end = &mut self.end;
            end.seq += 1;
            self.content.clear();
            write!(self.content, "{{\"seq\":{},", end.seq).expect("a vector can be written");
            self.content.extend_from_slice(rest);
            end.hash = end.hash.next(&self.content);
            let before = lines.len();
            end.hash.write_line(self.key.mac(end.hash), &self.content, lines);
            let length = lines.len() - before;
            end.bytes += length as u64;
            lengths.push(length);
            self.seal = Seal::Unsigned;
        }
        group.append(&mut self.incoming);
    }

    fn encode_signature(&mut self, about: PositionKind) {
        let (time, ChainEnd { seq, hash, .. }) = (epoch_ms(), self.end);
        let (kind, seal) = match about {
            PositionKind::Close => (RecordKind::Close, Seal::Closed),
            _ => (RecordKind::Signature, Seal::Signed),
        };
        let summary = RecordSummary { time, kind, name: "", identity: "" };
        let mut out = Vec::new();
        let mut members = RecordWriter::start(&mut out, &summary);
        members
            .add("signature", &SignedPosition::sign(&self.key, about, seq, hash, time).signature);
        members.finish();
        self.incoming.push(&summary, &out);
        self.encode_incoming();
        self.seal = seal;
    }

    /// Writes the lines that are not in the file. A retry overwrites what a failed attempt wrote,
    /// with the same data.
    fn write_lines(&mut self) -> io::Result<()> {
        let rest = &self.unsynced.lines[self.written..];
        if rest.is_empty() {
            return Ok(());
        }
        let mut file = &*self.file;
        let position = self.end.bytes - rest.len() as u64;
        check_in_place(file, position)?;
        if self.needs_seek {
            file.seek(SeekFrom::Start(position))?;
        }
        self.needs_seek = true;
        file.write_all(rest)?;
        self.needs_seek = false;
        self.written = self.unsynced.lines.len();
        Ok(())
    }

    /// Moves the records that are not synced, all of them written, to an empty buffer.
    pub(super) fn take_unsynced(&mut self, unsynced: &mut UnsyncedRecords) {
        std::mem::swap(&mut self.unsynced, unsynced);
        self.written = 0;
    }

    /// Takes records back whose fsync failed. They are written again.
    pub(super) fn restore_unsynced(&mut self, unsynced: &mut UnsyncedRecords) {
        std::mem::swap(&mut self.unsynced, unsynced);
        self.unsynced.append(unsynced);
        self.written = 0;
        self.needs_seek = true;
    }

    /// Continues in a new segment.
    pub(super) fn start_segment(&mut self, file: File, end: ChainEnd) {
        (self.file, self.end, self.needs_seek) = (Arc::new(file), end, false);
    }

    pub(super) fn notify_waiters(&mut self, result: &WriteResult) {
        self.unsynced.group.notify_waiters(result);
    }
}

/// Checks that the segment is still in its folder, with the records before this position. Further
/// records in a removed file would be lost without an error.
fn check_in_place(file: &File, position: u64) -> io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.nlink() == 0 {
        return Err(io::Error::other("the journal file was removed; restart the gateway"));
    }
    if metadata.len() < position {
        return Err(io::Error::other("the journal file was truncated; restart the gateway"));
    }
    Ok(())
}
