//! approval: whether somebody has to agree first.

use super::access;
use super::input;
use super::seam::{CallView, Step};
use super::state::CallState;
use crate::error::CallError;
use crate::handler::Pause;

/// Decides which calls need a person's word, and waits for it.
pub trait ApprovalGate: Send + Sync + 'static {
    /// Lets the call through, lets it wait, or refuses it with `ACCESS_DENIED`. Where somebody agreed,
    /// it says who.
    fn obtain(&self, call: &CallView<'_>) -> Step<Option<Approval>>;
}

/// Somebody's word for a call, kept with it for whoever writes the call down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// What the call was known by while it waited.
    pub id: String,
    /// Who agreed.
    pub by: String,
}

pub(super) async fn obtain(call: &mut CallState) -> Result<(), CallError> {
    let Some(gate) = &call.shared.approval else { return Ok(()) };
    match gate.obtain(&call.view()) {
        Step::Now(decided) => {
            call.approval = decided?.map(Box::new);
            Ok(())
        }
        Step::Later(decision) => {
            // What is run is what was shown, and not a text that somebody else reads otherwise.
            if let Some(payload) = &mut call.input {
                input::read(payload)?;
            }
            let pause = Pause::of(&call.context);
            let approval = call.while_wanted(decision).await??;
            drop(pause);
            call.approval = approval.map(Box::new);
            access::check_again(call)
        }
    }
}
