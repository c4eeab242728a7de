//! The lines of one event, gathered as bytes until the blank line.

use std::borrow::Cow;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SseField {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or a field that the standard does not know.
    Other,
}

/// So many bytes at the start of a line tell its field, and where its value begins: five letters,
/// the colon and the space.
pub(super) const FIELD_PREFIX_LEN: usize = 7;

/// Parts a line, or its first [`FIELD_PREFIX_LEN`] bytes at least, into field and value.
pub(super) fn split_field(line: &[u8]) -> (SseField, &[u8]) {
    // A colon further back cannot follow a field that is known.
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

/// What the lines since the last blank one have said.
///
/// Bytes stay bytes here: a malformed sequence never reaches over the end of a line, so that text
/// made at the end is the same as text made line by line.
#[derive(Debug, Default)]
pub(super) struct EventBlock<'a> {
    /// The values of the `data` lines and the line feeds between them; none before the first.
    pub(super) data: Option<Cow<'a, [u8]>>,
    pub(super) event: Cow<'a, [u8]>,
    /// The last id of this block that may be one.
    pub(super) id: Option<Cow<'a, [u8]>>,
    pub(super) retry: Option<u64>,
    /// The value of an `id` line before its end, where it is known whether it counts.
    partial_id: Option<Cow<'a, [u8]>>,
    /// The same for `retry`.
    partial_retry: Digits,
}

impl<'a> EventBlock<'a> {
    /// A line of this field begins, with so much of its value.
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

    /// The value of the line that has begun goes on.
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

    /// The line that has begun ends.
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

    /// How large the event is so far; `last_id` is the size of its id until it has one of its own.
    pub(super) fn size(&self, last_id: usize) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.len());
        let id = self.partial_id.as_ref().or(self.id.as_ref());
        data + self.event.len() + id.map_or(last_id, |id| id.len())
    }

    /// The same without the chunk.
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

/// A number in decimal digits, which comes piece by piece.
#[derive(Debug, Clone, Copy, Default)]
enum Digits {
    #[default]
    Empty,
    /// The largest number stands for all that are larger.
    Number(u64),
    /// Something else was among them.
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
