//! HTTP responses as JSON and as event streams.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::Stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolpost::view::ProtocolGeneration;

use super::http::{AcceptedTypes, json_response};
use super::json_rpc::{self, JsonRpcError};
use super::list_changed::ChangeNotifier;
use super::request::McpResponse;
use super::segmented_body::SegmentedBody;
use crate::app::Gateway;

type PendingResponse = Pin<Box<dyn Future<Output = McpResponse> + Send>>;

const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Waits for a response. If a notification precedes it, or it takes longer than the heartbeat
/// interval, the HTTP response becomes an event stream, provided that the client accepts one.
pub(super) async fn respond(
    gateway: &Gateway,
    accepts: AcceptedTypes,
    generation: ProtocolGeneration,
    mut pending_response: PendingResponse,
    mut notes: mpsc::Receiver<Vec<u8>>,
) -> Response {
    let heartbeat = gateway.0.settings.heartbeat_interval;
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
    heartbeat: std::time::Duration,
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

fn single_event_response(mut event_bytes: Vec<u8>, response: McpResponse) -> Response {
    event_bytes.extend(encode_event(response.message.into_bytes()));
    event_response(futures::stream::once(async { Ok::<_, Infallible>(Bytes::from(event_bytes)) }))
}

/// Streams change notifications until the client disconnects, `ended` is canceled or the gateway
/// stops.
pub(super) fn notification_stream(
    gateway: &Gateway,
    changes: ChangeNotifier,
    permit: OwnedSemaphorePermit,
    first: Option<Vec<u8>>,
    ended: Option<CancellationToken>,
) -> Response {
    let state = NotificationStream {
        gateway: gateway.clone(),
        changes,
        _permit: permit,
        // The first event is sent immediately, so that the client knows the stream is open.
        queued: VecDeque::from([first.map_or_else(|| KEEP_ALIVE.into(), encode_event)]),
        _disconnect_guard: ended.clone().map(CancellationToken::drop_guard),
        canceled: ended.unwrap_or_default(),
        is_finished: false,
    };
    let body = futures::stream::unfold(state, async |mut state| {
        let event = state.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), state))
    });
    event_response(body)
}

struct NotificationStream {
    gateway: Gateway,
    changes: ChangeNotifier,
    /// Listener permit, released when the stream ends.
    _permit: OwnedSemaphorePermit,
    queued: VecDeque<Vec<u8>>,
    canceled: CancellationToken,
    /// Cancels the token of the stream when the client disconnects.
    _disconnect_guard: Option<DropGuard>,
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
            () = self.gateway.0.stopping.cancelled() => {
                self.is_finished = true;
                self.changes.final_result().map(encode_event)
            }
            changed = self.changes.next() => {
                self.queued.extend(changed?.into_iter().map(encode_event));
                self.queued.pop_front()
            }
            () = tokio::time::sleep(self.gateway.0.settings.heartbeat_interval) => Some(KEEP_ALIVE.into()),
        }
    }
}

fn response_for(
    response: McpResponse,
    accepts: AcceptedTypes,
    generation: ProtocolGeneration,
) -> Response {
    let status = match (response.error_code, generation) {
        (Some(JsonRpcError::METHOD_NOT_FOUND), ProtocolGeneration::Modern) => StatusCode::NOT_FOUND,
        (
            Some(
                JsonRpcError::HEADER_MISMATCH
                | JsonRpcError::UNSUPPORTED_VERSION
                | JsonRpcError::MISSING_CAPABILITY,
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
        return json_response(status, message.into_body());
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
