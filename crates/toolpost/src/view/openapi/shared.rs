//! The parts that every document has.

use serde_json::{Map, Value, json};

use super::component::reference;
use crate::envelope::ENVELOPE_SCHEMA;
use crate::error::ErrorCode;
use crate::schema::{self, Homes};

pub(super) const PROBLEM: &str = "application/problem+json";

pub(super) const INTRODUCTION: &str = "Operations as an HTTP API. `POST` takes the input as its body, and \
    `GET`, for those that only read, in the query. The answer is the data, or, for those who ask for \
    it, the envelope around it, which says where the data came from. Every failure is a problem with \
    the error of the call inside.";

pub(super) const EVENTS: &str = "One event for each value, its data or, for those who ask for it, its \
    envelope. Each has an id, with which a client that was cut off returns: `Last-Event-ID`. The event \
    `gap` says that something was missed, `error` why there are no more values, and `complete` that \
    there are none.";

pub(super) const NO_MORE_EVENTS: &str =
    "The client has seen every event of a stream that has ended.";

/// A way to fail that every operation has.
pub(super) struct Failure {
    pub(super) status: u16,
    /// The name of the response.
    pub(super) name: &'static str,
    pub(super) words: String,
}

/// What the door refuses by itself, and what the table of errors says about calls.
pub(super) fn failures() -> Vec<Failure> {
    let of_the_door = [
        (400, "BadRequest", "The path, the query, a header or the body cannot be read."),
        (401, "Unauthorized", "There is no token, or one that nobody has."),
        (403, "Forbidden", "A page of another site asks."),
        (404, "NotFound", ""),
        (406, "NotAcceptable", "`Accept` allows nothing that could be answered."),
        (408, "RequestTimeout", "The body took too long."),
        (413, "ContentTooLarge", "The body is too large."),
        (415, "UnsupportedMediaType", "The body is not JSON in UTF-8 as it is."),
        (422, "UnprocessableContent", ""),
        (429, "TooManyRequests", ""),
        (500, "InternalServerError", ""),
        (
            502,
            "BadGateway",
            "The tool reports an error, or its data does not fit; the envelope has both.",
        ),
        (503, "ServiceUnavailable", ""),
        (504, "GatewayTimeout", ""),
    ];
    let words = |status, first: &str| {
        let codes = ErrorCode::INFRASTRUCTURE.iter().map(|code| (code, code.meaning()));
        let codes = codes.filter(|(_, meaning)| meaning.http_status == status);
        let codes = codes.map(|(code, meaning)| format!("`{code}`: {}.", meaning.words));
        let first = (!first.is_empty()).then(|| first.to_owned());
        first.into_iter().chain(codes).collect::<Vec<_>>().join(" ")
    };
    of_the_door
        .map(|(status, name, first)| Failure { status, name, words: words(status, first) })
        .into()
}

pub(super) fn responses() -> Map<String, Value> {
    let response = |failure: Failure| {
        let response = json!({
            "description": failure.words,
            "headers": problem_headers(failure.status),
            "content": {PROBLEM: {"schema": reference("Problem")}},
        });
        (failure.name.to_owned(), response)
    };
    failures().into_iter().map(response).collect()
}

