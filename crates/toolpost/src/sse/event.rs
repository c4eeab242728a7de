//! What a block of lines says.

use std::borrow::Cow;

/// The type of an event that does not name one.
pub(super) const MESSAGE: &str = "message";

/// One event, lent by the chunk it came in as far as it lay there in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent<'a> {
    /// Its type: `message` unless the block says something else.
    pub event: Cow<'a, str>,
    /// The values of its `data` lines, with a line feed between them.
    pub data: Cow<'a, str>,
    /// The last id that the stream has given, in this block or in one before; empty without one.
    pub id: Cow<'a, str>,
    /// The milliseconds to wait before reconnecting, if this block says so.
    pub retry: Option<u64>,
}

impl SseEvent<'_> {
    /// The event on its own, to be kept longer than its chunk.
    pub fn into_owned(self) -> SseEvent<'static> {
        // Most events are of this type, which costs no memory.
        let event = match self.event {
            event if event == MESSAGE => Cow::Borrowed(MESSAGE),
            event => Cow::Owned(event.into_owned()),
        };
        SseEvent {
            event,
            data: Cow::Owned(self.data.into_owned()),
            id: Cow::Owned(self.id.into_owned()),
            retry: self.retry,
        }
    }
}
