//! What a handler knows about the call it serves.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cancellation::Cancellation;
use super::progress::{Progress, ProgressSender};
use super::request_id::RequestId;
use crate::access::Identity;
use crate::envelope::Envelope;
use crate::error::CallError;
use crate::payload::Payload;
use crate::spec::OperationId;

/// The circumstances of one call: ids, identity, deadline, cancellation, progress, and a way on
/// to other operations through [`build_env`](crate::build_env). Cloning it is cheap.
#[derive(Clone)]
pub struct CallContext(Arc<ContextParts>);

/// What the pipeline puts into a context.
pub(crate) struct ContextParts {
    pub(crate) operation: OperationId,
    pub(crate) request_id: RequestId,
    pub(crate) parent_request_id: Option<RequestId>,
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancellation: Cancellation,
    pub(crate) progress: ProgressSender,
    pub(crate) metadata: Option<Arc<Map<String, Value>>>,
    pub(crate) nesting: Arc<dyn Nesting>,
    pub(crate) lineage: Lineage,
}

/// What a call hands down to the calls inside it.
#[derive(Clone)]
pub(crate) struct Lineage {
    /// How many calls are above.
    pub(crate) depth: u32,
    /// The exclusive operations that this call and those above it hold.
    pub(crate) held: Option<Arc<Held>>,
    /// The snapshot of the catalog that all of them see; its type is the pipeline's business.
    pub(crate) snapshot: Arc<dyn Any + Send + Sync>,
}

/// An exclusive operation that is held, and those above it.
pub(crate) struct Held {
    pub(crate) id: OperationId,
    pub(crate) above: Option<Arc<Held>>,
}

impl Held {
    pub(crate) fn contains(mut held: Option<&Arc<Self>>, id: &OperationId) -> bool {
        while let Some(lock) = held {
            if lock.id == *id {
                return true;
            }
            held = lock.above.as_ref();
        }
        false
    }
}

/// How a handler's calls get back into the pipeline, without the handler knowing the pipeline.
pub(crate) trait Nesting: Send + Sync {
    fn execute(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxFuture<'static, Result<Envelope<Payload>, CallError>>;

    fn subscribe(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxStream<'static, Result<Envelope<Payload>, CallError>>;
}

/// One call out of a handler.
pub(crate) struct NestedCall<'a> {
    pub(crate) from: &'a CallContext,
    pub(crate) operation: &'a str,
    pub(crate) input: Payload,
    pub(crate) timeout: Option<Duration>,
}

impl CallContext {
    pub(crate) fn new(parts: ContextParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The operation that is being called.
    pub fn operation(&self) -> &OperationId {
        &self.0.operation
    }

    /// The id of this call, in every log line, trace and record about it.
    pub fn request_id(&self) -> &RequestId {
        &self.0.request_id
    }

    /// The id of the call that this one is part of.
    pub fn parent_request_id(&self) -> Option<&RequestId> {
        self.0.parent_request_id.as_ref()
    }

    /// Who called, as the door authenticated it, or on whose behalf a nested call happens.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.as_deref()
    }

    /// What came with the request beside its input, such as a trace context.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.0.metadata.as_deref()
    }

    /// When the caller stops waiting.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// How long the caller still waits.
    pub fn remaining(&self) -> Option<Duration> {
        self.0.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Resolves when the call should stop: aborted, out of time, or abandoned.
    pub async fn cancelled(&self) {
        self.0.cancellation.token().cancelled().await;
    }

    /// Whether the call should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancellation.is_cancelled()
    }

    /// The signal as a token, for libraries that take one.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.0.cancellation.token().clone()
    }

    /// Tells the caller how far this call has come.
    pub fn report(&self, progress: Progress) {
        self.0.progress.send(progress);
    }

    pub(crate) fn parts(&self) -> &ContextParts {
        &self.0
    }
}

impl std::fmt::Debug for CallContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallContext")
            .field("operation", &self.0.operation)
            .field("request_id", &self.0.request_id)
            .field("parent_request_id", &self.0.parent_request_id)
            .finish_non_exhaustive()
    }
}
