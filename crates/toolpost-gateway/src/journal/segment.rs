//! Segments: files with one record per line, named after the sequence number of their first record.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::chain::{Hash, LINE_PREFIX_LEN, RecordLine};
use super::head::SignedPosition;
use super::layout::list_names;
use super::record::StoredRecord;
use crate::data::if_exists;

/// Number of bytes of a segment that are buffered, unless a record is longer.
const READ_BUFFER_BYTES: usize = 32 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Segments {
    pub(super) folder: PathBuf,
}

/// The end of a chain, where it is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainEnd {
    /// Last segment, by the sequence number of its first record.
    pub(super) segment: u64,
    /// Length of the last segment.
    pub(super) bytes: u64,
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ChainError {
    #[error("cannot read the files: {0}")]
    Io(#[from] io::Error),
    #[error("cannot read the key: {0}")]
    Key(#[source] io::Error),
    #[error(
        "record {seq} in {file} does not match the signed head; run `toolpost log verify` for details"
    )]
    Damaged { seq: u64, file: String },
    #[error("the last record is {found}, but the signed head is at record {expected}")]
    Truncated { found: u64, expected: u64 },
    #[error("the signed head is at record {head}, but records up to {removed} were removed")]
    StaleHead { head: u64, removed: u64 },
}

impl Segments {
    pub(super) fn path(&self, first: u64) -> PathBuf {
        self.folder.join(format!("{first:020}.log"))
    }

    /// Returns the number of the first record of each segment, in order; none if the folder does
    /// not exist.
    pub(super) fn list(&self) -> io::Result<Vec<u64>> {
        let names = list_names(&self.folder)?;
        let number = |name: &String| name.strip_suffix(".log")?.parse().ok();
        let mut found: Vec<u64> = names.iter().filter_map(number).collect();
        found.sort_unstable();
        Ok(found)
    }

    pub(super) fn size(&self, first: u64) -> io::Result<u64> {
        Ok(std::fs::metadata(self.path(first))?.len())
    }

    /// Reads a range of a segment; nothing if the segment was removed.
    pub(super) fn read(&self, first: u64, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let Some(mut file) = if_exists(File::open(self.path(first)))? else {
            return Ok(Vec::new());
        };
        file.seek(SeekFrom::Start(offset))?;
        let available = file.metadata()?.len().saturating_sub(offset).min(bytes);
        let mut part = Vec::with_capacity(usize::try_from(available).unwrap_or_default());
        file.take(bytes).read_to_end(&mut part)?;
        Ok(part)
    }

    /// Reads the lines of a segment from an offset, in pieces.
    pub(super) fn lines(&self, first: u64, offset: u64) -> io::Result<LineReader> {
        let mut file = File::open(self.path(first))?;
        file.seek(SeekFrom::Start(offset))?;
        let reader = BufReader::with_capacity(READ_BUFFER_BYTES, file);
        Ok(LineReader { reader, in_buffer: 0, long_line: Vec::new() })
    }

    /// Returns the time of the first record of a segment; `None` if there is none yet.
    pub(super) fn first_record_time(&self, first: u64) -> io::Result<Option<i64>> {
        let Some(mut lines) = if_exists(self.lines(first, 0))? else { return Ok(None) };
        let content = lines.next()?.and_then(|line| line.get(LINE_PREFIX_LEN..));
        Ok(content.and_then(StoredRecord::parse).map(|stored| stored.time))
    }

    /// Finds the end of the chain and the number of bytes of a partial write after it.
    ///
    /// Everything up to the head was on disk before the head was written, so it must be valid.
    /// Records after the head were being written when the process or the machine crashed: complete
    /// records are kept, and the first incomplete one ends the chain.
    ///
    /// Recovery starts with the segment that contains the head and reads everything after it.
    /// Earlier segments are not read: the last hash before that segment is trusted, and if it is
    /// wrong, the hash of the head record differs from the signed one.
    pub(super) fn recover(
        &self,
        head: &SignedPosition,
        start: (u64, Hash),
    ) -> Result<(ChainEnd, u64), ChainError> {
        if head.seq < start.0 {
            return Err(ChainError::StaleHead { head: head.seq, removed: start.0 });
        }
        let mut list = self.list()?;
        // Segments before the checkpoint are due for removal.
        list.retain(|&first| first > start.0);
        let holds_head = list.partition_point(|&first| first <= head.seq).saturating_sub(1);
        let (seq, hash) = match holds_head.checked_sub(1) {
            Some(previous) => self.last_record(list[previous])?,
            None => start,
        };
        let segment = list.get(holds_head).copied().unwrap_or(start.0 + 1);
        let mut end = ChainEnd { segment, bytes: 0, seq, hash };
        if seq != segment - 1 || !end.matches_head(head) {
            return Err(self.damaged_error(segment, segment));
        }
        let mut unfinished = 0;
        for &segment in &list[holds_head..] {
            // Only the last segment can end with an incomplete record: the others were synced
            // before the next one was started.
            if unfinished > 0 || segment != end.seq + 1 {
                return Err(self.damaged_error(end.seq + 1, segment));
            }
            (end, unfinished) = self.recover_segment(segment, end, head)?;
        }
        Ok((end.ensure_reaches(head)?, unfinished))
    }

