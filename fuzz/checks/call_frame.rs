//! What holds for any bytes at all; shared by the fuzz target and the replay of its corpus.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use toolpost::protocol::{CALL_EVENT_SCHEMA, Consumer, Event, Patience, Pending, Received};
use toolpost::{CallError, ENVELOPE_SCHEMA, Schema};

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(CALL_EVENT_SCHEMA.clone()).expect("an object is a schema"));

static ENVELOPE: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(ENVELOPE_SCHEMA.clone()).expect("an object is a schema"));

const PLAIN_ENVELOPE: &str =
    r#"{"data":1,"meta":{"source":"local","operationId":"a.b","timestamp":1}}"#;

/// Takes `bytes` for a frame, and for a series of events and moments.
pub(crate) fn check(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_frame(text);
    }
    Model::default().play(bytes);
}

/// What was read is written, fits its schema, and is read again as the same.
fn check_frame(text: &str) {
    let event = match Event::from_json(text) {
        Ok(event) => event,
        Err(error) => return assert!(!error.message.is_empty()),
    };
    let written = event.to_json();
    let again = Event::from_json(&written).expect("what was written can be read");
    assert_eq!(again.to_json(), written);
    assert_eq!((again.id(), again.type_name()), (event.id(), event.type_name()));
    // Payloads may be nested deeper, or hold larger numbers, than a tree can.
    if let Ok(mut value) = serde_json::from_str::<Value>(&written) {
        forgive_envelope(&mut value["payload"]);
        let issues = SCHEMA.check(&value).expect("the schema compiles");
        assert!(issues.is_empty(), "{written}: {issues:?}");
    }
}

/// Envelopes are read more kindly than their own schema says; what that schema has to say about one
/// is not the protocol's business.
fn forgive_envelope(payload: &mut Value) {
    if let Some(output) = payload.get_mut("output")
        && !ENVELOPE.fits(output).expect("the schema compiles")
    {
        *output = serde_json::from_str(PLAIN_ENVELOPE).expect("an envelope of our own");
    }
}

/// What should be pending: by its number, what is known of its end.
struct Model {
    pending: Pending<u32>,
    open: HashMap<u8, Open>,
    /// Who has been opened so far, and whether they have ended.
    ended: Vec<bool>,
    now: Instant,
}

struct Open {
    waiter: u32,
    consumer: Consumer,
    deadline: Option<Instant>,
    idle: Option<(Duration, Instant)>,
}

impl Open {
    fn is_overdue(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|at| at <= now) || self.idle.is_some_and(|(_, at)| at <= now)
    }
}

impl Default for Model {
    fn default() -> Self {
        let (pending, open, ended) = (Pending::default(), HashMap::new(), Vec::new());
        Self { pending, open, ended, now: Instant::now() }
    }
}

impl Model {
    /// Two bytes are a step: what happens, and to which of eight requests or for how long.
    fn play(&mut self, bytes: &[u8]) {
        for step in bytes.chunks_exact(2) {
            let (what, which) = (step[0], step[1] % 8);
            match what % 11 {
                0..=2 => self.open(which, what, step[1]),
                3 => self.leave(which),
                4 => self.pass(step[1]),
                kind => self.receive(which, kind),
            }
            assert_eq!(self.pending.len(), self.open.len());
            assert_eq!(self.pending.is_empty(), self.open.is_empty());
            assert_eq!(self.pending.contains(&which.to_string()), self.open.contains_key(&which));
        }
        let left = self.pending.lose();
        assert_eq!(left.len(), self.open.len());
        left.into_iter().for_each(|waiter| self.end(waiter));
        assert!(self.pending.is_empty() && self.ended.iter().all(|ended| *ended));
    }

    fn open(&mut self, which: u8, what: u8, much: u8) {
        let consumer = if what.is_multiple_of(2) { Consumer::Call } else { Consumer::Subscription };
        let length = |units: u8| (units > 0).then(|| Duration::from_millis(units.into()));
        let patience = Patience {
            deadline: length(much / 8 % 8 * 10).map(|length| self.now + length),
            idle: length(much / 64 * 7),
        };
        let waiter = u32::try_from(self.ended.len()).expect("a few thousand steps");
        let id = which.to_string().into();
        match self.pending.open(self.now, id, consumer, patience, waiter) {
            Ok(()) => {
                let Patience { deadline, idle } = patience;
                let idle = idle.map(|idle| (idle, self.now + idle));
                let before = self.open.insert(which, Open { waiter, consumer, deadline, idle });
                assert!(before.is_none(), "an id stands for one request");
                self.ended.push(false);
            }
            Err(refused) => assert!(refused == waiter && self.open.contains_key(&which)),
        }
    }

    fn leave(&mut self, which: u8) {
        let left = self.pending.leave(&which.to_string());
        assert_eq!(left, self.open.remove(&which).map(|open| open.waiter));
        left.into_iter().for_each(|waiter| self.end(waiter));
    }

    /// Time passes, and exactly those whose time is over are given up.
    fn pass(&mut self, much: u8) {
        self.now += Duration::from_millis(much.into());
        for expired in self.pending.expire(self.now, |_| false) {
            let which = expired.id.parse().expect("one of our ids");
            let open = self.open.remove(&which).expect("it was pending");
            assert!(open.waiter == expired.waiter && open.is_overdue(self.now));
            self.end(expired.waiter);
        }
        assert!(self.open.values().all(|open| !open.is_overdue(self.now)));
        let alarm = self.pending.next_alarm();
        assert!(self.open.is_empty() || alarm.is_none_or(|alarm| alarm > self.now));
    }

    fn receive(&mut self, which: u8, kind: u8) {
        let known = self.open.get(&which).map(|open| (open.waiter, open.consumer));
        let received = self.pending.receive(self.now, event(which, kind));
        let (ended, was_heard) = match (received, known) {
            (Received::Ended(waiter, _), Some((known, _))) => {
                assert_eq!(waiter, known);
                (Some(waiter), false)
            }
            (Received::Value(waiter, _), Some((known, consumer))) => {
                assert_eq!((*waiter, consumer), (known, Consumer::Subscription));
                (None, true)
            }
            (Received::Progress(waiter, _), Some((known, _))) => {
                assert_eq!(*waiter, known);
                (None, true)
            }
            (Received::Unwanted | Received::Ignored, None) => (None, false),
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

    /// Every request ends at most once.
    fn end(&mut self, waiter: u32) {
        let ended = &mut self.ended[waiter as usize];
        assert!(!*ended, "{waiter} ended twice");
        *ended = true;
    }
}

/// An answer, or news, as the wire has it.
fn event(which: u8, kind: u8) -> Event {
    let id: std::sync::Arc<str> = which.to_string().into();
    match kind {
        5 => Event::Completed { id },
        6 => Event::Aborted { id, reason: None },
        7 => Event::Failed { id, error: CallError::unknown("so it goes") },
        8 => frame("call.progress", which, r#""progress":1"#),
        _ => frame("call.responded", which, &format!(r#""output":{PLAIN_ENVELOPE}"#)),
    }
}

fn frame(kind: &str, id: u8, rest: &str) -> Event {
    let text =
        format!(r#"{{"type":"{kind}","id":"{id}","payload":{{"requestId":"{id}",{rest}}}}}"#);
    Event::from_json(&text).expect("a frame of our own")
}
