//! What a request can do while it is running: tell its client something, and be cancelled.

use std::sync::{Arc, OnceLock};

use manila::{AbortHandle, Progress, ProgressSender};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::message::Id;
use super::session::Calls;

/// Where a request's notifications go, and who may cancel it.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) notes: Option<mpsc::Sender<Vec<u8>>>,
    id: Id,
    calls: Option<Arc<Calls>>,
    /// Set where a client cancels by leaving.
    leaving_cancels: bool,
    handle: OnceLock<AbortHandle>,
}

impl Outlet {
    pub(super) fn new(id: Id) -> Self {
        Self { notes: None, id, calls: None, leaving_cancels: false, handle: OnceLock::new() }
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
        if let Some(calls) = &self.calls {
            calls.add(self.id.clone(), handle.clone());
        }
        // A request makes one call.
        let _ = self.handle.set(handle);
    }

    /// The call has ended; false if the client had cancelled it.
    pub(super) fn ended(mut self) -> bool {
        self.leaving_cancels = false;
        let calls = self.calls.take();
        calls.is_none_or(|calls| self.handle.get().is_none() || calls.remove(&self.id))
    }

    /// Where the progress of the call goes, if the client asked for it.
    pub(super) fn progress(&self, token: Option<&RawValue>) -> ProgressSender {
        let (Some(notes), Some(token)) = (self.notes.clone(), token) else {
            return ProgressSender::default();
        };
        let token: Box<str> = token.get().into();
        // A report that finds no room is dropped: a later one says more.
        ProgressSender::from_fn(move |report| drop(notes.try_send(progress(&token, &report))))
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if let Some(calls) = &self.calls {
            calls.remove(&self.id);
        }
        if let Some(handle) = self.handle.get().filter(|_| self.leaving_cancels) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_notification() {
        let report = Progress::new(2.0).of(5.0).with_message("x");
        let text = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":2.0,"total":5.0,"message":"x"}}"#;
        assert_eq!(String::from_utf8(progress(r#""t""#, &report)).unwrap(), text);
    }
}
