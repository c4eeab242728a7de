//! Segments: files with one record per line, named after the sequence number of their first record.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::chain::{Hash, LINE_PREFIX_LEN, RecordLine};
use super::head::{PositionKind, SignedPosition};
use super::key::SigningKey;
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

/// How a chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    /// With records that are not signed.
    Unsigned,
    /// With the signature of the records before it.
    Signed,
    /// With the signature of a journal that was closed.
    Closed,
}

impl From<RecordLine<'_>> for Seal {
    fn from(last: RecordLine<'_>) -> Self {
        match last.signs() {
            None => Self::Unsigned,
            Some(PositionKind::Close) => Self::Closed,
            Some(_) => Self::Signed,
        }
    }
}

/// The end of a chain as found at start.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) end: ChainEnd,
    pub(super) seal: Seal,
    /// Number of bytes after the end that are not a complete record.
    pub(super) torn: u64,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ChainError {
    #[error("cannot read the files: {0}")]
    Io(#[from] io::Error),
    #[error("cannot read the key: {0}")]
    Key(#[source] io::Error),
    #[error(
        "record {seq} in {file} was changed or was not written by this gateway; run `toolpost log verify` for details"
    )]
    Damaged { seq: u64, file: String },
    #[error("the last record is {found}, but the signed head is at record {expected}")]
    Truncated { found: u64, expected: u64 },
    #[error(
        "{file} was written by an earlier version of the journal, which this version cannot read; move the files of this journal to another folder to keep them"
    )]
    OldFormat { file: String },
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

    /// Finds the end of the chain. Reads only the end of the segment with the signed head, and the
    /// segments after it.
    ///
    /// Everything up to the head was on disk before the head was written. Records after the head were
    /// not synced when the process or the machine crashed. Each of them must have the authentication
    /// code of this gateway; an incomplete one ends the chain.
    pub(super) fn recover(
        &self,
        key: &SigningKey,
        head: &SignedPosition,
        start: (u64, Hash),
    ) -> Result<Recovery, ChainError> {
        let (seq, hash) = start;
        if head.seq < seq {
            return Err(ChainError::StaleHead { head: head.seq, removed: seq });
        }
        let mut list = self.list()?;
        // Segments before the checkpoint are due for removal.
        list.retain(|&first| first > seq);
        let next = list.partition_point(|&first| first <= head.seq);
        let mut found = match next.checked_sub(1) {
            Some(holds_head) => {
                let segment = list[holds_head];
                let (last, hash) = match holds_head.checked_sub(1) {
                    Some(previous) => self.last_record(key, list[previous])?,
                    None => start,
                };
                if last != segment - 1 {
                    return Err(self.damaged_error(last + 1, segment));
                }
                self.find_head(segment, hash, head)?
            }
            None if head.seq > seq => {
                return Err(ChainError::Truncated { found: seq, expected: head.seq });
            }
            None => {
                let segment = list.first().copied().unwrap_or(seq + 1);
                if head.hash() != Some(hash) {
                    return Err(self.damaged_error(segment, segment));
                }
                let end = ChainEnd { segment, bytes: 0, seq, hash };
                Recovery { end, seal: Seal::Signed, torn: 0 }
            }
        };
        for &segment in list.get(next.saturating_sub(1)..).unwrap_or_default() {
            if segment != found.end.segment || found.end.bytes == 0 {
                // Only the last segment can end with an incomplete record: the others were synced
                // before the next one was started.
                if found.torn > 0 || segment != found.end.seq + 1 {
                    return Err(self.damaged_error(found.end.seq + 1, segment));
                }
                found.end = ChainEnd { segment, bytes: 0, ..found.end };
            }
            self.recover_records(key, &mut found)?;
        }
        Ok(found)
    }

    /// Finds the record of the signed head in its segment, by its hash. Reads the segment in blocks
    /// that grow from its end. `previous` is the hash before the segment.
    fn find_head(
        &self,
        segment: u64,
        previous: Hash,
        head: &SignedPosition,
    ) -> Result<Recovery, ChainError> {
        let size = self.size(segment)?;
        let mut length = 0;
        while length < size {
            length = (2 * length).max(READ_BUFFER_BYTES as u64).min(size);
            let offset = size - length;
            let text = self.read(segment, offset, length)?;
            let before = (offset == 0).then_some(previous);
            let Some((line, start)) = find_record(&text, before.is_some(), head) else { continue };
            // The line before it may not be in the block.
            let Some(before) = hash_before(&text[..start], before) else { continue };
            if before.next(line.content) != line.hash {
                break;
            }
            let (seq, hash) = (line.seq, line.hash);
            let length = LINE_PREFIX_LEN + line.content.len() + 1;
            let end = ChainEnd { segment, bytes: offset + (start + length) as u64, seq, hash };
            return Ok(Recovery { end, seal: line.into(), torn: 0 });
        }
        let last = self.last_line(segment)?;
        Err(match last.as_deref().map_or(Some(segment - 1), seq_of) {
            Some(found) if found < head.seq => ChainError::Truncated { found, expected: head.seq },
            _ => self.line_error(head.seq, segment, last.as_deref()),
        })
    }

    /// Reads the records after the end that was found so far, and moves the end behind them.
    fn recover_records(&self, key: &SigningKey, found: &mut Recovery) -> Result<(), ChainError> {
        let segment = found.end.segment;
        let mut lines = self.lines(segment, found.end.bytes)?;
        while let Some(line) = lines.next()? {
            // A line that was not completely on disk when the machine crashed. Records have no NUL.
            if memchr::memchr(0, line).is_some() {
                break;
            }
            let Some((end, seal)) = found.end.extend(key, line) else {
                return Err(self.damaged_error(found.end.seq + 1, segment));
            };
            (found.end, found.seal) = (end, seal);
        }
        found.torn = self.size(segment)?.saturating_sub(found.end.bytes);
        Ok(())
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

    /// Returns the error for a segment whose last line is not the expected record.
    fn line_error(&self, seq: u64, segment: u64, last: Option<&[u8]>) -> ChainError {
        match last.is_some_and(RecordLine::is_old_format) {
            true => ChainError::OldFormat { file: self.path(segment).display().to_string() },
            false => self.damaged_error(seq, segment),
        }
    }

    fn damaged_error(&self, seq: u64, segment: u64) -> ChainError {
        ChainError::Damaged { seq, file: self.path(segment).display().to_string() }
    }

    /// Returns the sequence number and hash of the last record in a finished segment.
    pub(super) fn last_record(
        &self,
        key: &SigningKey,
        segment: u64,
    ) -> Result<(u64, Hash), ChainError> {
        let line = self.last_line(segment)?;
        let last = line.as_deref().and_then(RecordLine::parse);
        match last.filter(|last| key.mac(last.hash) == last.mac) {
            Some(last) => Ok((last.seq, last.hash)),
            None => Err(self.line_error(segment, segment, line.as_deref())),
        }
    }

    /// Returns the last complete line of a segment, without its line feed. Reads only the end of the
    /// segment.
    fn last_line(&self, segment: u64) -> io::Result<Option<Vec<u8>>> {
        let size = self.size(segment)?;
        let mut length = 0;
        while length < size {
            length = (2 * length).max(READ_BUFFER_BYTES as u64).min(size);
            let mut text = self.read(segment, size - length, length)?;
            let Some(end) = memchr::memrchr(b'\n', &text) else { continue };
            text.truncate(end);
            match memchr::memrchr(b'\n', &text) {
                Some(start) => return Ok(Some(text.split_off(start + 1))),
                None if length == size => return Ok(Some(text)),
                None => {}
            }
        }
        Ok(None)
    }
}

