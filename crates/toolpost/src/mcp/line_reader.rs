//! Splits untrusted bytes into lines of limited length.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Number of bytes kept from each end of an oversized line.
const EDGE_BYTES: usize = 1024;
/// Number of bytes to reserve for each read.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// Splits a byte stream into lines.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    max_bytes: usize,
    buffer: Vec<u8>,
    /// Offset of the next line in the buffer.
    start: usize,
    /// Offset up to which the buffer was searched for a line break.
    searched: usize,
    skipping: Option<OversizedLine>,
}

/// A line without its line break.
#[derive(Debug, PartialEq, Eq)]
pub enum InputLine<'a> {
    /// The whole line.
    Complete(&'a [u8]),
    /// A line that exceeds the limit; only its start and end are kept.
    Oversized(OversizedLine),
}

/// The two ends and the length of an oversized line.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct OversizedLine {
    /// First bytes of the line.
    pub head: Vec<u8>,
    /// Last bytes of the line.
    pub tail: Vec<u8>,
    /// Length of the line in bytes.
    pub bytes: usize,
}

impl OversizedLine {
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        let capacity = EDGE_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..capacity]);
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(EDGE_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(EDGE_BYTES);
        self.tail.drain(..surplus);
    }
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader for lines of at most `max_bytes` bytes.
    pub fn new(reader: R, max_bytes: usize) -> Self {
        let buffer = Vec::with_capacity(READ_CHUNK_BYTES);
        Self { reader, max_bytes, buffer, start: 0, searched: 0, skipping: None }
    }

    /// Returns the next line; `None` at the end. An unterminated last line is discarded.
    ///
    /// # Errors
    ///
    /// Returns I/O errors of the reader.
    pub async fn next_line(&mut self) -> std::io::Result<Option<InputLine<'_>>> {
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
            if let Some(found) = found {
                let (start, end) = (self.start, self.searched + found);
                (self.start, self.searched) = (end + 1, end + 1);
                let line = &self.buffer[start..end];
                return Ok(Some(match self.skipping.take() {
                    Some(mut long) => {
                        long.extend(line);
                        InputLine::Oversized(long)
                    }
                    None => InputLine::Complete(line.strip_suffix(b"\r").unwrap_or(line)),
                }));
            }
            self.searched = self.buffer.len();
            self.compact_buffer();
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Removes consumed lines and the bytes of an oversized line from the buffer.
    fn compact_buffer(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.skipping.is_some() || self.buffer.len() > self.max_bytes {
            self.skipping.get_or_insert_default().extend(&self.buffer);
            self.buffer.clear();
            self.searched = 0;
        }
        if self.buffer.capacity() > 16 * READ_CHUNK_BYTES && self.buffer.len() < READ_CHUNK_BYTES {
            self.buffer.shrink_to(READ_CHUNK_BYTES);
        }
        self.buffer.reserve(READ_CHUNK_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn split(bytes: &[u8], max: usize) -> Vec<String> {
        let mut lines = LineReader::new(bytes, max);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            all.push(match line {
                InputLine::Complete(line) => String::from_utf8_lossy(line).into_owned(),
                InputLine::Oversized(long) => format!("<{}>", long.bytes),
            });
        }
        all
    }

    #[tokio::test]
    async fn line_reader_splits_lines_and_drops_unterminated_tail() {
        assert_eq!(split(b"a\nbb\r\n\nlast", 100).await, ["a", "bb", ""]);
        assert_eq!(split(b"", 100).await, [""; 0]);
        let long = format!("{}\nshort\n", "x".repeat(300_000));
        assert_eq!(split(long.as_bytes(), 100_000).await, ["<300000>", "short"]);
        assert_eq!(split(long.as_bytes(), 400_000).await[1], "short");
    }

    #[tokio::test]
    async fn oversized_line_keeps_head_and_tail() {
        let text = format!("HEAD{}TAIL\n", "x".repeat(500_000));
        let mut lines = LineReader::new(text.as_bytes(), 1_000);
        let Some(InputLine::Oversized(long)) = lines.next_line().await.unwrap() else {
            panic!("too long")
        };
        assert_eq!((&long.head[..4], long.head.len()), (&b"HEAD"[..], EDGE_BYTES));
        assert_eq!((&long.tail[EDGE_BYTES - 4..], long.tail.len()), (&b"TAIL"[..], EDGE_BYTES));
        assert_eq!(long.bytes, text.len() - 1);
    }
}
