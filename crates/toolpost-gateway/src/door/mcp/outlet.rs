//! What a request can do while it is running: tell its client something, and be canceled.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use toolpost::{AbortHandle, LogLine, Progress, ProgressSender, Watch};

use super::level::Level;
use super::message::{self, Id};
use super::session::{Calls, Cancellable};

/// Where a request's notifications go, and who may cancel it.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) notes: Option<mpsc::Sender<Vec<u8>>>,
    id: Id,
    request: Arc<Cancellable>,
    /// Where its client finds it.
    calls: Option<Arc<Calls>>,
    /// Set where a client cancels by leaving.
    leaving_cancels: bool,
}

impl Outlet {
    pub(super) fn new(id: Id) -> Self {
        let request = Arc::default();
        Self { notes: None, id, request, calls: None, leaving_cancels: false }
    }

    pub(super) fn notes(mut self, notes: Option<mpsc::Sender<Vec<u8>>>) -> Self {
        self.notes = notes;
        self
    }

    /// The client can cancel it by its id, from now on.
    pub(super) fn cancellable(mut self, calls: Option<Arc<Calls>>) -> Self {
        if let Some(calls) = &calls {
            self.request = calls.begin(self.id.clone());
        }
        self.calls = calls;
        self
    }

    /// The client cancels it by going away.
    pub(super) fn cancelled_by_leaving(mut self, leaving_cancels: bool) -> Self {
        self.leaving_cancels = leaving_cancels;
        self
    }

    /// The call that the request is about has been made.
    pub(super) fn started(&self, call: AbortHandle) {
        self.request.started(call);
    }

    /// Resolves when the client does not want an answer any more.
    pub(super) async fn cancelled(&self) {
        self.request.cancelled().await;
    }

    /// The request is answered; false if the client had canceled it.
    pub(super) fn ended(mut self) -> bool {
        self.leaving_cancels = false;
        !self.request.is_cancelled()
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
        if let Some(calls) = &self.calls {
            calls.end(&self.id, &self.request);
        }
        if self.leaving_cancels {
            self.request.cancel("the client closed the stream of its request");
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
