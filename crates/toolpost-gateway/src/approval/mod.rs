//! Calls pending approval.
//!
//! A call of an operation that requires approval is pending until another identity with the scope
//! `toolpost:approve` approves or rejects it, once. The caller gets progress while the call is pending.
//! The pending call ends when its caller disconnects or it expires.
//!
//! | file | holds |
//! |---|---|
//! | `queue` | the pending calls and their state changes, without I/O; time is an argument |
//! | `pending_call` | one pending call and what is shown of it |
//! | `input_digest` | the digest that identifies an input |
//! | `gate` | the pipeline stage that waits for the decision |
//! | `room_proposals` | proposals of rooms, listed and decided with the pending calls |
//! | `operation` | `gateway.approvals`, `gateway.approve`, `gateway.reject` |
//!
//! The reasons are in `docs/decisions/approval.md`.

mod gate;
mod input_digest;
mod operation;
mod pending_call;
mod queue;
mod room_proposals;
mod settings;

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolpost::Identity;

use crate::app::{Gateway, GatewayState};
use crate::config::Config;
use crate::runtime::{ReloadReport, Reloadable};

pub use gate::{RejectingGate, is_list_operation};
pub use operation::operations;
pub use settings::ApprovalSettings;

use input_digest::InputDigester;
use pending_call::{ApprovalDecision, PendingCall};
use queue::{ApprovalQueue, DecisionError};

/// The calls pending approval. Clones share state.
///
/// It is the [`ApprovalGate`](toolpost::ApprovalGate) of a pipeline. The [`operations`] list,
/// approve and reject its calls.
#[derive(Debug, Clone, Default)]
pub struct Approvals(Arc<ApprovalsInner>);

#[derive(Debug, Default)]
struct ApprovalsInner {
    queue: Mutex<ApprovalQueue<oneshot::Sender<ApprovalDecision>>>,
    /// Settings for new calls. Pending calls keep the settings they started with.
    settings: RwLock<Arc<ApprovalSettings>>,
    /// The current configuration, used to check that callers are still valid.
    config: RwLock<Option<Arc<Config>>>,
    /// Canceled when the gateway stops, so that pending calls do not delay shutdown.
    stopping: OnceLock<CancellationToken>,
    digester: InputDigester,
    /// The gateway whose room proposals are listed with the pending calls.
    gateway: OnceLock<Weak<GatewayState>>,
}

/// Pending calls keep the settings they started with. Calls of revoked identities are canceled.
impl Reloadable for Approvals {
    fn apply_config(&self, before: &Config, now: &Config, report: &mut ReloadReport) {
        // Stored first, so that a revoked identity cannot submit a call while the pending calls are
        // scanned.
        *self.0.config.write() = Some(Arc::new(now.clone()));
        let over = before.revoked_identities(now);
        let ended = self.cancel_for_identities(&|id| over.contains(id));
        if ended > 0 {
            report.notes.push(format!("calls pending approval that were canceled: {ended}"));
        }
        if before.approval != now.approval {
            self.configure(now.approval.clone());
            report.notes.push("[approval] applies to new calls".to_owned());
        }
    }
}

impl Approvals {
    /// Creates an empty queue with the given settings.
    pub fn new(settings: ApprovalSettings) -> Self {
        let approvals = Self::default();
        approvals.configure(settings);
        approvals
    }

    /// Replaces the settings.
    pub fn configure(&self, settings: ApprovalSettings) {
        let mut current = self.0.settings.write();
        *current = Arc::new(settings);
    }

    /// Ends all pending calls when the token is canceled. Only the first token is used.
    pub(crate) fn cancel_on_shutdown(&self, stopping: CancellationToken) {
        let _ = self.0.stopping.set(stopping);
    }

    /// Includes the open proposals of the gateway's rooms in lists and decisions.
    pub(crate) fn attach_rooms(&self, gateway: &Gateway) {
        let _ = self.0.gateway.set(Arc::downgrade(&gateway.0));
    }

    /// Resolves when the gateway stops. Never resolves if no shutdown token is set.
    async fn wait_for_shutdown(&self) {
        match self.0.stopping.get() {
            Some(stopping) => stopping.cancelled().await,
            None => std::future::pending().await,
        }
    }

    fn settings(&self) -> Arc<ApprovalSettings> {
        Arc::clone(&self.0.settings.read())
    }

    fn queue(&self) -> MutexGuard<'_, ApprovalQueue<oneshot::Sender<ApprovalDecision>>> {
        self.0.queue.lock()
    }

    /// Returns the number of pending calls.
    pub fn pending_count(&self) -> usize {
        self.queue().pending(Instant::now()).count()
    }

    /// Whether the caller's identity is still valid in the current configuration.
    fn is_current_identity(&self, caller: Option<&Identity>) -> bool {
        let config = self.0.config.read();
        match (&*config, caller) {
            (Some(config), Some(caller)) => config.has_identity(caller),
            _ => true,
        }
    }

    /// Cancels the pending calls of revoked identities and returns their number.
    fn cancel_for_identities(&self, is_revoked: &dyn Fn(&str) -> bool) -> usize {
        let over = self.queue().cancel_for_identities(
            is_revoked,
            &ApprovalDecision::IdentityRevoked.closed_reason(""),
        );
        let count = over.len();
        for waiter in over {
            // The receiver is gone if the caller has disconnected.
            let _ = waiter.send(ApprovalDecision::IdentityRevoked);
        }
        count
    }

    /// Resolves a pending call with a decision. Fails if the caller disconnects concurrently, which
    /// withdraws the call.
    fn decide(
        &self,
        id: &str,
        approver: &str,
        input_digest: Option<&str>,
        decision: ApprovalDecision,
    ) -> Result<PendingCall, DecisionError> {
        let closed_reason = decision.closed_reason(approver);
        let (pending_call, waiter) =
            self.queue().decide(Instant::now(), id, approver, input_digest, closed_reason)?;
        match waiter.send(decision) {
            Ok(()) => Ok(pending_call),
            Err(_) => Err(DecisionError::Closed("it was withdrawn by its caller".to_owned())),
        }
    }
}
