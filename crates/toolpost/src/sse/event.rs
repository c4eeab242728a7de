//! A decoded server-sent event.

use std::borrow::Cow;

/// Default event type.
pub(super) const MESSAGE: &str = "message";

/// One event. Values that are contiguous in the chunk are borrowed from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent<'a> {
    /// The event type. The default is `message`.
    pub event: Cow<'a, str>,
    /// Values of the `data` lines, joined by line feeds.
    pub data: Cow<'a, str>,
    /// Last event id of the stream, from this block or an earlier one; empty if there is none.
    pub id: Cow<'a, str>,
    /// Milliseconds to wait before reconnecting, if this block specifies it.
    pub retry: Option<u64>,
}

impl SseEvent<'_> {
    /// Converts the event into one that does not borrow from the chunk.
    pub fn into_owned(self) -> SseEvent<'static> {
        // `message` is the most common type and needs no allocation.
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
