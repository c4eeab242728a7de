//! Parameters: their import, input names and serialization.

use super::*;
use crate::openapi::plan::{ParameterLocation, ParameterSerialization, Style};

fn document_with_parameters(version: &str, path: &str, parameters: &Value) -> Value {
    document(version, &json!({"paths": {path: {"get": {"parameters": parameters}}}}))
}

#[test]
fn input_schema_is_one_flat_object() {
    let parameters = json!([
        {"name": "id", "in": "path", "schema": {"type": "integer"}, "description": "Which."},
        {"name": "page", "in": "query", "schema": {"type": "integer", "default": 1}, "deprecated": true},
        {"name": "X-Trace", "in": "header", "required": true, "schema": {"type": "string"}, "example": "t"},
        {"name": "accept", "in": "header", "schema": {"type": "string"}},
        {"name": "Content-Type", "in": "header", "required": true, "schema": {"type": "string"}},
        {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
        {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
    ]);
    let (operation, warnings) =
        import_single_with_warnings(&document_with_parameters("3.0.0", "/u/{id}", &parameters));
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
    assert_eq!(last.serialization, ParameterSerialization::Content("application/json".to_owned()));
}

#[test]
fn clashing_input_names_are_prefixed_with_location() {
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
        // A parameter whose name conflicts with a prefixed name is prefixed as well.
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
        let mut document = document_with_parameters("3.0.0", path, &parameters.into());
        if has_body {
            document["paths"][path]["get"]["requestBody"] = body.clone();
        }
        let input = import_single(&document).spec.input_schema;
        let names: Vec<String> =
            input.json()["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, expected, "{listed}");
    }
}

#[test]
fn operation_parameters_override_path_parameters() {
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
    let operation = import_single(&document);
    let schema = operation.spec.input_schema.json().into_owned();
    assert_eq!(schema["properties"], json!({"page": {"type": "string"}, "X": {"type": "integer"}}));
    assert_eq!(schema["required"], json!(["page"]));
}

#[test]
fn style_defaults_by_location_unless_declared() {
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
    for (location, members, expected) in rows {
        let mut parameter = json!({"name": "a", "in": location, "schema": {}});
        for (name, value) in members.as_object().unwrap() {
            parameter[name] = value.clone();
        }
        let path = if location == "path" { "/{a}" } else { "/" };
        let operation =
            import_single(&document_with_parameters("3.2.0", path, &json!([parameter])));
        let (style, explode, allow_reserved) = expected;
        let expected = ParameterSerialization::Style { style, explode, allow_reserved };
        assert_eq!(operation.plan.parameters[0].serialization, expected, "{location} {members}");
    }
}

#[test]
fn swagger_collection_formats_map_to_styles() {
    use Style::*;
    for (location, format, expected) in [
        ("query", None, (Form, false)),
        ("query", Some("csv"), (Form, false)),
        ("query", Some("multi"), (Form, true)),
        ("query", Some("ssv"), (SpaceDelimited, false)),
        ("query", Some("tsv"), (TabDelimited, false)),
        ("query", Some("pipes"), (PipeDelimited, false)),
        ("path", None, (Simple, false)),
        ("header", Some("csv"), (Simple, false)),
    ] {
        let mut parameter = json!({"name": "a", "in": location, "type": "array", "required": true,
            "items": {"type": "string", "enum": ["x"]}, "description": "d"});
        if let Some(format) = format {
            parameter["collectionFormat"] = format.into();
        }
        let path = if location == "path" { "/{a}" } else { "/" };
        let operation = import_single(&document_with_parameters("2.0", path, &json!([parameter])));
        let (style, explode) = expected;
        let expected = ParameterSerialization::Style { style, explode, allow_reserved: false };
        assert_eq!(operation.plan.parameters[0].serialization, expected, "{location} {format:?}");
        assert_eq!(
            operation.spec.input_schema.json()["properties"]["a"],
            json!({"type": "array", "items": {"type": "string", "enum": ["x"]}, "description": "d"})
        );
    }
}

#[test]
fn invalid_parameters_are_reported_as_warnings() {
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
        ("/", json!([{"$ref": "#/components/parameters/Gone"}]), "does not exist", 0),
        ("/", json!([{"name": "a", "in": "moon"}]), "the unknown location `moon`", 0),
        ("/", json!([{"in": "query"}]), "has no name", 0),
        ("/", json!([7]), "expected an object, found number", 0),
        ("/", json!({"a": 1}), "`parameters` must be a list", 0),
    ];
    for (path, parameters, message, count) in rows {
        let (operation, warnings) =
            import_single_with_warnings(&document_with_parameters("3.0.0", path, &parameters));
        assert_eq!(warnings.len(), 1, "{parameters} {warnings:?}");
        assert!(warnings[0].contains(message), "{warnings:?}");
        assert_eq!(operation.plan.parameters.len(), count, "{parameters}");
    }
}

#[test]
fn path_templates_with_modifiers_are_imported() {
    for (path, name, expected) in [
        ("/v1/{name=projects/*}:run", "name", ("/v1/{name}:run", true)),
        ("/{+path}", "path", ("/{path}", true)),
        ("/{path*}", "path", ("/{path}", true)),
        ("/{id:[0-9]+}", "id", ("/{id}", true)),
        ("users/{id}", "id", ("/users/{id}", false)),
    ] {
        let parameters = json!([{"name": name, "in": "path", "required": true, "schema": {}}]);
        let plan = import_single(&document_with_parameters("3.0.0", path, &parameters)).plan;
        let reserved = matches!(
            plan.parameters[0].serialization,
            ParameterSerialization::Style { allow_reserved: true, .. }
        );
        assert_eq!((&*plan.path, reserved), expected, "{path}");
    }
}

#[test]
fn querystring_parameter_takes_the_whole_query() {
    let parameters = json!([{"name": "q", "in": "querystring",
        "content": {"application/json": {"schema": {"type": "object"}}}}]);
    let parameter = import_single(&document_with_parameters("3.2.0", "/", &parameters))
        .plan
        .parameters
        .remove(0);
    assert_eq!(parameter.location, ParameterLocation::QueryString);
    assert_eq!(
        parameter.serialization,
        ParameterSerialization::Content("application/json".to_owned())
    );
}
