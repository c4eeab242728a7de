//! The parts that every OpenAPI document has.

use serde_json::{Map, Value, json};

use super::components::reference;
use crate::envelope::ENVELOPE_SCHEMA;
use crate::error::ErrorCode;
use crate::schema::{self, ComponentNames};

pub(super) const PROBLEM: &str = "application/problem+json";

pub(super) const API_DESCRIPTION: &str = "Operations as an HTTP API. `POST` takes the input as its body, and \
    `GET`, for queries and subscriptions, in the query string. The response is the data or, if \
    requested, the envelope, which also contains the source of the data. Every failure is a problem document \
    that contains the error of the call.";

pub(super) const EVENTS_DESCRIPTION: &str = "One event for each value: its data or, if requested, its envelope. \
    Each event has an id; a disconnected client resumes by sending it as `Last-Event-ID`. The event \
    `gap` reports missed values, `error` why the stream failed, and `complete` the end of the \
    stream and, if values did not match their schema, the number of `warnings`.";

pub(super) const STREAM_ENDED_DESCRIPTION: &str =
    "The stream has ended and the client has received every event.";

/// An error response that every operation has.
pub(super) struct FailureResponse {
    pub(super) status: u16,
    /// Name of the response component.
    pub(super) name: &'static str,
    pub(super) description: String,
}

/// Returns the failures of the endpoint itself and those of the infrastructure error codes.
pub(super) fn failure_responses() -> Vec<FailureResponse> {
    let of_the_endpoint = [
        (400, "BadRequest", "The path, the query, a header or the body cannot be read."),
        (401, "Unauthorized", "The token is missing or invalid."),
        (403, "Forbidden", "The request is cross-origin."),
        (404, "NotFound", ""),
        (406, "NotAcceptable", "`Accept` allows no media type that can be served."),
        (408, "RequestTimeout", "The body was not received in time."),
        (413, "ContentTooLarge", "The body is too large."),
        (415, "UnsupportedMediaType", "The body is not plain JSON in UTF-8."),
        (422, "UnprocessableContent", ""),
        (429, "TooManyRequests", ""),
        (500, "InternalServerError", ""),
        (502, "BadGateway", "The tool reported an error; the envelope contains it."),
        (503, "ServiceUnavailable", ""),
        (504, "GatewayTimeout", ""),
    ];
    let describe = |status, first: &str| {
        let codes = ErrorCode::INFRASTRUCTURE.iter().map(|code| (code, code.info()));
        let codes = codes.filter(|(_, meaning)| meaning.http_status == status);
        let codes = codes.map(|(code, meaning)| format!("`{code}`: {}.", meaning.description));
        let first = (!first.is_empty()).then(|| first.to_owned());
        first.into_iter().chain(codes).collect::<Vec<_>>().join(" ")
    };
    of_the_endpoint
        .map(|(status, name, first)| FailureResponse {
            status,
            name,
            description: describe(status, first),
        })
        .into()
}

pub(super) fn responses() -> Map<String, Value> {
    let response = |failure: FailureResponse| {
        let response = json!({
            "description": failure.description,
            "headers": problem_headers(failure.status),
            "content": {PROBLEM: {"schema": reference("Problem")}},
        });
        (failure.name.to_owned(), response)
    };
    failure_responses().into_iter().map(response).collect()
}

pub(super) fn problem_headers(status: u16) -> Value {
    let mut headers = request_id();
    let more = match status {
        401 => Some(("WWW-Authenticate", "Challenge")),
        429 | 502 | 503 => Some(("Retry-After", "RetryAfter")),
        _ => None,
    };
    if let Some((header, name)) = more {
        headers[header] = json!({"$ref": format!("#/components/headers/{name}")});
    }
    headers
}

pub(super) fn request_id() -> Value {
    json!({"X-Request-Id": {"$ref": "#/components/headers/RequestId"}})
}

