//! Where every message of a server goes, whichever way it came.

use std::sync::Arc;

use super::failure::Failure;
use super::inbox::Inbox;
use super::pending::Pending;
use super::rpc::{self, Message};

/// The longest id of a request of the server that is answered, in bytes.
const MOST_ID: usize = 256;

/// Answers go to those who wait for them, everything else to the inbox.
#[derive(Debug, Clone)]
pub(super) struct Switch {
    pub(super) pending: Arc<Pending>,
    pub(super) inbox: Inbox,
}

impl Switch {
    pub(super) fn new(inbox: Inbox) -> Self {
        Self { pending: Arc::default(), inbox }
    }

    /// Takes one message, or a batch; `reply` gets the text of each answer that the server wants.
    /// What came on the stream of one request is about that request.
    ///
    /// # Errors
    ///
    /// It is not JSON-RPC.
    pub(super) fn take(
        &self,
        text: &str,
        about: Option<u64>,
        reply: &mut dyn FnMut(String),
    ) -> Result<(), String> {
        rpc::read(text, &mut |message| match message {
            Message::Response { id: Some(id), answer } => {
                let answer = answer.map(ToOwned::to_owned).map_err(Failure::rpc_error);
                if !self.pending.answer(id, answer) {
                    let source = self.inbox.source();
                    tracing::debug!(source, id, "an answer that nobody waits for");
                }
            }
            Message::Response { id: None, answer } => {
                let (source, error) = (self.inbox.source(), answer.err());
                let error = error.map(|error| short(&error.message));
                tracing::warn!(source, error, "an answer to a request that was never made");
            }
            // What is said back to the server is not for the server to make large.
            Message::Request { id, .. } if id.get().len() > MOST_ID => {
                tracing::warn!(source = self.inbox.source(), "a request with a very long id");
            }
            Message::Request { id, method, params } => {
                reply(self.inbox.answer_text(id, &method, params));
            }
            Message::Notification { method, params: Some(params) }
                if method == "notifications/progress" =>
            {
                self.pending.progress(params);
            }
            Message::Notification { method, params: Some(params) }
                if method == "notifications/message" =>
            {
                if let Some(line) = self.inbox.log(params) {
                    about.inspect(|id| self.pending.log(*id, line));
                }
            }
            Message::Notification { method, params: Some(params) }
                if method == "notifications/resources/updated" =>
            {
                self.inbox.updated(params);
            }
            Message::Notification { method, params } => {
                if let ("notifications/subscriptions/acknowledged", Some(params)) =
                    (&*method, params)
                {
                    self.inbox.watches.acknowledged(about, params);
                }
                self.inbox.notified(&method);
            }
        })
    }
}

/// The beginning of what a server says, for a log.
pub(super) fn short(text: &str) -> String {
    text.chars().take(500).collect()
}
