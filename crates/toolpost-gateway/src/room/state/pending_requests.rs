//! Method and name of each request, which make responses self-contained.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::value::RawValue;
use toolpost::json_rpc::RpcId;

use super::RoomError;
use super::proposal::Proposals;
use crate::room::message::{McpTarget, RejectionCode, ResponseContext, RoomMessage};

const MAX_REQUESTS: usize = 10_000;

/// How long the id of a request without a response stays reserved, in milliseconds.
const PENDING_ID_TTL_MS: i64 = 300_000;

/// Maximum total size of the tracked requests, in bytes.
const MAX_REQUEST_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    by_id: HashMap<Box<str>, PendingRequest>,
    order: VecDeque<Box<str>>,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) target: McpTarget,
    pub(super) from: Arc<str>,
    /// Addressees; empty for all participants.
    pub(super) to: Vec<Box<str>>,
    /// JSON-RPC id in the payload, as received.
    pub(super) rpc_id: Option<RpcId>,
    /// The proposal that the request fulfills, and its proposer.
    pub(super) proposal: Option<(Box<str>, Arc<str>)>,
    /// Time of the request in milliseconds since the Unix epoch.
    requested_at: i64,
    responders: Vec<Arc<str>>,
}

impl PendingRequests {
    pub(super) fn get(&self, id: &str) -> Option<&PendingRequest> {
        self.by_id.get(id)
    }

    /// Finds a participant's request by its message id or JSON-RPC id, newest first.
    pub(super) fn find_by_rpc_id(&self, from: &str, rpc_id: &RawValue) -> Option<&str> {
        let as_text: Option<String> = serde_json::from_str(rpc_id.get()).ok();
        let is_match = |id: &str, request: &PendingRequest| {
            let has_id = request.rpc_id.as_ref().is_some_and(|own| own.as_json() == rpc_id.get());
            &*request.from == from && (as_text.as_deref() == Some(id) || has_id)
        };
        let newest_first = self.order.iter().rev();
        let mut known = newest_first.filter_map(|id| Some((&**id, self.by_id.get(id)?)));
        known.find(|(id, request)| is_match(id, request)).map(|(id, _)| id)
    }

    pub(super) fn add(
        &mut self,
        message: &RoomMessage,
        proposals: &Proposals,
        rpc_id: Option<RpcId>,
        since: i64,
    ) {
        let Some(target) = message.kind.target().cloned() else { return };
        if target.method.starts_with("notifications/") {
            return;
        }
        let proposal = proposals.find(&message.correlation);
        let proposal = proposal.map(|(id, proposal)| (id.into(), Arc::clone(&proposal.from)));
        let request = PendingRequest {
            target,
            from: Arc::clone(&message.from),
            to: message.to.clone(),
            rpc_id,
            proposal,
            requested_at: since,
            responders: Vec::new(),
        };
        self.bytes += request.bytes();
        match self.by_id.insert(message.id.clone(), request) {
            None => self.order.push_back(message.id.clone()),
            Some(before) => self.bytes -= before.bytes(),
        }
        while self.order.len() > MAX_REQUESTS || self.bytes > MAX_REQUEST_BYTES {
            let oldest = self.order.pop_front().and_then(|oldest| self.by_id.remove(&oldest));
            let Some(oldest) = oldest else { break };
            self.bytes -= oldest.bytes();
        }
    }

    pub(super) fn record_response(&mut self, response: &RoomMessage) {
        let id = response.context_of.as_ref().map(|context| &context.request_id);
        if let Some(request) = id.and_then(|id| self.by_id.get_mut(id)) {
            request.responders.push(Arc::clone(&response.from));
        }
    }

    pub(super) fn is_awaiting_response(&self, id: &str, now: i64) -> bool {
        self.get(id).is_some_and(|request| {
            request.responders.is_empty() && now - request.requested_at < PENDING_ID_TTL_MS
        })
    }

    /// Requests addressed to a participant that have no response, oldest first.
    pub(super) fn without_response_from(&self, by: &str) -> Vec<Box<str>> {
        let is_open = |request: &PendingRequest| {
            request.responders.is_empty() && request.to.iter().any(|to| &**to == by)
        };
        self.order.iter().filter(|id| self.get(id).is_some_and(is_open)).cloned().collect()
    }
}

impl PendingRequest {
    pub(super) fn check_no_response_from(&self, by: &str) -> Result<(), RoomError> {
        if !self.responders.iter().any(|responder| &**responder == by) {
            return Ok(());
        }
        Err(RejectionCode::AlreadyResponded.error("you have already responded to this request"))
    }

    fn bytes(&self) -> usize {
        let to: usize = self.to.iter().map(|to| to.len() + 16).sum();
        to + self.target.name.as_ref().map_or(0, |name| name.len()) + 256
    }

    pub(super) fn is_addressed_to(&self, id: &str) -> bool {
        // A request to all participants does not address its sender.
        if self.to.is_empty() { &*self.from != id } else { self.to.iter().any(|to| &**to == id) }
    }

    pub(super) fn response_context(&self, id: &str) -> ResponseContext {
        ResponseContext {
            method: self.target.method.clone(),
            name: self.target.name.clone(),
            request_id: id.into(),
            from: Arc::clone(&self.from),
            proposal_id: self.proposal.as_ref().map(|(id, _)| id.clone()),
            proposer: self.proposal.as_ref().map(|(_, proposer_id)| Arc::clone(proposer_id)),
            outcome: None,
        }
    }
}
