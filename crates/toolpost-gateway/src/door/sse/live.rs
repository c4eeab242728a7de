//! A subscription that is running, and whose turn it is to read it.
//!
//! A client that is cut off may return before its old connection is known to be dead, and an old
//! connection that is stuck cannot be asked to let go. So whoever comes takes the turn, and readers
//! whose turn it was find out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use toolpost::{CallError, Operation, Outcome, Subscription};

use super::super::http::{Form, misfit};
use super::super::problem::Problem;
use super::Terms;
use super::kept::Kept;

/// A value, an error, or the end.
pub(super) type Item = Option<Result<Outcome, CallError>>;

pub(super) struct Live {
    pub(super) id: Box<str>,
    pub(super) terms: Terms,
    state: Mutex<State>,
}

struct State {
    /// `None` once it has ended.
    values: Option<Subscription>,
    /// What was seen before anybody read.
    first: Option<Item>,
    kept: Kept,
    /// The reader of this number may read.
    turn: u64,
    /// Tells the reader that it is not its turn any more.
    taken: CancellationToken,
}

/// Somebody who reads a stream, as long as it is his turn.
pub(super) struct Reader {
    live: Arc<Live>,
    turn: u64,
    taken: CancellationToken,
    /// The number of the next event.
    at: u64,
    /// Whether the last event found room without another one making it.
    had_room: bool,
}

pub(super) enum Next {
    Event(Bytes),
    Over,
    Taken,
}

impl Live {
    pub(super) fn new(
        id: Box<str>,
        terms: Terms,
        kept: Kept,
        values: Subscription,
        first: Option<Item>,
    ) -> Arc<Self> {
        let taken = CancellationToken::new();
        let state = State { values: Some(values), first, kept, turn: 0, taken };
        Arc::new(Self { id, terms, state: Mutex::new(state) })
    }

    /// A reader behind that event, and how many events behind it are lost. `None` if the stream has
    /// ended with it.
    pub(super) fn read_behind(self: &Arc<Self>, number: u64) -> Option<(Reader, u64)> {
        let mut state = self.lock();
        let (first, next) = (state.kept.first(), state.kept.next());
        let wanted = number.saturating_add(1).min(next);
        if wanted == next && state.values.is_none() {
            return None;
        }
        let at = wanted.max(first);
        let (turn, taken) = state.pass_turn();
        let reader = Reader { live: Arc::clone(self), turn, taken, at, had_room: true };
        Some((reader, at - wanted))
    }

    /// Nobody reads it any more.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.pass_turn();
        let values = state.values.take();
        drop(state);
        // Whoever is behind it is canceled, and does not need the lock for that.
        drop(values);
    }

    /// It stops, and whoever reads it hears why.
    pub(super) fn abort(&self, reason: &str) {
        if let Some(values) = &self.lock().values {
            values.abort_handle().abort(reason);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, number: u64, item: Item) -> Vec<u8> {
        let id = &self.id;
        match item {
            // As for a call: a tool's failure has no data form.
            Some(Ok(outcome)) if self.terms.form == Form::Data && outcome.envelope.is_error() => {
                let failed = outcome.envelope.into_result().err();
                let unsaid = || CallError::execution("the tool reported an error");
                self.failure(number, failed.unwrap_or_else(unsaid))
            }
            Some(Ok(outcome)) => match self.misfit(&outcome) {
                Some(error) => self.failure(number, error),
                None => self.value(number, &outcome),
            },
            Some(Err(error)) => self.failure(number, error),
            None => format!("event: complete\nid: {id}-{number}\ndata: {{}}\n\n").into_bytes(),
        }
    }

    fn value(&self, number: u64, outcome: &Outcome) -> Vec<u8> {
        let mut event = format!("id: {}-{number}\ndata: ", self.id).into_bytes();
        write(&mut event, outcome, self.terms.form);
        event.extend_from_slice(b"\n\n");
        event
    }

    /// Data that is not what was declared is never sent as data, here as little as in an answer.
    fn misfit(&self, outcome: &Outcome) -> Option<CallError> {
        match self.terms.form {
            Form::Data => misfit(outcome, &self.terms.operation),
            Form::Envelope => None,
        }
    }

    fn failure(&self, number: u64, error: CallError) -> Vec<u8> {
        let mut event = format!("event: error\nid: {}-{number}\ndata: ", self.id).into_bytes();
        event.extend_from_slice(&self.problem(error).to_json());
        event.extend_from_slice(b"\n\n");
        event
    }

    fn problem(&self, error: CallError) -> Problem {
        Problem::of(error, Some(Operation::spec(&self.terms.operation)))
    }
}

impl State {
    fn pass_turn(&mut self) -> (u64, CancellationToken) {
        self.taken.cancel();
        self.taken = CancellationToken::new();
        self.turn += 1;
        (self.turn, self.taken.clone())
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let Some(values) = &mut self.values else { return Poll::Ready(None) };
        let item = match self.first.take() {
            Some(item) => item,
            None => ready!(values.poll_next_unpin(cx)),
        };
        if matches!(item, None | Some(Err(_))) {
            self.values = None;
        }
        Poll::Ready(Some(item))
    }
}

impl Reader {
    pub(super) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Whether nobody has taken the turn.
    pub(super) fn is_current(&self) -> bool {
        self.live.lock().turn == self.turn
    }

    pub(super) fn taken(&self) -> CancellationToken {
        self.taken.clone()
    }

    pub(super) fn had_room(&self) -> bool {
        self.had_room
    }

    pub(super) fn problem(&self, error: CallError) -> Problem {
        self.live.problem(error)
    }

    /// The next event: one that was kept, else one that comes. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Next {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.live.lock();
        if state.turn != self.turn {
            return Poll::Ready(Next::Taken);
        }
        if let Some(event) = state.kept.get(self.at) {
            self.at += 1;
            return Poll::Ready(Next::Event(event));
        }
        let Some(item) = ready!(state.poll_item(cx)) else { return Poll::Ready(Next::Over) };
        let number = state.kept.next();
        let event = Bytes::from(self.live.event(number, item));
        self.had_room = state.kept.push(event.clone());
        self.at = number + 1;
        Poll::Ready(Next::Event(event))
    }
}

fn write(event: &mut Vec<u8>, outcome: &Outcome, form: Form) {
    let start = event.len();
    let written = match form {
        Form::Data => serde_json::to_writer(&mut *event, &outcome.envelope.data),
        Form::Envelope => serde_json::to_writer(&mut *event, outcome),
    };
    if let Err(error) = written {
        tracing::error!(%error, "an outcome has no JSON form");
    }
    // Raw JSON may hold line breaks between its tokens, and a line break would end the field.
    for byte in &mut event[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}
