//! The lines of one event, gathered as bytes until the blank line.

use std::borrow::Cow;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or a field that the standard does not know.
    Other,
}

/// So many bytes at the start of a line tell its field, and where its value begins: five letters,
/// the colon and the space.
pub(super) const HEAD: usize = 7;

/// Parts a line, or its first [`HEAD`] bytes at least, into field and value.
pub(super) fn split(line: &[u8]) -> (Field, &[u8]) {
    // A colon further back cannot follow a field that is known.
    let colon = line.iter().take(HEAD - 1).position(|byte| *byte == b':');
    let (name, value) = match colon {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[][..]),
    };
    let field = match name {
        b"data" => Field::Data,
        b"event" => Field::Event,
        b"id" => Field::Id,
        b"retry" => Field::Retry,
        _ => Field::Other,
    };
    (field, value.strip_prefix(b" ").unwrap_or(value))
}

/// What the lines since the last blank one have said.
///
/// Bytes stay bytes here: a malformed sequence never reaches over the end of a line, so that text
/// made at the end is the same as text made line by line.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    /// The values of the `data` lines and the line feeds between them; none before the first.
    pub(super) data: Option<Cow<'a, [u8]>>,
    pub(super) event: Cow<'a, [u8]>,
    /// The last id of this block that may be one.
    pub(super) id: Option<Cow<'a, [u8]>>,
    pub(super) retry: Option<u64>,
    /// The value of an `id` line before its end, where it is known whether it counts.
    open_id: Option<Cow<'a, [u8]>>,
    /// The same for `retry`.
    open_retry: Digits,
}

impl<'a> Block<'a> {
    /// A line of this field begins, with so much of its value.
    pub(super) fn begin(&mut self, field: Field, value: &'a [u8]) {
        match field {
            Field::Data => match &mut self.data {
                None => self.data = Some(Cow::Borrowed(value)),
                Some(data) => {
                    let data = data.to_mut();
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            },
            Field::Event => self.event = Cow::Borrowed(value),
            Field::Id => self.open_id = Some(Cow::Borrowed(value)),
            Field::Retry => self.open_retry = Digits::default().and(value),
            Field::Other => {}
        }
    }

    /// The value of the line that has begun goes on.
    pub(super) fn extend(&mut self, field: Field, more: &[u8]) {
        let value = match field {
            Field::Data => self.data.get_or_insert_default(),
            Field::Event => &mut self.event,
            Field::Id => self.open_id.get_or_insert_default(),
            Field::Retry => return self.open_retry = self.open_retry.and(more),
            Field::Other => return,
        };
        value.to_mut().extend_from_slice(more);
    }

    /// The line that has begun ends.
    pub(super) fn end(&mut self, field: Field) {
        match field {
            Field::Id => {
                let id = self.open_id.take();
                self.id = id.filter(|id| !id.contains(&0)).or(self.id.take());
            }
            Field::Retry => self.retry = self.open_retry.value().or(self.retry),
            Field::Data | Field::Event | Field::Other => {}
        }
    }

    /// How large the event is so far; `last_id` is the size of its id until it has one of its own.
    pub(super) fn size(&self, last_id: usize) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.len());
        let id = self.open_id.as_ref().or(self.id.as_ref());
        data + self.event.len() + id.map_or(last_id, |id| id.len())
    }

    /// The same without the chunk.
    pub(super) fn into_owned(self) -> Block<'static> {
        let owned = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        Block {
            data: self.data.map(owned),
            event: owned(self.event),
            id: self.id.map(owned),
            open_id: self.open_id.map(owned),
            ..Block { retry: self.retry, open_retry: self.open_retry, ..Block::default() }
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
    Garbage,
}

impl Digits {
    fn and(self, more: &[u8]) -> Self {
        more.iter().fold(self, |digits, byte| match (digits, byte) {
            (Self::Empty, b'0'..=b'9') => Self::Number(u64::from(byte - b'0')),
            (Self::Number(number), b'0'..=b'9') => {
                Self::Number(number.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
            }
            _ => Self::Garbage,
        })
    }

    fn value(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Empty | Self::Garbage => None,
        }
    }
}
