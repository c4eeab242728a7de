//! Success and error responses.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::components::{Components, PublishedSchema, reference};
use super::name::code_name;
use super::operation::OperationSchemas;
use super::shared::{self, PROBLEM};
use crate::error::ErrorCode;
use crate::spec::{ErrorDefinition, OperationKind, OperationSpec};

const JSON: &str = "application/json";
const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";
const EVENT_STREAM: &str = "text/event-stream";

/// Returns the responses of an operation, by status.
pub(super) fn responses(
    spec: &OperationSpec,
    schemas: &OperationSchemas,
    components: &mut Components,
) -> Map<String, Value> {
    let mut responses = BTreeMap::new();
    for failure in shared::failure_responses() {
        let reference = json!({"$ref": format!("#/components/responses/{}", failure.name)});
        responses.insert(failure.status, reference);
    }
    let declared = declared_errors(spec, schemas, components);
    for (status, problems) in declared {
        let usual =
            shared::failure_responses().into_iter().find(|failure| failure.status == status);
        responses.insert(status, problem_response(status, problems, usual));
    }
    if spec.kind == OperationKind::Subscription {
        responses.insert(200, event_stream(schemas, components));
        responses.insert(204, json!({"description": shared::STREAM_ENDED_DESCRIPTION}));
    } else {
        responses.insert(200, success_response(schemas, components));
    }
    let responses = responses.into_iter();
    let mut responses: Map<_, _> =
        responses.map(|(status, response)| (status.to_string(), response)).collect();
    if spec.forwards {
        let description = "An error declared by the called operation, with its declared status.";
        let relayed = vec![(description.to_owned(), reference("Problem"))];
        responses.insert("default".to_owned(), problem_response(0, relayed, None));
    }
    responses
}

fn success_response(schemas: &OperationSchemas, components: &mut Components) -> Value {
    let output = &schemas.output.reference;
    let envelope = match output.get("$ref") {
        None => reference("Envelope"),
        Some(_) => json!({"anyOf": envelopes(schemas, components)}),
    };
    let mut response = json!({
        "description": "The data, or the envelope if requested.",
        "headers": shared::success_headers(),
        "content": {JSON: {"schema": output}, ENVELOPE: {"schema": envelope}},
    });
    let published = schemas.output.component.as_deref().and_then(|name| components.get(name));
    if published.is_some_and(|schema| schema.pointer("/properties/$binary").is_some()) {
        response["description"] =
            "The data, the bytes if `Accept` names their type, or the envelope if requested."
                .into();
        response["content"]["*/*"] = json!({});
    }
    response
}

/// Returns the envelopes of an operation: with valid data, warnings, and a tool error.
fn envelopes(schemas: &OperationSchemas, components: &mut Components) -> [Value; 3] {
    let fitting = shared::envelope_schema(&schemas.output.reference, &reference("Meta"));
    let fitting = components.add(&format!("{}Envelope", schemas.name_prefix), fitting);
    [fitting, reference("WarnedEnvelope"), reference("FailedEnvelope")]
}

/// Describes an event stream. Its values have the output schema of the operation, if declared.
fn event_stream(schemas: &OperationSchemas, components: &mut Components) -> Value {
    let output = &schemas.output.reference;
    let event = match output.get("$ref") {
        None => reference("Event"),
        Some(_) => {
            let mut data_schemas = vec![output.clone()];
            data_schemas.extend(envelopes(schemas, components));
            components.add(
                &format!("{}Event", schemas.name_prefix),
                shared::event_schema(Some(data_schemas)),
            )
        }
    };
    json!({
        "description": shared::EVENTS_DESCRIPTION,
        "headers": shared::request_id(),
        "content": {EVENT_STREAM: {"schema": event}},
    })
}

/// Returns the declared errors, by HTTP status.
fn declared_errors(
    spec: &OperationSpec,
    schemas: &OperationSchemas,
    components: &mut Components,
) -> BTreeMap<u16, Vec<(String, Value)>> {
    let mut declared: BTreeMap<u16, Vec<_>> = BTreeMap::new();
    for (error, details) in spec.error_schemas.iter().zip(&schemas.errors) {
        let code = ErrorCode::from(&*error.code);
        // Only domain errors can declare a status; built-in error codes have a fixed one.
        let own = error.http_status.filter(|_| matches!(code, ErrorCode::Domain(_)));
        // 401 and 407 are reserved for authentication between client and gateway.
        let own = own.filter(|status| (400..600).contains(status) && !matches!(status, 401 | 407));
        let status = own.unwrap_or_else(|| code.info().http_status);
        let problem = error_problem(error, details, &schemas.name_prefix, components);
        declared.entry(status).or_default().push((error.description.clone(), problem));
    }
    declared
}

fn error_problem(
    error: &ErrorDefinition,
    details: &PublishedSchema,
    name_prefix: &str,
    components: &mut Components,
) -> Value {
    let name_prefix = format!("{name_prefix}{}", code_name(&error.code));
    let known = details.component.is_some().then_some(&details.reference);
    let inner = shared::call_error_schema(&json!({"const": error.code}), known);
    let inner = components.add(&format!("{name_prefix}Error"), inner);
    let mut problem = shared::problem_schema(&inner);
    problem["required"] = json!(["type", "title", "status", "detail", "error"]);
    if !error.description.is_empty() {
        problem["description"] = error.description.as_str().into();
    }
    components.add(&format!("{name_prefix}Problem"), problem)
}

fn problem_response(
    status: u16,
    problems: Vec<(String, Value)>,
    standard_failure: Option<shared::FailureResponse>,
) -> Value {
    let mut descriptions: Vec<String> =
        problems.iter().map(|(descriptions, _)| descriptions.clone()).collect();
    let mut schemas: Vec<Value> = problems.into_iter().map(|(_, schema)| schema).collect();
    if let Some(standard_failure) = standard_failure {
        descriptions.push(standard_failure.description);
        schemas.push(reference("Problem"));
    }
    descriptions.retain(|descriptions| !descriptions.is_empty());
    for sentence in
        descriptions.iter_mut().filter(|descriptions| !descriptions.ends_with(['.', '!', '?']))
    {
        sentence.push('.');
    }
    let schema = match schemas.len() {
        1 => schemas.remove(0),
        _ => json!({"anyOf": schemas}),
    };
    let description = if descriptions.is_empty() {
        "A declared error.".to_owned()
    } else {
        descriptions.join(" ")
    };
    json!({
        "description": description,
        "headers": shared::problem_headers(status),
        "content": {PROBLEM: {"schema": schema}},
    })
}
