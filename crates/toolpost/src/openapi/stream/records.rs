//! Texts with a byte between them, such as the lines of a body.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use memchr::memchr;

/// The records of a stream of chunks.
pub(super) struct Records<S> {
    chunks: Option<S>,
    separator: u8,
    most_bytes: usize,
    /// The record that has begun.
    open: Vec<u8>,
    /// Whether the record that has begun is larger than it may be.
    is_too_large: bool,
    complete: VecDeque<Record>,
}

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Value(String),
    Malformed(String),
}

impl<S> Records<S> {
    pub(super) fn new(chunks: S, separator: u8, most_bytes: usize) -> Self {
        let (open, complete) = (Vec::new(), VecDeque::new());
        Self { chunks: Some(chunks), separator, most_bytes, open, is_too_large: false, complete }
    }

    fn feed(&mut self, mut chunk: &[u8]) {
        while let Some(end) = memchr(self.separator, chunk) {
            self.extend(&chunk[..end]);
            self.close();
            chunk = &chunk[end + 1..];
        }
        self.extend(chunk);
    }

    fn extend(&mut self, part: &[u8]) {
        if self.open.len() + part.len() > self.most_bytes {
            self.is_too_large = true;
            self.open = Vec::new();
        }
        if !self.is_too_large {
            self.open.extend_from_slice(part);
        }
    }

    fn close(&mut self) {
        let bytes = std::mem::take(&mut self.open);
        let record = if std::mem::take(&mut self.is_too_large) {
            Record::Malformed(format!(
                "a value of the stream is larger than {} bytes",
                self.most_bytes
            ))
        } else if bytes.trim_ascii().is_empty() {
            return;
        } else {
            String::from_utf8(bytes).map_or_else(
                |_| Record::Malformed("a value of the stream is not UTF-8".to_owned()),
                Record::Value,
            )
        };
        self.complete.push_back(record);
    }
}

impl<S, E> Records<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    pub(super) async fn next(&mut self) -> Option<Result<Record, E>> {
        loop {
            if let Some(record) = self.complete.pop_front() {
                return Some(Ok(record));
            }
            match self.chunks.as_mut()?.next().await {
                Some(Ok(chunk)) => self.feed(&chunk),
                Some(Err(error)) => {
                    self.chunks = None;
                    return Some(Err(error));
                }
                None => {
                    self.chunks = None;
                    // The last record needs nothing behind it.
                    self.close();
                    return self.complete.pop_front().map(Ok);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn records_are_cut_wherever_the_chunks_are() {
        let rows: [(u8, &[u8], &str); 7] = [
            (b'\n', b"{\"a\":1}\n{\"a\":2}\n", "{\"a\":1}|{\"a\":2}"),
            (b'\n', b"1\r\n\r\n2", "1\r|2"),
            (b'\n', b"1\n\n \n2\n", "1|2"),
            (b'\n', b"1\nlarger than ten\n2\n", "1|!|2"),
            (b'\n', b"1\n\xff\n2", "1|!|2"),
            (0x1e, b"\x1e{\"a\":1}\n\x1e[\n]\n", "{\"a\":1}\n|[\n]\n"),
            (b'\n', b"", ""),
        ];
        for (separator, body, expected) in rows {
            for size in [body.len().max(1), 1, 2, 5] {
                let chunks =
                    body.chunks(size).map(|chunk| Ok::<_, ()>(Bytes::copy_from_slice(chunk)));
                let chunks = futures::stream::iter(chunks.collect::<Vec<_>>());
                let mut records = Records::new(chunks, separator, 10);
                let mut seen = Vec::new();
                while let Some(Ok(record)) = records.next().await {
                    seen.push(match record {
                        Record::Value(text) => text,
                        Record::Malformed(_) => "!".to_owned(),
                    });
                }
                assert_eq!(seen.join("|"), expected, "{body:?} in pieces of {size}");
            }
        }
    }
}
