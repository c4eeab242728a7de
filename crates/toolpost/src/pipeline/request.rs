//! What is asked for.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::handler::{Attachment, ClientChannel, ProgressSender, RequestId};
use crate::payload::Payload;

/// A request as an endpoint builds it; every other field has its default.
///
/// The name is borrowed: it is looked up when the call is made and not needed after that.
#[must_use = "a request does nothing until it is called"]
pub struct CallRequest<'a> {
    pub(super) operation: &'a str,
    pub(super) input: Payload,
    pub(super) request_id: Option<RequestId>,
    pub(super) parent_request_id: Option<RequestId>,
    pub(super) timeout: Option<Duration>,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) endpoint: &'static str,
    pub(super) progress: ProgressSender,
    pub(super) client_channel: Option<ClientChannel>,
    pub(super) metadata: Option<Arc<Map<String, Value>>>,
    pub(super) attached: Option<Attachment>,
}

/// A request that outlives the name it was looked up by.
pub(crate) struct RequestParts {
    pub(crate) operation: Arc<str>,
    pub(crate) input: Payload,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) parent_request_id: Option<RequestId>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) progress: ProgressSender,
    pub(crate) metadata: Option<Arc<Map<String, Value>>>,
}

impl<'a> CallRequest<'a> {
    /// The least that makes a request.
    pub fn new(operation: &'a str, input: impl Into<Payload>) -> Self {
        Self {
            operation,
            input: input.into(),
            request_id: None,
            parent_request_id: None,
            timeout: None,
            idle_timeout: None,
            endpoint: "local",
            progress: ProgressSender::default(),
            client_channel: None,
            metadata: None,
            attached: None,
        }
    }

    /// What a call that leaves this process is made of.
    pub(crate) fn into_parts(self) -> RequestParts {
        RequestParts {
            operation: self.operation.into(),
            input: self.input,
            request_id: self.request_id,
            parent_request_id: self.parent_request_id,
            timeout: self.timeout,
            idle_timeout: self.idle_timeout,
            progress: self.progress,
            metadata: self.metadata,
        }
    }

    /// The id that the caller gave it; else it gets a fresh one.
    pub fn request_id(mut self, id: impl Into<RequestId>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// The call that it is part of, in another process.
    pub fn parent_request_id(mut self, id: impl Into<RequestId>) -> Self {
        self.parent_request_id = Some(id.into());
        self
    }

    /// How long the caller waits.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long a subscription may be silent.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Where it came in.
    pub fn endpoint(mut self, endpoint: &'static str) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Where progress goes.
    pub fn progress(mut self, progress: ProgressSender) -> Self {
        self.progress = progress;
        self
    }

    /// Who can be asked while the call runs; he stays in this process.
    pub fn client_channel(mut self, client_channel: Option<ClientChannel>) -> Self {
        self.client_channel = client_channel;
        self
    }

    /// What came with it beside the input, such as a trace context.
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = Some(Arc::new(metadata));
        self
    }

    /// As [`CallRequest::metadata`], shared with whoever it came from.
    pub(crate) fn shared_metadata(mut self, metadata: Option<Arc<Map<String, Value>>>) -> Self {
        self.metadata = metadata;
        self
    }

    /// What the endpoint lets a handler ask for with [`CallContext::attached`](crate::CallContext::attached);
    /// it stays in this process.
    pub fn attach<T: Any + Send + Sync>(self, attached: Arc<T>) -> Self {
        self.attach_any(attached)
    }

    pub(crate) fn attach_any(mut self, attached: Attachment) -> Self {
        self.attached = Some(attached);
        self
    }
}

impl std::fmt::Debug for CallRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallRequest")
            .field("operation", &self.operation)
            .field("request_id", &self.request_id)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
