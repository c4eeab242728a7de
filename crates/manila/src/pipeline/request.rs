//! What is asked for.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::handler::{ProgressSender, RequestId};
use crate::payload::Payload;

/// A request as a door puts it together; what is not said has its default.
///
/// The name is borrowed: it is looked up when the call is made and not needed after that.
#[derive(Debug)]
#[must_use = "a request does nothing until it is called"]
pub struct CallRequest<'a> {
    pub(super) operation: &'a str,
    pub(super) input: Payload,
    pub(super) request_id: Option<RequestId>,
    pub(super) parent_request_id: Option<RequestId>,
    pub(super) timeout: Option<Duration>,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) door: &'static str,
    pub(super) progress: ProgressSender,
    pub(super) metadata: Option<Arc<Map<String, Value>>>,
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
            door: "local",
            progress: ProgressSender::default(),
            metadata: None,
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
    pub fn door(mut self, door: &'static str) -> Self {
        self.door = door;
        self
    }

    /// Where progress goes.
    pub fn progress(mut self, progress: ProgressSender) -> Self {
        self.progress = progress;
        self
    }

    /// What came with it beside the input, such as a trace context.
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = Some(Arc::new(metadata));
        self
    }
}
