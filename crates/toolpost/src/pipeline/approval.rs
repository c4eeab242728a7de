//! approval: whether somebody has to agree first.

use super::access;
use super::hooks::{CallView, HookResult};
use super::input;
use super::state::CallState;
use crate::error::CallError;
use crate::handler::DeadlinePause;

/// Decides which calls need a person's word, and waits for it.
pub trait ApprovalGate: Send + Sync + 'static {
    /// Lets the call through, lets it wait, or refuses it with `ACCESS_DENIED`. Where somebody agreed,
    /// it says who.
    fn obtain(&self, call: &CallView<'_>) -> HookResult<Option<Approval>>;
}

/// Somebody's word for a call, kept with it for whoever writes the call down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// What the call was known by while it waited.
    pub id: String,
    /// Who agreed.
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
            // What is run is what was shown, and not a text that somebody else reads otherwise.
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
