//! What a handler knows about the call it serves.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cancellation::Cancellation;
use super::client_channel::ClientChannel;
use super::default_deadline::DefaultDeadline;
use super::progress::{LogMessage, Progress, ProgressSender};
use super::request_id::RequestId;
use crate::access::Identity;
use crate::error::CallError;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::spec::OperationKind;

/// The circumstances of one call: ids, identity, deadline, cancellation, progress, and a way on
/// to other operations through [`build_env`](crate::build_env). Cloning it is cheap.
#[derive(Clone)]
pub struct CallContext(Arc<ContextParts>);

/// Everything about a call that outlives its stages: made once, shared by the pipeline, the
/// handler, whoever may abort it, and the calls inside it.
pub(crate) struct ContextParts {
    operation: Arc<str>,
    request_id: RequestId,
    parent_request_id: Option<RequestId>,
    identity: Option<Arc<Identity>>,
    /// The deadline that was asked for.
    deadline: Option<Instant>,
    default_deadline: DefaultDeadline,
    progress: ProgressSender,
    /// Who can be asked while the call runs.
    client_channel: Option<ClientChannel>,
    metadata: Option<Arc<Map<String, Value>>>,
    attached: Option<Attachment>,
    pub(super) cancellation: Cancellation,
    /// What the call really does, where that is known only after it was dispatched.
    pub(super) effective_kind: OnceLock<(OperationKind, bool)>,
    /// The call that this one is part of, in this process.
    pub(super) caller: Option<CallContext>,
    /// How many calls are above.
    depth: u32,
    /// Set while the call has its turn at an exclusive operation.
    holds_lock: AtomicBool,
    /// Set once the call has a place at its source.
    holds_source_permit: AtomicBool,
    nested_caller: Arc<dyn NestedCaller>,
    /// The snapshot of the catalog that this call and those inside it see; its type is the
    /// pipeline's business.
    snapshot: Arc<dyn Any + Send + Sync>,
}

/// What a call begins with, from outside or out of a handler.
pub(crate) struct CallStart {
    pub(crate) operation: Arc<str>,
    pub(crate) request_id: RequestId,
    pub(crate) parent_request_id: Option<RequestId>,
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) progress: ProgressSender,
    pub(crate) client_channel: Option<ClientChannel>,
    pub(crate) metadata: Option<Arc<Map<String, Value>>>,
    pub(crate) attached: Option<Attachment>,
}

/// Something that the endpoint knows and one kind of handler asks for, such as the connection a call
/// came in on. It never leaves the process, and nested calls do not see it.
pub(crate) type Attachment = Arc<dyn Any + Send + Sync>;

/// How a handler's calls get back into the pipeline, without the handler knowing the pipeline.
pub(crate) trait NestedCaller: Send + Sync {
    fn call(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxFuture<'static, Result<Outcome, CallError>>;

    fn subscribe(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxStream<'static, Result<Outcome, CallError>>;

    /// Runs what is left of a call that nobody waits for any more, in an owned task.
    fn spawn_detached(&self, runtime: &Handle, context: CallContext, rest: BoxFuture<'static, ()>);
}

/// One call out of a handler.
pub(crate) struct NestedCall<'a> {
    pub(crate) from: &'a CallContext,
    pub(crate) operation: &'a str,
    pub(crate) input: Payload,
    pub(crate) timeout: Option<Duration>,
    pub(crate) authority: NestedAuthority,
    /// Whether whoever watches the caller sees how far it is.
    pub(crate) forwards_progress: bool,
}

/// As whom a handler calls on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NestedAuthority {
    /// As itself: it is running, so it may.
    Trusted,
    /// As the one who called it, with that one's rights and no others.
    AsCaller,
}

impl CallContext {
    pub(crate) fn root(
        nesting: Arc<dyn NestedCaller>,
        snapshot: Arc<dyn Any + Send + Sync>,
        call: CallStart,
    ) -> Self {
        Self::new(nesting, snapshot, call, None, 0)
    }

    /// A call out of a handler: on the caller's behalf, with what is left of its time. Whoever
    /// watches the caller can be asked in a call that is made in its place.
    pub(crate) fn nested(
        call: &NestedCall<'_>,
        operation: Arc<str>,
        metadata: Option<Arc<Map<String, Value>>>,
    ) -> Self {
        let (caller, above) = (call.from, &call.from.0);
        let own = call.timeout.and_then(deadline_after);
        let progress =
            if call.forwards_progress { above.progress.clone() } else { ProgressSender::default() };
        let client_channel = match call.authority {
            NestedAuthority::AsCaller => above.client_channel.clone(),
            NestedAuthority::Trusted => None,
        };
        let call = CallStart {
            operation,
            request_id: RequestId::generate(),
            parent_request_id: Some(above.request_id.clone()),
            identity: above.identity.clone(),
            deadline: own.into_iter().chain(above.deadline).min(),
            progress,
            client_channel,
            metadata,
            attached: None,
        };
        let (nesting, snapshot) = (Arc::clone(&above.nested_caller), Arc::clone(&above.snapshot));
        Self::new(nesting, snapshot, call, Some(caller.clone()), above.depth + 1)
    }

