//! Responses as JSON and as events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::Stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolpost::view::Era;

use super::ask::Answer;
use super::changes::Changes;
use super::http::{Accepts, json};
use super::message::{self, Fault};
use super::text::Text;
use crate::app::Gateway;

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

const ALIVE: &[u8] = b": still here\n\n";

/// Waits for an answer. If something is to be told before it, or it takes long, the response becomes
/// a stream of events, as far as the client reads them.
pub(super) async fn respond(
    gateway: &Gateway,
    accepts: Accepts,
    era: Era,
    mut answering: Answering,
    mut notes: mpsc::Receiver<Vec<u8>>,
) -> Response {
    let heartbeat = gateway.0.settings.heartbeat;
    let first = tokio::select! {
        biased;
        Some(note) = notes.recv() => event(note),
        answer = &mut answering => match told(&mut notes) {
            told if told.is_empty() => return answered(answer, accepts, era),
            told => return at_once(told, answer),
        },
        () = tokio::time::sleep(heartbeat), if accepts.events => ALIVE.into(),
    };
    let state = Telling { answering: Some(answering), notes, first: Some(first), heartbeat };
    let body = futures::stream::unfold(state, async |mut state| {
        let event = state.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), state))
    });
    events(body)
}

struct Telling {
    /// Gone when the answer was given.
    answering: Option<Answering>,
    notes: mpsc::Receiver<Vec<u8>>,
    first: Option<Vec<u8>>,
    heartbeat: std::time::Duration,
}

impl Telling {
    async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let answering = self.answering.as_mut()?;
        tokio::select! {
            biased;
            Some(note) = self.notes.recv() => Some(event(note)),
            answer = answering => {
                self.answering = None;
                let mut last = told(&mut self.notes);
                last.extend(event(answer.message.into_bytes()));
                Some(last)
            }
            () = tokio::time::sleep(self.heartbeat) => Some(ALIVE.into()),
        }
    }
}

/// What was told together with the answer.
fn told(notes: &mut mpsc::Receiver<Vec<u8>>) -> Vec<u8> {
    let mut told = Vec::new();
    while let Ok(note) = notes.try_recv() {
        told.extend(event(note));
    }
    told
}

fn at_once(mut told: Vec<u8>, answer: Answer) -> Response {
    told.extend(event(answer.message.into_bytes()));
    events(futures::stream::once(async { Ok::<_, Infallible>(Bytes::from(told)) }))
}

/// Streams what changes until the client leaves, `ended` says so or the gateway stops.
pub(super) fn changes(
    gateway: &Gateway,
    changes: Changes,
    place: OwnedSemaphorePermit,
    first: Option<Vec<u8>>,
    ended: Option<CancellationToken>,
) -> Response {
    let state = Listening {
        gateway: gateway.clone(),
        changes,
        _place: place,
        // A client sees at once that it is heard.
        waiting: VecDeque::from([first.map_or_else(|| ALIVE.into(), event)]),
        _left: ended.clone().map(CancellationToken::drop_guard),
        ended: ended.unwrap_or_default(),
        is_over: false,
    };
    let body = futures::stream::unfold(state, async |mut state| {
        let event = state.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), state))
    });
    events(body)
}

struct Listening {
    gateway: Gateway,
    changes: Changes,
    /// One of the places of listeners, free again when this one leaves.
    _place: OwnedSemaphorePermit,
    waiting: VecDeque<Vec<u8>>,
    ended: CancellationToken,
    /// Lets the session know that nobody listens any more.
    _left: Option<DropGuard>,
    is_over: bool,
}

impl Listening {
    async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(event) = self.waiting.pop_front() {
            return Some(event);
        }
        if self.is_over {
            return None;
        }
        tokio::select! {
            biased;
            () = self.ended.cancelled() => None,
            () = self.gateway.0.stopping.cancelled() => {
                self.is_over = true;
                self.changes.farewell().map(event)
            }
            changed = self.changes.next() => {
                self.waiting.extend(changed?.into_iter().map(event));
                self.waiting.pop_front()
            }
            () = tokio::time::sleep(self.gateway.0.settings.heartbeat) => Some(ALIVE.into()),
        }
    }
}

fn answered(answer: Answer, accepts: Accepts, era: Era) -> Response {
    let status = match (answer.fault, era) {
        (Some(Fault::METHOD_NOT_FOUND), Era::Modern) => StatusCode::NOT_FOUND,
        (
            Some(Fault::HEADER_MISMATCH | Fault::UNSUPPORTED_VERSION | Fault::MISSING_CAPABILITY),
            _,
        ) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    whole(answer.message, status, accepts)
}

/// A message that is all there is.
pub(super) fn whole(message: Text, status: StatusCode, accepts: Accepts) -> Response {
    if accepts.json || status != StatusCode::OK {
        return json(status, message.into_body());
    }
    let event = Bytes::from(event(message.into_bytes()));
    events(futures::stream::once(async { Ok::<_, Infallible>(event) }))
}

fn events(body: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event(mut message: Vec<u8>) -> Vec<u8> {
    message::flatten(&mut message);
    [b"event: message\ndata: ", &*message, b"\n\n"].concat()
}
