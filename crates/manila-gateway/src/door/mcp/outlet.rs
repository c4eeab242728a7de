//! What a request can do while it is running: tell its client something, and be cancelled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use manila::{AbortHandle, LogLine, Progress, ProgressSender, Watch};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::level::Level;
use super::message::{self, Id};
use super::session::Calls;

/// Where a request's notifications go, and who may cancel it.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) notes: Option<mpsc::Sender<Vec<u8>>>,
    id: Id,
    calls: Option<Arc<Calls>>,
    /// Set where a client cancels by leaving.
    leaving_cancels: bool,
    /// The call, once it was made, and the mark that says whether the client cancelled it.
    call: OnceLock<(AbortHandle, Option<Arc<AtomicBool>>)>,
}

impl Outlet {
    pub(super) fn new(id: Id) -> Self {
        Self { notes: None, id, calls: None, leaving_cancels: false, call: OnceLock::new() }
    }

    pub(super) fn notes(mut self, notes: Option<mpsc::Sender<Vec<u8>>>) -> Self {
        self.notes = notes;
        self
    }

    /// The client can cancel it by its id.
    pub(super) fn cancellable(mut self, calls: Option<Arc<Calls>>) -> Self {
        self.calls = calls;
        self
    }

    /// The client cancels it by going away.
    pub(super) fn cancelled_by_leaving(mut self, leaving_cancels: bool) -> Self {
        self.leaving_cancels = leaving_cancels;
        self
    }

    /// The call that the request is about has been made.
    pub(super) fn started(&self, handle: AbortHandle) {
        let calls = self.calls.as_ref();
        let mark = calls.map(|calls| calls.add(self.id.clone(), handle.clone()));
        // A request makes one call.
        let _ = self.call.set((handle, mark));
    }

    /// The call has ended; false if the client had cancelled it.
    pub(super) fn ended(mut self) -> bool {
        self.leaving_cancels = false;
        let mark = self.call.get().and_then(|(_, mark)| mark.as_ref());
        mark.is_none_or(|mark| !mark.load(Ordering::Acquire))
    }

    /// Who watches the call: the client, as far as it asked to be told.
    pub(super) fn watch(&self, token: Option<&RawValue>, level: Option<Level>) -> ProgressSender {
        let Some(notes) = self.notes.clone().filter(|_| token.is_some() || level.is_some()) else {
            return ProgressSender::default();
        };
        let token = token.map(|token| token.get().into());
        ProgressSender::to(Arc::new(Watching { notes, token, level }))
    }
}

/// Tells a client what happens. What finds no room is dropped: a client that reads slowly must not
/// slow the work.
struct Watching {
    notes: mpsc::Sender<Vec<u8>>,
    token: Option<Box<str>>,
    level: Option<Level>,
}

impl Watch for Watching {
    fn progress(&self, report: Progress) {
        if let Some(token) = &self.token {
            let _ = self.notes.try_send(progress(token, &report));
        }
    }

    fn log(&self, line: LogLine) {
        let matters = Level::of(&line.level).zip(self.level).is_some_and(|(is, asked)| is >= asked);
        if matters {
            let line = serde_json::to_value(&line).expect("a line is JSON");
            let _ = self.notes.try_send(message::notification("notifications/message", &line));
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let Some((handle, mark)) = self.call.get() else { return };
        if let (Some(calls), Some(mark)) = (&self.calls, mark) {
            calls.remove(&self.id, mark);
        }
        if self.leaving_cancels {
            handle.abort("the client closed the stream of its request");
        }
    }
}

pub(super) fn progress(token: &str, report: &Progress) -> Vec<u8> {
    let report = serde_json::to_string(report).expect("a report is JSON");
    let members = report.trim_start_matches('{');
    let head = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#;
    format!("{head}{token},{members}}}").into_bytes()
}

/// A line of a log whose data is JSON already.
pub(super) fn line(level: &str, logger: &str, data: &str) -> Vec<u8> {
    let logger = serde_json::Value::from(logger);
    let head = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"#;
    format!(r#"{head}"{level}","logger":{logger},"data":{data}}}}}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_notification() {
        let report = Progress::new(2.0).of(5.0).with_message("x");
        let text = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":2.0,"total":5.0,"message":"x"}}"#;
        assert_eq!(String::from_utf8(progress(r#""t""#, &report)).unwrap(), text);
        let text = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"a\"b","data":[1]}}"#;
        assert_eq!(String::from_utf8(line("info", "a\"b", "[1]")).unwrap(), text);
    }
}
