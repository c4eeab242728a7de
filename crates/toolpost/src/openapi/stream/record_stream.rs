//! Splits a body into records at a separator byte, such as lines.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use memchr::memchr;

/// Splits a stream of chunks into records.
pub(super) struct RecordStream<S> {
    chunks: Option<S>,
    separator: u8,
    max_bytes: usize,
    /// The incomplete current record.
    partial: Vec<u8>,
    /// Whether the current record exceeds the size limit.
    is_too_large: bool,
    complete: VecDeque<Record>,
}

/// A record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Value(String),
    Malformed(String),
}

impl<S> RecordStream<S> {
    pub(super) fn new(chunks: S, separator: u8, max_bytes: usize) -> Self {
        let (partial, complete) = (Vec::new(), VecDeque::new());
        Self { chunks: Some(chunks), separator, max_bytes, partial, is_too_large: false, complete }
    }

    fn push_chunk(&mut self, mut chunk: &[u8]) {
        while let Some(end) = memchr(self.separator, chunk) {
            self.extend_partial(&chunk[..end]);
            self.finish_record();
            chunk = &chunk[end + 1..];
        }
        self.extend_partial(chunk);
    }

    fn extend_partial(&mut self, part: &[u8]) {
        if self.partial.len() + part.len() > self.max_bytes {
            self.is_too_large = true;
            self.partial = Vec::new();
        }
        if !self.is_too_large {
            self.partial.extend_from_slice(part);
        }
    }

    fn finish_record(&mut self) {
        let bytes = std::mem::take(&mut self.partial);
        let record = if std::mem::take(&mut self.is_too_large) {
            Record::Malformed(format!(
                "a value of the stream is larger than {} bytes",
                self.max_bytes
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

impl<S, E> RecordStream<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    pub(super) async fn next(&mut self) -> Option<Result<Record, E>> {
        loop {
            if let Some(record) = self.complete.pop_front() {
                return Some(Ok(record));
            }
            match self.chunks.as_mut()?.next().await {
                Some(Ok(chunk)) => self.push_chunk(&chunk),
                Some(Err(error)) => {
                    self.chunks = None;
                    return Some(Err(error));
                }
                None => {
                    self.chunks = None;
                    // The last record needs no separator after it.
                    self.finish_record();
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
    async fn records_split_independently_of_chunks() {
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
                let mut records = RecordStream::new(chunks, separator, 10);
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
