//! A running subscription and its current reader.
//!
//! A client may reconnect before its old connection is known to be dead, and a stuck connection
//! cannot release the stream. Therefore a new reader supersedes the previous one, which is
//! notified.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use futures::StreamExt;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use toolpost::{CallError, Operation, Outcome, Subscription, json_rpc};

use super::StreamBinding;
use super::replay_buffer::ReplayBuffer;
use crate::endpoint::http::encode_outcome;
use crate::endpoint::problem::ProblemDetails;

/// An item of a subscription; `None` is its end.
pub(super) type StreamItem = Option<Result<Outcome, CallError>>;

pub(super) struct ActiveStream {
    pub(super) id: Box<str>,
    pub(super) binding: StreamBinding,
    state: Mutex<StreamState>,
}

struct StreamState {
    /// The subscription; `None` after it has ended.
    values: Option<Subscription>,
    /// An item that was polled before the first reader.
    first: Option<StreamItem>,
    replay: ReplayBuffer,
    /// Number of warnings about all values so far.
    warnings: usize,
    /// Generation of the current reader. Readers of earlier generations are superseded.
    reader_generation: u64,
    /// Canceled when another reader supersedes the current one.
    superseded: CancellationToken,
}

/// A reader of a stream, until another reader supersedes it.
pub(super) struct StreamReader {
    pub(super) stream: Arc<ActiveStream>,
    generation: u64,
    pub(super) superseded: CancellationToken,
    /// Number of the next event to read.
    next_number: u64,
    /// Whether the last event was buffered without dropping older events.
    pub(super) fit_in_buffer: bool,
}

pub(super) enum NextEvent {
    Event(Bytes),
    Ended,
    Superseded,
}

impl ActiveStream {
    pub(super) fn new(
        id: Box<str>,
        binding: StreamBinding,
        replay: ReplayBuffer,
        values: Subscription,
        first: Option<StreamItem>,
    ) -> Arc<Self> {
        let superseded = CancellationToken::new();
        let (values, warnings, reader_generation) = (Some(values), 0, 0);
        let state = StreamState { values, first, replay, warnings, reader_generation, superseded };
        Arc::new(Self { id, binding, state: Mutex::new(state) })
    }

    /// Returns a reader after the event and the number of lost events; `None` at the end.
    pub(super) fn reader_after(self: &Arc<Self>, number: u64) -> Option<(StreamReader, u64)> {
        let mut state = self.lock();
        let (first, next) = (state.replay.first_number(), state.replay.next_number());
        let requested = number.saturating_add(1).min(next);
        if requested == next && state.values.is_none() {
            return None;
        }
        let at = requested.max(first);
        let (generation, superseded) = state.supersede_reader();
        let (stream, next_number, fit_in_buffer) = (Arc::clone(self), at, true);
        let reader = StreamReader { stream, generation, superseded, next_number, fit_in_buffer };
        Some((reader, at - requested))
    }

    /// Ends the subscription and supersedes its reader.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.supersede_reader();
        let values = state.values.take();
        drop(state);
        // Dropping it cancels the subscription, which does not need the lock.
        drop(values);
    }

    /// Aborts the subscription. The reader receives the reason.
    pub(super) fn abort(&self, reason: &str) {
        if let Some(values) = &self.lock().values {
            values.abort_handle().abort(reason);
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock()
    }

    /// Encodes an item as an event. The last event reports the number of warnings.
    fn encode_item(&self, number: u64, item: StreamItem, warnings: usize) -> Vec<u8> {
        let encode = |outcome| encode_outcome(&outcome, self.binding.form);
        let (kind, data) = match item.map(|item| item.and_then(encode)) {
            Some(Ok(mut json)) => {
                // A line break would end the SSE field.
                json_rpc::to_single_line(&mut json);
                ("", json)
            }
            Some(Err(error)) => ("event: error\n", self.problem(error).to_json()),
            None if warnings > 0 => {
                ("event: complete\n", format!(r#"{{"warnings":{warnings}}}"#).into())
            }
            None => ("event: complete\n", b"{}".into()),
        };
        [format!("{kind}id: {}-{number}\ndata: ", self.id).as_bytes(), &data, b"\n\n"].concat()
    }

    pub(super) fn problem(&self, error: CallError) -> ProblemDetails {
        ProblemDetails::from_call_error(error, Some(Operation::spec(&self.binding.operation)))
    }
}

impl StreamState {
    fn supersede_reader(&mut self) -> (u64, CancellationToken) {
        self.superseded.cancel();
        self.superseded = CancellationToken::new();
        self.reader_generation += 1;
        (self.reader_generation, self.superseded.clone())
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let Some(values) = &mut self.values else { return Poll::Ready(None) };
        let item = match self.first.take() {
            Some(item) => item,
            None => ready!(values.poll_next_unpin(cx)),
        };
        match &item {
            Some(Ok(outcome)) => self.warnings += outcome.warnings().len(),
            None | Some(Err(_)) => self.values = None,
        }
        Poll::Ready(Some(item))
    }
}

impl StreamReader {
    /// Whether no other reader has taken over.
    pub(super) fn is_current(&self) -> bool {
        self.stream.lock().reader_generation == self.generation
    }

    /// Returns the next event, from the buffer or the subscription. This method is cancel safe.
    pub(super) async fn next(&mut self) -> NextEvent {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<NextEvent> {
        let mut state = self.stream.lock();
        if state.reader_generation != self.generation {
            return Poll::Ready(NextEvent::Superseded);
        }
        if let Some(event) = state.replay.get(self.next_number) {
            self.next_number += 1;
            return Poll::Ready(NextEvent::Event(event));
        }
        let Some(item) = ready!(state.poll_item(cx)) else { return Poll::Ready(NextEvent::Ended) };
        let number = state.replay.next_number();
        let event = Bytes::from(self.stream.encode_item(number, item, state.warnings));
        self.fit_in_buffer = state.replay.push(event.clone());
        self.next_number = number + 1;
        Poll::Ready(NextEvent::Event(event))
    }
}
