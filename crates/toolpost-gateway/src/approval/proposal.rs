//! What is proposed: who, what, with which input, until when.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

/// A call that waits. Everything in it is fixed when it begins to wait; whoever agrees agrees to this
/// and to nothing else.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Proposal {
    pub(super) request_id: String,
    pub(super) parent_request_id: Option<String>,
    pub(super) door: &'static str,
    pub(super) operation: String,
    /// Who calls, or on whose behalf; nobody where the process itself calls.
    pub(super) caller: Option<String>,
    /// The input without what is hidden.
    pub(super) input: Value,
    /// What the whole input is known by, secrets included.
    pub(super) input_digest: String,
    pub(super) since: Instant,
    pub(super) until: Instant,
}

/// What somebody said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Approved {
        by: String,
    },
    Rejected {
        by: String,
        reason: Option<String>,
    },
    /// The caller is not who he was when he called.
    Dismissed,
}

impl Verdict {
    /// What those are told who come too late.
    pub(super) fn ending(&self, approver: &str) -> String {
        match self {
            Self::Approved { .. } => format!("it was approved by `{approver}`"),
            Self::Rejected { .. } => format!("it was rejected by `{approver}`"),
            Self::Dismissed => "its caller is not who he was when he called".to_owned(),
        }
    }
}

/// A proposal as it is listed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    /// What `gateway.approve` and `gateway.reject` take.
    pub(super) id: String,
    /// `namespace.name`, or what was proposed in a room.
    pub(super) operation: String,
    /// Who calls, or on whose behalf; absent where the gateway itself calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) caller: Option<String>,
    /// The room in which it was proposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) room: Option<String>,
    /// The input as it will run, with `***` in place of what its schema marks as secret.
    pub(super) input: Value,
    /// What the whole input is known by as long as this gateway runs: HMAC-SHA-256 with a key that
    /// nobody has.
    pub(super) input_digest: String,
    /// Where the call came in.
    pub(super) door: String,
    /// The id of the call.
    pub(super) request_id: String,
    /// The call that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_request_id: Option<String>,
    /// How long it has waited.
    pub(super) waited_ms: u64,
    /// How long it waits on.
    pub(super) expires_in_ms: u64,
}

impl Shown {
    pub(super) fn of(id: &str, proposal: &Proposal, now: Instant) -> Self {
        Self {
            id: id.to_owned(),
            operation: proposal.operation.clone(),
            caller: proposal.caller.clone(),
            room: None,
            input: proposal.input.clone(),
            input_digest: proposal.input_digest.clone(),
            door: proposal.door.to_owned(),
            request_id: proposal.request_id.clone(),
            parent_request_id: proposal.parent_request_id.clone(),
            waited_ms: millis(now.saturating_duration_since(proposal.since)),
            expires_in_ms: millis(proposal.until.saturating_duration_since(now)),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
