//! Incremental decoder that keeps its state between chunks.

use std::borrow::Cow;
use std::mem;
use std::time::Duration;

use memchr::memchr2;

use super::block::{EventBlock, FIELD_PREFIX_LEN, SseField, split_field};
use super::event::{MESSAGE, SseEvent};

/// Default maximum size of an event: 64 MiB.
pub const DEFAULT_LIMIT: usize = 64 << 20;

const BYTE_ORDER_MARK: [u8; 3] = *b"\xEF\xBB\xBF";

/// Error that ends decoding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// The data, type and id of an event together exceed the size limit.
    #[error("stream event is larger than {limit} bytes")]
    TooLarge {
        /// Size limit of the decoder, in bytes.
        limit: usize,
    },
}

/// Decodes the bytes of one stream into events, independent of chunk boundaries.
///
/// Decoding takes linear time. Between two chunks, the decoder holds only the unfinished event,
/// within the limit. Comments and unknown fields are skipped and never buffered, whatever their
/// length.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// Set after an oversized event: the decoder does not search for the next event.
    is_finished: bool,
    /// Whether lines are discarded until the next blank line.
    is_skipping: bool,
    /// Number of byte order mark bytes matched at the start of the stream. Set to the full length
    /// of the mark if the stream starts with something else.
    bom_matched: usize,
    /// Whether the last line ended with CR. An LF right after it is part of the same line ending.
    is_after_cr: bool,
    /// The first bytes of a line whose field is not known yet. Shorter than [`FIELD_PREFIX_LEN`].
    line_prefix: Vec<u8>,
    /// Field of a line that began in an earlier chunk.
    open_field: Option<SseField>,
    block: EventBlock<'static>,
    last_id: String,
    /// Size of the last id in bytes as received. Replacement characters are longer than the
    /// malformed bytes and must not push a later event over the limit.
    last_id_size: usize,
    retry: Option<u64>,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl SseDecoder {
    /// Creates a decoder with [`DEFAULT_LIMIT`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a decoder for a new stream with a maximum event size. The size counts the data, type
    /// and id in bytes as received, before malformed bytes are replaced.
    pub fn with_limit(bytes: usize) -> Self {
        Self {
            limit: bytes,
            is_finished: false,
            is_skipping: false,
            bom_matched: 0,
            is_after_cr: false,
            line_prefix: Vec::with_capacity(FIELD_PREFIX_LEN),
            open_field: None,
            block: EventBlock::default(),
            last_id: String::new(),
            last_id_size: 0,
            retry: None,
        }
    }

    /// Decodes the next chunk and passes every completed event to `each`.
    ///
    /// # Errors
    ///
    /// Returns [`SseError::TooLarge`] if an event exceeds the limit. Earlier events have been
    /// passed to `each`. The decoder then returns the same error for every further chunk.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(SseEvent<'_>),
    ) -> Result<(), SseError> {
        let mut rest = chunk;
        while let Some(event) = self.next_event(&mut rest)? {
            each(event);
        }
        Ok(())
    }

    /// Resumes after an oversized event and skips the rest of it.
    pub(super) fn skip_event(&mut self) {
        (self.is_finished, self.is_skipping) = (false, true);
    }

    /// Returns the value for `Last-Event-ID`: the id as of the last blank line, or empty.
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// Returns how long to wait before reconnecting, if the stream specifies it.
    pub fn retry(&self) -> Option<Duration> {
        self.retry.map(Duration::from_millis)
    }

    /// Returns the next event and advances `rest` past it; `None` at the end of the chunk.
    pub(super) fn next_event<'a, 'c: 'a>(
        &'a mut self,
        rest: &mut &'c [u8],
    ) -> Result<Option<SseEvent<'a>>, SseError> {
        if self.is_finished {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        self.skip_bom(rest);
        let mut block = mem::take(&mut self.block);
        if self.read_lines(&mut block, rest)? {
            return Ok(Some(self.to_event(block)));
        }
        self.block = block.into_owned();
        Ok(None)
    }

    fn skip_bom(&mut self, rest: &mut &[u8]) {
        while let Some(expected) = BYTE_ORDER_MARK.get(self.bom_matched)
            && let Some((first, after)) = rest.split_first()
        {
            if first == expected {
                self.bom_matched += 1;
                *rest = after;
            } else {
                self.line_prefix.extend_from_slice(&BYTE_ORDER_MARK[..self.bom_matched]);
                self.bom_matched = BYTE_ORDER_MARK.len();
            }
        }
    }

    /// Reads lines until a blank line completes an event. Returns whether one was completed.
    fn read_lines<'c>(
        &mut self,
        block: &mut EventBlock<'c>,
        rest: &mut &'c [u8],
    ) -> Result<bool, SseError> {
        loop {
            if mem::take(&mut self.is_after_cr) {
                match rest.first() {
                    Some(b'\n') => *rest = &rest[1..],
                    Some(_) => {}
                    None => self.is_after_cr = true,
                }
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.read_partial_line(block, mem::take(rest))?;
                return Ok(false);
            };
            let line = &rest[..end];
            self.is_after_cr = rest[end] == b'\r';
            *rest = &rest[end + 1..];
            if self.open_field.is_some() || !self.line_prefix.is_empty() {
                self.read_partial_line(block, line)?;
                self.end_partial_line(block)?;
            } else if !line.is_empty() {
                let (field, value) = split_field(line);
                block.begin_line(field, value);
                self.end_line(block, field)?;
            } else if self.end_block(block) {
                return Ok(true);
            }
        }
    }

    /// Reads part of a line that spans chunks.
    fn read_partial_line<'c>(
        &mut self,
        block: &mut EventBlock<'c>,
        part: &'c [u8],
    ) -> Result<(), SseError> {
        if let Some(field) = self.open_field {
            block.extend_line(field, part);
        } else if self.line_prefix.is_empty() && part.len() >= FIELD_PREFIX_LEN {
            let (field, value) = split_field(part);
            block.begin_line(field, value);
            self.open_field = Some(field);
        } else {
            let (head, more) =
                part.split_at(part.len().min(FIELD_PREFIX_LEN - self.line_prefix.len()));
            self.line_prefix.extend_from_slice(head);
            if self.line_prefix.len() == FIELD_PREFIX_LEN {
                let field = self.begin_partial_line(block);
                block.extend_line(field, more);
                self.open_field = Some(field);
            }
        }
        self.check_limit(block)
    }

    /// Ends a line that arrived in several parts.
    fn end_partial_line(&mut self, block: &mut EventBlock<'_>) -> Result<(), SseError> {
        let field = match self.open_field.take() {
            Some(field) => field,
            None => self.begin_partial_line(block),
        };
        self.end_line(block, field)
    }

    /// Begins a line from the buffered prefix.
    fn begin_partial_line(&mut self, block: &mut EventBlock<'_>) -> SseField {
        let (field, value) = split_field(&self.line_prefix);
        block.begin_line(field, &[]);
        block.extend_line(field, value);
        self.line_prefix.clear();
        field
    }

    fn end_line(&mut self, block: &mut EventBlock<'_>, field: SseField) -> Result<(), SseError> {
        self.check_limit(block)?;
        block.end_line(field);
        if field == SseField::Retry {
            self.retry = block.retry.or(self.retry);
        }
        Ok(())
    }

    fn check_limit(&mut self, block: &mut EventBlock<'_>) -> Result<(), SseError> {
        if self.is_skipping {
            *block = EventBlock::default();
        }
        if block.size(self.last_id_size) <= self.limit {
            return Ok(());
        }
        self.is_finished = true;
        Err(SseError::TooLarge { limit: self.limit })
    }

    /// Handles a blank line. Returns whether the block is an event; if not, the block is cleared.
    fn end_block(&mut self, block: &mut EventBlock<'_>) -> bool {
        if mem::take(&mut self.is_skipping) {
            *block = EventBlock::default();
            return false;
        }
        if let Some(id) = block.id.take() {
            self.last_id_size = id.len();
            self.last_id.clear();
            self.last_id.push_str(&utf8_lossy(id));
        }
        if block.data.is_none() {
            *block = EventBlock::default();
        }
        block.data.is_some()
    }

    fn to_event<'a, 'c: 'a>(&'a self, block: EventBlock<'c>) -> SseEvent<'a> {
        let event =
            if block.event.is_empty() { Cow::Borrowed(MESSAGE) } else { utf8_lossy(block.event) };
        SseEvent {
            event,
            data: utf8_lossy(block.data.unwrap_or_default()),
            id: Cow::Borrowed(&self.last_id),
            retry: block.retry,
        }
    }
}

/// Converts bytes to text and replaces malformed UTF-8 with U+FFFD.
///
/// Lossy conversion is slow, so it is used only if the bytes are not valid UTF-8.
fn utf8_lossy(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match bytes {
        Cow::Borrowed(bytes) => {
            std::str::from_utf8(bytes).map_or_else(|_| Cow::Owned(lossy(bytes)), Cow::Borrowed)
        }
        Cow::Owned(bytes) => {
            Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| lossy(error.as_bytes())))
        }
    }
}
