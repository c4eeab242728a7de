//! access: whether this caller may call this operation, perhaps on this very resource.

use super::input;
use super::state::CallState;
use crate::error::CallError;

pub(super) fn check(call: &mut CallState) -> Result<(), CallError> {
    if call.trusted {
        return Ok(());
    }
    let operation = call.operation()?.clone();
    let control = &operation.spec().access_control;
    let input = match &mut call.input {
        Some(payload) if control.reads_input() => Some(input::read(payload)?),
        _ => None,
    };
    control.check(call.context.identity(), input.map(|input| &*input))
}