/// Returns the headers of a success response.
pub(super) fn success_headers() -> Value {
    let mut headers = request_id();
    headers["Toolpost-Warnings"] = json!({"$ref": "#/components/headers/Warnings"});
    headers["Toolpost-Replayed"] = json!({"$ref": "#/components/headers/Replayed"});
    headers
}

pub(super) fn headers() -> Value {
    json!({
        "RequestId": {"description": "The id of the call, as in the journal.", "schema": {"type": "string"}},
        "Warnings": {
            "description": "The number of mismatches between the data and this schema. Absent if the data matches.",
            "schema": {"type": "integer", "minimum": 1},
        },
        "RetryAfter": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}},
        "Replayed": {"description": "Present if the outcome is that of an earlier call with the same idempotency key.", "schema": {"const": "true"}},
        "Challenge": {"description": "The expected authentication scheme.", "schema": {"type": "string"}},
    })
}

pub(super) fn parameters() -> Value {
    json!({
        "Envelope": {
            "name": "envelope", "in": "query", "required": false,
            "description": "Whether to return the envelope instead of the data.",
            "schema": {"type": "boolean"},
        },
        "Timeout": {
            "name": "timeout", "in": "query", "required": false,
            "description": "Timeout of the call: `500ms`, `10s`, `2m`. The shorter of this and `Request-Timeout` applies.",
            "schema": {"type": "string", "pattern": TIMEOUT_PATTERN},
        },
        "RequestTimeout": {
            "name": "Request-Timeout", "in": "header", "required": false,
            "description": "Timeout of the call in seconds: `2.5`.",
            "schema": {"type": "string", "pattern": SECONDS_PATTERN},
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "A call that repeats an earlier call with the same key gets its outcome and does not run.",
            "schema": {"type": "string", "pattern": IDEMPOTENCY_KEY_PATTERN},
        },
        "LastEventId": {
            "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The id of the last event that the client received; the stream resumes after it.",
            "schema": {"type": "string"},
        },
    })
}

/// Regular expression for a decimal number greater than zero.
const SECONDS_PATTERN: &str = r"^(0*[1-9][0-9]*(\.[0-9]*)?|0*\.0*[1-9][0-9]*)$";
/// Regular expression for 1 to 255 printable ASCII characters that an HTTP header can carry.
const IDEMPOTENCY_KEY_PATTERN: &str = r"^[!-~]([ -~]{0,253}[!-~])?$";
/// Regular expression for a decimal number greater than zero with an optional unit.
const TIMEOUT_PATTERN: &str = r"^(0*[1-9][0-9]*(\.[0-9]*)?|0*\.0*[1-9][0-9]*)(ms|s|m|h)?$";

/// Returns the schemas that every document has, with their names.
pub(super) fn schemas() -> Vec<(String, Value)> {
    let names = schema::definitions(&ENVELOPE_SCHEMA);
    let names = names.map(|(keyword, key, _)| ((keyword, key.clone()), key.clone()));
    let homes = ComponentNames { root: "Envelope".to_owned(), definitions: names.collect() };
    let parts = schema::definitions(&ENVELOPE_SCHEMA);
    let mut schemas: Vec<_> = parts.map(|(_, key, part)| (key.clone(), part.clone())).collect();
    schemas.iter_mut().for_each(|(_, schema)| homes.rewrite_refs(schema));
    let data = &ENVELOPE_SCHEMA["properties"]["data"];
    let mut warned = envelope_schema(data, &reference("Meta"));
    warned["description"] =
        "An envelope whose data does not match the output schema; its warnings list the mismatches.".into();
    warned["required"] = json!(["data", "meta", "warnings"]);
    let mut failed_meta = ENVELOPE_SCHEMA["$defs"]["McpMeta"].clone();
    homes.rewrite_refs(&mut failed_meta);
    failed_meta["properties"]["isError"] = json!({"const": true});
    let own = [
        ("Envelope", envelope_schema(data, &reference("Meta"))),
        ("WarnedEnvelope", warned),
        ("FailedEnvelope", envelope_schema(data, &reference("FailedMeta"))),
        ("FailedMeta", failed_meta),
        ("Event", event_schema(None)),
        ("Repair", repair_schema()),
        ("Issue", issue_schema()),
        ("Problem", problem_schema(&reference("CallError"))),
        ("CallError", call_error_schema(&json!({"type": "string"}), None)),
    ];
    schemas.extend(own.map(|(name, schema)| (name.to_owned(), schema)));
    schemas
}

