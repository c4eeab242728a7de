//! Calls pending approval.
//!
//! A call to an operation that requires approval is pending until another identity with the scope
//! `toolpost:approve` approves or rejects it, once. The caller gets progress while the call is pending.
//! The pending call ends when its caller disconnects or it expires. The reasons are in
//! `docs/decisions/approval.md`.

mod gate;
mod operation;
mod pending_call;
mod queue;
mod settings;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolpost::{Identity, IdentityKind};

use crate::admin::scope;
use crate::input_digest::InputDigester;
pub use gate::{RejectingGate, is_list_operation};
pub(crate) use operation::{NOT_PENDING, ProposalQueue, operations};
pub(crate) use pending_call::{ApprovalAction, ApprovalEntry};
pub use settings::ApprovalSettings;

use pending_call::{ApprovalDecision, PendingCall};
use queue::{ApprovalQueue, DecisionError};

/// Whether an identity may approve calls by others. Guests cannot.
pub(crate) fn can_approve(identity: &Identity) -> bool {
    let is_guest = matches!(identity.kind, IdentityKind::Guest { .. });
    !is_guest && identity.scopes.iter().any(|held| held == scope::APPROVE)
}

/// The [`ApprovalGate`](toolpost::ApprovalGate) with the pending calls. Clones share state.
#[derive(Clone)]
pub(crate) struct Approvals(Arc<ApprovalsInner>);

type IdentityCheck = Box<dyn Fn(&Identity) -> bool + Send + Sync>;

struct ApprovalsInner {
    queue: Mutex<ApprovalQueue<oneshot::Sender<ApprovalDecision>>>,
    /// Settings for new calls. Pending calls keep the settings they started with.
    settings: ArcSwap<ApprovalSettings>,
    /// Whether the identity of a caller is still valid.
    identity_check: RwLock<IdentityCheck>,
    /// Canceled when the gateway stops, so that pending calls do not delay shutdown.
    stopping: CancellationToken,
    digester: InputDigester,
}

impl Approvals {
    /// Creates an empty queue. All pending calls end when `stopping` is canceled.
    pub(crate) fn new(settings: ApprovalSettings, stopping: CancellationToken) -> Self {
        Self(Arc::new(ApprovalsInner {
            queue: Mutex::default(),
            settings: ArcSwap::from_pointee(settings),
            identity_check: RwLock::new(Box::new(|_| true)),
            stopping,
            digester: InputDigester::default(),
        }))
    }

    /// Replaces the settings for new calls.
    pub(crate) fn configure(&self, settings: ApprovalSettings) {
        self.0.settings.store(Arc::new(settings));
    }

    /// Cancels the pending calls by revoked identities and returns their number. New calls are
    /// accepted only from identities that are valid by `identity_check`.
    pub(crate) fn revoke_identities(
        &self,
        identity_check: impl Fn(&Identity) -> bool + Send + Sync + 'static,
        is_revoked: &dyn Fn(&Identity) -> bool,
    ) -> usize {
        // Stored before the scan, so that a revoked identity cannot submit a call meanwhile.
        *self.0.identity_check.write() = Box::new(identity_check);
        let reason = ApprovalDecision::IdentityRevoked.closed_reason();
        let canceled = self.queue().cancel_for_identities(is_revoked, &reason);
        let count = canceled.len();
        for waiter in canceled {
            // The receiver is gone if the caller has disconnected.
            let _ = waiter.send(ApprovalDecision::IdentityRevoked);
        }
        count
    }

    fn settings(&self) -> Arc<ApprovalSettings> {
        self.0.settings.load_full()
    }

    fn queue(&self) -> MutexGuard<'_, ApprovalQueue<oneshot::Sender<ApprovalDecision>>> {
        self.0.queue.lock()
    }

    fn is_valid_identity(&self, caller: Option<&Identity>) -> bool {
        caller.is_none_or(|caller| (self.0.identity_check.read())(caller))
    }

    /// Resolves a pending call. Fails if its caller disconnects concurrently.
    fn decide(
        &self,
        id: &str,
        approver: &Identity,
        input_digest: Option<&str>,
        decision: ApprovalAction,
    ) -> Result<PendingCall, DecisionError> {
        let decision = ApprovalDecision::Decided { by: approver.key().to_string(), decision };
        let closed_reason = decision.closed_reason();
        let (pending_call, waiter) =
            self.queue().decide(Instant::now(), id, approver, input_digest, closed_reason)?;
        match waiter.send(decision) {
            Ok(()) => Ok(pending_call),
            Err(_) => Err(DecisionError::Closed("it was withdrawn by its caller".to_owned())),
        }
    }
}

toolpost::debug_fields!(approvals: Approvals, settings = approvals.settings());
