//! Request bodies.

use super::*;
use crate::openapi::media_type::MediaKind;
use crate::openapi::plan::{RequestBody, Style};

fn imported_body(version: &str, members: &Value) -> (RequestBody, Value) {
    let operation = import_single(&document(version, &json!({"paths": {"/a": {"post": members}}})));
    let schema = operation.spec.input_schema.json()["properties"]["body"].clone();
    (operation.plan.body.unwrap(), schema)
}

fn content_kinds(body: &RequestBody) -> Vec<(&str, MediaKind)> {
    body.contents.iter().map(|content| (&*content.media_type, content.kind)).collect()
}

fn binary_schema() -> Value {
    json!({"type": "object", "required": ["$binary"], "properties": {
        "$binary": {"type": "string", "contentEncoding": "base64"},
        "contentType": {"type": "string"}, "filename": {"type": "string"}}})
}

fn text_or_bytes_schema() -> Value {
    let mut schema = binary_schema();
    schema["type"] = json!(["string", "object"]);
    schema
}

#[test]
fn body_contents_are_ordered_by_preference() {
    use MediaKind::*;
    let object = json!({"type": "object"});
    let all = [
        "image/png",
        "text/plain",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
        "application/x-ndjson",
        "application/merge-patch+json",
        "application/json",
    ];
    let content: serde_json::Map<String, Value> =
        all.iter().map(|name| ((*name).to_owned(), json!({"schema": object}))).collect();
    let (body, schema) =
        imported_body("3.0.0", &json!({"requestBody": {"required": true, "content": content}}));
    assert!(body.required);
    let found: Vec<MediaKind> = body.contents.iter().map(|content| content.kind).collect();
    assert_eq!(found, [Json, Json, JsonLines, Form, Multipart, Text, Binary]);
    assert_eq!(body.contents[0].media_type, "application/json");
    // Text adds no alternative next to an object; binary does.
    assert_eq!(schema["anyOf"].as_array().unwrap().len(), 3, "{schema}");
}

#[test]
fn body_schema_follows_the_media_type() {
    use MediaKind::*;
    let mut short_text = text_or_bytes_schema();
    short_text["maxLength"] = json!(3);
    let rows = [
        (
            json!({"application/json": {"schema": {"type": "integer"}}}),
            vec![("application/json", Json)],
            json!({"type": "integer"}),
        ),
        (
            json!({"*/*": {"schema": {"type": "integer"}}}),
            vec![("*/*", Json)],
            json!({"type": "integer"}),
        ),
        (
            json!({"application/xml": {"schema": {"type": "object"}}}),
            vec![("application/xml", Text)],
            text_or_bytes_schema(),
        ),
        (
            json!({"text/plain": {"schema": {"type": "string", "maxLength": 3}}}),
            vec![("text/plain", Text)],
            short_text,
        ),
        (
            json!({"image/*": {"schema": {"type": "string", "format": "binary"}}}),
            vec![("image/*", Binary)],
            binary_schema(),
        ),
        (
            json!({"*/*": {"schema": {"type": "string", "format": "binary"}}}),
            vec![("*/*", Binary)],
            binary_schema(),
        ),
        (json!({"application/json": {}}), vec![("application/json", Json)], json!(true)),
        (
            json!({"application/jsonl": {"itemSchema": {"type": "integer"}}}),
            vec![("application/jsonl", JsonLines)],
            json!({"type": "array", "items": {"type": "integer"}}),
        ),
        (
            json!({"application/json": {"schema": {"type": "object"}}, "text/xml": {"schema": {"type": "object"}}}),
            vec![("application/json", Json), ("text/xml", Text)],
            json!({"type": "object"}),
        ),
        (
            json!({"application/json": {"schema": {"type": "object"}}, "application/pdf": {}}),
            vec![("application/json", Json), ("application/pdf", Binary)],
            json!({"anyOf": [{"type": "object"}, binary_schema()]}),
        ),
    ];
    for (content, expected, schema) in rows {
        let (body, found) = imported_body("3.2.0", &json!({"requestBody": {"content": content}}));
        assert_eq!(content_kinds(&body), expected, "{content}");
        assert_eq!(found, schema, "{content}");
        assert!(!body.required);
    }
}

