//! Invariants that hold for any input; shared by the fuzz target and the corpus replay.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use toolpost::protocol::{
    CALL_EVENT_SCHEMA, CallEvent, Consumer, EventEffect, PendingRequests, RequestTimeouts,
};
use toolpost::{CallError, ENVELOPE_SCHEMA, Schema};

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(CALL_EVENT_SCHEMA.clone()).expect("an object is a schema"));

static ENVELOPE: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(ENVELOPE_SCHEMA.clone()).expect("an object is a schema"));

const PLAIN_ENVELOPE: &str =
    r#"{"data":1,"meta":{"source":"local","operationId":"a.b","timestamp":1}}"#;

/// Parses `bytes` as a frame, and runs them as a sequence of request events and time steps.
pub(crate) fn check(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_frame(text);
    }
    PendingModel::default().run(bytes);
}

/// A parsed frame can be written, matches its schema, and round-trips.
fn check_frame(text: &str) {
    let event = match CallEvent::from_json(text) {
        Ok(event) => event,
        Err(error) => return assert!(!error.message.is_empty()),
    };
    let written = event.to_json();
    let again = CallEvent::from_json(&written).expect("what was written can be read");
    assert_eq!(again.to_json(), written);
    assert_eq!((again.id(), again.type_name()), (event.id(), event.type_name()));
    // Payloads can nest deeper or contain larger numbers than a `Value` supports.
    if let Ok(mut value) = serde_json::from_str::<Value>(&written) {
        replace_nonconforming_envelope(&mut value["payload"]);
        let issues = SCHEMA.validate(&value).expect("the schema compiles");
        assert!(issues.is_empty(), "{written}: {issues:?}");
    }
}

/// Replaces an envelope that does not match its own schema. The parser is more lenient than that
/// schema, which is not part of the call protocol.
fn replace_nonconforming_envelope(payload: &mut Value) {
    if let Some(output) = payload.get_mut("output")
        && !ENVELOPE.is_valid(output).expect("the schema compiles")
    {
        *output = serde_json::from_str(PLAIN_ENVELOPE).expect("an envelope of our own");
    }
}

/// Model of the pending requests; the expected state of each open request by id.
struct PendingModel {
    pending: PendingRequests<u32>,
    open: HashMap<u8, OpenRequest>,
    /// Whether each request opened so far has ended, by waiter.
    ended: Vec<bool>,
    now: Instant,
}

struct OpenRequest {
    waiter: u32,
    consumer: Consumer,
    deadline: Option<Instant>,
    idle: Option<(Duration, Instant)>,
}

impl OpenRequest {
    fn is_overdue(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|at| at <= now) || self.idle.is_some_and(|(_, at)| at <= now)
    }
}

impl Default for PendingModel {
    fn default() -> Self {
        let (pending, open, ended) = (PendingRequests::default(), HashMap::new(), Vec::new());
        Self { pending, open, ended, now: Instant::now() }
    }
}

impl PendingModel {
    /// Runs two bytes per step: the action, and one of eight requests or a duration.
    fn run(&mut self, bytes: &[u8]) {
        for step in bytes.chunks_exact(2) {
            let (what, which) = (step[0], step[1] % 8);
            match what % 11 {
                0..=2 => self.open(which, what, step[1]),
                3 => self.cancel(which),
                4 => self.advance(step[1]),
                kind => self.receive(which, kind),
            }
            assert_eq!(self.pending.len(), self.open.len());
            assert_eq!(self.pending.is_empty(), self.open.is_empty());
            assert_eq!(self.pending.contains(&which.to_string()), self.open.contains_key(&which));
        }
        let drained = self.pending.drain();
        assert_eq!(drained.len(), self.open.len());
        drained.into_iter().for_each(|waiter| self.end(waiter));
        assert!(self.pending.is_empty() && self.ended.iter().all(|ended| *ended));
    }

