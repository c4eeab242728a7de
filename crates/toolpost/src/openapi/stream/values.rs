//! The values of a body that comes piece by piece: events, or JSON values in a row.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Response;

use super::records::{Record, Records};
use crate::envelope::SseMeta;
use crate::openapi::response::Media;
use crate::sse::{SseDecoder, SseStream, SseStreamError};

type Chunks = BoxStream<'static, Result<Bytes, reqwest::Error>>;

/// The values of one answer.
pub(super) enum Values {
    Events(Box<SseStream<Chunks, Bytes>>),
    Records(Box<Records<Chunks>>),
}

/// What comes next.
pub(super) enum Next {
    /// A value as text, with the fields of its event.
    Value(String, Option<SseMeta>),
    /// Something that cannot be read; there is more behind it.
    Malformed(String),
    /// The service has said everything.
    End,
    /// The connection is gone.
    Broken(String),
}

impl Values {
    /// The values of an answer, each of them up to so many bytes.
    pub(super) fn of(response: Response, media: Media, most_bytes: usize) -> Self {
        let chunks = response.bytes_stream().boxed();
        match media {
            Media::JsonLines => Self::Records(Box::new(Records::new(chunks, b'\n', most_bytes))),
            Media::JsonSequence => Self::Records(Box::new(Records::new(chunks, 0x1e, most_bytes))),
            _ => {
                let decoder = SseDecoder::with_limit(most_bytes);
                let events = SseStream::with_decoder(chunks, decoder).passing_over();
                Self::Events(Box::new(events))
            }
        }
    }

    pub(super) async fn next(&mut self) -> Next {
        match self {
            Self::Events(events) => next_event(events).await,
            Self::Records(records) => match records.next().await {
                Some(Ok(Record::Value(text))) => Next::Value(text, None),
                Some(Ok(Record::Malformed(words))) => Next::Malformed(words),
                Some(Err(error)) => Next::Broken(words(&error)),
                None => Next::End,
            },
        }
    }

    /// What to ask for the rest with, and how long to wait before, as far as the service has said it.
    pub(super) fn place(&self) -> (&str, Option<Duration>) {
        match self {
            Self::Events(events) => (events.decoder().last_event_id(), events.decoder().retry()),
            Self::Records(_) => ("", None),
        }
    }
}

async fn next_event(events: &mut SseStream<Chunks, Bytes>) -> Next {
    match events.next().await {
        Some(Ok(event)) => {
            let mut meta = SseMeta::new(event.event, event.id);
            meta.retry = event.retry;
            Next::Value(event.data.into_owned(), Some(meta))
        }
        Some(Err(SseStreamError::Decode(error))) => Next::Malformed(error.to_string()),
        Some(Err(SseStreamError::Chunk(error))) => Next::Broken(words(&error)),
        None => Next::End,
    }
}

/// What went wrong at the bottom of it, without the address, which may hold a secret.
fn words(error: &reqwest::Error) -> String {
    let error: &dyn std::error::Error = error;
    let reasons = std::iter::successors(error.source(), |reason| reason.source());
    reasons.last().map_or_else(|| "the connection broke".to_owned(), ToString::to_string)
}