#[test]
fn form_encodings_are_imported_per_property() {
    let content = json!({"multipart/form-data": {
        "schema": {"$ref": "#/components/schemas/Form"},
        "encoding": {
            "tags": {"style": "pipeDelimited", "explode": true},
            "file": {"contentType": "image/png", "headers": {
                "X-A": {"schema": {"const": "a"}}, "X-B": {"schema": {"enum": [7]}}, "X-C": {"schema": {"type": "string"}},
                "Content-Type": {"schema": {"const": "b"}}}},
            "meta": {"contentType": "application/json"},
        },
    }});
    let document = document(
        "3.1.0",
        &json!({
            "paths": {"/a": {"post": {"requestBody": {"content": content}}}},
            "components": {"schemas": {"Form": {"allOf": [{"type": "object", "required": ["file"], "properties": {
                "file": {"type": "string", "format": "binary", "description": "F"},
                "more": {"type": "array", "items": {"type": "string", "contentEncoding": "base64"}},
                "any": {}, "tags": {"type": "array"}, "plain": {"type": "string"},
                "meta": {"type": "object", "properties": {"text": {"type": "string"}}},
                "letter": {"type": "string", "enum": ["a", "b"]}, "maybe": {"type": ["string", "null"]},
                "choice": {"oneOf": [{"type": "string"}, {"type": "string", "format": "binary"}]},
            }}]}}},
        }),
    );
    let operation = import_single(&document);
    let body = operation.plan.body.unwrap();
    let mut found: Vec<_> = body.contents[0]
        .encodings
        .iter()
        .map(|one| (&*one.property, one.content_type.as_deref(), one.style, one.is_binary))
        .collect();
    found.sort_by_key(|one| one.0);
    assert_eq!(
        found,
        [
            ("choice", None, None, true),
            ("file", Some("image/png"), None, true),
            ("meta", Some("application/json"), None, false),
            ("more", None, None, true),
            ("tags", None, Some((Style::PipeDelimited, true, false)), false),
        ]
    );
    let file = body.contents[0].encodings.iter().find(|one| one.property == "file").unwrap();
    let headers =
        [("X-A", "a"), ("X-B", "7")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(file.headers, headers);
    let schema = operation.spec.input_schema;
    let file = json!({"$binary": "YQ=="});
    for (value, fits) in [
        (json!({"file": {"$binary": "YQ==", "filename": "a.png"}}), true),
        (json!({"file": "text"}), false),
        (json!({"file": {}}), false),
        (json!({"more": []}), false),
        (json!({"file": file, "more": [{"$binary": "YQ=="}], "any": "a", "plain": "a"}), true),
        (json!({"file": file, "more": ["YQ=="]}), false),
        (json!({"file": file, "plain": {"$binary": "YQ=="}}), true),
        (json!({"file": file, "plain": {}}), false),
        (json!({"file": file, "choice": {"$binary": "YQ=="}}), true),
        (json!({"file": file, "meta": {"text": {"$binary": "YQ=="}}}), false),
        (json!({"file": file, "letter": {"$binary": "YQ=="}}), false),
        (json!({"file": file, "maybe": null}), true),
        (json!({"file": file, "maybe": {"$binary": "YQ=="}}), true),
    ] {
        assert_eq!(schema.is_valid(&json!({ "body": value })).unwrap(), fits, "{value}");
    }
}

#[test]
fn swagger_body_and_form_data_become_request_bodies() {
    use MediaKind::*;
    let parameters = |list: Value| json!({ "parameters": list });
    let field = |name: &str, kind: &str| json!({"name": name, "in": "formData", "type": kind});
    let mut files = parameters(json!([field("f", "file"), field("n", "integer"),
        {"name": "l", "in": "formData", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi", "required": true}]));
    files["consumes"] = json!(["application/x-www-form-urlencoded", "multipart/form-data"]);
    let (form, schema) = imported_body("2.0", &files);
    assert_eq!(content_kinds(&form), [("multipart/form-data", Multipart)]);
    assert!(form.required);
    let encodings: Vec<_> = form.contents[0]
        .encodings
        .iter()
        .map(|one| (&*one.property, one.style, one.is_binary))
        .collect();
    assert_eq!(encodings, [("f", None, true), ("l", Some((Style::Form, true, false)), false)]);
    assert_eq!(
        schema,
        json!({"type": "object", "properties": {"f": binary_schema(), "n": {"type": "integer"},
            "l": {"type": "array", "items": text_or_bytes_schema()}}, "required": ["l"]})
    );

    let (form, schema) = imported_body("2.0", &parameters(json!([field("a", "string")])));
    assert_eq!(content_kinds(&form), [("application/x-www-form-urlencoded", Form)]);
    assert_eq!(schema["properties"]["a"], json!({"type": "string"}));

    let mut plain = parameters(json!([{"name": "pet", "in": "body", "required": true,
        "description": "A pet.", "schema": {"type": "object"}}]));
    plain["consumes"] = json!(["application/xml", "application/json"]);
    let (body, schema) = imported_body("2.0", &plain);
    assert_eq!(content_kinds(&body), [("application/json", Json), ("application/xml", Text)]);
    assert_eq!(schema, json!({"type": "object", "description": "A pet."}));
    assert_eq!((&*body.input, body.required), ("body", true));
}
