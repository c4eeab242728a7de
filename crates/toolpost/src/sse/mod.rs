//! Decoding of server-sent events.
//!
//! The body of a `text/event-stream` response is parsed exactly as the [HTML standard] specifies:
//! one byte order mark at the start is skipped, lines end with CR, LF or CRLF, and bytes that are
//! not UTF-8 become U+FFFD. Chunk boundaries do not affect the result.
//!
//! - [`SseDecoder`] takes chunks and returns events. Values that are contiguous in a chunk are
//!   borrowed, not copied.
//! - [`SseStream`] turns a stream of chunks into a stream of events.
//!
//! An event is complete at its blank line; an unfinished event at the end of the body is discarded.
//! A block without `data` is not an event, but its `id` and `retry` take effect:
//! [`SseDecoder::last_event_id`] and [`SseDecoder::retry`] return the values to reconnect with.
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
//! [HTML standard]:
//! https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

mod block;
mod decoder;
mod event;
mod stream;
#[cfg(test)]
mod tests;

pub use decoder::{DEFAULT_LIMIT, SseDecoder, SseError};
pub use event::SseEvent;
pub use stream::{SseStream, SseStreamError};
