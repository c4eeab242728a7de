//! Access stage: checks whether the caller may call the operation, and with which resource.

use tokio::sync::watch;

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

/// Waits until a change of the registry takes the access of a running subscription away.
pub(super) async fn wait_for_revocation(
    call: &CallState,
    changes: &mut watch::Receiver<u64>,
) -> CallError {
    while !call.trusted && changes.changed().await.is_ok() {
        if let Err(error) = check_continued(call) {
            return error;
        }
    }
    std::future::pending().await
}

/// Checks the access of a running subscription if the registry has changed since the last check.
pub(super) fn check_changes(
    call: &CallState,
    changes: &mut watch::Receiver<u64>,
) -> Result<(), CallError> {
    if call.trusted || !changes.has_changed().unwrap_or_default() {
        return Ok(());
    }
    changes.mark_unchanged();
    check_continued(call)
}

/// A removed operation is not a change of access: its source ends the subscription.
fn check_continued(call: &CallState) -> Result<(), CallError> {
    let catalog = call.shared.registry.catalog();
    let Some(now) = catalog.get(call.context.operation()) else { return Ok(()) };
    let (before, now) = (&call.operation()?.spec().access_control, &now.spec().access_control);
    if before == now { Ok(()) } else { now.check_continued(before, call.context.identity()) }
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
