//! result: the one way from what a handler returned to an envelope; every path and every value of
//! a stream goes through [`shape`].

use serde_json::Value;

use super::outcome::Outcome;
use crate::envelope::{Envelope, Meta};
use crate::error::CallError;
use crate::handler::Output;
use crate::operation::{Operation, OutputPolicy};
use crate::payload::Payload;
use crate::schema::{Issue, Repair, Schema};

/// Detects, wraps, normalises and validates, in this order.
pub(super) fn shape(operation: &Operation, output: Output) -> Result<Outcome, CallError> {
    let mut outcome = Outcome::new(wrap(operation, output));
    let (schema, policy) = (&operation.spec().output_schema, operation.policy());
    if schema.is_unknown() || policy.output == OutputPolicy::Raw {
        return Ok(outcome);
    }
    match standing(&outcome.envelope) {
        Standing::Final => return Ok(outcome),
        Standing::NoStructure => outcome.warnings.push(Issue::new(
            "",
            "the tool declares an output schema and sent no structured content",
        )),
        Standing::Data => {
            let fitted = fit(schema, &mut outcome.envelope.data);
            outcome.repairs = fitted.repairs;
            outcome.warnings = fitted.issues;
        }
    }
    if policy.output == OutputPolicy::Enforce && !outcome.warnings.is_empty() {
        let id = operation.id().as_str();
        return Err(CallError::output_validation_failed(id, &outcome.warnings));
    }
    Ok(outcome)
}

fn wrap(operation: &Operation, output: Output) -> Envelope<Payload> {
    let data = match output {
        Output::Envelope(envelope) => return envelope,
        Output::Dynamic(payload) => match Envelope::detect_payload(payload) {
            Ok(envelope) => return envelope,
            Err(data) => data,
        },
        Output::Data(data) => data,
    };
    Envelope::local(data, operation.id().to_shared())
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

fn standing(envelope: &Envelope<Payload>) -> Standing {
    match &envelope.meta {
        Meta::Mcp(meta) if meta.is_error => Standing::Final,
        Meta::Mcp(meta) if meta.structured_content.is_none() => {
            let blocks = envelope.data.as_value().and_then(Value::as_array);
            let is_content = blocks.is_some_and(|blocks| {
                blocks.len() == meta.content.len()
                    && blocks.iter().zip(&meta.content).all(|(value, block)| {
                        serde_json::to_value(block).is_ok_and(|block| block == *value)
                    })
            });
            if is_content { Standing::NoStructure } else { Standing::Data }
        }
        _ => Standing::Data,
    }
}

struct Fitted {
    repairs: Vec<Repair>,
    issues: Vec<Issue>,
}

/// A schema or data that cannot be read is worth a warning; the data goes out as it is.
fn fit(schema: &Schema, data: &mut Payload) -> Fitted {
    let issues = match data.value() {
        Ok(value) => {
            schema.check(value).unwrap_or_else(|error| vec![Issue::new("", error.to_string())])
        }
        Err(error) => vec![Issue::new("", error.to_string())],
    };
    Fitted { repairs: Vec::new(), issues }
}
