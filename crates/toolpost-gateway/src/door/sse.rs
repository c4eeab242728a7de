//! Subscriptions over HTTP: one server-sent event for each value.
//!
//! Every event has an id, `stream-number`. A client that was cut off returns with the last id that
//! it has seen, and the stream goes on behind it: what was sent last is kept, and for a while what
//! comes next is too.

mod kept;
mod live;
mod streams;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::{FutureExt, Stream, StreamExt};
use toolpost::{Authority, CallError, CallRequest, Identity, Operation};

use super::http::Form;
use super::problem::Problem;
use crate::app::Gateway;
use live::{Next, Reader};
use streams::Returned;

pub(crate) use streams::Streams;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a stream is bound to: for anybody else, or in another form, it is not there.
#[derive(Clone)]
pub(super) struct Terms {
    pub(super) operation: Arc<Operation>,
    pub(super) form: Form,
    pub(super) owner: Arc<Identity>,
}

impl Terms {
    fn are(&self, others: &Self) -> bool {
        self.form == others.form
            && self.owner.id == others.owner.id
            && self.operation.id() == others.operation.id()
    }
}

/// The last event that a client has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastEventId<'a> {
    /// The client has not been here.
    None,
    Of(&'a str, u64),
    /// Of a stream that was not ours.
    Foreign,
}

impl<'a> LastEventId<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let Some(value) = headers.get(LAST_EVENT_ID) else { return Self::None };
        let text = value.to_str().unwrap_or("?");
        match text.split_once('-') {
            None if text.is_empty() => Self::None,
            Some((stream, number)) => {
                number.parse().map_or(Self::Foreign, |number| Self::Of(stream, number))
            }
            None => Self::Foreign,
        }
    }
}

/// Streams the values as they come. A subscription that is refused at once is a problem with a
/// proper status; one that fails later ends with an `error` event, and one that ends with
/// `complete`, because a stream that just stops looks like a lost connection.
pub(super) fn respond(
    gateway: &Gateway,
    terms: Terms,
    last: LastEventId<'_>,
    request: CallRequest<'_>,
) -> Result<Response, Problem> {
    let returned = match last {
        LastEventId::None => None,
        LastEventId::Of(stream, number) => Some(gateway.0.streams.take_up(stream, number, &terms)),
        LastEventId::Foreign => Some(Returned::Unknown),
    };
    match returned {
        Some(Returned::To(reader, lost)) => {
            let gap = (lost > 0).then(|| gap(Some(lost)));
            Ok(stream(Events::new(gateway, reader, gap)))
        }
        // This is how a browser is told not to come again.
        Some(Returned::Complete) => Ok(no_content()),
        Some(Returned::Unknown) => begin(gateway, terms, request, Some(gap(None))),
        None => begin(gateway, terms, request, None),
    }
}

fn begin(
    gateway: &Gateway,
    terms: Terms,
    request: CallRequest<'_>,
    gap: Option<Bytes>,
) -> Result<Response, Problem> {
    let caller = Authority::outside(Some(Arc::clone(&terms.owner)));
    let mut values = gateway.pipeline().start_subscription(request, caller);
    // Refusals are decided without waiting, so one poll is enough to see them.
    let first = match values.next().now_or_never() {
        Some(Some(Err(error))) => return Err(Problem::of(error, Some(terms.operation.spec()))),
        first => first,
    };
    let reader = gateway.0.streams.begin(terms, values, first).ok_or_else(|| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the system has no random numbers")
    })?;
    Ok(stream(Events::new(gateway, reader, gap)))
}

/// Tells a client that it has missed something: so many events, or who knows how many, because this
/// is another subscription than before.
fn gap(lost: Option<u64>) -> Bytes {
    let data = serde_json::json!({"lost": lost, "isNew": lost.is_none()});
    Bytes::from(format!("event: gap\ndata: {data}\n\n"))
}

fn stream(events: Events) -> Response {
    let mut response = Response::new(Body::from_stream(events.into_stream()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The events of one response. When it is dropped, its client has left, and may return.
struct Events {
    gateway: Gateway,
    reader: Option<Reader>,
    /// What is told first.
    gap: Option<Bytes>,
}

impl Events {
    fn new(gateway: &Gateway, reader: Reader, gap: Option<Bytes>) -> Self {
        Self { gateway: gateway.clone(), reader: Some(reader), gap }
    }

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
        let taken = reader.taken();
        let next = tokio::select! {
            biased;
            () = self.gateway.0.stopping.cancelled() => None,
            () = taken.cancelled() => Some(Next::Taken),
            next = reader.next() => Some(next),
            () = tokio::time::sleep(self.gateway.0.settings.heartbeat) => {
                return Some(Bytes::from_static(b": still here\n\n"));
            }
        };
        match next {
            Some(Next::Event(event)) => Some(event),
            Some(Next::Over) => None,
            // Somebody else has the stream, and leaving it is not ours.
            Some(Next::Taken) => {
                self.reader = None;
                None
            }
            None => self.stop(),
        }
    }

    /// The last word of a gateway that stops; it does not belong to the stream.
    fn stop(&mut self) -> Option<Bytes> {
        let reader = self.reader.take()?;
        let stopping = CallError::unavailable("the gateway is stopping");
        let problem = reader.problem(stopping).to_json();
        self.gateway.0.streams.end(&reader);
        Some([b"event: error\ndata: ", &*problem, b"\n\n"].concat().into())
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.gateway.0.streams.left(&self.gateway, reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_is_named_by_its_id() {
        for (text, expected) in [
            ("ab12-7", LastEventId::Of("ab12", 7)),
            ("", LastEventId::None),
            ("7", LastEventId::Foreign),
            ("ab12-", LastEventId::Foreign),
            ("ab12-x", LastEventId::Foreign),
            ("ab12--1", LastEventId::Foreign),
            ("ab12-99999999999999999999", LastEventId::Foreign),
        ] {
            let headers = HeaderMap::from_iter([(LAST_EVENT_ID, text.parse().unwrap())]);
            assert_eq!(LastEventId::of(&headers), expected, "{text}");
        }
        assert_eq!(LastEventId::of(&HeaderMap::new()), LastEventId::None);
    }
}
