//! One request to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::error::RequestError;
use super::protocol_version::ProtocolProfile;
use super::rpc::{self, RequestParams};
use crate::handler::{ClientChannel, ProgressSender};

/// A request, and how long it may take.
#[derive(Debug, Clone)]
pub(super) struct ClientRequest<'a> {
    pub(super) method: &'a str,
    pub(super) params: &'a RequestParams<'a>,
    /// What it is about, for a header: the name of a tool or a prompt, the address of a resource.
    pub(super) subject: Option<&'a str>,
    /// More headers, over HTTP.
    pub(super) headers: Vec<(&'a str, String)>,
    /// Where reports go; without it none are asked for.
    pub(super) progress: Option<ProgressSender>,
    /// The trace that it belongs to, as members of `_meta` without braces.
    pub(super) trace: String,
    /// Who can be asked meanwhile.
    pub(super) client_channel: Option<&'a ClientChannel>,
    pub(super) timeouts: Timeouts,
    /// Set to the JSON-RPC id when the request is encoded.
    pub(super) request_id: Option<Arc<AtomicU64>>,
}

/// How long is waited for an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Without a sign of progress.
    pub(super) idle: Duration,
    /// In any case.
    pub(super) deadline: Instant,
}

impl Timeouts {
    pub(super) fn total(max: Duration) -> Self {
        Self::new(max, max)
    }

    pub(super) fn new(idle: Duration, max: Duration) -> Self {
        Self { idle, deadline: deadline_after(Instant::now(), max) }
    }
}

/// Later by so much, or as late as nobody waits for.
pub(super) fn deadline_after(moment: Instant, time: Duration) -> Instant {
    let longest = Duration::from_secs(60 * 60 * 24 * 365);
    moment + time.min(longest)
}

impl<'a> ClientRequest<'a> {
    pub(super) fn new(method: &'a str, params: &'a RequestParams<'a>, timeouts: Timeouts) -> Self {
        Self {
            method,
            params,
            subject: None,
            headers: Vec::new(),
            progress: None,
            trace: String::new(),
            client_channel: None,
            timeouts,
            request_id: None,
        }
    }

    /// Publishes the JSON-RPC id before the request is sent.
    pub(super) fn with_request_id(mut self, request_id: Arc<AtomicU64>) -> Self {
        self.request_id = Some(request_id);
        self
    }

    pub(super) fn encode(
        &self,
        id: u64,
        protocol: &ProtocolProfile,
    ) -> Result<String, RequestError> {
        if let Some(request_id) = &self.request_id {
            request_id.store(id, Ordering::Relaxed);
        }
        rpc::encode_request(Some(id), self.method, self.params, &protocol.request_meta(self, id))
            .map_err(|error| {
                RequestError::InvalidResponse(format!(
                    "the request cannot be encoded as JSON: {error}"
                ))
            })
    }

    /// Whether it is made for somebody who called.
    pub(super) fn is_upstream_call(&self) -> bool {
        self.progress.is_some()
    }

    /// The handshake must be waited for.
    pub(super) fn is_cancellable(&self) -> bool {
        self.method != "initialize"
    }
}
