//! A request to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::error::RequestError;
use super::protocol_version::ProtocolProfile;
use super::rpc::{self, RequestParams};
use crate::handler::{ClientChannel, ProgressSender};

/// A request to a server and its timeouts.
#[derive(Debug, Clone)]
pub(super) struct ClientRequest<'a> {
    pub(super) method: &'a str,
    pub(super) params: &'a RequestParams<'a>,
    /// Subject of the request, sent as a header: a tool, a prompt or a resource URI.
    pub(super) subject: Option<&'a str>,
    /// Additional HTTP headers.
    pub(super) headers: Vec<(&'a str, String)>,
    /// Receives progress and log messages; set for calls only, and requests a progress token.
    pub(super) progress: Option<ProgressSender>,
    /// Trace context as members of `_meta`, without braces.
    pub(super) trace: String,
    /// The client that server requests are forwarded to during the request.
    pub(super) client_channel: Option<&'a ClientChannel>,
    pub(super) timeouts: Timeouts,
    /// Receives the JSON-RPC id when the request is encoded.
    pub(super) request_id: Option<Arc<AtomicU64>>,
}

/// Time limits for a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Maximum time without progress.
    pub(super) idle: Duration,
    /// Deadline regardless of progress.
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

/// Returns the instant `time` after `moment`, at most one year later.
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

    /// Whether the request belongs to an operation call.
    pub(super) fn is_upstream_call(&self) -> bool {
        self.progress.is_some()
    }

    /// Whether the request may be canceled; `initialize` may not.
    pub(super) fn is_cancellable(&self) -> bool {
        self.method != "initialize"
    }
}

/// Sends `notifications/cancelled` when dropped before the response has arrived.
pub(super) struct CancelOnDrop<'a, F: Fn(String)> {
    pub(super) protocol: &'a ProtocolProfile,
    pub(super) id: u64,
    pub(super) is_armed: bool,
    pub(super) send: F,
}

impl<F: Fn(String)> Drop for CancelOnDrop<'_, F> {
    fn drop(&mut self) {
        if self.is_armed
            && let Ok(text) = self.protocol.cancellation(self.id)
        {
            (self.send)(text);
        }
    }
}