    /// Reads a segment that continues the chain. Returns the new end of the chain and the number of
    /// bytes after it that are not a complete record.
    fn recover_segment(
        &self,
        segment: u64,
        end: ChainEnd,
        head: &SignedPosition,
    ) -> Result<(ChainEnd, u64), ChainError> {
        let mut lines = self.lines(segment, 0)?;
        let mut end = ChainEnd { segment, bytes: 0, ..end };
        while let Some(line) = lines.next()? {
            match end.extend(line) {
                Some(next) if next.matches_head(head) => end = next,
                None if end.seq >= head.seq => break,
                _ => return Err(self.damaged_error(end.seq + 1, segment)),
            }
        }
        let unfinished = self.size(segment)?.saturating_sub(end.bytes);
        Ok((end, unfinished))
    }

    pub(super) fn truncate_after(&self, end: &ChainEnd, unfinished: u64) -> io::Result<()> {
        if unfinished > 0 {
            let after = end.seq;
            tracing::warn!(bytes = unfinished, after, "partial journal record truncated");
            let file = File::options().write(true).open(self.path(end.segment))?;
            file.set_len(end.bytes)?;
            file.sync_data()?;
        }
        Ok(())
    }

    fn damaged_error(&self, seq: u64, segment: u64) -> ChainError {
        ChainError::Damaged { seq, file: self.path(segment).display().to_string() }
    }

    /// Returns the sequence number and hash of the last record in a finished segment.
    pub(super) fn last_record(&self, segment: u64) -> Result<(u64, Hash), ChainError> {
        let mut lines = self.lines(segment, 0)?;
        let mut last = None;
        while let Some(line) = lines.next()? {
            last = RecordLine::parse(line).map(|line| (line.seq, line.hash));
        }
        last.ok_or_else(|| self.damaged_error(segment, segment))
    }
}

pub(super) struct LineReader {
    reader: BufReader<File>,
    /// Length of the last line, if it is still in the buffer.
    in_buffer: usize,
    long_line: Vec<u8>,
}

impl LineReader {
    /// Returns the next line without its line feed; `None` after the last complete line. Most lines
    /// are returned from the buffer without a copy.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.reader.consume(std::mem::take(&mut self.in_buffer));
        if let Some(end) = memchr::memchr(b'\n', self.reader.fill_buf()?) {
            self.in_buffer = end + 1;
            return Ok(Some(&self.reader.buffer()[..end]));
        }
        self.long_line.clear();
        self.reader.read_until(b'\n', &mut self.long_line)?;
        Ok(self.long_line.strip_suffix(b"\n"))
    }
}

impl ChainEnd {
    fn extend(&self, line: &[u8]) -> Option<Self> {
        let parsed = RecordLine::parse(line)?;
        let is_next = parsed.seq == self.seq + 1 && self.hash.next(parsed.content) == parsed.hash;
        let bytes = self.bytes + line.len() as u64 + 1;
        is_next.then_some(Self { bytes, seq: parsed.seq, hash: parsed.hash, ..*self })
    }

    /// Whether the hash matches the head, if this is the record of the head; `true` for other
    /// records.
    fn matches_head(&self, head: &SignedPosition) -> bool {
        self.seq != head.seq || head.hash() == Some(self.hash)
    }

    fn ensure_reaches(self, head: &SignedPosition) -> Result<Self, ChainError> {
        match self.seq < head.seq {
            true => Err(ChainError::Truncated { found: self.seq, expected: head.seq }),
            false => Ok(self),
        }
    }
}
