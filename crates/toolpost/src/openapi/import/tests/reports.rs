//! Imported and skipped operations, and rejected documents.

use super::super::ImportReport;
use super::*;

#[test]
fn non_openapi_documents_are_rejected_with_reason() {
    for (document, message) in [
        (json!([]), "expected an object, found array"),
        (json!({"info": {}}), "missing `openapi: 3.x` or `swagger: 2.0`"),
        (json!({"swagger": "1.2"}), "unsupported version `swagger: 1.2`"),
        (json!({"openapi": "4.0.0"}), "supported versions are 2.0, 3.0, 3.1 and 3.2"),
        (json!({"openapi": null}), "`openapi: null`"),
    ] {
        let error = import(&document_set(&document), "api").unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    for version in [json!("3.0"), json!("3.1.1"), json!(3.0), json!("3.9.0")] {
        assert!(
            import(&document_set(&json!({"openapi": version, "paths": {}})), "api").is_ok(),
            "{version}"
        );
    }
    assert!(import(&document_set(&json!({"swagger": 2.0, "paths": {}})), "api").is_ok());
    let error =
        import(&document_set(&json!({"openapi": "3.0.0", "paths": {}})), "No!").unwrap_err();
    assert!(matches!(error, ImportError::Namespace(_)), "{error}");
}

#[test]
fn unsupported_operations_are_skipped_with_reason() {
    let rows = [
        (json!({"get": null}), "GET", "an operation must be an object, found null"),
        (
            json!({"put": {"parameters": [{"name": "a", "in": "moon", "required": true}]}}),
            "PUT",
            "has the unknown location `moon`, and it is required",
        ),
        (
            json!({"post": {"requestBody": {"$ref": "#/gone"}}}),
            "POST",
            "its request body cannot be resolved: `#/gone` does not exist",
        ),
        (
            json!({"additionalOperations": {"NO GOOD": {}}}),
            "NO GOOD",
            "`NO GOOD` is not an HTTP method",
        ),
    ];
    for (item, method, reason) in rows {
        let import =
            import_document(&document("3.2.0", &json!({"paths": {"/a": item, "/b": {"get": {}}}})));
        assert_eq!(import.operations.len(), 1, "{item}");
        let skipped = &import.skipped[0];
        assert_eq!((&*skipped.method, &*skipped.path), (method, "/a"));
        assert!(skipped.reason.contains(reason), "{}", skipped.reason);
    }
}

#[test]
fn path_items_resolve_through_references() {
    let main = json!({"openapi": "3.1.0", "paths": {
        "/here": {"$ref": "#/components/pathItems/Here", "post": {"operationId": "own"}},
        "/there": {"$ref": "other.yaml#/items/there"},
        "/gone": {"$ref": "missing.yaml"}, "x-not": {"get": {}},
    }, "components": {"pathItems": {"Here": {"get": {"operationId": "here"}, "post": {"operationId": "hidden"}}}}});
    let other = "items:\n  there:\n    parameters:\n    - $ref: '#/params/p'\n    get:\n      operationId: there\n\
                 params:\n  p: {name: p, in: query, schema: {$ref: '#/schemas/s'}}\nschemas:\n  s: {type: integer}\n";
    let library = document_set_of(&[
        ("file:///a/main.json", main.to_string().as_bytes()),
        ("file:///a/other.yaml", other.as_bytes()),
    ]);
    let import = import(&library, "api").unwrap();
    let names: Vec<&str> = import.operations.iter().map(|one| &*one.spec.name).collect();
    assert_eq!(names, ["own", "here", "there"]);
    assert_eq!(import.warnings.len(), 1, "{:?}", import.warnings);
    assert_eq!(import.warnings[0].at, "/paths/~1gone");
    assert_eq!(
        import.operations[2].spec.input_schema.json()["properties"]["p"],
        json!({"$ref": "#/$defs/s"})
    );
}

#[test]
fn report_counts_operations_by_kind() {
    let members = json!({"paths": {"/a": {"get": {}, "post": {}, "put": 7,
        "delete": {"responses": {"200": {"content": {"text/event-stream": {}}}}}}}, "webhooks": {"w": {"post": {}}}});
    let report = ImportReport::from(import_document(&document("3.1.0", &members)));
    let counts = report.counts();
    assert_eq!((counts.queries, counts.mutations, counts.subscriptions), (1, 1, 1));
    assert_eq!((counts.skipped, counts.warnings), (1, 1));
    let wire = serde_json::to_value(&report).unwrap();
    assert_eq!(wire["skipped"][0]["reason"], "an operation must be an object, found number");
    assert_eq!(wire["warnings"][0]["at"], "/webhooks");
    assert_eq!(wire["operations"][0]["name"], "get_a");
}

/// Each row: a version, a path item, and its invalid members.
#[test]
fn unknown_path_item_members_are_reported() {
    let rows = [
        ("3.1.0", json!({"get": {}, "GET": {}, "fetch": {}}), "`GET`, `fetch`"),
        (
            "3.1.0",
            json!({"get": {}, "query": {}, "additionalOperations": {}}),
            "`query`, `additionalOperations`",
        ),
        ("3.2.0", json!({"get": {}, "query": {}, "additionalOperations": {}}), ""),
        ("2.0", json!({"get": {}, "Post": {}}), "`Post`"),
        (
            "3.0.0",
            json!({"get": {}, "summary": "", "description": "", "servers": [], "parameters": [], "x-y": 1}),
            "",
        ),
    ];
    for (version, item, location) in rows {
        let import = import_document(&document(version, &json!({"paths": {"/a": item}})));
        let text: Vec<_> = import.warnings.iter().map(|odd| (&*odd.at, &*odd.message)).collect();
        let message = format!("unknown member of a path item: {location} (methods are lowercase)");
        let expected = [("/paths/~1a", &*message)];
        assert_eq!(text, expected[..usize::from(!location.is_empty())], "{version} {item}");
    }
}

#[test]
fn implicit_header_parameters_are_reported_once() {
    let header = |name: &str| json!({"name": name, "in": "header", "required": true, "schema": {"type": "string"}});
    let parameters = json!([header("Accept"), header("Authorization"), header("X-Own")]);
    let members = json!({"paths": {"/a": {"parameters": parameters, "get": {}, "put": {}}, "/b": {"get": {"parameters": [header("accept"), header("Content-Type")]}}}});
    let import = import_document(&document("3.1.0", &members));
    let text: Vec<_> = import.warnings.iter().map(|odd| (&*odd.at, &*odd.message)).collect();
    let message = "header parameters set by the request or by `auth` are not inputs: `accept`, `authorization`, `content-type`";
    assert_eq!(text, [("/paths", message)]);
}
