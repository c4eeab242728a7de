//! HTTP responses as JSON and as event streams.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use toolpost::json_rpc::{self, RpcError};
use toolpost::view::ProtocolGeneration;

use super::McpEndpoint;
use super::http::AcceptedTypes;
use crate::endpoint::accept;
use crate::mcp_service::{ChangeNotifier, McpRequest, McpResponse, Notifier, SegmentedBody};

type PendingResponse = Pin<Box<dyn Future<Output = EncodedResponse> + Send>>;

const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Waits for a response. If a notification precedes it, or it takes longer than the heartbeat
/// interval, the HTTP response becomes an event stream, provided that the client accepts one.
pub(super) async fn respond(
    heartbeat: Duration,
    accepts: AcceptedTypes,
    generation: ProtocolGeneration,
    mut pending_response: PendingResponse,
    mut notes: mpsc::Receiver<Vec<u8>>,
) -> Response {
    let first = tokio::select! {
        biased;
        Some(note) = notes.recv() => encode_event(note),
        reply = &mut pending_response => match drain_notifications(&mut notes) {
            events if events.is_empty() => return response_for(reply, accepts, generation),
            mut events => {
                events.extend(encode_event(reply.message.into_bytes()));
                return event_response(stream::iter([events]));
            }
        },
        () = tokio::time::sleep(heartbeat), if accepts.events => KEEP_ALIVE.into(),
    };
    let state = ResponseStream { pending: Some(pending_response), notifications: notes, heartbeat };
    let rest = stream::unfold(state, async |mut state| Some((state.next().await?, state)));
    event_response(stream::iter([first]).chain(rest))
}

struct ResponseStream {
    /// `None` after the response was sent.
    pending: Option<PendingResponse>,
    notifications: mpsc::Receiver<Vec<u8>>,
    heartbeat: Duration,
}

impl ResponseStream {
    async fn next(&mut self) -> Option<Vec<u8>> {
        let pending_response = self.pending.as_mut()?;
        tokio::select! {
            biased;
            Some(note) = self.notifications.recv() => Some(encode_event(note)),
            response = pending_response => {
                self.pending = None;
                let mut last = drain_notifications(&mut self.notifications);
                last.extend(encode_event(response.message.into_bytes()));
                Some(last)
            }
            () = tokio::time::sleep(self.heartbeat) => Some(KEEP_ALIVE.into()),
        }
    }
}

/// Encodes the notifications that are queued when the response is ready.
fn drain_notifications(notifications: &mut mpsc::Receiver<Vec<u8>>) -> Vec<u8> {
    std::iter::from_fn(|| notifications.try_recv().ok()).flat_map(encode_event).collect()
}

/// Streams change notifications until the client disconnects, `ended` is canceled or the gateway
/// stops. The permit is released when the stream ends.
pub(super) fn notification_stream(
    endpoint: &McpEndpoint,
    changes: ChangeNotifier,
    permit: OwnedSemaphorePermit,
    ended: CancellationToken,
) -> Response {
    let heartbeat = endpoint.settings.heartbeat_interval;
    // The first event is sent immediately, so that the client knows the stream is open.
    let first = (!changes.is_subscription()).then(|| KEEP_ALIVE.into());
    let guards = (permit, ended.clone().drop_guard());
    let messages = Box::pin(changes.into_messages(ended));
    let events = stream::unfold((messages, guards), move |(mut messages, guards)| async move {
        let event = match tokio::time::timeout(heartbeat, messages.next()).await {
            Ok(message) => encode_event(message?),
            Err(_) => KEEP_ALIVE.into(),
        };
        Some((event, (messages, guards)))
    });
    event_response(stream::iter(first).chain(events))
}

fn response_for(
    response: EncodedResponse,
    accepts: AcceptedTypes,
    generation: ProtocolGeneration,
) -> Response {
    let status = match (response.error_code, generation) {
        (Some(RpcError::METHOD_NOT_FOUND), ProtocolGeneration::Modern) => StatusCode::NOT_FOUND,
        (Some(RpcError::HEADER_MISMATCH), _)
        | (Some(RpcError::UNSUPPORTED_VERSION | RpcError::MISSING_CAPABILITY), _) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    };
    complete_response(response.message, status, accepts)
}

/// Returns a response with a single message.
pub(super) fn complete_response(
    message: SegmentedBody,
    status: StatusCode,
    accepts: AcceptedTypes,
) -> Response {
    if accepts.json || status != StatusCode::OK {
        return json_response(status, into_body(message));
    }
    event_response(stream::iter([encode_event(message.into_bytes())]))
}

fn event_response(events: impl Stream<Item = Vec<u8>> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, accept::EVENTS),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(events.map(Ok::<_, Infallible>))).into_response()
}

fn encode_event(mut message: Vec<u8>) -> Vec<u8> {
    json_rpc::to_single_line(&mut message);
    [b"event: message\ndata: ", &*message, b"\n\n"].concat()
}

/// Returns the message as an HTTP body without copying it.
fn into_body(message: SegmentedBody) -> Body {
    match message.into_segments() {
        [only, shared, _] if shared.is_empty() => only.into(),
        segments => Body::new(SegmentStream { segments, sent: 0 }),
    }
}

struct SegmentStream {
    segments: [Bytes; 3],
    sent: usize,
}

impl HttpBody for SegmentStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let sent = self.sent;
        let segment = self.segments.get_mut(sent).map(std::mem::take);
        self.sent += 1;
        Poll::Ready(segment.map(|segment| Ok(Frame::data(segment))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent >= self.segments.len()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.segments.iter().map(Bytes::len).sum::<usize>();
        SizeHint::with_exact(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}

/// A complete message for the client.
pub(super) struct EncodedResponse {
    pub(super) message: SegmentedBody,
    /// The JSON-RPC error code, if this server rejected the request.
    error_code: Option<i64>,
    /// False if the client canceled the request.
    pub(super) is_expected: bool,
}

/// Handles a request and encodes its response.
pub(super) async fn handle(request: McpRequest, notifier: Notifier) -> EncodedResponse {
    let id = request.id.clone();
    let out = json_rpc::start_result(&id);
    let McpResponse { result, is_expected } = request.handle(notifier, out).await;
    match result {
        Ok(mut message) => {
            message.tail_mut().push(b'}');
            EncodedResponse { message, error_code: None, is_expected }
        }
        Err(error) => EncodedResponse {
            message: error.encode(Some(&id)).into(),
            error_code: (!error.is_forwarded).then_some(error.code),
            is_expected,
        },
    }
}

pub(super) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, accept::JSON)], body.into()).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn segmented_body_equals_contiguous_bytes() {
        for length in [0, 1, (16 << 10) - 1, 16 << 10, 48 << 10] {
            let write = || {
                let mut text = SegmentedBody::from(b"begin ".to_vec());
                text.push_shared(&Bytes::from(vec![b'x'; length]));
                text.tail_mut().extend_from_slice(b" end");
                text
            };
            let expected = format!("begin {} end", "x".repeat(length));
            assert_eq!(String::from_utf8(write().into_bytes()).unwrap(), expected);
            let body = into_body(write());
            assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
            assert_eq!(body.collect().await.unwrap().to_bytes(), expected);
        }
    }
}
