//! What the open stages are shown, and how they answer.

use futures::future::BoxFuture;
use serde_json::{Map, Value};

use super::approval::Approval;
use crate::access::Identity;
use crate::error::CallError;
use crate::handler::{CallContext, ProgressSender, RequestId};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::trace::{CallSpan, TRACE_PARENT, TraceContext};

/// The answer of a seam: most know at once, and those should cost nothing.
#[must_use]
pub enum HookResult<T> {
    /// Decided.
    Ready(Result<T, CallError>),
    /// Not yet; the call waits, and is cancellable meanwhile.
    Pending(BoxFuture<'static, Result<T, CallError>>),
}

/// What a seam may know about a call.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct CallView<'a> {
    /// The id of the call.
    pub request_id: &'a RequestId,
    /// The call that this one is part of.
    pub parent_request_id: Option<&'a RequestId>,
    /// Where it came in; `local` for calls inside this process.
    pub endpoint: &'static str,
    /// The id that was asked for, whether or not there is such an operation.
    pub operation_id: &'a str,
    /// The operation, if there is one.
    pub operation: Option<&'a Operation>,
    /// Who calls, or on whose behalf.
    pub identity: Option<&'a Identity>,
    /// Whether access is not checked.
    pub trusted: bool,
    /// Where whoever waits for the call hears how far it has come.
    pub progress: &'a ProgressSender,
    /// The input, until the handler has it.
    pub input: Option<&'a Payload>,
    /// What [`AuditSink::enter`](super::AuditSink::enter) said about it.
    pub audit_id: Option<u64>,
    /// Whose word it had to wait for, as soon as that was given.
    pub approval: Option<&'a Approval>,
    /// What came with the call beside its input.
    pub metadata: Option<&'a Map<String, Value>>,
    /// The spans of the call, where it is recorded.
    pub span: Option<&'a CallSpan>,
    pub(super) context: &'a CallContext,
}

impl<'a> CallView<'a> {
    /// How many calls of this process it is inside of.
    pub fn depth(&self) -> u32 {
        self.context.depth()
    }

    /// Whether a call that it is inside of holds a place at its source.
    pub fn ancestor_holds_source_permit(&self) -> bool {
        self.context.ancestor_holds_source_permit(|_| true)
    }

    /// Whether a call that it is inside of holds a place at this very source.
    pub fn ancestor_holds_permit_of(&self, namespace: &str) -> bool {
        let is_in_namespace = |operation: &str| {
            operation.split_once('.').is_some_and(|(source, _)| source == namespace)
        };
        self.context.ancestor_holds_source_permit(is_in_namespace)
    }

    /// The id of the trace that it belongs to, as it is written.
    pub fn trace_id(&self) -> Option<&'a str> {
        let text = self.metadata?.get(TRACE_PARENT)?.as_str()?;
        TraceContext::parse(text).and_then(|_| text.get(3..35))
    }
}