    fn open(&mut self, which: u8, what: u8, amount: u8) {
        let consumer = if what.is_multiple_of(2) { Consumer::Call } else { Consumer::Subscription };
        let length = |units: u8| (units > 0).then(|| Duration::from_millis(units.into()));
        let timeout = RequestTimeouts {
            deadline: length(amount / 8 % 8 * 10).map(|length| self.now + length),
            idle: length(amount / 64 * 7),
        };
        let waiter = u32::try_from(self.ended.len()).expect("a few thousand steps");
        let id = which.to_string().into();
        match self.pending.insert(self.now, id, consumer, timeout, waiter) {
            Ok(()) => {
                let RequestTimeouts { deadline, idle } = timeout;
                let idle = idle.map(|idle| (idle, self.now + idle));
                let before =
                    self.open.insert(which, OpenRequest { waiter, consumer, deadline, idle });
                assert!(before.is_none(), "an id stands for one request");
                self.ended.push(false);
            }
            Err(rejected) => assert!(rejected == waiter && self.open.contains_key(&which)),
        }
    }

    fn cancel(&mut self, which: u8) {
        let removed = self.pending.remove(&which.to_string());
        assert_eq!(removed, self.open.remove(&which).map(|open| open.waiter));
        removed.into_iter().for_each(|waiter| self.end(waiter));
    }

    /// Advances the clock and checks that exactly the overdue requests expire.
    fn advance(&mut self, amount: u8) {
        self.now += Duration::from_millis(amount.into());
        for expired in self.pending.expire(self.now, |_| false) {
            let which = expired.id.parse().expect("one of our ids");
            let open = self.open.remove(&which).expect("it was pending");
            assert!(open.waiter == expired.waiter && open.is_overdue(self.now));
            self.end(expired.waiter);
        }
        assert!(self.open.values().all(|open| !open.is_overdue(self.now)));
        let alarm = self.pending.next_deadline();
        assert!(self.open.is_empty() || alarm.is_none_or(|alarm| alarm > self.now));
    }

    fn receive(&mut self, which: u8, kind: u8) {
        let known = self.open.get(&which).map(|open| (open.waiter, open.consumer));
        let received = self.pending.handle_event(self.now, event(which, kind));
        let (ended, was_heard) = match (received, known) {
            (EventEffect::Ended(waiter, _), Some((known, _))) => {
                assert_eq!(waiter, known);
                (Some(waiter), false)
            }
            (EventEffect::Value(waiter, _), Some((known, consumer))) => {
                assert_eq!((*waiter, consumer), (known, Consumer::Subscription));
                (None, true)
            }
            (EventEffect::Progress(waiter, _), Some((known, _))) => {
                assert_eq!(*waiter, known);
                (None, true)
            }
            (EventEffect::Unsolicited | EventEffect::Ignored, None) => (None, false),
            (received, known) => panic!("{received:?} for {known:?}"),
        };
        if let Some(waiter) = ended {
            self.open.remove(&which);
            self.end(waiter);
        }
        let (now, open) = (self.now, self.open.get_mut(&which));
        if let Some((longest, until)) = open.filter(|_| was_heard).and_then(|it| it.idle.as_mut()) {
            *until = now + *longest;
        }
    }

    /// Marks a request as ended, and asserts that it had not ended before.
    fn end(&mut self, waiter: u32) {
        let ended = &mut self.ended[waiter as usize];
        assert!(!*ended, "{waiter} ended twice");
        *ended = true;
    }
}

/// Creates an event for a request: a response, its end, or progress.
fn event(which: u8, kind: u8) -> CallEvent {
    let id: std::sync::Arc<str> = which.to_string().into();
    match kind {
        5 => CallEvent::Completed { id },
        6 => CallEvent::Aborted { id, reason: None },
        7 => CallEvent::Failed { id, error: CallError::unknown("so it goes") },
        8 => frame("call.progress", which, r#""progress":1"#),
        _ => frame("call.responded", which, &format!(r#""output":{PLAIN_ENVELOPE}"#)),
    }
}

fn frame(kind: &str, id: u8, rest: &str) -> CallEvent {
    let text =
        format!(r#"{{"type":"{kind}","id":"{id}","payload":{{"requestId":"{id}",{rest}}}}}"#);
    CallEvent::from_json(&text).expect("a frame of our own")
}
