//! Access stage: checks whether the caller may call the operation, and with which resource.

use super::input;
use super::state::CallState;
use crate::error::CallError;
use crate::operation::Operation;

pub(super) fn check(call: &mut CallState) -> Result<(), CallError> {
    let operation = call.operation()?.clone();
    check_against(call, &operation)
}

/// Repeats the check against the current catalog, for a call that has waited. Access control may
/// have changed since the call took its snapshot.
pub(super) fn recheck(call: &mut CallState) -> Result<(), CallError> {
    let now = call.shared.registry.catalog();
    match now.get(call.context.operation()).cloned() {
        Some(operation) => check_against(call, &operation),
        None => Err(now.not_found_error(call.context.operation(), call.viewer())),
    }
}

fn check_against(call: &mut CallState, operation: &Operation) -> Result<(), CallError> {
    if call.trusted {
        return Ok(());
    }
    let control = &operation.spec().access_control;
    let input = match &mut call.input {
        Some(payload) if control.reads_input() => Some(input::parse(payload)?),
        _ => None,
    };
    control.check(call.context.identity(), input.map(|input| &*input))
}
