//! Subscriptions over HTTP: one server-sent event for each value.
//!
//! Every event has an id, `stream-number`. A disconnected client resumes with the last id that it
//! received, and the stream continues after that event. The most recent events are buffered, and
//! the subscription continues for a while without a client.

mod active_stream;
mod replay_buffer;
mod stream_registry;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, Stream, StreamExt};
use toolpost::{Authority, CallError, CallRequest, Identity, Operation};

use super::HttpEndpoint;
use crate::endpoint::accept::{EVENTS, ResponseForm};
use crate::endpoint::problem::ProblemDetails;
use active_stream::{NextEvent, StreamReader};
use stream_registry::ResumeOutcome;

pub(super) use stream_registry::StreamRegistry;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The caller, operation and form of a stream. Resuming requires the same ones.
#[derive(Clone)]
pub(super) struct StreamBinding {
    pub(super) operation: Arc<Operation>,
    pub(super) form: ResponseForm,
    pub(super) owner: Arc<Identity>,
}

impl StreamBinding {
    fn matches(&self, other: &Self) -> bool {
        self.form == other.form
            && self.owner.is_same(&other.owner)
            && self.operation.id() == other.operation.id()
    }
}

/// The parsed `Last-Event-ID` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastEventId<'a> {
    /// The header is absent or empty: a new stream.
    None,
    At(&'a str, u64),
    /// The value is not an event id of this gateway.
    Invalid,
}

impl<'a> LastEventId<'a> {
    pub(super) fn from_headers(headers: &'a HeaderMap) -> Self {
        let Some(value) = headers.get(LAST_EVENT_ID) else { return Self::None };
        let text = value.to_str().unwrap_or("?");
        match text.split_once('-') {
            None if text.is_empty() => Self::None,
            Some((stream, number)) => {
                number.parse().map_or(Self::Invalid, |number| Self::At(stream, number))
            }
            None => Self::Invalid,
        }
    }
}

/// Streams values as events. A subscription that is rejected immediately is a problem with the
/// proper status. One that fails later ends with an `error` event. One that completes ends with
/// `complete`, to distinguish it from a lost connection.
pub(super) fn handle(
    endpoint: &HttpEndpoint,
    binding: StreamBinding,
    last: LastEventId<'_>,
    request: CallRequest<'_>,
) -> Result<Response, ProblemDetails> {
    let resumed = match last {
        LastEventId::None => None,
        LastEventId::At(stream, number) => Some(endpoint.streams.resume(stream, number, &binding)),
        LastEventId::Invalid => Some(ResumeOutcome::Unknown),
    };
    match resumed {
        Some(ResumeOutcome::Resumed(reader, lost)) => {
            let gap = (lost > 0).then(|| gap_event(Some(lost)));
            Ok(stream_response(&endpoint.streams, reader, gap))
        }
        // 204 stops the reconnects of a browser.
        Some(ResumeOutcome::Complete) => Ok(StatusCode::NO_CONTENT.into_response()),
        Some(ResumeOutcome::Unknown) => {
            start_stream(endpoint, binding, request, Some(gap_event(None)))
        }
        None => start_stream(endpoint, binding, request, None),
    }
}

fn start_stream(
    endpoint: &HttpEndpoint,
    binding: StreamBinding,
    request: CallRequest<'_>,
    gap: Option<Bytes>,
) -> Result<Response, ProblemDetails> {
    let caller = Authority::untrusted(Some(Arc::clone(&binding.owner)));
    let mut values = endpoint.pipeline.start_subscription(request, caller);
    // Rejections are immediate, so one poll detects them.
    let first = match values.next().now_or_never() {
        Some(Some(Err(error))) => {
            return Err(ProblemDetails::from_call_error(error, Some(binding.operation.spec())));
        }
        first => first,
    };
    let reader = endpoint.streams.create(binding, values, first).ok_or_else(|| {
        ProblemDetails::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the system random number generator is unavailable",
        )
    })?;
    Ok(stream_response(&endpoint.streams, reader, gap))
}

/// The event for missed events, with their number; `None` for a new subscription.
fn gap_event(lost: Option<u64>) -> Bytes {
    let data = serde_json::json!({"lost": lost, "isNew": lost.is_none()});
    Bytes::from(format!("event: gap\ndata: {data}\n\n"))
}

fn stream_response(
    streams: &Arc<StreamRegistry>,
    reader: StreamReader,
    gap: Option<Bytes>,
) -> Response {
    let events = EventStream { streams: Arc::clone(streams), reader: Some(reader), gap };
    let headers = [(header::CONTENT_TYPE, EVENTS), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(events.into_stream())).into_response()
}

/// The events of one response. Dropping it detaches the stream, which the client may resume.
struct EventStream {
    streams: Arc<StreamRegistry>,
    reader: Option<StreamReader>,
    /// Event to send first.
    gap: Option<Bytes>,
}

impl EventStream {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures::stream::unfold(self, async |mut events| {
            let event = match events.gap.take() {
                Some(gap) => gap,
                None => events.next().await?,
            };
            Some((Ok(event), events))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        let reader = self.reader.as_mut()?;
        let superseded = reader.superseded.clone();
        let next = tokio::select! {
            biased;
            () = self.streams.stopping.cancelled() => None,
            () = superseded.cancelled() => Some(NextEvent::Superseded),
            next = reader.next() => Some(next),
            () = tokio::time::sleep(self.streams.settings.heartbeat_interval) => {
                return Some(Bytes::from_static(b": keep-alive\n\n"));
            }
        };
        match next {
            Some(NextEvent::Event(event)) => Some(event),
            Some(NextEvent::Ended) => None,
            // Another reader has taken over the stream, so it must not be detached.
            Some(NextEvent::Superseded) => {
                self.reader = None;
                None
            }
            None => self.shutdown_event(),
        }
    }

    /// Returns the last event of a stopping gateway. It is not part of the stream.
    fn shutdown_event(&mut self) -> Option<Bytes> {
        let reader = self.reader.take()?;
        let stopping = CallError::unavailable("the gateway is stopping");
        let problem = reader.stream.problem(stopping).to_json();
        self.streams.close(&reader);
        Some([b"event: error\ndata: ", &*problem, b"\n\n"].concat().into())
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.streams.detach(reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_event_id_parses_stream_and_number() {
        for (text, expected) in [
            ("ab12-7", LastEventId::At("ab12", 7)),
            ("", LastEventId::None),
            ("7", LastEventId::Invalid),
            ("ab12-", LastEventId::Invalid),
            ("ab12-x", LastEventId::Invalid),
            ("ab12--1", LastEventId::Invalid),
            ("ab12-99999999999999999999", LastEventId::Invalid),
        ] {
            let headers = HeaderMap::from_iter([(LAST_EVENT_ID, text.parse().unwrap())]);
            assert_eq!(LastEventId::from_headers(&headers), expected, "{text}");
        }
        assert_eq!(LastEventId::from_headers(&HeaderMap::new()), LastEventId::None);
    }
}
