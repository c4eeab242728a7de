//! Lines of bytes from somebody who may send anything, of any length.

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of a line that is too long is kept from each of its ends.
const EDGE_BYTES: usize = 1024;
/// What is read at once.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// Splits what is read into lines.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    max_bytes: usize,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line break is.
    searched: usize,
    skipping: Option<OversizedLine>,
}

/// One line without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum InputLine<'a> {
    /// All of it.
    Complete(&'a [u8]),
    /// The two ends of one that was too long.
    Oversized(OversizedLine),
}

/// What is known of a line that was too long to be kept.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct OversizedLine {
    /// How it began.
    pub head: Vec<u8>,
    /// How it ended.
    pub tail: Vec<u8>,
    /// How long it was.
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
    /// Reads lines of at most so many bytes.
    pub fn new(reader: R, max_bytes: usize) -> Self {
        let buffer = Vec::with_capacity(READ_CHUNK_BYTES);
        Self { reader, max_bytes, buffer, start: 0, searched: 0, skipping: None }
    }

    /// The next line; `None` when there is none any more. What stands behind the last line break is
    /// not a line.
    ///
    /// # Errors
    ///
    /// What the system says.
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

    /// Forgets what was given out, and what belongs to a line that is too long.
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
