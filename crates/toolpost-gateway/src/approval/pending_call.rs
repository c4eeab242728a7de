//! A call pending approval and its listed form.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use toolpost::{Endpoint, Identity};

/// A call pending approval. An approval covers exactly this call, so it never changes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingCall {
    pub(super) request_id: String,
    pub(super) parent_request_id: Option<String>,
    pub(super) endpoint: Endpoint,
    pub(super) operation: String,
    /// The identity that the call is made for; `None` if the process itself calls.
    pub(super) caller: Option<Identity>,
    /// The input, with secrets masked.
    pub(super) input: Value,
    /// Digest of the full input, secrets included.
    pub(super) input_digest: String,
    pub(super) submitted_at: Instant,
    pub(super) deadline: Instant,
}

impl PendingCall {
    /// Returns the key of the caller as text.
    pub(super) fn caller_key(&self) -> Option<String> {
        self.caller.as_ref().map(|caller| caller.key().to_string())
    }
}

/// The decision of an approver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApprovalAction {
    Approve,
    Reject { reason: Option<String> },
}

impl ApprovalAction {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Approve => "approved",
            Self::Reject { .. } => "rejected",
        }
    }
}

/// The outcome of a pending call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApprovalDecision {
    Decided {
        by: String,
        decision: ApprovalAction,
    },
    /// The caller's token was revoked or reissued.
    IdentityRevoked,
}

impl ApprovalDecision {
    /// Returns the error text for later decisions on the same call.
    pub(super) fn closed_reason(&self) -> String {
        match self {
            Self::Decided { by, decision } => format!("it was {} by `{by}`", decision.as_str()),
            Self::IdentityRevoked => "the caller's token was revoked or reissued".to_owned(),
        }
    }
}

/// A call or room proposal that is pending approval.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalEntry {
    /// The id that `gateway.approve` and `gateway.reject` take.
    pub(crate) id: String,
    /// `namespace.name`, or the method and name proposed in a room.
    pub(crate) operation: String,
    /// The calling identity; absent for calls by the gateway itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) caller: Option<String>,
    /// The room of the proposal; absent for calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) room: Option<String>,
    /// The input as it will run, with `***` in place of what its schema marks as secret.
    pub(crate) input: Value,
    /// HMAC-SHA-256 of the full input, secrets included, with a key that is private to this
    /// process.
    pub(crate) input_digest: String,
    /// The endpoint that received the call.
    pub(crate) endpoint: Endpoint,
    /// The id of the call, or of the proposal.
    pub(crate) request_id: String,
    /// The id of the parent call, if this is a nested call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_request_id: Option<String>,
    /// Time since submission, in milliseconds.
    pub(crate) waited_ms: u64,
    /// Time until expiry, in milliseconds.
    pub(crate) expires_in_ms: u64,
}

impl ApprovalEntry {
    pub(super) fn new(id: &str, pending_call: &PendingCall, now: Instant) -> Self {
        Self {
            id: id.to_owned(),
            operation: pending_call.operation.clone(),
            caller: pending_call.caller_key(),
            room: None,
            input: pending_call.input.clone(),
            input_digest: pending_call.input_digest.clone(),
            endpoint: pending_call.endpoint,
            request_id: pending_call.request_id.clone(),
            parent_request_id: pending_call.parent_request_id.clone(),
            waited_ms: millis(now.saturating_duration_since(pending_call.submitted_at)),
            expires_in_ms: millis(pending_call.deadline.saturating_duration_since(now)),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
