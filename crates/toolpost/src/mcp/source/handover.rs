//! One source in the place of another: the old one stays until the new one is there or is known not
//! to come, and leaves only when its calls have ended.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{McpSource, McpSourceStatus, SourceHooks, Supervisor};
use crate::mcp::session::{ClientSession, ToolList};
use crate::mcp::settings::McpSettings;
use crate::registry::{Change, Registry};
use crate::spec::OperationId;

/// How a source leaves.
#[derive(Debug)]
pub(super) struct ReleaseRequest {
    /// Who answers for its operations from now on.
    recipient: oneshot::Sender<Vec<OperationId>>,
    /// How long calls in flight may go on.
    drain_timeout: Duration,
}

/// A source that is there until another one is.
pub(super) struct Predecessor {
    source: McpSource,
    drain_timeout: Duration,
}

impl McpSource {
    /// Starts a source in the place of another of the same name. The operations of that one stay until
    /// this one has its own, or is known to be down; its calls in flight then have `drain_timeout` to end
    /// before its server does.
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

    /// Gives the operations away: they stay in the registry, and whoever takes them answers for them.
    /// What is left is a future in which the source waits for its calls in flight, for as long as
    /// `drain_timeout`, and ends; dropping it ends the source at once.
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
    /// Begins nothing new, and waits for what is under way.
    pub(super) async fn release(&mut self, request: ReleaseRequest) {
        self.is_released = true;
        let operations = std::mem::take(&mut self.registered);
        // Whoever does not take them any more has been stopped, and nobody answers for them.
        self.unregister(request.recipient.send(operations).err().unwrap_or_default());
        self.handle.calls.close();
        let drained = tokio::time::timeout(request.drain_timeout, self.handle.calls.wait()).await;
        if drained.is_err() {
            let (source, calls) = (&*self.handle.name, self.handle.calls.len());
            tracing::warn!(source, calls, "drain timeout exceeded; canceling calls");
        }
    }

    /// The operations of the one before, which leaves now.
    pub(super) async fn take_over_operations(&mut self) -> Vec<OperationId> {
        let Some(Predecessor { source, drain_timeout }) = self.predecessor.take() else {
            return Vec::new();
        };
        let (operations_taken, draining) = source.release_operations(drain_timeout).await;
        self.tasks.spawn(draining);
        operations_taken
    }

    /// Where this one is down, what the one before offered is not there any more.
    pub(super) async fn unregister_predecessor(&mut self, reason: &str) {
        let operations_taken = self.take_over_operations().await;
        if !operations_taken.is_empty() {
            self.registry.mark_pending(&self.handle.name, reason);
        }
        self.unregister(operations_taken);
    }

    /// Waits for the next attempt. What is offline meanwhile was adjusted as it was before, so other
    /// adjustments take it away until the server is there again.
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

    /// Makes operations of what was listed once more, since they are adjusted otherwise.
    pub(super) async fn reapply_transform(&mut self, session: &std::sync::Arc<ClientSession>) {
        let status = self.handle.status.borrow().clone();
        let McpSourceStatus::Ready(found) = status else { return };
        let listed = ToolList { tools: found.tools.clone(), warnings: Vec::new() };
        self.register_tools(session, listed).await;
    }

    /// Nobody takes over from the one before any more.
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