/// Schema of an envelope, written without `allOf`, which code generators handle poorly.
pub(super) fn envelope_schema(data: &Value, meta: &Value) -> Value {
    let list = |name, description| json!({"description": description, "type": "array", "items": reference(name)});
    json!({
        "description": "The result of an operation and where it came from.",
        "type": "object",
        "required": ["data", "meta"],
        "properties": {
            "data": data,
            "meta": meta,
            "repairs": list("Repair", "The changes made to match the output schema."),
            "warnings": list("Issue", "Where the data does not match the output schema."),
            "replayed": {
                "description": "Whether this is the outcome of an earlier call with the same idempotency key.",
                "type": "boolean",
            },
        },
    })
}

/// Schema of one event of a stream. `data` is a string that contains JSON, and `event`
/// distinguishes values from other events. `values` are the schemas of a value, if known.
pub(super) fn event_schema(values: Option<Vec<Value>>) -> Value {
    let mut data = json!({"type": "string", "contentMediaType": "application/json"});
    if let Some(mut variants) = values {
        variants.push(reference("Problem"));
        variants.push(
            json!({"type": "object", "required": ["lost", "isNew"], "description": "The `gap` event."}),
        );
        variants.push(
            json!({
                "type": "object",
                "properties": {"warnings": {"type": "integer", "minimum": 1}},
                "additionalProperties": false,
                "description": "The `complete` event, with the number of mismatches between the values and their schema.",
            }),
        );
        data["contentSchema"] = json!({"anyOf": variants});
    }
    json!({
        "description": "One event of a stream, its fields as text.",
        "type": "object",
        "required": ["data"],
        "properties": {
            "id": {"type": "string", "description": "The value of `Last-Event-ID` to resume after this event."},
            "event": {"type": "string", "description": "`message` for a value, else `gap`, `error` or `complete`."},
            "data": data,
        },
    })
}

fn repair_schema() -> Value {
    json!({
        "type": "object",
        "required": ["path", "action"],
        "properties": {
            "path": {"type": "string", "description": "JSON Pointer into the data."},
            "action": {"type": "string"},
            "from": {"description": "The value before the repair."},
            "to": {"description": "The value after the repair."},
        },
    })
}

fn issue_schema() -> Value {
    json!({
        "type": "object",
        "required": ["path", "message"],
        "properties": {
            "path": {"type": "string", "description": "JSON Pointer into the data."},
            "message": {"type": "string"},
        },
    })
}

/// Schema of a problem. The `error` member is present if a call was made.
pub(super) fn problem_schema(error: &Value) -> Value {
    json!({
        "description": "Why a request failed (RFC 9457).",
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string"},
            "error": error,
            "requestId": {"type": "string"},
        },
    })
}

/// Schema of a call error with the given code, and details if their schema is known.
pub(super) fn call_error_schema(code: &Value, details: Option<&Value>) -> Value {
    let anything = json!({"description": "Machine-readable details."});
    json!({
        "description": "Why a call failed; the same at every endpoint.",
        "type": "object",
        "required": ["code", "message", "retryable"],
        "properties": {
            "code": code,
            "message": {"type": "string"},
            "details": details.unwrap_or(&anything),
            "retryable": {"type": "boolean", "description": "Whether the call can be retried."},
            "replayed": {
                "type": "boolean",
                "description": "Whether this is the error of an earlier call with the same idempotency key.",
            },
        },
    })
}
