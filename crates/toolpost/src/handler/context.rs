//! The context that a handler receives with a call.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use parking_lot::{Mutex, MutexGuard};
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
use crate::json::JsonObject;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::SecretValues;
use crate::spec::OperationKind;

/// The context of one call: ids, identity, deadline, cancellation and progress. Cheap to clone.
///
/// To call other operations, pass it to [`build_env`](crate::build_env).
#[derive(Clone)]
pub struct CallContext(Arc<ContextParts>);

/// The state of a call, shared by the pipeline, the handler, abort handles and nested calls.
pub(crate) struct ContextParts {
    start: CallStart,
    default_deadline: DefaultDeadline,
    pub(super) cancellation: Cancellation,
    /// Kind and idempotency of the target operation, if known only after dispatch.
    pub(super) effective_kind: OnceLock<(OperationKind, bool)>,
    /// The parent call, if it runs in this process.
    pub(super) caller: Option<CallContext>,
    /// Secrets that records of this call and its nested calls must not contain; used in the root
    /// call only.
    secrets: OnceLock<Mutex<SecretValues>>,
    /// Number of ancestor calls.
    depth: u32,
    /// Set while the call holds the lock of an exclusive operation.
    holds_lock: AtomicBool,
    /// Set once the call holds a permit of its source.
    holds_source_permit: AtomicBool,
    nested_caller: Arc<dyn NestedCaller>,
    /// Catalog snapshot of this call and its nested calls; its type is private to the pipeline.
    snapshot: Arc<dyn Any + Send + Sync>,
    /// The snapshot that replaces it, if the call has waited for sources.
    later_snapshot: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// Parameters of a new call, from an endpoint or from a handler.
pub(crate) struct CallStart {
    pub(crate) operation: Arc<str>,
    pub(crate) request_id: RequestId,
    pub(crate) parent_request_id: Option<RequestId>,
    pub(crate) identity: Option<Arc<Identity>>,
    /// Deadline from the request.
    pub(crate) deadline: Option<Instant>,
    pub(crate) progress: ProgressSender,
    /// Channel to the client while the call runs.
    pub(crate) client_channel: Option<ClientChannel>,
    pub(crate) metadata: Option<Arc<JsonObject>>,
    pub(crate) attached: Option<Attachment>,
    /// The idempotency key of the request.
    pub(crate) idempotency_key: Option<Arc<str>>,
}

/// A value that an endpoint provides to a specific handler, such as the connection of the call. It
/// never leaves the process and is not visible to nested calls.
pub(crate) type Attachment = Arc<dyn Any + Send + Sync>;

/// Runs nested calls. Decouples handlers from the pipeline.
pub(crate) trait NestedCaller: Send + Sync {
    fn call(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxFuture<'static, Result<Outcome, CallError>>;

    fn subscribe(
        self: Arc<Self>,
        call: NestedCall<'_>,
    ) -> BoxStream<'static, Result<Outcome, CallError>>;

    /// Waits while the source of the namespace, or any source, is starting, and then updates the
    /// catalog of the call.
    fn wait_for_sources<'a>(
        &'a self,
        context: &'a CallContext,
        namespace: Option<&'a str>,
    ) -> BoxFuture<'a, ()>;

    /// Runs the rest of a call whose caller has disconnected, in a tracked async task.
    fn spawn_detached(&self, runtime: &Handle, context: CallContext, rest: BoxFuture<'static, ()>);
}

/// A call made by a handler.
pub(crate) struct NestedCall<'a> {
    pub(crate) from: &'a CallContext,
    pub(crate) operation: &'a str,
    pub(crate) input: Payload,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idempotency_key: Option<Arc<str>>,
    pub(crate) authority: NestedAuthority,
    /// Whether progress is forwarded to the observer of the caller.
    pub(crate) forwards_progress: bool,
}

/// Authority of a nested call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NestedAuthority {
    /// With the handler's own authority, without an access check.
    Trusted,
    /// With the identity and permissions of the original caller.
    AsCaller,
}

