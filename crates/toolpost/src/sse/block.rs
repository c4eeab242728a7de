//! Lines of one event, collected as bytes until the blank line.

use std::borrow::Cow;

/// Field of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SseField {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or a field that the standard does not define.
    Other,
}

/// Number of bytes that determine a field and its value: five letters, colon and space.
pub(super) const FIELD_PREFIX_LEN: usize = 7;

/// Splits a line into field and value. At least the first [`FIELD_PREFIX_LEN`] bytes of the line
/// are required, or the whole line if it is shorter.
pub(super) fn split_field(line: &[u8]) -> (SseField, &[u8]) {
    // A known field has its colon within this prefix.
    let colon = line.iter().take(FIELD_PREFIX_LEN - 1).position(|byte| *byte == b':');
    let (name, value) = match colon {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[][..]),
    };
    let field = match name {
        b"data" => SseField::Data,
        b"event" => SseField::Event,
        b"id" => SseField::Id,
        b"retry" => SseField::Retry,
        _ => SseField::Other,
    };
    (field, value.strip_prefix(b" ").unwrap_or(value))
}

/// The fields read since the last blank line.
///
/// Values stay bytes until the end of the block. A malformed UTF-8 sequence never extends past the
/// end of a line, so decoding at the end gives the same text as decoding line by line.
#[derive(Debug, Default)]
pub(super) struct EventBlock<'a> {
    /// Values of the `data` lines joined by line feeds; `None` before the first `data` line.
    pub(super) data: Option<Cow<'a, [u8]>>,
    pub(super) event: Cow<'a, [u8]>,
    /// Last valid id in this block.
    pub(super) id: Option<Cow<'a, [u8]>>,
    pub(super) retry: Option<u64>,
    /// The value of an unfinished `id` line. Its validity is known only at the end of the line.
    partial_id: Option<Cow<'a, [u8]>>,
    /// Value of a `retry` line that has not ended yet.
    partial_retry: Digits,
}

impl<'a> EventBlock<'a> {
    /// Begins a line of the given field with the first part of its value.
    pub(super) fn begin_line(&mut self, field: SseField, value: &'a [u8]) {
        match field {
            SseField::Data => match &mut self.data {
                None => self.data = Some(Cow::Borrowed(value)),
                Some(data) => {
                    let data = data.to_mut();
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            },
            SseField::Event => self.event = Cow::Borrowed(value),
            SseField::Id => self.partial_id = Some(Cow::Borrowed(value)),
            SseField::Retry => self.partial_retry = Digits::default().push(value),
            SseField::Other => {}
        }
    }

    /// Appends to the value of the current line.
    pub(super) fn extend_line(&mut self, field: SseField, more: &[u8]) {
        let value = match field {
            SseField::Data => self.data.get_or_insert_default(),
            SseField::Event => &mut self.event,
            SseField::Id => self.partial_id.get_or_insert_default(),
            SseField::Retry => return self.partial_retry = self.partial_retry.push(more),
            SseField::Other => return,
        };
        value.to_mut().extend_from_slice(more);
    }

    /// Ends the current line.
    pub(super) fn end_line(&mut self, field: SseField) {
        match field {
            SseField::Id => {
                let id = self.partial_id.take();
                self.id = id.filter(|id| !id.contains(&0)).or(self.id.take());
            }
            SseField::Retry => self.retry = self.partial_retry.value().or(self.retry),
            SseField::Data | SseField::Event | SseField::Other => {}
        }
    }

    /// Returns the size of the event so far, in bytes, with `last_id` for an inherited id.
    pub(super) fn size(&self, last_id: usize) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.len());
        let id = self.partial_id.as_ref().or(self.id.as_ref());
        data + self.event.len() + id.map_or(last_id, |id| id.len())
    }

    /// Copies borrowed data, so that the block outlives the chunk.
    pub(super) fn into_owned(self) -> EventBlock<'static> {
        let owned = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        EventBlock {
            data: self.data.map(owned),
            event: owned(self.event),
            id: self.id.map(owned),
            partial_id: self.partial_id.map(owned),
            ..EventBlock {
                retry: self.retry,
                partial_retry: self.partial_retry,
                ..EventBlock::default()
            }
        }
    }
}

/// A decimal number that is parsed in pieces.
#[derive(Debug, Clone, Copy, Default)]
enum Digits {
    #[default]
    Empty,
    /// Saturates at `u64::MAX`.
    Number(u64),
    /// The value contains a byte that is not a digit.
    Invalid,
}

impl Digits {
    fn push(self, more: &[u8]) -> Self {
        more.iter().fold(self, |digits, byte| match (digits, byte) {
            (Self::Empty, b'0'..=b'9') => Self::Number(u64::from(byte - b'0')),
            (Self::Number(number), b'0'..=b'9') => {
                Self::Number(number.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
            }
            _ => Self::Invalid,
        })
    }

    fn value(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Empty | Self::Invalid => None,
        }
    }
}
