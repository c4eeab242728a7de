//! The async task that runs a source.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{CurrentHooks, RunningSource, Source, SourceInfo, SourceMonitor, SourceStatus};
use crate::connection::Backoff;
use crate::operation::{Operation, OperationSource, SourceKind};
use crate::registry::{Change, Registry};
use crate::spec::OperationId;

/// Minimum duration of a connection that resets the reconnect delay.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// A request to a source to release its operations.
#[derive(Debug)]
pub(super) struct ReleaseRequest {
    /// Receives the operations and becomes responsible for them.
    pub(super) recipient: oneshot::Sender<Vec<OperationId>>,
    /// Maximum time for calls in flight to finish.
    pub(super) drain_timeout: Duration,
}

/// A source that stays active until its successor is ready or down.
#[derive(Debug)]
pub(super) struct Predecessor {
    pub(super) source: RunningSource,
    pub(super) drain_timeout: Duration,
}

/// Publishes the operations of a source.
#[derive(Debug)]
pub struct SourceContext {
    source: Arc<OperationSource>,
    registry: Registry,
    hooks: Arc<CurrentHooks>,
    monitor: SourceMonitor,
    tasks: TaskTracker,
    /// Ids of the registered operations.
    registered: Vec<OperationId>,
    /// Whether operations were published, so that the namespace is not pending.
    is_published: bool,
    predecessor: Option<Predecessor>,
}

impl SourceContext {
    pub(super) fn new(
        (kind, name): (SourceKind, Arc<str>),
        registry: &Registry,
        (hooks, monitor): (Arc<CurrentHooks>, SourceMonitor),
        tasks: TaskTracker,
        predecessor: Option<Predecessor>,
    ) -> Self {
        Self {
            source: Arc::new(OperationSource { kind, name }),
            registry: registry.clone(),
            hooks,
            monitor,
            tasks,
            registered: Vec::new(),
            is_published: false,
            predecessor,
        }
    }

    /// Returns the name of the source.
    pub fn name(&self) -> &Arc<str> {
        &self.source.name
    }

    pub(crate) fn hooks(&self) -> &Arc<CurrentHooks> {
        &self.hooks
    }

    /// Waits until the hooks are replaced.
    pub async fn hooks_changed(&self) {
        self.hooks.changed.notified().await;
    }

    /// Returns the tracker for the async tasks of the source. Closing the source waits for them.
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    pub(crate) fn status(&self) -> watch::Receiver<SourceStatus> {
        self.monitor.status()
    }

    /// Returns the most recently published information, if the source is ready.
    pub fn info(&self) -> Option<Arc<SourceInfo>> {
        match &*self.status().borrow() {
            SourceStatus::Ready(info) => Some(Arc::clone(info)),
            _ => None,
        }
    }

    /// Replaces the registered operations, including those of a replaced source, and marks the
    /// source as ready. An online operation of this source for which `is_same` returns true is not
    /// touched. An id outside the source's namespace that is already registered is omitted with a
    /// warning.
    pub async fn publish(
        &mut self,
        operations: Vec<Operation>,
        mut info: SourceInfo,
        is_same: fn(&Operation, &Operation) -> bool,
    ) {
        let taken_over: HashSet<_> = self.take_over_operations().await.into_iter().collect();
        let before: HashSet<_> =
            self.registered.drain(..).chain(taken_over.iter().cloned()).collect();
        let name = Arc::clone(self.name());
        let is_owned = |id: &OperationId| id.namespace() == &*name || before.contains(id);
        let operations = operations.into_iter();
        let mut operations: Vec<_> = operations.map(|it| it.with_source(&self.source)).collect();
        // Clients that see the operations also see the instructions.
        self.registry.set_instructions(&name, info.instructions.as_deref());
        loop {
            let catalog = self.registry.catalog();
            operations.retain(|operation| {
                let id = operation.id();
                let is_free = is_owned(id) || catalog.get(id.as_str()).is_none();
                if !is_free {
                    info.warnings.push(format!("{id} is already registered; it is omitted"));
                }
                is_free
            });
            let current: HashSet<_> = operations.iter().map(Operation::id).collect();
            let removals = before.iter().filter(|id| !current.contains(id)).cloned();
            let is_changed = |operation: &&Operation| {
                let known = catalog.get(operation.id().as_str());
                known.is_none_or(|known| {
                    known.is_offline()
                        || taken_over.contains(known.id())
                        || !is_same(known, operation)
                })
            };
            let changed = operations.iter().filter(is_changed).cloned();
            let changed = changed.map(|operation| match is_owned(operation.id()) {
                true => Change::Replace(operation),
                false => Change::Register(operation),
            });
            let changes: Vec<_> = removals.map(Change::Unregister).chain(changed).collect();
            // Fails only if another source has registered one of the ids since the snapshot.
            if self.registry.apply(changes).is_ok() {
                break;
            }
        }
        self.registered = operations.iter().map(|operation| operation.id().clone()).collect();
        self.registry.mark_ready(&name);
        self.is_published = true;
        info.operations = self.registered.len();
        let (title, version, operations) = (&info.title, &info.version, info.operations);
        tracing::info!(source = &*name, title, version, operations, "source ready");
        self.monitor.set(SourceStatus::Ready(Arc::new(info)));
    }

