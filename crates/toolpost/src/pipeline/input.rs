//! input: fills in the defaults of the input schema, and validates the input.

use serde_json::Value;

use super::offload::SchemaResult;
use super::state::CallState;
use super::{audit, binary_hint, offload};
use crate::error::CallError;
use crate::operation::Operation;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized, RepairError, RepairScope, Schema, SchemaError, WorkLimits};

pub(super) async fn check(call: &mut CallState) -> Result<(), CallError> {
    if call.operation()?.spec().input_schema.is_unknown() {
        return Ok(());
    }
    let operation = call.operation()?.clone();
    let (id, schema) = (operation.id(), &operation.spec().input_schema);
    let Some(mut payload) = call.input.take() else { return Ok(()) };
    let filled = match parse(&mut payload) {
        Ok(input) => fill_defaults(call, schema, input).await,
        Err(error) => Err(error),
    };
    let input = &mut *call.input.insert(payload);
    let mut filled = match filled? {
        Ok(filled) => filled,
        Err(RepairError::Exceeded(exceeded)) => {
            Normalized { issues: vec![exceeded.issue(parse(input)?)], ..Normalized::default() }
        }
        Err(RepairError::Schema(error)) => return Err(unusable_schema(&operation, error)),
    };
    audit::log_schema_warnings(&operation, "input", schema);
    if !filled.issues.is_empty() {
        binary_hint::add_hints(&mut filled.issues, schema, parse(input)?);
        return Err(CallError::validation(format!("invalid input for {id}"), &filled.issues));
    }
    if !filled.repairs.is_empty() {
        call.record_filled_input();
    }
    Ok(())
}

async fn fill_defaults(
    call: &CallState,
    schema: &Schema,
    input: &mut Value,
) -> Result<SchemaResult, CallError> {
    let schema = schema.clone();
    let work = move |input: &mut Value, limits: WorkLimits<'_>| {
        schema.repair_within(input, RepairScope::Defaults, limits)
    };
    offload::run(call, input, work).await
}

/// An operation whose input cannot be validated is not called.
fn unusable_schema(operation: &Operation, error: SchemaError) -> CallError {
    let id = operation.id();
    match error {
        SchemaError::OverBudget { .. } => {
            let message = format!("{id} is unavailable: its input {error}");
            CallError::unavailable(message).not_sent().permanent()
        }
        error => CallError::execution(format!("the input schema of {id} cannot be used"))
            .with_cause(error),
    }
}

/// Returns the input as a parsed value.
pub(super) fn parse(payload: &mut Payload) -> Result<&mut Value, CallError> {
    payload.value().map_err(|error| {
        CallError::validation("the input cannot be read", &[Issue::new("", error.to_string())])
    })
}
