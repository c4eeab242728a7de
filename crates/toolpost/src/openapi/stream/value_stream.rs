//! Values of a streaming body: server-sent events or JSON records.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Response;

use super::record_stream::{Record, RecordStream};
use crate::envelope::SseMeta;
use crate::http::innermost_cause;
use crate::openapi::media_type::MediaKind;
use crate::sse::{SseDecoder, SseStream, SseStreamError};

type ByteChunks = BoxStream<'static, Result<Bytes, reqwest::Error>>;

/// The values of one response.
pub(super) enum ValueStream {
    Events(Box<SseStream<ByteChunks, Bytes>>),
    Records(Box<RecordStream<ByteChunks>>),
}

/// The next item of a stream.
pub(super) enum NextValue {
    /// A value as text, with the fields of its server-sent event.
    Value(String, Option<SseMeta>),
    /// An item that cannot be decoded. The stream continues.
    Malformed(String),
    /// The body is complete.
    End,
    /// The connection was lost.
    ConnectionLost(String),
}

impl ValueStream {
    /// Creates the stream of a response. `max_bytes` limits each value.
    pub(super) fn from_response(response: Response, media: MediaKind, max_bytes: usize) -> Self {
        let chunks = response.bytes_stream().boxed();
        match media {
            MediaKind::JsonLines => {
                Self::Records(Box::new(RecordStream::new(chunks, b'\n', max_bytes)))
            }
            MediaKind::JsonSequence => {
                Self::Records(Box::new(RecordStream::new(chunks, 0x1e, max_bytes)))
            }
            _ => {
                let decoder = SseDecoder::with_limit(max_bytes);
                let events = SseStream::with_decoder(chunks, decoder).skip_oversized();
                Self::Events(Box::new(events))
            }
        }
    }

    pub(super) async fn next(&mut self) -> NextValue {
        match self {
            Self::Events(events) => next_event(events).await,
            Self::Records(records) => match records.next().await {
                Some(Ok(Record::Value(text))) => NextValue::Value(text, None),
                Some(Ok(Record::Malformed(message))) => NextValue::Malformed(message),
                Some(Err(error)) => NextValue::ConnectionLost(innermost_cause(&error)),
                None => NextValue::End,
            },
        }
    }

    /// Returns the last event id and the retry delay that the service has sent.
    pub(super) fn resume_point(&self) -> (&str, Option<Duration>) {
        match self {
            Self::Events(events) => (events.decoder().last_event_id(), events.decoder().retry()),
            Self::Records(_) => ("", None),
        }
    }
}

async fn next_event(events: &mut SseStream<ByteChunks, Bytes>) -> NextValue {
    match events.next().await {
        Some(Ok(event)) => {
            let mut meta = SseMeta::new(event.event, event.id);
            meta.retry = event.retry;
            NextValue::Value(event.data.into_owned(), Some(meta))
        }
        Some(Err(SseStreamError::Decode(error))) => NextValue::Malformed(error.to_string()),
        Some(Err(SseStreamError::Chunk(error))) => {
            NextValue::ConnectionLost(innermost_cause(&error))
        }
        None => NextValue::End,
    }
}