    /// Registers the operations for which `is_affected` returns true again, so that catalog
    /// watchers are notified of a change at the source.
    pub fn republish(&self, is_affected: impl Fn(&Operation) -> bool) {
        self.replace_registered(|operation| is_affected(operation).then(|| operation.clone()));
    }

    fn replace_registered(&self, change: impl Fn(&Operation) -> Option<Operation>) {
        let catalog = self.registry.catalog();
        let registered = self.registered.iter().filter_map(|id| catalog.get(id.as_str()));
        let changes: Vec<_> =
            registered.filter_map(|known| change(known)).map(Change::Replace).collect();
        self.registry.apply(changes).expect("only registering can fail");
    }

    /// Releases the predecessor and returns its operations.
    async fn take_over_operations(&mut self) -> Vec<OperationId> {
        let Some(Predecessor { source, drain_timeout }) = self.predecessor.take() else {
            return Vec::new();
        };
        let (operations, draining) = source.release_operations(drain_timeout).await;
        self.tasks.spawn(draining);
        operations
    }

    /// Marks the source as down until the next attempt. The operations of a replaced source are
    /// unregistered, and those of this source are offline.
    async fn set_down(&mut self, reason: &str, retry_in: Duration) {
        tracing::warn!(source = &**self.name(), reason, ?retry_in, "source down");
        self.replace_registered(|operation| Some(operation.clone().with_offline(true)));
        let taken_over = self.take_over_operations().await;
        if !self.is_published {
            self.registry.mark_pending(self.name(), reason);
        }
        self.unregister(taken_over);
        self.monitor.set(SourceStatus::Down { reason: reason.to_owned(), retry_in });
    }

    /// Waits for the next connection attempt. Offline operations were built with the previous
    /// hooks, so new hooks unregister them until the source reconnects.
    async fn wait_retry(&mut self, delay: Duration, reason: &str) {
        let retry_at = Instant::now() + delay;
        while tokio::time::timeout_at(retry_at, self.hooks_changed()).await.is_ok() {
            self.registry.mark_pending(self.name(), reason);
            self.is_published = false;
            let operations = std::mem::take(&mut self.registered);
            self.unregister(operations);
        }
    }

    fn unregister(&self, operations: Vec<OperationId>) {
        let removals = operations.into_iter().map(Change::Unregister);
        self.registry.apply(removals).expect("only registering can fail");
    }
}

pub(super) struct Supervisor<S> {
    pub(super) source: S,
    pub(super) context: SourceContext,
}

impl<S: Source> Supervisor<S> {
    pub(super) async fn run(
        mut self,
        stop: CancellationToken,
        release_requested: oneshot::Receiver<ReleaseRequest>,
    ) {
        let request = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            Ok(request) = release_requested => Some(request),
            () = Box::pin(self.keep_connected()) => None,
        };
        let is_released = request.is_some();
        if let Some(request) = request {
            stop.run_until_cancelled(self.release(request)).await;
        }
        self.source.close();
        let operations = std::mem::take(&mut self.context.registered);
        self.context.unregister(operations);
        if !is_released {
            self.context.registry.set_instructions(self.context.name(), None);
            self.context.registry.mark_ready(self.context.name());
        }
        if let Some(Predecessor { source, .. }) = self.context.predecessor.take() {
            Box::pin(source.close()).await;
        }
    }

    async fn keep_connected(&mut self) {
        let mut backoff = Backoff::new(self.source.backoff());
        loop {
            self.context.monitor.set(SourceStatus::Starting);
            let since = Instant::now();
            let reason = self.source.run(&mut self.context).await;
            if since.elapsed() > STABLE_AFTER && self.context.info().is_some() {
                backoff.reset();
            }
            let retry_in = backoff.next();
            self.context.set_down(&reason, retry_in).await;
            self.context.wait_retry(retry_in, &reason).await;
        }
    }

    /// Releases the operations and waits for the calls in flight.
    async fn release(&mut self, request: ReleaseRequest) {
        let operations = std::mem::take(&mut self.context.registered);
        // If the recipient was dropped, unregister the operations.
        self.context.unregister(request.recipient.send(operations).err().unwrap_or_default());
        if tokio::time::timeout(request.drain_timeout, self.source.drain()).await.is_err() {
            let source = &**self.context.name();
            tracing::warn!(source, "drain timeout exceeded; canceling calls");
        }
    }
}
