//! result: the one way from what a handler returned to an envelope; every path and every value of
//! a stream goes through [`shape`].

use serde_json::Value;

use super::audit;
use super::state::CallState;
use crate::envelope::{ContentBlock, Envelope, Meta};
use crate::error::CallError;
use crate::handler::Output;
use crate::operation::{Operation, OutputPolicy, ResultPolicy};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized, RepairAction, Schema};

/// Detects, wraps, normalizes and validates, in this order, and says what it found.
pub(super) fn shape(call: &CallState, output: Output) -> Result<Outcome, CallError> {
    let outcome = fitted(call.operation()?, output)?;
    audit::log_findings(call, &outcome);
    Ok(outcome)
}

fn fitted(operation: &Operation, output: Output) -> Result<Outcome, CallError> {
    let named;
    let (mut outcome, schema) = match output {
        Output::Shaped(envelope, schema) => {
            named = schema;
            (Outcome::from(envelope), &named)
        }
        other => (wrap(operation, other), &operation.spec().output_schema),
    };
    let policy = operation.policy();
    if schema.is_unknown() || policy.output == OutputPolicy::Raw {
        return Ok(outcome);
    }
    let findings = match standing(&mut outcome.envelope) {
        Standing::Final => return Ok(outcome),
        Standing::NoStructure => {
            only_warning(&"the tool declares an output schema and sent no structured content")
        }
        Standing::Data => fit(schema, policy, &mut outcome.envelope.data),
    };
    if policy.output == OutputPolicy::Enforce && !findings.issues.is_empty() {
        let id = operation.id().as_str();
        return Err(CallError::output_validation_failed(id, &findings.issues));
    }
    outcome.note(findings);
    Ok(outcome)
}

fn wrap(operation: &Operation, output: Output) -> Outcome {
    let data = match output {
        Output::Envelope(envelope) | Output::Shaped(envelope, _) => return envelope.into(),
        Output::Relayed(outcome) => return outcome,
        Output::Dynamic(payload) => match Envelope::detect_payload(payload) {
            Ok(envelope) => return envelope.into(),
            Err(data) => data,
        },
        Output::Data(data) => data,
    };
    Envelope::local(data, operation.id().to_shared()).into()
}

/// What the declared schema has to say about an envelope.
enum Standing {
    /// It describes the data.
    Data,
    /// Nothing: a tool's failure must never be repaired into a well-formed object.
    Final,
    /// It should describe the data, but the data are the tool's content blocks.
    NoStructure,
}

fn standing(envelope: &mut Envelope<Payload>) -> Standing {
    match &envelope.meta {
        Meta::Mcp(meta) if meta.is_error => Standing::Final,
        Meta::Mcp(meta) if meta.structured_content.is_none() => {
            let value = envelope.data.value().ok();
            match value.and_then(|value| value.as_array()) {
                Some(items) if are_blocks(items, &meta.content) => Standing::NoStructure,
                _ => Standing::Data,
            }
        }
        _ => Standing::Data,
    }
}

/// Whether the items are the tool's own blocks. They are compared as blocks, since one of an unknown
/// type stands in the content as its text.
fn are_blocks(items: &[Value], content: &[ContentBlock]) -> bool {
    items.len() == content.len()
        && items
            .iter()
            .zip(content)
            .all(|(item, block)| ContentBlock::from_value(item.clone()) == *block)
}

/// Makes the data fit as far as the policy allows. A schema or data that cannot be read is worth a
/// warning; the data goes out as it is.
fn fit(schema: &Schema, policy: ResultPolicy, data: &mut Payload) -> Normalized {
    let value = match data.value() {
        Ok(value) => value,
        Err(error) => return only_warning(&error),
    };
    match policy.output {
        OutputPolicy::Cast => cast(schema, value),
        _ => schema.normalize(value, policy.extras).unwrap_or_else(|error| only_warning(&error)),
    }
}

/// What TypeBox's function cannot repair stays as it is; what it made up or lost is always said.
fn cast(schema: &Schema, value: &mut Value) -> Normalized {
    let mut fitted = Normalized::default();
    match schema.cast(value) {
        Ok(repairs) => fitted.repairs = repairs,
        Err(error) => fitted.issues.push(Issue::new(error.path.clone(), error.to_string())),
    }
    let drastic = fitted.repairs.iter().filter(|repair| repair.action.is_warning());
    let warnings = drastic.map(|repair| {
        let lost_or_invented = match repair.action {
            RepairAction::Invented => "a missing value was made up",
            _ => "a value was replaced and lost",
        };
        Issue::new(repair.path.clone(), lost_or_invented)
    });
    fitted.issues.extend(warnings);
    match schema.check(value) {
        Ok(issues) => fitted.issues.extend(issues),
        Err(error) => fitted.issues.push(Issue::new("", error.to_string())),
    }
    fitted
}

fn only_warning(error: &impl ToString) -> Normalized {
    let mut fitted = Normalized::default();
    fitted.issues.push(Issue::new("", error.to_string()));
    fitted
}
