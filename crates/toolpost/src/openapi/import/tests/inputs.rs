//! Parameters: which there are, what they are called in the input, how they are written.

use super::*;
use crate::openapi::plan::{Notation, Position, Style};

fn with(version: &str, path: &str, parameters: &Value) -> Value {
    document(version, &json!({"paths": {path: {"get": {"parameters": parameters}}}}))
}

#[test]
fn the_input_is_one_flat_object() {
    let parameters = json!([
        {"name": "id", "in": "path", "schema": {"type": "integer"}, "description": "Which."},
        {"name": "page", "in": "query", "schema": {"type": "integer", "default": 1}, "deprecated": true},
        {"name": "X-Trace", "in": "header", "required": true, "schema": {"type": "string"}, "example": "t"},
        {"name": "accept", "in": "header", "schema": {"type": "string"}},
        {"name": "Content-Type", "in": "header", "required": true, "schema": {"type": "string"}},
        {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
        {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
    ]);
    let (operation, warnings) = with_warnings(&with("3.0.0", "/u/{id}", &parameters));
    assert!(
        warnings.len() == 1 && warnings[0].contains("`accept`, `authorization`, `content-type`")
    );
    assert_eq!(
        *operation.spec.input_schema.json(),
        json!({
            "type": "object",
            "properties": {
                "id": {"type": "integer", "description": "Which."},
                "page": {"type": "integer", "default": 1, "deprecated": true},
                "X-Trace": {"type": "string", "examples": ["t"]},
                "filter": {"type": "object"},
            },
            "required": ["id", "X-Trace"],
            "additionalProperties": false,
        })
    );
    let last = operation.plan.parameters.last().unwrap();
    assert_eq!(last.notation, Notation::Content("application/json".to_owned()));
}

#[test]
fn names_that_clash_stand_behind_their_position() {
    let body = json!({"content": {"application/json": {"schema": {"type": "string"}}}});
    let rows = [
        (json!([["id", "path"], ["id", "query"]]), false, vec!["path_id", "query_id"]),
        (json!([["id", "query"], ["id", "path"]]), false, vec!["query_id", "path_id"]),
        (json!([["body", "query"]]), true, vec!["query_body", "body"]),
        (json!([["body", "query"]]), false, vec!["body"]),
        (
            json!([["a", "header"], ["a", "cookie"], ["b", "query"]]),
            false,
            vec!["header_a", "cookie_a", "b"],
        ),
        // A name that another one would get makes way as well.
        (
            json!([["id", "path"], ["id", "query"], ["query_id", "query"]]),
            false,
            vec!["path_id", "query_id", "query_query_id"],
        ),
    ];
    for (listed, has_body, expected) in rows {
        let parameter = |pair: &Value| json!({"name": pair[0], "in": pair[1], "schema": {}});
        let parameters: Vec<Value> = listed.as_array().unwrap().iter().map(parameter).collect();
        let path = if listed.to_string().contains("path") { "/{id}" } else { "/" };
        let mut document = with("3.0.0", path, &parameters.into());
        if has_body {
            document["paths"][path]["get"]["requestBody"] = body.clone();
        }
        let input = only(&document).spec.input_schema;
        let names: Vec<String> =
            input.json()["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, expected, "{listed}");
    }
}

#[test]
fn parameters_of_the_operation_come_instead_of_those_of_the_path() {
    let document = document(
        "3.0.0",
        &json!({
            "paths": {"/a": {
                "parameters": [{"$ref": "#/components/parameters/Page"}, {"name": "x", "in": "header", "schema": {"type": "string"}}],
                "get": {"parameters": [{"name": "page", "in": "query", "required": true, "schema": {"type": "string"}},
                    {"name": "X", "in": "header", "schema": {"type": "integer"}}]},
            }},
            "components": {"parameters": {"Page": {"name": "page", "in": "query", "schema": {"type": "integer"}}}},
        }),
    );
    let operation = only(&document);
    let schema = operation.spec.input_schema.json().into_owned();
    assert_eq!(schema["properties"], json!({"page": {"type": "string"}, "X": {"type": "integer"}}));
    assert_eq!(schema["required"], json!(["page"]));
}

#[test]
fn styles_are_those_of_the_position_or_as_named() {
    use Style::*;
    let rows = [
        ("path", json!({}), (Simple, false, false)),
        ("path", json!({"style": "label", "explode": true}), (Label, true, false)),
        ("path", json!({"style": "matrix"}), (Matrix, false, false)),
        ("query", json!({}), (Form, true, false)),
        ("query", json!({"explode": false, "allowReserved": true}), (Form, false, true)),
        ("query", json!({"style": "spaceDelimited"}), (SpaceDelimited, false, false)),
        ("query", json!({"style": "pipeDelimited", "explode": true}), (PipeDelimited, true, false)),
        ("query", json!({"style": "deepObject"}), (DeepObject, true, false)),
        ("header", json!({}), (Simple, false, false)),
        ("cookie", json!({}), (Form, true, false)),
        ("cookie", json!({"style": "cookie"}), (Cookie, true, false)),
    ];
    for (position, members, expected) in rows {
        let mut parameter = json!({"name": "a", "in": position, "schema": {}});
        for (name, value) in members.as_object().unwrap() {
            parameter[name] = value.clone();
        }
        let path = if position == "path" { "/{a}" } else { "/" };
        let operation = only(&with("3.2.0", path, &json!([parameter])));
        let (style, explode, allow_reserved) = expected;
        let expected = Notation::Style { style, explode, allow_reserved };
        assert_eq!(operation.plan.parameters[0].notation, expected, "{position} {members}");
    }
}

#[test]
fn swagger_collections_are_styles() {
    use Style::*;
    for (position, format, expected) in [
        ("query", None, (Form, false)),
        ("query", Some("csv"), (Form, false)),
        ("query", Some("multi"), (Form, true)),
        ("query", Some("ssv"), (SpaceDelimited, false)),
        ("query", Some("tsv"), (TabDelimited, false)),
        ("query", Some("pipes"), (PipeDelimited, false)),
        ("path", None, (Simple, false)),
        ("header", Some("csv"), (Simple, false)),
    ] {
        let mut parameter = json!({"name": "a", "in": position, "type": "array", "required": true,
            "items": {"type": "string", "enum": ["x"]}, "description": "d"});
        if let Some(format) = format {
            parameter["collectionFormat"] = format.into();
        }
        let path = if position == "path" { "/{a}" } else { "/" };
        let operation = only(&with("2.0", path, &json!([parameter])));
        let (style, explode) = expected;
        let expected = Notation::Style { style, explode, allow_reserved: false };
        assert_eq!(operation.plan.parameters[0].notation, expected, "{position} {format:?}");
        assert_eq!(
            operation.spec.input_schema.json()["properties"]["a"],
            json!({"type": "array", "items": {"type": "string", "enum": ["x"]}, "description": "d"})
        );
    }
}

#[test]
fn what_is_odd_about_a_parameter_is_told() {
    let rows = [
        (
            "/{a}/{b}",
            json!([{"name": "a", "in": "path", "schema": {}}]),
            "no parameter describes `{b}`",
            2,
        ),
        (
            "/",
            json!([{"name": "a", "in": "path", "required": true, "schema": {}}]),
            "the path has no `{a}`",
            0,
        ),
        (
            "/",
            json!([{"name": "a", "in": "query", "style": "fancy", "schema": {}}]),
            "cannot have the style `fancy`",
            1,
        ),
        (
            "/",
            json!([{"name": "a", "in": "header", "style": "form", "schema": {}}]),
            "cannot have the style `form`",
            1,
        ),
        ("/", json!([{"$ref": "#/components/parameters/Gone"}]), "there is nothing at", 0),
        ("/", json!([{"name": "a", "in": "moon"}]), "stands in `moon`", 0),
        ("/", json!([{"in": "query"}]), "has no name", 0),
        ("/", json!([7]), "expected an object, found number", 0),
        ("/", json!({"a": 1}), "`parameters` must be a list", 0),
    ];
    for (path, parameters, words, count) in rows {
        let (operation, warnings) = with_warnings(&with("3.0.0", path, &parameters));
        assert_eq!(warnings.len(), 1, "{parameters} {warnings:?}");
        assert!(warnings[0].contains(words), "{warnings:?}");
        assert_eq!(operation.plan.parameters.len(), count, "{parameters}");
    }
}

#[test]
fn paths_with_more_than_names_in_their_braces_are_filled_in() {
    for (path, name, expected) in [
        ("/v1/{name=projects/*}:run", "name", ("/v1/{name}:run", true)),
        ("/{+path}", "path", ("/{path}", true)),
        ("/{path*}", "path", ("/{path}", true)),
        ("/{id:[0-9]+}", "id", ("/{id}", true)),
        ("users/{id}", "id", ("/users/{id}", false)),
    ] {
        let parameters = json!([{"name": name, "in": "path", "required": true, "schema": {}}]);
        let plan = only(&with("3.0.0", path, &parameters)).plan;
        let reserved =
            matches!(plan.parameters[0].notation, Notation::Style { allow_reserved: true, .. });
        assert_eq!((&*plan.path, reserved), expected, "{path}");
    }
}

#[test]
fn the_whole_query_can_be_one_parameter() {
    let parameters = json!([{"name": "q", "in": "querystring",
        "content": {"application/json": {"schema": {"type": "object"}}}}]);
    let parameter = only(&with("3.2.0", "/", &parameters)).plan.parameters.remove(0);
    assert_eq!(parameter.position, Position::QueryString);
    assert_eq!(parameter.notation, Notation::Content("application/json".to_owned()));
}
