//! Events of a stream of chunks.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;

use super::decoder::{SseDecoder, SseError};
use super::event::SseEvent;

/// Why a stream of events ends before its time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseStreamError<E: Error + 'static> {
    /// The next chunk could not be had.
    #[error("event stream broke off")]
    Chunk(#[source] E),
    /// The bytes cannot be read further.
    #[error(transparent)]
    Decode(#[from] SseError),
}

/// The events of a stream of chunks, such as the body of an answer.
///
/// It holds one chunk at a time and asks for the next when its events are used up. It ends with the
/// chunks or after the first error, unless it is [passing over](SseStream::skip_oversized) what is too
/// large; [`SseStream::decoder`] then says what to reconnect with.
///
/// # Cancellation
///
/// Dropping it drops the stream of chunks. Nothing is lost by not waiting for the next event.
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
    /// Dropped as soon as there is nothing more to be had from it.
    chunks: Option<S>,
    decoder: SseDecoder,
    /// The chunk that is being read, and how much of it has been.
    chunk: Option<(B, usize)>,
    /// Whether an event that is too large is not the end.
    skips_oversized: bool,
}

/// The chunk is only looked at.
impl<S: Unpin, B> Unpin for SseStream<S, B> {}

impl<S, B> SseStream<S, B> {
    /// The events of `chunks`, with the limit of [`SseDecoder::new`].
    pub fn new(chunks: S) -> Self {
        Self::with_decoder(chunks, SseDecoder::new())
    }

    /// The events of `chunks`, read by `decoder`.
    pub fn with_decoder(chunks: S, decoder: SseDecoder) -> Self {
        Self { chunks: Some(chunks), decoder, chunk: None, skips_oversized: false }
    }

    /// Goes on after an event that is too large: the error is an item of the stream, the event is
    /// passed over, and the next one follows.
    #[must_use]
    pub fn skip_oversized(mut self) -> Self {
        self.skips_oversized = true;
        self
    }

    /// What reads the chunks.
    pub fn decoder(&self) -> &SseDecoder {
        &self.decoder
    }
}

impl<S, B: AsRef<[u8]>> SseStream<S, B> {
    /// The next event of the chunk at hand.
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
        // A chunk that has been used up is not held while the next is waited for.
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
