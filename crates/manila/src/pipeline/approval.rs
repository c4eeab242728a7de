//! approval: whether somebody has to agree first.

use super::access;
use super::seam::{CallView, Step};
use super::state::CallState;
use crate::error::CallError;

/// Decides which calls need a person's word, and waits for it.
pub trait ApprovalGate: Send + Sync + 'static {
    /// Lets the call through, lets it wait, or refuses it with `ACCESS_DENIED`.
    fn obtain(&self, call: &CallView<'_>) -> Step<()>;
}

pub(super) async fn obtain(call: &mut CallState) -> Result<(), CallError> {
    let Some(gate) = &call.shared.approval else { return Ok(()) };
    match gate.obtain(&call.view()) {
        Step::Now(decided) => decided,
        // A person takes his time: the clock of a call that named no deadline starts behind him.
        Step::Later(decision) => {
            let decided = call.while_wanted_until(call.context.deadline(), decision).await?;
            call.started_deadline();
            decided?;
            access::check_again(call)
        }
    }
}
