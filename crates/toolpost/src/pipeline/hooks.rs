//! The view of a call that hooks receive, and their result type.

use std::borrow::Cow;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::approval::Approval;
use crate::access::Identity;
use crate::error::CallError;
use crate::handler::{CallContext, ProgressSender, RequestId};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::trace::{CallSpan, TRACE_PARENT, TraceContext};

/// Result of a hook. Most hooks decide immediately; `Ready` avoids a boxed future.
#[must_use]
pub enum HookResult<T> {
    /// The hook has decided.
    Ready(Result<T, CallError>),
    /// The decision is pending. The call waits for the future and can be canceled while it waits.
    Pending(BoxFuture<'static, Result<T, CallError>>),
}

/// What receives calls: an endpoint of a gateway, the command line, or the process itself.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema, strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Endpoint {
    /// Calls inside this process.
    #[default]
    Local,
    /// The command line.
    Cli,
    /// The HTTP API.
    Http,
    /// The call protocol.
    Hub,
    /// MCP, over any transport.
    Mcp,
    /// Rooms.
    Rooms,
}

impl Endpoint {
    /// Returns the name in the journal, metrics and spans.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The data of a call that hooks can read.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct CallView<'a> {
    /// Id of the call.
    pub request_id: &'a RequestId,
    /// Id of the parent call.
    pub parent_request_id: Option<&'a RequestId>,
    /// The endpoint that received the call.
    pub endpoint: Endpoint,
    /// The requested operation id, whether or not it exists.
    pub operation_id: &'a str,
    /// The operation, if it exists.
    pub operation: Option<&'a Operation>,
    /// The identity of the caller, or the one that the call runs on behalf of.
    pub identity: Option<&'a Identity>,
    /// Whether the access check is skipped.
    pub trusted: bool,
    /// Sends progress to the caller.
    pub progress: &'a ProgressSender,
    /// The input; `None` once the handler has taken it.
    pub input: Option<&'a Payload>,
    /// The input with the defaults of its schema; `None` if no default was filled in.
    pub filled_input: Option<&'a Payload>,
    /// The id returned by [`AuditSink::enter`](super::AuditSink::enter).
    pub audit_id: Option<u64>,
    /// The approval of the call, once it was given.
    pub approval: Option<&'a Approval>,
    /// The id that [`AuditSink::enter`](super::AuditSink::enter) returned for the call whose result
    /// this call repeats.
    pub first_call: Option<u64>,
    /// Metadata of the call, separate from its input.
    pub metadata: Option<&'a Map<String, Value>>,
    /// The trace spans of the call, if it is traced.
    pub span: Option<&'a CallSpan>,
    pub(super) context: &'a CallContext,
}

impl<'a> CallView<'a> {
    /// Whether the call has known secrets.
    pub fn has_secrets(&self) -> bool {
        self.context.secrets().is_some()
    }

    /// Whether a text contains a known secret of the call: one in its input, or a credential that
    /// was sent to a service.
    pub fn has_secret_in(&self, text: &str) -> bool {
        self.context.secrets().is_some_and(|secrets| secrets.occurs_in(text))
    }

    /// Replaces known secrets of the call in a text.
    pub fn mask_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.context.secrets() {
            Some(secrets) => secrets.mask_text(text),
            None => text.into(),
        }
    }

    /// Replaces known secrets of the call in a value. Returns whether there were any.
    pub fn mask_value(&self, value: &mut Value) -> bool {
        self.context.secrets().is_some_and(|secrets| secrets.mask(value))
    }

    /// Returns the number of ancestor calls in this process.
    pub fn depth(&self) -> u32 {
        self.context.depth()
    }

    /// Whether an ancestor of this call holds a source permit.
    pub fn ancestor_holds_source_permit(&self) -> bool {
        self.context.ancestor_holds_source_permit(|_| true)
    }

    /// Whether an ancestor of this call holds a permit of this source.
    pub fn ancestor_holds_permit_of(&self, namespace: &str) -> bool {
        let is_in_namespace = |operation: &str| {
            operation.split_once('.').is_some_and(|(source, _)| source == namespace)
        };
        self.context.ancestor_holds_source_permit(is_in_namespace)
    }

    /// Returns the trace id in hexadecimal, if the call has a valid trace context.
    pub fn trace_id(&self) -> Option<&'a str> {
        let text = self.metadata?.get(TRACE_PARENT)?.as_str()?;
        TraceContext::parse(text).and_then(|_| text.get(3..35))
    }
}
