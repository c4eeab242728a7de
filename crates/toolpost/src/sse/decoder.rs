//! The state between two chunks.

use std::borrow::Cow;
use std::mem;
use std::time::Duration;

use memchr::memchr2;

use super::block::{EventBlock, FIELD_PREFIX_LEN, SseField, split_field};
use super::event::{MESSAGE, SseEvent};

/// How large an event may be unless the decoder is told otherwise: 64 MiB.
pub const DEFAULT_LIMIT: usize = 64 << 20;

const BYTE_ORDER_MARK: [u8; 3] = *b"\xEF\xBB\xBF";

/// Why a stream is read no further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// The data, type and id of an event are too many bytes together.
    #[error("event of the stream is larger than {limit} bytes")]
    TooLarge {
        /// What the decoder allows.
        limit: usize,
    },
}

/// Makes events of the bytes of one stream, however they are cut into chunks.
///
/// The time it takes is linear in the bytes, and what it holds between two chunks is the unfinished
/// event, within the limit. Comments and unknown fields are passed over and never held, whatever
/// their length.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// An event was too large, and where the next one begins is not looked for.
    is_finished: bool,
    /// The lines up to the next blank one belong to an event that is passed over.
    is_skipping: bool,
    /// How many bytes of a byte order mark the stream has begun with; all of them, too, when it has
    /// begun with something else.
    bom_matched: usize,
    /// The last line ended with CR, so that an LF right after it belongs to that end.
    is_after_cr: bool,
    /// The first bytes of a line whose field is not known yet, fewer than [`FIELD_PREFIX_LEN`].
    line_prefix: Vec<u8>,
    /// The field of a line that has begun in an earlier chunk.
    open_field: Option<SseField>,
    block: EventBlock<'static>,
    last_id: String,
    /// How many bytes that id came in. What replaces malformed ones is longer, and must not take an
    /// event that has been accepted over the limit afterwards.
    last_id_size: usize,
    retry: Option<u64>,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl SseDecoder {
    /// A decoder at the start of a stream, with the [`DEFAULT_LIMIT`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder at the start of a stream that allows an event so many bytes. Counted are its data,
    /// type and id, as they come, before anything is replaced.
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

    /// Takes the next chunk and hands every event that is complete with it to `each`.
    ///
    /// # Errors
    ///
    /// [`SseError::TooLarge`] once an event is larger than the limit. Events before it have been
    /// handed out; the decoder is finished and says the same to every further chunk.
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

    /// Goes on behind an event that was too large: what is left of it is passed over.
    pub(super) fn skip_event(&mut self) {
        (self.is_finished, self.is_skipping) = (false, true);
    }

    /// What to send as `Last-Event-ID`: the id as of the last blank line. An empty one is as good as
    /// none.
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// How long to wait before reconnecting, if the stream has said so.
    pub fn retry(&self) -> Option<Duration> {
        self.retry.map(Duration::from_millis)
    }

    /// The next event of a chunk, which is moved out of `rest`; none when the chunk is used up.
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

    /// Reads lines until a blank one ends an event, and says whether one did.
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

    /// Takes a part of a line whose end is elsewhere.
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

    /// Ends a line that was read in parts.
    fn end_partial_line(&mut self, block: &mut EventBlock<'_>) -> Result<(), SseError> {
        let field = match self.open_field.take() {
            Some(field) => field,
            None => self.begin_partial_line(block),
        };
        self.end_line(block, field)
    }

    /// Begins a line with what is known of it.
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

    /// Does what a blank line does, and says whether the block is an event; otherwise it is empty
    /// afterwards.
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

/// Text of bytes, with U+FFFD for what is none.
///
/// The lossy way goes byte by byte, so it is taken only where something is to be lost.
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