pub(super) fn problem_headers(status: u16) -> Value {
    let mut headers = request_id();
    let more = match status {
        401 => Some(("WWW-Authenticate", "Challenge")),
        429 | 503 => Some(("Retry-After", "RetryAfter")),
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

pub(super) fn headers() -> Value {
    json!({
        "RequestId": {"description": "The id of the call, as in the journal.", "schema": {"type": "string"}},
        "RetryAfter": {"description": "Seconds after which it may work.", "schema": {"type": "integer"}},
        "Challenge": {"description": "How to show a token.", "schema": {"type": "string"}},
    })
}

pub(super) fn parameters() -> Value {
    json!({
        "Envelope": {
            "name": "envelope", "in": "query", "required": false,
            "description": "Whether the answer is the envelope rather than the data.",
            "schema": {"type": "boolean"},
        },
        "Timeout": {
            "name": "timeout", "in": "query", "required": false,
            "description": "How long to wait: `500ms`, `10s`, `2m`. The shorter of this and `Request-Timeout` counts.",
            "schema": {"type": "string", "pattern": TIMEOUT},
        },
        "RequestTimeout": {
            "name": "Request-Timeout", "in": "header", "required": false,
            "description": "How long to wait, in seconds: `2.5`.",
            "schema": {"type": "string", "pattern": SECONDS},
        },
        "LastEventId": {
            "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The id of the last event that the client has seen, to go on behind it.",
            "schema": {"type": "string"},
        },
    })
}

/// A number above zero.
const SECONDS: &str = r"^(0*[1-9][0-9]*(\.[0-9]*)?|0*\.0*[1-9][0-9]*)$";
/// The same, and a unit.
const TIMEOUT: &str = r"^(0*[1-9][0-9]*(\.[0-9]*)?|0*\.0*[1-9][0-9]*)(ms|s|m|h)?$";

/// The schemas that every document has, by their names.
pub(super) fn schemas() -> Vec<(String, Value)> {
    let names = schema::definitions(&ENVELOPE_SCHEMA);
    let names = names.map(|(keyword, key, _)| ((keyword, key.clone()), key.clone()));
    let homes = Homes { root: "Envelope".to_owned(), definitions: names.collect() };
    let parts = schema::definitions(&ENVELOPE_SCHEMA);
    let mut schemas: Vec<_> = parts.map(|(_, key, part)| (key.clone(), part.clone())).collect();
    schemas.iter_mut().for_each(|(_, schema)| homes.lift(schema));
    let data = &ENVELOPE_SCHEMA["properties"]["data"];
    let own = [
        ("Envelope", envelope(data, &reference("Meta"))),
        ("WarnedEnvelope", warned_envelope(data)),
        ("FailedEnvelope", envelope(data, &reference("FailedMeta"))),
        ("FailedMeta", failed_meta(&schemas)),
        ("Event", event(None)),
        ("Repair", repair()),
        ("Issue", issue()),
        ("Problem", problem(&reference("CallError"))),
        ("CallError", call_error(&json!({"type": "string"}), None)),
    ];
    schemas.extend(own.map(|(name, schema)| (name.to_owned(), schema)));
    schemas
}

/// An envelope, spelt out: generators make a type of an object, and something odd of `allOf`.
pub(super) fn envelope(data: &Value, meta: &Value) -> Value {
    let list =
        |name, words| json!({"description": words, "type": "array", "items": reference(name)});
    json!({
        "description": "The result of an operation and where it came from.",
        "type": "object",
        "required": ["data", "meta"],
        "properties": {
            "data": data,
            "meta": meta,
            "repairs": list("Repair", "What was changed to make the data fit."),
            "warnings": list("Issue", "Where the data does not fit."),
        },
    })
}

/// An envelope whose data can be anything, for there are warnings.
fn warned_envelope(data: &Value) -> Value {
    let mut envelope = envelope(data, &reference("Meta"));
    envelope["description"] =
        "An envelope whose data is not what was declared; its warnings say where.".into();
    envelope["required"] = json!(["data", "meta", "warnings"]);
    envelope
}

/// What a tool says that reports an error; its data is whatever it says.
fn failed_meta(schemas: &[(String, Value)]) -> Value {
    let meta = schemas.iter().find(|(name, _)| name == "McpMeta").map(|(_, meta)| meta.clone());
    let mut meta = meta.unwrap_or_default();
    meta["properties"]["isError"] = json!({"const": true});
    meta
}

/// One event of a stream, whose data is text as far as the stream is concerned; what is not of the
/// stream itself has a name. `values` are what a value may be, where that is known.
pub(super) fn event(values: Option<Vec<Value>>) -> Value {
    let mut data = json!({"type": "string", "contentMediaType": "application/json"});
    if let Some(mut said) = values {
        said.push(reference("Problem"));
        said.push(
            json!({"type": "object", "required": ["lost", "isNew"], "description": "A `gap`."}),
        );
        said.push(
            json!({"type": "object", "maxProperties": 0, "description": "It is `complete`."}),
        );
        data["contentSchema"] = json!({"anyOf": said});
    }
    json!({
        "description": "One event of a stream, its fields as text.",
        "type": "object",
        "required": ["data"],
        "properties": {
            "id": {"type": "string", "description": "What to return with."},
            "event": {"type": "string", "description": "`message` for a value, else `gap`, `error` or `complete`."},
            "data": data,
        },
    })
}

fn repair() -> Value {
    json!({
        "type": "object",
        "required": ["path", "action"],
        "properties": {
            "path": {"type": "string", "description": "JSON Pointer into the data."},
            "action": {"type": "string"},
            "from": {"description": "What was there."},
            "to": {"description": "What is there now."},
        },
    })
}

fn issue() -> Value {
    json!({
        "type": "object",
        "required": ["path", "message"],
        "properties": {
            "path": {"type": "string", "description": "JSON Pointer into the data."},
            "message": {"type": "string"},
        },
    })
}

/// A problem around an error, which is there if there was a call.
pub(super) fn problem(error: &Value) -> Value {
    json!({
        "description": "Why a request failed, as RFC 9457 has it.",
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

/// An error with such a code, and such details if more is known about them.
pub(super) fn call_error(code: &Value, details: Option<&Value>) -> Value {
    let anything = json!({"description": "What a program needs to know beyond the code."});
    json!({
        "description": "Why a call failed, the same at every door.",
        "type": "object",
        "required": ["code", "message", "retryable"],
        "properties": {
            "code": code,
            "message": {"type": "string"},
            "details": details.unwrap_or(&anything),
            "retryable": {"type": "boolean", "description": "Whether the call may simply be repeated."},
        },
    })
}
