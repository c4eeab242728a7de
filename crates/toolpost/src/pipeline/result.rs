//! result: converts handler output to an envelope. Every call and every stream value goes through
//! [`build_outcome`].

use serde_json::Value;

use super::state::CallState;
use super::{audit, offload};
use crate::envelope::{ContentBlock, Envelope, Meta};
use crate::error::CallError;
use crate::handler::HandlerOutput;
use crate::operation::{Operation, OutputPolicy, ResultPolicy};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized, RepairError, RepairScope, Schema, WorkLimits};

/// Detects, wraps, normalizes and validates, in this order, and logs repairs and warnings.
pub(super) async fn build_outcome(
    call: &CallState,
    output: HandlerOutput,
) -> Result<Outcome, CallError> {
    let operation = call.operation()?;
    let outcome = normalize_output(call, operation, output).await;
    audit::log_schema_warnings(operation, "output", &operation.spec().output_schema);
    let outcome = outcome?;
    audit::log_findings(call, &outcome);
    Ok(outcome)
}

async fn normalize_output(
    call: &CallState,
    operation: &Operation,
    output: HandlerOutput,
) -> Result<Outcome, CallError> {
    let handler_schema;
    let (mut outcome, schema) = match output {
        HandlerOutput::WithSchema(envelope, schema) => {
            handler_schema = schema;
            (Outcome::from(envelope), &handler_schema)
        }
        other => (wrap(operation, other), &operation.spec().output_schema),
    };
    outcome.envelope.meta.stamp(&operation.id().to_shared());
    outcome.matches_schema = false;
    let policy = operation.policy();
    if schema.is_unknown() || policy.output == OutputPolicy::Raw {
        return Ok(outcome);
    }
    let mut findings = match schema_target(&mut outcome.envelope) {
        SchemaTarget::Skip => return Ok(outcome),
        SchemaTarget::MissingStructuredContent => {
            warning_only(&"the tool declares an output schema and sent no structured content")
        }
        SchemaTarget::Data => {
            let findings = apply_policy(call, schema, policy, &mut outcome.envelope.data).await;
            let is_own = schema.is_same(&operation.spec().output_schema);
            outcome.matches_schema = is_own && findings.issues.is_empty();
            findings
        }
    };
    if policy.output == OutputPolicy::Enforce && !findings.issues.is_empty() {
        let error = CallError::output_validation_failed(operation.id().as_str(), &findings.issues);
        return Err(match outcome.envelope.data.into_value() {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        });
    }
    let has_findings = !findings.issues.is_empty() || !findings.repairs.is_empty();
    // The findings are sent and logged apart from the data, as in the journal.
    if has_findings && !schema.secrets().is_empty() {
        findings.mask_values();
    }
    outcome.add_findings(findings);
    Ok(outcome)
}

fn wrap(operation: &Operation, output: HandlerOutput) -> Outcome {
    let local = |data| Envelope::local(data, operation.id().to_shared());
    match output {
        HandlerOutput::Envelope(envelope) | HandlerOutput::WithSchema(envelope, _) => {
            envelope.into()
        }
        HandlerOutput::Forwarded(outcome) => outcome,
        HandlerOutput::Dynamic(payload) => {
            Envelope::detect_payload(payload).unwrap_or_else(local).into()
        }
        HandlerOutput::Data(data) => local(data).into(),
    }
}

/// How the declared schema applies to an envelope.
enum SchemaTarget {
    /// The schema applies to the data.
    Data,
    /// The schema does not apply: a tool error must not be repaired into a valid object.
    Skip,
    /// The schema should apply to structured content, but the data consists of the tool's content
    /// blocks.
    MissingStructuredContent,
}

fn schema_target(envelope: &mut Envelope<Payload>) -> SchemaTarget {
    match &envelope.meta {
        Meta::Mcp(meta) if meta.is_error => SchemaTarget::Skip,
        Meta::Mcp(meta) if meta.structured_content.is_none() => {
            let value = envelope.data.value().ok();
            match value.and_then(|value| value.as_array()) {
                Some(items) if are_content_blocks(items, &meta.content) => {
                    SchemaTarget::MissingStructuredContent
                }
                _ => SchemaTarget::Data,
            }
        }
        _ => SchemaTarget::Data,
    }
}

/// Whether the items are the content blocks of the tool. They are compared as blocks, because a
/// block of an unknown type is kept in the content as text.
fn are_content_blocks(items: &[Value], content: &[ContentBlock]) -> bool {
    items.len() == content.len()
        && items
            .iter()
            .zip(content)
            .all(|(item, block)| ContentBlock::from_value(item.clone()) == *block)
}

/// Repairs the data as far as the policy allows. If the schema or the data cannot be read, the data
/// is unchanged and a warning is added.
async fn apply_policy(
    call: &CallState,
    schema: &Schema,
    policy: ResultPolicy,
    data: &mut Payload,
) -> Normalized {
    let value = match data.value() {
        Ok(value) => value,
        Err(error) => return warning_only(&error),
    };
    let schema = schema.clone();
    let work = move |value: &mut Value, limits: WorkLimits<'_>| match policy.output {
        #[cfg(feature = "typebox-cast")]
        OutputPolicy::Cast => schema.cast_within(value, limits),
        _ => schema.repair_within(value, RepairScope::All(policy.extras), limits),
    };
    match offload::run(call, value, work).await {
        Ok(Ok(normalized)) => normalized,
        Ok(Err(RepairError::Schema(error))) => {
            warning_only(&format!("the output schema is not applied: {error}"))
        }
        Ok(Err(RepairError::Exceeded(exceeded))) => {
            Normalized { issues: vec![exceeded.issue(value)], ..Normalized::default() }
        }
        // The result exists, whatever happened to the call.
        Err(canceled) => warning_only(&format!("the data is not validated: {canceled}")),
    }
}

fn warning_only(error: &impl ToString) -> Normalized {
    let mut normalized = Normalized::default();
    normalized.issues.push(Issue::new("", error.to_string()));
    normalized
}
