//! Lines of bytes from somebody who may send anything, of any length.

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of a line that is too long is kept from each of its ends.
const EDGE: usize = 1024;
/// What is read at once.
const CHUNK: usize = 64 * 1024;

/// Splits what is read into lines.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    most_bytes: usize,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line break is.
    searched: usize,
    skipping: Option<TooLong>,
}

/// One line without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// The two ends of one that was too long.
    TooLong(TooLong),
}

/// What is known of a line that was too long to be kept.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct TooLong {
    /// How it began.
    pub head: Vec<u8>,
    /// How it ended.
    pub tail: Vec<u8>,
    /// How long it was.
    pub bytes: usize,
}

impl TooLong {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        let room = EDGE.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(EDGE)..]);
        let surplus = self.tail.len().saturating_sub(EDGE);
        self.tail.drain(..surplus);
    }
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most so many bytes.
    pub fn new(reader: R, most_bytes: usize) -> Self {
        let buffer = Vec::with_capacity(CHUNK);
        Self { reader, most_bytes, buffer, start: 0, searched: 0, skipping: None }
    }

    /// The next line; `None` when there is none any more. What stands behind the last line break is
    /// not a line.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn next(&mut self) -> std::io::Result<Option<Line<'_>>> {
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
            if let Some(found) = found {
                let (start, end) = (self.start, self.searched + found);
                (self.start, self.searched) = (end + 1, end + 1);
                let line = &self.buffer[start..end];
                return Ok(Some(match self.skipping.take() {
                    Some(mut long) => {
                        long.add(line);
                        Line::TooLong(long)
                    }
                    None => Line::Whole(line.strip_suffix(b"\r").unwrap_or(line)),
                }));
            }
            self.searched = self.buffer.len();
            self.make_room();
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Forgets what was given out, and what belongs to a line that is too long.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.skipping.is_some() || self.buffer.len() > self.most_bytes {
            self.skipping.get_or_insert_default().add(&self.buffer);
            self.buffer.clear();
            self.searched = 0;
        }
        if self.buffer.capacity() > 16 * CHUNK && self.buffer.len() < CHUNK {
            self.buffer.shrink_to(CHUNK);
        }
        self.buffer.reserve(CHUNK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn split(bytes: &[u8], most: usize) -> Vec<String> {
        let mut lines = Lines::new(bytes, most);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::TooLong(long) => format!("<{}>", long.bytes),
            });
        }
        all
    }

    #[tokio::test]
    async fn lines_are_split_and_the_unfinished_one_is_none() {
        assert_eq!(split(b"a\nbb\r\n\nlast", 100).await, ["a", "bb", ""]);
        assert_eq!(split(b"", 100).await, [""; 0]);
        let long = format!("{}\nshort\n", "x".repeat(300_000));
        assert_eq!(split(long.as_bytes(), 100_000).await, ["<300000>", "short"]);
        assert_eq!(split(long.as_bytes(), 400_000).await[1], "short");
    }

    #[tokio::test]
    async fn the_ends_of_a_line_that_is_too_long_are_kept() {
        let text = format!("HEAD{}TAIL\n", "x".repeat(500_000));
        let mut lines = Lines::new(text.as_bytes(), 1_000);
        let Some(Line::TooLong(long)) = lines.next().await.unwrap() else { panic!("too long") };
        assert_eq!((&long.head[..4], long.head.len()), (&b"HEAD"[..], EDGE));
        assert_eq!((&long.tail[EDGE - 4..], long.tail.len()), (&b"TAIL"[..], EDGE));
        assert_eq!(long.bytes, text.len() - 1);
    }
}
