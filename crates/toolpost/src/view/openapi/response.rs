//! What is answered, and every way to fail.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::component::{Components, Placed, reference};
use super::name::code_name;
use super::operation::Schemas;
use super::shared::{self, PROBLEM};
use crate::error::ErrorCode;
use crate::spec::{ErrorDefinition, Kind, OperationSpec};

const JSON: &str = "application/json";
const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";
/// The operation that calls any other.
const RELAY: &str = "hub.call";
const EVENTS: &str = "text/event-stream";

/// Every response of an operation, by its status.
pub(super) fn responses(
    spec: &OperationSpec,
    schemas: &Schemas,
    components: &mut Components,
) -> Map<String, Value> {
    let mut responses = BTreeMap::new();
    for failure in shared::failures() {
        let reference = json!({"$ref": format!("#/components/responses/{}", failure.name)});
        responses.insert(failure.status, reference);
    }
    let declared = declared(spec, schemas, components);
    for (status, problems) in declared {
        let usual = shared::failures().into_iter().find(|failure| failure.status == status);
        responses.insert(status, problem(status, problems, usual));
    }
    if spec.kind == Kind::Subscription {
        responses.insert(200, events(schemas, components));
        responses.insert(204, json!({"description": shared::NO_MORE_EVENTS}));
    } else {
        responses.insert(200, answer(schemas, components));
    }
    let responses = responses.into_iter();
    let mut responses: Map<_, _> =
        responses.map(|(status, response)| (status.to_string(), response)).collect();
    if spec.id().is_ok_and(|id| id.as_str() == RELAY) {
        responses.insert("default".to_owned(), problem(0, vec![relayed()], None));
    }
    responses
}

/// Whatever the operation declares that is called through another one.
fn relayed() -> (String, Value) {
    let words = "An error that the called operation declares, with the status that it has there.";
    (words.to_owned(), reference("Problem"))
}

fn answer(schemas: &Schemas, components: &mut Components) -> Value {
    let output = &schemas.output.reference;
    let envelope = match output.get("$ref") {
        None => reference("Envelope"),
        Some(_) => json!({"anyOf": envelopes(schemas, components)}),
    };
    json!({
        "description": "The data, or the envelope for those who ask for it.",
        "headers": shared::request_id(),
        "content": {JSON: {"schema": output}, ENVELOPE: {"schema": envelope}},
    })
}

/// The envelopes of an operation that declares what it gives: with that, or with a word of warning.
fn envelopes(schemas: &Schemas, components: &mut Components) -> [Value; 3] {
    let fitting = shared::envelope(&schemas.output.reference, &reference("Meta"));
    let fitting = components.add(&format!("{}Envelope", schemas.stem), fitting);
    [fitting, reference("WarnedEnvelope"), reference("FailedEnvelope")]
}

/// A stream, whose values are those that its operation declares, where it declares any.
fn events(schemas: &Schemas, components: &mut Components) -> Value {
    let output = &schemas.output.reference;
    let event = match output.get("$ref") {
        None => reference("Event"),
        Some(_) => {
            let mut said = vec![output.clone()];
            said.extend(envelopes(schemas, components));
            components.add(&format!("{}Event", schemas.stem), shared::event(Some(said)))
        }
    };
    json!({
        "description": shared::EVENTS,
        "headers": shared::request_id(),
        "content": {EVENTS: {"schema": event}},
    })
}

/// The declared errors by the status that they have.
fn declared(
    spec: &OperationSpec,
    schemas: &Schemas,
    components: &mut Components,
) -> BTreeMap<u16, Vec<(String, Value)>> {
    let mut declared: BTreeMap<u16, Vec<_>> = BTreeMap::new();
    for (error, details) in spec.error_schemas.iter().zip(&schemas.errors) {
        let code = ErrorCode::from(&*error.code);
        // What every operation may fail with has its status already.
        let own = error.http_status.filter(|_| matches!(code, ErrorCode::Domain(_)));
        // A success is no failure, and who calls is between a client and the gateway alone.
        let own = own.filter(|status| (400..600).contains(status) && !matches!(status, 401 | 407));
        let status = own.unwrap_or_else(|| code.meaning().http_status);
        let problem = problem_of(error, details, &schemas.stem, components);
        declared.entry(status).or_default().push((error.description.clone(), problem));
    }
    declared
}

fn problem_of(
    error: &ErrorDefinition,
    details: &Placed,
    stem: &str,
    components: &mut Components,
) -> Value {
    let stem = format!("{stem}{}", code_name(&error.code));
    let known = details.name.is_some().then_some(&details.reference);
    let inner = shared::call_error(&json!({"const": error.code}), known);
    let inner = components.add(&format!("{stem}Error"), inner);
    let mut problem = shared::problem(&inner);
    problem["required"] = json!(["type", "title", "status", "detail", "error"]);
    if !error.description.is_empty() {
        problem["description"] = error.description.as_str().into();
    }
    components.add(&format!("{stem}Problem"), problem)
}

fn problem(status: u16, problems: Vec<(String, Value)>, usual: Option<shared::Failure>) -> Value {
    let mut words: Vec<String> = problems.iter().map(|(words, _)| words.clone()).collect();
    let mut schemas: Vec<Value> = problems.into_iter().map(|(_, schema)| schema).collect();
    if let Some(usual) = usual {
        words.push(usual.words);
        schemas.push(reference("Problem"));
    }
    words.retain(|words| !words.is_empty());
    for sentence in words.iter_mut().filter(|words| !words.ends_with(['.', '!', '?'])) {
        sentence.push('.');
    }
    let schema = match schemas.len() {
        1 => schemas.remove(0),
        _ => json!({"anyOf": schemas}),
    };
    let description =
        if words.is_empty() { "A declared error.".to_owned() } else { words.join(" ") };
    json!({
        "description": description,
        "headers": shared::problem_headers(status),
        "content": {PROBLEM: {"schema": schema}},
    })
}
