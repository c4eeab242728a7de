//! The request of a call.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::approval::Approval;
use super::hooks::Endpoint;
use crate::handler::{Attachment, ClientChannel, ProgressSender, RequestId};
use crate::payload::Payload;
use crate::registry::{Catalog, ResolvedOperation};

/// A request to call an operation, with optional settings.
///
/// The operation id is borrowed because it is needed only to look up the operation.
#[must_use = "a request does nothing until it is called"]
pub struct CallRequest<'a> {
    pub(crate) operation: &'a str,
    /// The operation, if the endpoint has looked it up.
    pub(super) resolved: Option<ResolvedOperation>,
    /// The snapshot in which the operation is looked up; the current one if absent.
    pub(super) catalog: Option<Arc<Catalog>>,
    pub(crate) input: Payload,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) parent_request_id: Option<RequestId>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(super) endpoint: Endpoint,
    pub(crate) progress: ProgressSender,
    pub(super) client_channel: Option<ClientChannel>,
    pub(crate) metadata: Option<Arc<Map<String, Value>>>,
    pub(super) attached: Option<Attachment>,
    pub(super) approval: Option<Approval>,
    pub(crate) idempotency_key: Option<Arc<str>>,
}

impl<'a> CallRequest<'a> {
    /// Creates a request with default options.
    pub fn new(operation: &'a str, input: impl Into<Payload>) -> Self {
        Self {
            operation,
            resolved: None,
            catalog: None,
            input: input.into(),
            request_id: None,
            parent_request_id: None,
            timeout: None,
            idle_timeout: None,
            endpoint: Endpoint::Local,
            progress: ProgressSender::default(),
            client_channel: None,
            metadata: None,
            attached: None,
            approval: None,
            idempotency_key: None,
        }
    }

    /// Creates a request for an operation that is already looked up. The call and its nested calls
    /// use the same catalog snapshot.
    pub fn resolved(operation: &'a ResolvedOperation, input: impl Into<Payload>) -> Self {
        let request = Self::new(operation.id().as_str(), input);
        Self { resolved: Some(operation.clone()), ..request }
    }

    /// Looks up the operation in this snapshot, so that the result is consistent with an earlier
    /// lookup.
    pub fn catalog(mut self, catalog: Arc<Catalog>) -> Self {
        self.catalog = Some(catalog);
        self
    }

    /// Sets the request id. By default, an id is generated.
    pub fn request_id(mut self, id: impl Into<RequestId>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Sets the id of the parent call, which runs in another process.
    pub fn parent_request_id(mut self, id: impl Into<RequestId>) -> Self {
        self.parent_request_id = Some(id.into());
        self
    }

    /// Sets the timeout of the call.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the maximum time between two values of a subscription.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Sets the endpoint that received the call.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Sets the receiver of progress reports.
    pub fn progress(mut self, progress: ProgressSender) -> Self {
        self.progress = progress;
        self
    }

    /// Sets the channel for requests to the client while the call runs. It is not forwarded to
    /// other processes.
    pub fn client_channel(mut self, client_channel: Option<ClientChannel>) -> Self {
        self.client_channel = client_channel;
        self
    }

    /// Sets an approval that was given before the call. The [`ApprovalGate`](crate::ApprovalGate)
    /// decides whether it is accepted. It is not forwarded to other processes.
    pub fn approval(mut self, approval: Option<Approval>) -> Self {
        self.approval = approval;
        self
    }

    /// Sets the idempotency key: a call that repeats an earlier call with the same key gets its
    /// outcome. An operation that forwards the call passes the key on.
    pub fn idempotency_key(mut self, key: impl Into<Option<Arc<str>>>) -> Self {
        self.idempotency_key = key.into();
        self
    }

    /// Sets metadata that accompanies the input, such as a trace context.
    pub fn metadata(mut self, metadata: impl Into<Option<Map<String, Value>>>) -> Self {
        self.metadata = metadata.into().map(Arc::new);
        self
    }

    /// Like [`CallRequest::metadata`], with shared ownership.
    pub(crate) fn shared_metadata(mut self, metadata: Option<Arc<Map<String, Value>>>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Attaches a value that handlers read with
    /// [`CallContext::attached`](crate::CallContext::attached). It is not forwarded to other
    /// processes.
    pub fn attach<T: Any + Send + Sync>(self, attached: Arc<T>) -> Self {
        self.attach_any(attached)
    }

    pub(crate) fn attach_any(mut self, attached: Attachment) -> Self {
        self.attached = Some(attached);
        self
    }
}

debug_fields!(
    request: CallRequest<'_>,
    operation = request.operation,
    request_id = request.request_id,
    endpoint = request.endpoint
);