    fn new(
        nesting: Arc<dyn NestedCaller>,
        snapshot: Arc<dyn Any + Send + Sync>,
        call: CallStart,
        caller: Option<Self>,
        depth: u32,
    ) -> Self {
        Self(Arc::new(ContextParts {
            operation: call.operation,
            request_id: call.request_id,
            parent_request_id: call.parent_request_id,
            identity: call.identity,
            deadline: call.deadline,
            default_deadline: DefaultDeadline::default(),
            progress: call.progress,
            client_channel: call.client_channel,
            metadata: call.metadata,
            attached: call.attached,
            cancellation: Cancellation::default(),
            effective_kind: OnceLock::new(),
            caller,
            depth,
            holds_lock: AtomicBool::new(false),
            holds_source_permit: AtomicBool::new(false),
            nested_caller: nesting,
            snapshot,
        }))
    }

    /// The id of the operation that is being called.
    pub fn operation(&self) -> &str {
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

    /// Who called, as the endpoint authenticated it, or on whose behalf a nested call happens.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.as_deref()
    }

    /// As [`CallContext::identity`], to be kept.
    pub(crate) fn shared_identity(&self) -> Option<Arc<Identity>> {
        self.0.identity.clone()
    }

    /// As [`CallContext::metadata`], to be kept.
    pub(crate) fn shared_metadata(&self) -> Option<Arc<Map<String, Value>>> {
        self.0.metadata.clone()
    }

    /// What the call turned out to do, and whether twice is the same as once.
    pub(crate) fn effective_kind(&self) -> Option<(OperationKind, bool)> {
        self.0.effective_kind.get().copied()
    }

    /// What came with the request beside its input, such as a trace context.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.0.metadata.as_deref()
    }

    /// What the endpoint attached, if it is of this type.
    pub fn attached<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.attached.as_deref()?.downcast_ref()
    }

    /// When the caller stops waiting. A call that named no deadline has one from the moment in which
    /// it first waits for something, and so has a call inside it. Such a deadline stands still while a
    /// person is waited for, so whoever has waited for it looks again.
    pub fn deadline(&self) -> Option<Instant> {
        let defaults = self.self_and_ancestors().filter_map(|call| call.0.default_deadline.get());
        self.0.deadline.into_iter().chain(defaults).min()
    }

    /// The deadline, after giving one to a call that named none.
    pub(crate) fn deadline_or_start_default(&self, timeout: Duration) -> Option<Instant> {
        self.deadline().or_else(|| self.0.default_deadline.start(timeout))
    }

    pub(super) fn default_deadline(&self) -> &DefaultDeadline {
        &self.0.default_deadline
    }

    /// This call, and those that it is part of.
    pub(super) fn self_and_ancestors(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |call| call.0.caller.as_ref())
    }

    /// How long the caller still waits.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Resolves when the call should stop: aborted, out of time, or abandoned.
    pub async fn canceled(&self) {
        self.token().cancelled().await;
    }

    /// The signal as a token, for libraries that take one.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.token().clone()
    }

    /// Tells the caller how far this call has come.
    pub fn report(&self, progress: Progress) {
        self.0.progress.send(progress);
    }

    /// Where reports go.
    pub(crate) fn progress(&self) -> &ProgressSender {
        &self.0.progress
    }

    /// Tells the caller something for its log.
    pub fn log(&self, line: LogMessage) {
        self.0.progress.log(line);
    }

    /// Who can be asked something while the call runs, if there is somebody.
    pub fn client_channel(&self) -> Option<&ClientChannel> {
        self.0.client_channel.as_ref()
    }

    pub(super) fn parts(&self) -> &ContextParts {
        &self.0
    }

    pub(crate) fn depth(&self) -> u32 {
        self.0.depth
    }

    pub(crate) fn snapshot(&self) -> &(dyn Any + Send + Sync) {
        &*self.0.snapshot
    }

    pub(crate) fn nested_caller(&self) -> Arc<dyn NestedCaller> {
        Arc::clone(&self.0.nested_caller)
    }

    pub(crate) fn mark_lock_held(&self) {
        self.0.holds_lock.store(true, Ordering::Release);
    }

    pub(crate) fn mark_source_permit_held(&self) {
        self.0.holds_source_permit.store(true, Ordering::Release);
    }

    /// Whether a call above has a place at the source of an operation of which `is_meant` holds.
    pub(crate) fn ancestor_holds_source_permit(&self, predicate: impl Fn(&str) -> bool) -> bool {
        let mut holders = self
            .self_and_ancestors()
            .skip(1)
            .filter(|call| call.0.holds_source_permit.load(Ordering::Acquire));
        holders.any(|call| predicate(&call.0.operation))
    }

    /// Whether a call above has its turn at the operation that this call wants.
    pub(crate) fn would_deadlock(&self) -> bool {
        let mut lock_holders = self
            .self_and_ancestors()
            .skip(1)
            .filter(|call| call.0.holds_lock.load(Ordering::Acquire));
        lock_holders.any(|call| call.0.operation == self.0.operation)
    }
}

/// The instant that far away; a time beyond the end of the clock is no deadline.
pub(crate) fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
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
