//! Server-sent events: bytes in, events out.
//!
//! The body of a `text/event-stream` answer is read as the [HTML standard] says, to the letter: one
//! byte order mark at the start is skipped, lines end with CR, LF or CRLF, and bytes that are not
//! UTF-8 become U+FFFD. Where the chunks of the body are cut makes no difference to what comes out.
//!
//! - [`SseDecoder`] takes chunks and hands out events. What lies in one piece in a chunk is lent,
//!   not copied.
//! - [`SseStream`] does that for a stream of chunks, and is a stream of events.
//!
//! An event is there once its blank line is; what the body ends in the middle of is never seen.
//! A block of lines without `data` is no event, but its `id` and `retry` count:
//! [`SseDecoder::last_event_id`] and [`SseDecoder::retry`] say what to reconnect with.
//!
//! ```
//! use toolpost::sse::SseDecoder;
//! use std::time::Duration;
//!
//! let mut decoder = SseDecoder::new();
//! let mut seen = Vec::new();
//! for chunk in ["id: 7\nretry: 1500\n\nda", "ta: one\ndata: two\n", "\n"] {
//!     decoder.feed(chunk.as_bytes(), |event| seen.push(event.into_owned()))?;
//! }
//! assert_eq!(seen.len(), 1);
//! assert_eq!((&*seen[0].event, &*seen[0].data), ("message", "one\ntwo"));
//! assert_eq!(decoder.last_event_id(), "7");
//! assert_eq!(decoder.retry(), Some(Duration::from_millis(1500)));
//! # Ok::<(), toolpost::sse::SseError>(())
//! ```
//!
//! [HTML standard]: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

mod block;
mod decoder;
mod event;
mod stream;
#[cfg(test)]
mod tests;

pub use decoder::{DEFAULT_LIMIT, SseDecoder, SseError};
pub use event::SseEvent;
pub use stream::{SseStream, SseStreamError};
