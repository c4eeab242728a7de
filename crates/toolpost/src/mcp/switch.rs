//! Where every message of a server goes, whichever way it came.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::failure::Failure;
use super::inbox::Inbox;
use super::inquiry::{self, Topic};
use super::pending::{Asked, Pending};
use super::rpc::{self, Message};
use crate::handler::{Respond, Respondent};

/// The longest id of a request of the server that is answered, in bytes.
const MOST_ID: usize = 256;

/// A server of before asks while it works, and a client of 2026-07-28 is told only what came of it.
const ONLY_BETWEEN_CALLS: &str = "the server asks in the middle of a call, and the client that \
    called answers only between calls";

/// Brings the text of an answer to the server, now or later.
pub(super) type Reply = Box<dyn FnOnce(String) + Send>;

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

    /// Takes one message, or a batch; `reply` gives the way back of each answer that the server wants.
    /// What came on the stream of one request is about that request.
    ///
    /// # Errors
    ///
    /// It is not JSON-RPC.
    pub(super) fn take(
        &self,
        text: &str,
        about: Option<u64>,
        reply: &dyn Fn() -> Reply,
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
                self.asked(about, Request { id, method: &method, params }, reply());
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

/// A request of the server.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    id: &'a RawValue,
    method: &'a str,
    params: Option<&'a RawValue>,
}

impl Switch {
    /// Answers by the settings, or lets the client answer that called.
    fn asked(&self, about: Option<u64>, request: Request<'_>, reply: Reply) {
        let Request { id, method, params } = request;
        let topic = Topic::of(method).filter(|topic| self.inbox.leaves_to_the_client(*topic));
        let asked = match topic {
            Some(topic) => self.present(about, topic, params),
            None => Err(None),
        };
        match asked {
            Ok((asked, present)) => self.ask(asked, present, request, reply),
            Err(words) => {
                let answer = match words {
                    Some(words) => Err(self.inbox.not_asked(method, params, &words)),
                    None => self.inbox.answer(method, params),
                };
                reply(rpc::write_answer(id, answer.as_ref()));
            }
        }
    }

    /// Who is there to be asked about that, or words about why nobody is.
    fn present(
        &self,
        about: Option<u64>,
        topic: Topic,
        params: Option<&RawValue>,
    ) -> Result<(Asked, Arc<dyn Respond>), Option<String>> {
        let asked = self.pending.asked(about)?;
        inquiry::check(asked.as_ref().map(|asked| &asked.respondent), topic, params)?;
        match asked {
            Some(asked) => match &asked.respondent {
                Respondent::Present(present) => {
                    let present = Arc::clone(present);
                    Ok((asked, present))
                }
                Respondent::Returning(_) => Err(Some(ONLY_BETWEEN_CALLS.to_owned())),
            },
            None => Err(None),
        }
    }

    /// Asks in a task that ends with the call.
    fn ask(&self, asked: Asked, present: Arc<dyn Respond>, request: Request<'_>, reply: Reply) {
        let (about, method) = (asked.id, request.method.to_owned());
        let (id, params) = (request.id.to_owned(), request.params.map(ToOwned::to_owned));
        self.pending.run(about, async move {
            let asking = inquiry::ask(&*present, &method, params.as_deref());
            let answer = asked.waiting(asking).await;
            reply(rpc::write_answer(&id, answer.as_ref()));
        });
    }
}

/// The beginning of what a server says, for a log.
pub(super) fn short(text: &str) -> String {
    text.chars().take(500).collect()
}
