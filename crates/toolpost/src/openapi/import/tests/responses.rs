//! Responses: output schema, errors and the content of each status.

use super::*;
use crate::openapi::plan::StatusRange;

fn import_with_responses(version: &str, responses: &Value) -> ImportedOperation {
    import_single(&document(version, &json!({"paths": {"/a": {"get": {"responses": responses}}}})))
}

fn json_content(schema: &Value) -> Value {
    json!({"content": {"application/json": {"schema": schema}}})
}

fn binary_schema() -> Value {
    json!({"type": "object", "required": ["$binary", "contentType", "size"], "properties": {
        "$binary": {"type": "string", "contentEncoding": "base64"},
        "contentType": {"type": "string"}, "size": {"type": "integer", "minimum": 0}}})
}

#[test]
fn output_schema_comes_from_success_responses() {
    let (number, text) = (json!({"type": "integer"}), json!({"type": "string"}));
    let null = json!({"type": "null"});
    let rows = [
        (json!({}), json!(true)),
        (json!({"200": {}}), json!(true)),
        (json!({"204": {}}), null),
        (json!({"200": json_content(&number)}), number.clone()),
        (json!({"2XX": json_content(&number), "404": json_content(&text)}), number.clone()),
        (
            json!({"200": json_content(&number), "201": json_content(&number), "202": {}}),
            number.clone(),
        ),
        (
            json!({"200": json_content(&number), "204": {}}),
            json!({"anyOf": [number, {"type": "null"}]}),
        ),
        (
            json!({"201": json_content(&text), "200": json_content(&number)}),
            json!({"anyOf": [number, text]}),
        ),
        (json!({"default": json_content(&number)}), number.clone()),
        (
            json!({"200": {"content": {"application/xml": {}, "application/hal+json": {"schema": number}}}}),
            number.clone(),
        ),
        (json!({"200": {"content": {"application/xml": {"schema": number}}}}), text),
        (json!({"200": {"content": {"image/png": {}}}}), binary_schema()),
        (json!({"200": {"content": {"*/*": {"schema": number}}}}), number.clone()),
        (
            json!({"200": {"content": {"application/json": {}}}, "201": json_content(&number)}),
            json!(true),
        ),
        (
            json!({"200": {"content": {"application/x-ndjson": {"itemSchema": number}}}}),
            json!({"type": "array", "items": number}),
        ),
    ];
    for (responses, expected) in rows {
        let found = import_with_responses("3.2.0", &responses).spec.output_schema;
        assert_eq!(*found.json(), expected, "{responses}");
    }
}

#[test]
fn event_stream_output_uses_the_data_schema() {
    let data = json!({"type": "object", "title": "data"});
    let event = json!({"properties": {"event": {"const": "a"}, "data": {"type": "string", "contentSchema": data}}});
    let rows = [
        (json!({"schema": data}), data.clone()),
        (json!({"schema": {"type": "string"}}), json!(true)),
        (json!({"schema": {"type": "array"}}), json!(true)),
        (json!({}), json!(true)),
        (json!({"itemSchema": event}), data.clone()),
        (json!({"itemSchema": {"oneOf": [event, event]}}), data.clone()),
        (json!({"itemSchema": {"properties": {"data": {"type": "string"}}}}), json!(true)),
        (json!({"itemSchema": data}), data),
    ];
    for (media, expected) in rows {
        let responses = json!({"200": {"content": {"text/event-stream": media}}});
        let operation = import_with_responses("3.2.0", &responses);
        assert_eq!(*operation.spec.output_schema.json(), expected, "{media}");
        assert_eq!(*operation.plan.responses[0].contents[0].schema.json(), expected, "{media}");
    }
}

#[test]
fn error_responses_become_error_definitions_with_codes() {
    let problem = json!({"type": "object", "title": "problem"});
    let responses = json!({
        "default": {"description": "Else", "content": {"text/plain": {}}},
        "5xx": {"description": "Broken"},
        "404": {"description": "Gone", "content": {"application/problem+json": {"schema": problem}}},
        "200": {"description": "Fine"}, "302": {"description": "Elsewhere"}, "101": {"description": "Soon"},
        "x-more": 1,
    });
    let operation = import_with_responses("3.0.0", &responses);
    let errors: Vec<_> = operation
        .spec
        .error_schemas
        .iter()
        .map(|error| {
            (&*error.code, &*error.description, error.http_status, error.schema.json().into_owned())
        })
        .collect();
    assert_eq!(
        errors,
        [
            ("HTTP_302", "Elsewhere", Some(302), json!(true)),
            ("HTTP_404", "Gone", Some(404), problem),
            ("HTTP_5XX", "Broken", None, json!(true)),
            ("HTTP_ERROR", "Else", None, json!({"type": "string"})),
        ]
    );
    let found: Vec<_> = operation
        .plan
        .responses
        .iter()
        .map(|response| (response.status, response.code.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            (StatusRange::Exactly(101), None),
            (StatusRange::Exactly(200), None),
            (StatusRange::Exactly(302), Some("HTTP_302")),
            (StatusRange::Exactly(404), Some("HTTP_404")),
            (StatusRange::Class(5), Some("HTTP_5XX")),
            (StatusRange::Default, Some("HTTP_ERROR")),
        ]
    );
}

#[test]
fn swagger_responses_use_produces_media_types() {
    let number = json!({"type": "integer"});
    let rows = [
        (
            json!(["application/json"]),
            json!({"schema": number}),
            vec!["application/json"],
            number.clone(),
        ),
        (
            json!(["text/html"]),
            json!({"schema": number}),
            vec!["text/html"],
            json!({"type": "string"}),
        ),
        (json!(["application/json"]), json!({}), vec![], json!(true)),
        (
            json!(["application/pdf"]),
            json!({"schema": {"type": "file"}}),
            vec!["application/pdf"],
            binary_schema(),
        ),
        (
            json!(["application/json"]),
            json!({"schema": {"type": "file"}}),
            vec!["application/json"],
            binary_schema(),
        ),
    ];
    for (produces, response, media_types, expected) in rows {
        let operation = import_single(&document(
            "2.0",
            &json!({"produces": produces,
            "paths": {"/a": {"get": {"responses": {"200": response}}}}}),
        ));
        let replies = &operation.plan.responses[0].contents;
        let found: Vec<&str> = replies.iter().map(|reply| &*reply.media_type).collect();
        assert_eq!(found, media_types, "{produces} {response}");
        assert_eq!(*operation.spec.output_schema.json(), expected, "{produces} {response}");
    }
}

#[test]
fn head_response_has_null_output() {
    let responses = json!({"200": json_content(&json!({"type": "integer"}))});
    let paths = json!({"paths": {"/a": {"head": {"responses": responses}}}});
    let operation = import_single(&document("3.0.0", &paths));
    assert_eq!(*operation.spec.output_schema.json(), json!({"type": "null"}));
}
