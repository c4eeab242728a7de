//! Replaces one source with another: the old one stays until the new one is ready or down, and
//! stops after its calls in flight have completed.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{McpSource, McpSourceStatus, SourceHooks, Supervisor};
use crate::mcp::session::{ClientSession, ToolList};
use crate::mcp::settings::McpSettings;
use crate::registry::{Change, Registry};
use crate::spec::OperationId;

/// A request to a source to release its operations.
#[derive(Debug)]
pub(super) struct ReleaseRequest {
    /// Receives the operations and becomes responsible for them.
    recipient: oneshot::Sender<Vec<OperationId>>,
    /// Maximum time for calls in flight to finish.
    drain_timeout: Duration,
}

/// A source that stays active until its successor is ready or down.
pub(super) struct Predecessor {
    source: McpSource,
    drain_timeout: Duration,
}

impl McpSource {
    /// Starts a source that replaces this one under the same name. The operations of this source
    /// stay registered until the new one has its own or is down. The calls in flight then have
    /// `drain_timeout` to complete before the server is stopped.
    pub fn replace_with(
        self,
        registry: &Registry,
        name: &str,
        settings: McpSettings,
        hooks: SourceHooks,
        drain_timeout: Duration,
    ) -> Self {
        let predecessor = Predecessor { source: self, drain_timeout };
        Self::spawn(registry, name, settings, hooks, Some(predecessor))
    }

    /// Releases the operations: they stay registered, and the caller becomes responsible for them.
    /// The returned future waits for the calls in flight, at most `drain_timeout`, and stops the
    /// source; dropping it stops the source at once.
    pub async fn release_operations(
        self,
        drain_timeout: Duration,
    ) -> (Vec<OperationId>, impl Future<Output = ()> + Send + 'static) {
        let (recipient, operations_taken) = oneshot::channel();
        let Self { release: leave, tasks, stop, .. } = self;
        let _ = leave.send(ReleaseRequest { recipient, drain_timeout });
        let operations_taken = operations_taken.await.unwrap_or_default();
        let draining = async move {
            tasks.wait().await;
            drop(stop);
        };
        (operations_taken, draining)
    }
}

impl Supervisor {
    /// Releases the operations and waits for the calls in flight.
    pub(super) async fn release(&mut self, request: ReleaseRequest) {
        self.is_released = true;
        let operations = std::mem::take(&mut self.registered);
        // If the recipient is gone, the operations are unregistered.
        self.unregister(request.recipient.send(operations).err().unwrap_or_default());
        self.handle.calls.close();
        let drained = tokio::time::timeout(request.drain_timeout, self.handle.calls.wait()).await;
        if drained.is_err() {
            let (source, calls) = (&*self.handle.name, self.handle.calls.len());
            tracing::warn!(source, calls, "drain timeout exceeded; canceling calls");
        }
    }

    /// Releases the predecessor and returns its operations.
    pub(super) async fn take_over_operations(&mut self) -> Vec<OperationId> {
        let Some(Predecessor { source, drain_timeout }) = self.predecessor.take() else {
            return Vec::new();
        };
        let (operations_taken, draining) = source.release_operations(drain_timeout).await;
        self.tasks.spawn(draining);
        operations_taken
    }

    /// Unregisters the operations of the replaced source because this one is down.
    pub(super) async fn unregister_predecessor(&mut self, reason: &str) {
        let operations_taken = self.take_over_operations().await;
        if !operations_taken.is_empty() {
            self.registry.mark_pending(&self.handle.name, reason);
        }
        self.unregister(operations_taken);
    }

    /// Waits for the next connection attempt. Offline operations still have the previous transform,
    /// so a new transform unregisters them until the server is connected again.
    pub(super) async fn wait_retry(&mut self, time: Duration, reason: &str) {
        let retry_at = tokio::time::Instant::now() + time;
        while tokio::time::timeout_at(retry_at, self.handle.transform_changed.notified())
            .await
            .is_ok()
        {
            self.registry.mark_pending(&self.handle.name, reason);
            self.has_listed = false;
            let operations = std::mem::take(&mut self.registered);
            self.unregister(operations);
        }
    }

    /// Imports the listed tools again with the new transform.
    pub(super) async fn reapply_transform(&mut self, session: &std::sync::Arc<ClientSession>) {
        let status = self.handle.status.borrow().clone();
        let McpSourceStatus::Ready(found) = status else { return };
        let listed = ToolList { tools: found.tools.clone(), warnings: Vec::new() };
        self.register_tools(session, listed).await;
    }

    /// Closes the replaced source if it was not taken over.
    pub(super) async fn close_predecessor(&mut self) {
        if let Some(Predecessor { source, .. }) = self.predecessor.take() {
            source.close().await;
        }
    }

    fn unregister(&self, operations: Vec<OperationId>) {
        let removals = operations.into_iter().map(Change::Unregister);
        self.registry.apply(removals).expect("removing cannot clash");
    }
}