/// Returns the hash of the last line; `previous` if there is none.
fn hash_before(text: &[u8], previous: Option<Hash>) -> Option<Hash> {
    let Some(text) = text.strip_suffix(b"\n") else { return previous };
    let start = match memchr::memrchr(b'\n', text) {
        Some(end) => end + 1,
        None => previous.map(|_| 0)?,
    };
    RecordLine::parse(&text[start..]).map(|line| line.hash)
}

/// Finds the line of a signed record in the end of a segment. Returns it with its offset.
fn find_record<'a>(
    text: &'a [u8],
    is_whole: bool,
    head: &SignedPosition,
) -> Option<(RecordLine<'a>, usize)> {
    let finder = memchr::memmem::FinderRev::new(head.hash.as_bytes());
    let mut until = text.len();
    while let Some(start) = finder.rfind(&text[..until]) {
        until = start + head.hash.len() - 1;
        let is_line = if start == 0 { is_whole } else { text[start - 1] == b'\n' };
        let length = memchr::memchr(b'\n', &text[start..]).filter(|_| is_line);
        let line = length.and_then(|length| RecordLine::parse(&text[start..start + length]));
        if let Some(line) = line.filter(|line| line.seq == head.seq) {
            return Some((line, start));
        }
    }
    None
}

fn seq_of(line: &[u8]) -> Option<u64> {
    RecordLine::parse(line).map(|line| line.seq)
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
    /// Returns the end behind the next line, if the line continues the chain and was written by the
    /// gateway.
    fn extend(&self, key: &SigningKey, line: &[u8]) -> Option<(Self, Seal)> {
        let parsed = RecordLine::parse(line)?;
        let hash = self.hash.next(parsed.content);
        let is_next = parsed.seq == self.seq + 1 && hash == parsed.hash;
        let bytes = self.bytes + line.len() as u64 + 1;
        let end = Self { bytes, seq: parsed.seq, hash, ..*self };
        (is_next && key.mac(hash) == parsed.mac).then(|| (end, parsed.into()))
    }
}
