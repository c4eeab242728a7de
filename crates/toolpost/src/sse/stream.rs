//! Stream adapter that decodes events from chunks.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;

use super::decoder::{SseDecoder, SseError};
use super::event::SseEvent;

/// Error of an event stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseStreamError<E: Error + 'static> {
    /// The underlying stream returned an error.
    #[error("event stream disconnected")]
    Chunk(#[source] E),
    /// The decoder returned an error.
    #[error(transparent)]
    Decode(#[from] SseError),
}

/// A stream of events decoded from a stream of chunks, such as a response body.
///
/// It holds one chunk at a time and polls for the next when all events of the chunk are consumed.
/// It ends with the chunks or after the first error, unless it [skips](SseStream::skip_oversized)
/// oversized events. [`SseStream::decoder`] then returns the values to reconnect with.
///
/// # Cancellation
///
/// Dropping the stream drops the stream of chunks. Waiting for the next event is cancel safe.
///
/// # Examples
///
/// ```
/// use futures::StreamExt;
/// use toolpost::sse::SseStream;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let chunks = ["event: add\nda", "ta: 73857293\n\n"].map(Ok::<_, std::io::Error>);
/// let mut events = SseStream::new(futures::stream::iter(chunks));
/// let event = events.next().await.expect("there is an event")?;
/// assert_eq!((&*event.event, &*event.data), ("add", "73857293"));
/// assert!(events.next().await.is_none());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SseStream<S, B> {
    /// Dropped when the stream ends.
    chunks: Option<S>,
    decoder: SseDecoder,
    /// Current chunk and the number of bytes read from it.
    chunk: Option<(B, usize)>,
    /// Whether the stream continues after an oversized event.
    skips_oversized: bool,
}

/// The chunk is never pinned, so `B` need not be `Unpin`.
impl<S: Unpin, B> Unpin for SseStream<S, B> {}

impl<S, B> SseStream<S, B> {
    /// Decodes the events of `chunks` with the limit of [`SseDecoder::new`].
    pub fn new(chunks: S) -> Self {
        Self::with_decoder(chunks, SseDecoder::new())
    }

    /// Decodes the events of `chunks` with the given decoder.
    pub fn with_decoder(chunks: S, decoder: SseDecoder) -> Self {
        Self { chunks: Some(chunks), decoder, chunk: None, skips_oversized: false }
    }

    /// Continues after an oversized event: the stream yields the error and skips the event.
    #[must_use]
    pub fn skip_oversized(mut self) -> Self {
        self.skips_oversized = true;
        self
    }

    /// Returns the decoder of the stream.
    pub fn decoder(&self) -> &SseDecoder {
        &self.decoder
    }
}

impl<S, B: AsRef<[u8]>> SseStream<S, B> {
    /// Returns the next event of the current chunk.
    fn next_event(
        current_chunk: &mut Option<(B, usize)>,
        decoder: &mut SseDecoder,
    ) -> Result<Option<SseEvent<'static>>, SseError> {
        let Some((chunk, read)) = current_chunk else { return Ok(None) };
        let bytes = chunk.as_ref();
        let mut rest = bytes.get(*read..).unwrap_or_default();
        let taken = decoder.next_event(&mut rest).map(|event| event.map(SseEvent::into_owned));
        *read = bytes.len() - rest.len();
        let event = taken?;
        // Drop a consumed chunk before waiting for the next one.
        if event.is_none() {
            *current_chunk = None;
        }
        Ok(event)
    }
}

impl<S, B, E> Stream for SseStream<S, B>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: AsRef<[u8]>,
    E: Error + 'static,
{
    type Item = Result<SseEvent<'static>, SseStreamError<E>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while let Some(chunks) = &mut this.chunks {
            let error = match Self::next_event(&mut this.chunk, &mut this.decoder) {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Ok(None) => match ready!(Pin::new(chunks).poll_next(context)) {
                    Some(Ok(chunk)) => {
                        this.chunk = Some((chunk, 0));
                        continue;
                    }
                    Some(Err(error)) => Some(SseStreamError::Chunk(error)),
                    None => None,
                },
                Err(error) if this.skips_oversized => {
                    this.decoder.skip_event();
                    return Poll::Ready(Some(Err(error.into())));
                }
                Err(error) => Some(SseStreamError::Decode(error)),
            };
            (this.chunks, this.chunk) = (None, None);
            return Poll::Ready(error.map(Err));
        }
        Poll::Ready(None)
    }
}
