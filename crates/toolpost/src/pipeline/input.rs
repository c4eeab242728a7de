//! input: fills in the defaults of the input schema, and validates the input.

use serde_json::Value;

use super::state::CallState;
use super::{audit, binary_hint};
use crate::error::CallError;
use crate::payload::Payload;
use crate::schema::Issue;

pub(super) fn check(call: &mut CallState) -> Result<(), CallError> {
    if call.operation()?.spec().input_schema.is_unknown() {
        return Ok(());
    }
    let operation = call.operation()?.clone();
    let (id, schema) = (operation.id(), &operation.spec().input_schema);
    let Some(payload) = call.input.as_mut() else { return Ok(()) };
    let input = parse(payload)?;
    let mut filled = schema.fill_defaults(input).map_err(|error| {
        CallError::execution(format!("the input schema of {id} cannot be used")).with_cause(error)
    })?;
    audit::log_schema_warnings(&operation, "input", schema);
    if !filled.issues.is_empty() {
        binary_hint::add_hints(&mut filled.issues, schema, input);
        return Err(CallError::validation(format!("invalid input for {id}"), &filled.issues));
    }
    if !filled.repairs.is_empty() {
        call.record_filled_input();
    }
    Ok(())
}

/// Returns the input as a parsed value.
pub(super) fn parse(payload: &mut Payload) -> Result<&mut Value, CallError> {
    payload.value().map_err(|error| {
        CallError::validation("the input cannot be read", &[Issue::new("", error.to_string())])
    })
}