impl CallContext {
    /// Creates the context of a nested call, with the identity and the remaining time of its
    /// caller. The client channel is inherited only by a call made as the caller.
    pub(crate) fn nested(
        call: &NestedCall<'_>,
        operation: Arc<str>,
        metadata: Option<Arc<JsonObject>>,
    ) -> Self {
        let (caller, above) = (call.from, &call.from.0.start);
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
            idempotency_key: call.idempotency_key.clone(),
        };
        let snapshot = Arc::clone(&caller.0.snapshot);
        Self::new(caller.nested_caller(), snapshot, call, Some(caller.clone()))
    }

    pub(crate) fn new(
        nested_caller: Arc<dyn NestedCaller>,
        snapshot: Arc<dyn Any + Send + Sync>,
        start: CallStart,
        caller: Option<Self>,
    ) -> Self {
        Self(Arc::new(ContextParts {
            start,
            default_deadline: DefaultDeadline::default(),
            cancellation: Cancellation::default(),
            effective_kind: OnceLock::new(),
            secrets: OnceLock::new(),
            depth: caller.as_ref().map_or(0, |caller| caller.0.depth + 1),
            caller,
            holds_lock: AtomicBool::new(false),
            holds_source_permit: AtomicBool::new(false),
            nested_caller,
            snapshot,
            later_snapshot: OnceLock::new(),
        }))
    }

    /// Adds secrets of the call, which are masked where they recur in its records.
    pub(crate) fn add_secrets(&self, add: impl FnOnce(&mut SecretValues)) {
        add(&mut self.root().0.secrets.get_or_init(Mutex::default).lock());
    }

    /// Returns the secrets of the call, of its ancestors and of the calls nested in them.
    pub(crate) fn secrets(&self) -> Option<MutexGuard<'_, SecretValues>> {
        Some(self.root().0.secrets.get()?.lock())
    }

    fn root(&self) -> &Self {
        let mut root = self;
        while let Some(caller) = &root.0.caller {
            root = caller;
        }
        root
    }

    /// Returns the id of the called operation.
    pub fn operation(&self) -> &str {
        &self.0.start.operation
    }

    /// Returns the id of this call, which appears in its logs, traces and records.
    pub fn request_id(&self) -> &RequestId {
        &self.0.start.request_id
    }

    /// Returns the id of the parent call.
    pub fn parent_request_id(&self) -> Option<&RequestId> {
        self.0.start.parent_request_id.as_ref()
    }

    /// Returns the identity of the caller. For a nested call, this is the identity that it runs on
    /// behalf of.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.start.identity.as_deref()
    }

    /// Like [`CallContext::identity`], as a shared pointer.
    pub(crate) fn shared_identity(&self) -> Option<Arc<Identity>> {
        self.0.start.identity.clone()
    }

    /// Like [`CallContext::metadata`], as a shared pointer.
    pub(crate) fn shared_metadata(&self) -> Option<Arc<JsonObject>> {
        self.0.start.metadata.clone()
    }

    /// Returns the kind of the operation that the call forwarded to, and whether it is idempotent.
    pub(crate) fn effective_kind(&self) -> Option<(OperationKind, bool)> {
        self.0.effective_kind.get().copied()
    }

    /// Returns the metadata of the request, such as a trace context.
    pub fn metadata(&self) -> Option<&JsonObject> {
        self.0.start.metadata.as_deref()
    }

    /// Returns the idempotency key of the request.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.0.start.idempotency_key.as_deref()
    }

    /// Returns the value that the endpoint attached, if it is of type `T`.
    pub fn attached<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.start.attached.as_deref()?.downcast_ref()
    }

    /// Returns the deadline of the call. A call without a deadline gets a default one when it first
    /// waits, which also applies to its nested calls. Waiting for approval pauses the default
    /// deadline and moves it back, so do not cache the returned value.
    pub fn deadline(&self) -> Option<Instant> {
        let defaults = self.self_and_ancestors().filter_map(|call| call.0.default_deadline.get());
        self.0.start.deadline.into_iter().chain(defaults).min()
    }

    /// Returns the deadline. If there is none, starts the default deadline with `timeout`.
    pub(crate) fn deadline_or_start_default(&self, timeout: Duration) -> Option<Instant> {
        self.deadline().or_else(|| self.0.default_deadline.start(timeout))
    }

    pub(super) fn default_deadline(&self) -> &DefaultDeadline {
        &self.0.default_deadline
    }

    /// Iterates over this call and its ancestors.
    pub(super) fn self_and_ancestors(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |call| call.0.caller.as_ref())
    }

    /// Returns the time until the deadline.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits until the call is canceled: aborted, timed out, or dropped by its caller.
    pub async fn canceled(&self) {
        self.token().cancelled().await;
    }

    /// Returns the cancellation token, for libraries that accept one.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.token().clone()
    }

    /// Reports progress to the caller.
    pub fn report(&self, progress: Progress) {
        self.0.start.progress.send(progress);
    }

    /// Returns the sender for progress reports.
    pub(crate) fn progress(&self) -> &ProgressSender {
        &self.0.start.progress
    }

    /// Sends a log message to the caller.
    pub fn log(&self, line: LogMessage) {
        self.0.start.progress.log(line);
    }

    /// Returns the channel to the client, if the endpoint provides one.
    pub fn client_channel(&self) -> Option<&ClientChannel> {
        self.0.start.client_channel.as_ref()
    }

    pub(super) fn parts(&self) -> &ContextParts {
        &self.0
    }

    pub(crate) fn depth(&self) -> u32 {
        self.0.depth
    }

    pub(crate) fn snapshot(&self) -> &Arc<dyn Any + Send + Sync> {
        self.0.later_snapshot.get().unwrap_or(&self.0.snapshot)
    }

    /// Replaces the snapshot, once.
    pub(crate) fn set_snapshot(&self, snapshot: Arc<dyn Any + Send + Sync>) {
        let _ = self.0.later_snapshot.set(snapshot);
    }

    /// Returns the call that made this one.
    pub(crate) fn caller(&self) -> Option<&Self> {
        self.0.caller.as_ref()
    }

    /// Waits while the source of the namespace, or any source, is starting. The call then uses the
    /// current catalog.
    pub(crate) async fn wait_for_sources(&self, namespace: Option<&str>) {
        self.0.nested_caller.wait_for_sources(self, namespace).await;
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

    /// Whether an ancestor holds a source permit and `predicate` is true for its operation.
    pub(crate) fn ancestor_holds_source_permit(&self, predicate: impl Fn(&str) -> bool) -> bool {
        let mut holders = self
            .self_and_ancestors()
            .skip(1)
            .filter(|call| call.0.holds_source_permit.load(Ordering::Acquire));
        holders.any(|call| predicate(&call.0.start.operation))
    }

    /// Whether an ancestor holds the exclusive lock of the same operation.
    pub(crate) fn would_deadlock(&self) -> bool {
        let mut lock_holders = self
            .self_and_ancestors()
            .skip(1)
            .filter(|call| call.0.holds_lock.load(Ordering::Acquire));
        lock_holders.any(|call| call.0.start.operation == self.0.start.operation)
    }
}

/// Returns the instant `timeout` from now, or `None` if it overflows the clock.
pub(crate) fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

debug_fields!(context: CallContext, operation = context.0.start.operation, request_id = context.0.start.request_id, parent_request_id = context.0.start.parent_request_id);
