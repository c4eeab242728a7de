//! One source in the place of another: the old one stays until the new one is there or is known not
//! to come, and leaves only when its calls have ended.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{McpSource, SourceHooks, SourceStatus, Supervisor};
use crate::mcp::session::{Listed, Session};
use crate::mcp::settings::McpSettings;
use crate::registry::{Change, Registry};
use crate::spec::OperationId;

/// How a source leaves.
#[derive(Debug)]
pub(super) struct Leave {
    /// Who answers for its operations from now on.
    heir: oneshot::Sender<Vec<OperationId>>,
    /// How long calls in flight may go on.
    patience: Duration,
}

/// A source that is there until another one is.
pub(super) struct Predecessor {
    source: McpSource,
    patience: Duration,
}

impl McpSource {
    /// Starts a source in the place of another of the same name. The operations of that one stay until
    /// this one has its own, or is known to be down; its calls in flight then have `patience` to end
    /// before its server does.
    pub fn succeed(
        self,
        registry: &Registry,
        name: &str,
        settings: McpSettings,
        hooks: SourceHooks,
        patience: Duration,
    ) -> Self {
        let predecessor = Predecessor { source: self, patience };
        Self::spawn(registry, name, settings, hooks, Some(predecessor))
    }

    /// Gives the operations away: they stay in the registry, and whoever takes them answers for them.
    /// What is left is a future in which the source waits for its calls in flight, for as long as
    /// `patience`, and ends; dropping it ends the source at once.
    pub async fn hand_over(
        self,
        patience: Duration,
    ) -> (Vec<OperationId>, impl Future<Output = ()> + Send + 'static) {
        let (heir, inherited) = oneshot::channel();
        let Self { leave, tasks, stop, .. } = self;
        let _ = leave.send(Leave { heir, patience });
        let inherited = inherited.await.unwrap_or_default();
        let leaving = async move {
            tasks.wait().await;
            drop(stop);
        };
        (inherited, leaving)
    }
}

impl Supervisor {
    /// Begins nothing new, and waits for what is under way.
    pub(super) async fn leave(&mut self, leave: Leave) {
        self.has_left = true;
        let offered = std::mem::take(&mut self.offered);
        // Whoever does not take them any more has been stopped, and nobody answers for them.
        self.withdraw(leave.heir.send(offered).err().unwrap_or_default());
        self.desk.errands.close();
        let ended = tokio::time::timeout(leave.patience, self.desk.errands.wait()).await;
        if ended.is_err() {
            let (source, calls) = (&*self.desk.name, self.desk.errands.len());
            tracing::warn!(source, calls, "calls did not end in time and are cut");
        }
    }

    /// The operations of the one before, which leaves now.
    pub(super) async fn inherit(&mut self) -> Vec<OperationId> {
        let Some(Predecessor { source, patience }) = self.predecessor.take() else {
            return Vec::new();
        };
        let (inherited, leaving) = source.hand_over(patience).await;
        self.tasks.spawn(leaving);
        inherited
    }

    /// Where this one is down, what the one before offered is not there any more.
    pub(super) async fn take_over(&mut self, reason: &str) {
        let inherited = self.inherit().await;
        if !inherited.is_empty() {
            self.registry.expect(&self.desk.name, reason);
        }
        self.withdraw(inherited);
    }

    /// Waits for the next attempt. What is offline meanwhile was adjusted as it was before, so other
    /// adjustments take it away until the server is there again.
    pub(super) async fn rest(&mut self, time: Duration, reason: &str) {
        let over = tokio::time::Instant::now() + time;
        while tokio::time::timeout_at(over, self.desk.adjusted.notified()).await.is_ok() {
            self.registry.expect(&self.desk.name, reason);
            self.is_known = false;
            let offered = std::mem::take(&mut self.offered);
            self.withdraw(offered);
        }
    }

    /// Makes operations of what was listed once more, since they are adjusted otherwise.
    pub(super) async fn adjust_again(&mut self, session: &std::sync::Arc<Session>) {
        let status = self.desk.status.borrow().clone();
        let SourceStatus::Ready(found) = status else { return };
        let listed = Listed { tools: found.tools.clone(), warnings: Vec::new() };
        self.take_in(session, listed).await;
    }

    /// Nobody takes over from the one before any more.
    pub(super) async fn dismiss(&mut self) {
        if let Some(Predecessor { source, .. }) = self.predecessor.take() {
            source.close().await;
        }
    }

    fn withdraw(&self, operations: Vec<OperationId>) {
        let gone = operations.into_iter().map(Change::Unregister);
        self.registry.apply(gone).expect("removing cannot clash");
    }
}
