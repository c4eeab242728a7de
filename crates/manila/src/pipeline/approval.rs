//! approval: whether somebody has to agree first.

use super::access;
use super::input;
use super::seam::{CallView, Step};
use super::state::CallState;
use crate::error::CallError;
use crate::handler::Pause;

/// Decides which calls need a person's word, and waits for it.
pub trait ApprovalGate: Send + Sync + 'static {
    /// Lets the call through, lets it wait, or refuses it with `ACCESS_DENIED`.
    fn obtain(&self, call: &CallView<'_>) -> Step<()>;
}

pub(super) async fn obtain(call: &mut CallState) -> Result<(), CallError> {
    let Some(gate) = &call.shared.approval else { return Ok(()) };
    match gate.obtain(&call.view()) {
        Step::Now(decided) => decided,
        Step::Later(decision) => {
            // What is run is what was shown, and not a text that somebody else reads otherwise.
            if let Some(payload) = &mut call.input {
                input::read(payload)?;
            }
            let pause = Pause::of(&call.context);
            call.while_wanted(decision).await??;
            drop(pause);
            access::check_again(call)
        }
    }
}
