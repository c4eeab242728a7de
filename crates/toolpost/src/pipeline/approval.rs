//! approval: waits for approval if the call requires it.

use super::access;
use super::hooks::{CallView, HookResult};
use super::input;
use super::state::CallState;
use crate::error::CallError;
use crate::handler::DeadlinePause;

/// Decides which calls need approval, and waits for it.
pub trait ApprovalGate: Send + Sync + 'static {
    /// Lets the call proceed, holds it pending approval, or rejects it with `ACCESS_DENIED`.
    /// Returns the approval if one was given.
    fn obtain(&self, call: &CallView<'_>) -> HookResult<Option<Approval>>;
}

/// The approval of a call, kept for the audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The id of the call while it was pending approval.
    pub id: String,
    /// The approver.
    pub approver: String,
}

pub(super) async fn wait_for_approval(call: &mut CallState) -> Result<(), CallError> {
    let Some(gate) = &call.shared.approval else { return Ok(()) };
    match gate.obtain(&call.view()) {
        HookResult::Ready(decided) => {
            call.approval = decided?.map(Box::new);
            Ok(())
        }
        HookResult::Pending(decision) => {
            // Parse the input now, so that the call runs with exactly the value shown to the
            // approver.
            if let Some(payload) = &mut call.input {
                input::parse(payload)?;
            }
            let pause = DeadlinePause::new(&call.context);
            let approval = call.until_canceled(decision).await??;
            drop(pause);
            call.approval = approval.map(Box::new);
            access::recheck(call)
        }
    }
}
