//! What each request asked, so that its answers explain themselves.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::Refusal;
use super::proposal::Proposals;
use crate::room::message::{Asked, ContextOf, Message};

/// How many requests are remembered.
const MOST: usize = 10_000;

/// How long the id of a request that nobody has answered is not given to another, in milliseconds.
const MOMENT: i64 = 300_000;

/// How many bytes these take.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// The requests that may still be answered.
#[derive(Debug, Default)]
pub(super) struct Requests {
    known: HashMap<Box<str>, Request>,
    order: VecDeque<Box<str>>,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) asked: Asked,
    pub(super) from: Arc<str>,
    /// Everybody, if it is empty.
    pub(super) to: Vec<Box<str>>,
    /// The id inside the payload, as it came.
    pub(super) rpc_id: Option<Box<RawValue>>,
    /// The proposal that it fulfils, and whose that is.
    pub(super) proposal: Option<(Box<str>, Arc<str>)>,
    /// In milliseconds since 1970.
    since: i64,
    answered_by: Vec<Arc<str>>,
}

impl Requests {
    pub(super) fn get(&self, id: &str) -> Option<&Request> {
        self.known.get(id)
    }

    /// The request of somebody, by the id of its message or the one inside its payload.
    pub(super) fn find(&self, from: &str, rpc_id: &RawValue) -> Option<&str> {
        let as_text: Option<String> = serde_json::from_str(rpc_id.get()).ok();
        let is_meant = |id: &str, request: &Request| {
            let has_id = request.rpc_id.as_ref().is_some_and(|own| own.get() == rpc_id.get());
            &*request.from == from && (as_text.as_deref() == Some(id) || has_id)
        };
        let newest_first = self.order.iter().rev();
        let mut known = newest_first.filter_map(|id| Some((&**id, self.known.get(id)?)));
        known.find(|(id, request)| is_meant(id, request)).map(|(id, _)| id)
    }

    pub(super) fn add(
        &mut self,
        message: &Message,
        proposals: &Proposals,
        rpc_id: Option<Box<RawValue>>,
        since: i64,
    ) {
        let Some(method) = message.kind.method() else { return };
        if method.starts_with("notifications/") {
            return;
        }
        let asked = Asked { method: method.into(), name: message.kind.context().map(Into::into) };
        let proposal = message.correlation.iter().find_map(|id| proposals.whose(id));
        let request = Request {
            asked,
            from: Arc::clone(&message.from),
            to: message.to.clone(),
            rpc_id,
            proposal,
            since,
            answered_by: Vec::new(),
        };
        self.bytes += request.bytes();
        match self.known.insert(message.id.clone(), request) {
            None => self.order.push_back(message.id.clone()),
            Some(before) => self.bytes -= before.bytes(),
        }
        while self.order.len() > MOST || self.bytes > MOST_BYTES {
            let oldest = self.order.pop_front().and_then(|oldest| self.known.remove(&oldest));
            let Some(oldest) = oldest else { break };
            self.bytes -= oldest.bytes();
        }
    }
}

impl Requests {
    /// Somebody has answered a request.
    pub(super) fn answered(&mut self, response: &Message) {
        let id = response.context_of.as_ref().map(|context| &context.request_id);
        if let Some(request) = id.and_then(|id| self.known.get_mut(id)) {
            request.answered_by.push(Arc::clone(&response.from));
        }
    }

    /// Whether somebody may still answer the request of this id, which was asked a moment ago.
    pub(super) fn is_waiting(&self, id: &str, now: i64) -> bool {
        let is_young = |request: &Request| now - request.since < MOMENT;
        self.known.get(id).is_some_and(|it| it.answered_by.is_empty() && is_young(it))
    }

    /// The requests to somebody that he has not answered, the oldest first.
    pub(super) fn unanswered(&self, by: &str) -> Vec<Box<str>> {
        let is_asked = |request: &Request| request.to.iter().any(|to| &**to == by);
        let is_left = |request: &Request| request.answered_by.is_empty() && is_asked(request);
        let known = self.order.iter().filter(|id| self.known.get(&***id).is_some_and(is_left));
        known.cloned().collect()
    }
}

impl Request {
    /// Each of those who were asked answers once.
    pub(super) fn check_unanswered(&self, by: &str) -> Result<(), Refusal> {
        if !self.answered_by.iter().any(|who| &**who == by) {
            return Ok(());
        }
        Err(Refusal::new("already_answered", "you have answered this request already"))
    }

    fn bytes(&self) -> usize {
        let to: usize = self.to.iter().map(|to| to.len() + 16).sum();
        to + self.asked.name.as_ref().map_or(0, |name| name.len()) + 256
    }

    pub(super) fn is_addressed_to(&self, id: &str) -> bool {
        // Who asks everybody does not ask himself.
        if self.to.is_empty() { &*self.from != id } else { self.to.iter().any(|to| &**to == id) }
    }

    /// What an answer to it is about.
    pub(super) fn context(&self, id: &str) -> ContextOf {
        ContextOf {
            method: self.asked.method.clone(),
            name: self.asked.name.clone(),
            request_id: id.into(),
            from: Arc::clone(&self.from),
            proposal_id: self.proposal.as_ref().map(|(id, _)| id.clone()),
            proposer: self.proposal.as_ref().map(|(_, who)| Arc::clone(who)),
            outcome: None,
        }
    }
}
