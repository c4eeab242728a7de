//! HTTP responses as JSON and as event streams.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::Stream;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolpost::json_rpc::{self, RpcError};
use toolpost::view::ProtocolGeneration;

use super::http::{AcceptedTypes, json_response};
use super::{EncodedResponse, McpEndpoint};
use crate::mcp_service::{ChangeNotifier, SegmentedBody};

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
            event_bytes if event_bytes.is_empty() => return response_for(reply, accepts, generation),
            event_bytes => return single_event_response(event_bytes, reply),
        },
        () = tokio::time::sleep(heartbeat), if accepts.events => KEEP_ALIVE.into(),
    };
    let state = ResponseStream {
        pending: Some(pending_response),
        notifications: notes,
        first: Some(first),
        heartbeat,
    };
    let body = futures::stream::unfold(state, async |mut state| {
        let event = state.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), state))
    });
    event_response(body)
}

struct ResponseStream {
    /// `None` after the response was sent.
    pending: Option<PendingResponse>,
    notifications: mpsc::Receiver<Vec<u8>>,
    first: Option<Vec<u8>>,
    heartbeat: Duration,
}

impl ResponseStream {
    async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
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
    let mut event_bytes = Vec::new();
    while let Ok(note) = notifications.try_recv() {
        event_bytes.extend(encode_event(note));
    }
    event_bytes
}

fn single_event_response(mut event_bytes: Vec<u8>, response: EncodedResponse) -> Response {
    event_bytes.extend(encode_event(response.message.into_bytes()));
    event_response(futures::stream::once(async { Ok::<_, Infallible>(Bytes::from(event_bytes)) }))
}

/// Streams change notifications until the client disconnects, `ended` is canceled or the gateway
/// stops.
pub(super) fn notification_stream(
    endpoint: &Arc<McpEndpoint>,
    changes: ChangeNotifier,
    permit: OwnedSemaphorePermit,
    first: Option<Vec<u8>>,
    ended: CancellationToken,
) -> Response {
    let state = NotificationStream {
        endpoint: Arc::clone(endpoint),
        changes,
        _permit: permit,
        // The first event is sent immediately, so that the client knows the stream is open.
        queued: VecDeque::from([first.map_or_else(|| KEEP_ALIVE.into(), encode_event)]),
        _disconnect_guard: ended.clone().drop_guard(),
        canceled: ended,
        is_finished: false,
    };
    let body = futures::stream::unfold(state, async |mut state| {
        let event = state.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), state))
    });
    event_response(body)
}

struct NotificationStream {
    endpoint: Arc<McpEndpoint>,
    changes: ChangeNotifier,
    /// Listener permit, released when the stream ends.
    _permit: OwnedSemaphorePermit,
    queued: VecDeque<Vec<u8>>,
    canceled: CancellationToken,
    /// Cancels the token of the stream when the client disconnects.
    _disconnect_guard: DropGuard,
    is_finished: bool,
}

impl NotificationStream {
    async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(event) = self.queued.pop_front() {
            return Some(event);
        }
        if self.is_finished {
            return None;
        }
        tokio::select! {
            biased;
            () = self.canceled.cancelled() => None,
            () = self.endpoint.stopping.cancelled() => {
                self.is_finished = true;
                self.changes.final_result().map(encode_event)
            }
            changed = self.changes.next() => {
                self.queued.extend(changed?.into_iter().map(encode_event));
                self.queued.pop_front()
            }
            () = tokio::time::sleep(self.endpoint.settings.heartbeat_interval) => {
                Some(KEEP_ALIVE.into())
            }
        }
    }
}

fn response_for(
    response: EncodedResponse,
    accepts: AcceptedTypes,
    generation: ProtocolGeneration,
) -> Response {
    let status = match (response.error_code, generation) {
        (Some(RpcError::METHOD_NOT_FOUND), ProtocolGeneration::Modern) => StatusCode::NOT_FOUND,
        (
            Some(
                RpcError::HEADER_MISMATCH
                | RpcError::UNSUPPORTED_VERSION
                | RpcError::MISSING_CAPABILITY,
            ),
            _,
        ) => StatusCode::BAD_REQUEST,
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
    let event = Bytes::from(encode_event(message.into_bytes()));
    event_response(futures::stream::once(async { Ok::<_, Infallible>(event) }))
}

fn event_response(
    body: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
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
