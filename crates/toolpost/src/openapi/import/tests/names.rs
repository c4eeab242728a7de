//! Names and kinds of operations.

use super::*;
use crate::spec::OperationKind;

fn operation_names(paths: &Value) -> Vec<String> {
    let import = import_document(&document("3.0.0", &json!({ "paths": paths })));
    import.operations.into_iter().map(|one| one.spec.name).collect()
}

#[test]
fn names_come_from_operation_id_or_method_and_path() {
    let long = "n".repeat(201);
    let deep = format!("/{}", "a/".repeat(200));
    let id = |id: &str| json!({ "operationId": id });
    let rows = [
        (json!({"/a": {"get": id(" list users ")}}), vec!["list users"]),
        (
            json!({"/": {"get": {}}, "/users/{id}": {"get": {}, "put": {}}, "/a.b/{c}-d//": {"get": {}}}),
            vec!["get", "get_users_id", "put_users_id", "get_a.b_c-d"],
        ),
        (json!({"/a": {"get": {"operationId": 7}, "put": id("")}}), vec!["get_a", "put_a"]),
        // A shared `operationId` is not used as a name.
        (
            json!({"/a": {"get": id("list")}, "/b/{c}": {"get": id("list")}, "/d": {"get": id("x")}}),
            vec!["list_get_a", "list_get_b_c", "x"],
        ),
        // An `operationId` takes precedence over a derived name.
        (json!({"/a": {"get": {}}, "/b": {"get": id("get_a")}}), vec!["get_a_f302dfbc", "get_a"]),
        (
            json!({"/u/{id}": {"get": {}}, "/u/id": {"get": {}}}),
            vec!["get_u_id_be15b353", "get_u_id_7a9428a2"],
        ),
        (json!({"/a": {"get": id(&long)}}), vec!["get_a"]),
        (json!({"/ü/日本": {"get": {}}}), vec!["get_ü_日本"]),
    ];
    for (paths, expected) in rows {
        assert_eq!(operation_names(&paths), expected, "{paths}");
    }
    let cut = operation_names(&json!({ deep: {"get": {}} }));
    assert_eq!(cut[0].chars().count(), 200, "{cut:?}");
}

#[test]
fn names_do_not_depend_on_document_order() {
    let one = json!({"/a": {"get": {"operationId": "x"}, "put": {"operationId": "x"}},
        "/x/get/a": {"get": {}}, "/x": {"get": {"operationId": "x_get_a"}}});
    let other = json!({"/x": {"get": {"operationId": "x_get_a"}}, "/x/get/a": {"get": {}},
        "/a": {"put": {"operationId": "x"}, "get": {"operationId": "x"}}});
    let (mut one, mut other) = (operation_names(&one), operation_names(&other));
    one.sort();
    other.sort();
    assert_eq!(one, other);
    assert_eq!(one.len(), 4, "{one:?}");
}

#[test]
fn operation_kind_comes_from_method_and_media_type() {
    let rows = [
        ("get", json!({}), (OperationKind::Query, false)),
        ("head", json!({}), (OperationKind::Query, false)),
        ("options", json!({}), (OperationKind::Mutation, false)),
        ("trace", json!({}), (OperationKind::Mutation, false)),
        ("query", json!({}), (OperationKind::Query, false)),
        ("post", json!({}), (OperationKind::Mutation, false)),
        ("patch", json!({}), (OperationKind::Mutation, false)),
        ("put", json!({}), (OperationKind::Mutation, true)),
        ("delete", json!({}), (OperationKind::Mutation, true)),
        (
            "get",
            json!({"200": {"content": {"text/event-stream": {}}}}),
            (OperationKind::Subscription, false),
        ),
        (
            "post",
            json!({"2XX": {"content": {"application/json": {}, "Text/Event-Stream; charset=utf-8": {}}}}),
            (OperationKind::Subscription, false),
        ),
        (
            "get",
            json!({"400": {"content": {"text/event-stream": {}}}}),
            (OperationKind::Query, false),
        ),
        (
            "get",
            json!({"default": {"content": {"text/event-stream": {}}}}),
            (OperationKind::Subscription, false),
        ),
    ];
    for (method, responses, expected) in rows {
        let paths = json!({"paths": {"/a": {method: {"responses": responses}}}});
        let spec = import_single(&document("3.2.0", &paths)).spec;
        assert_eq!((spec.kind, spec.idempotent), expected, "{method} {responses}");
    }
}

#[test]
fn description_tags_and_meta_are_imported() {
    let paths = json!({"paths": {"/a/{b}": {"summary": "Path", "get": {
        "operationId": "x", "summary": " Short ", "tags": ["t", 7, "u"], "deprecated": true,
        "externalDocs": {"url": "https://example.test/docs"},
        "parameters": [{"name": "b", "in": "path", "required": true, "schema": {}}],
    }}}});
    let spec = import_single(&document("3.1.0", &paths)).spec;
    assert_eq!((spec.title.as_deref(), &*spec.description), (Some("Short"), "Short"));
    assert_eq!(spec.tags, ["t", "u"]);
    assert_eq!(
        Value::Object(spec.meta.unwrap().other),
        json!({"toolpost/openapi": {"method": "GET", "path": "/a/{b}", "operationId": "x",
            "deprecated": true, "externalDocs": "https://example.test/docs"}})
    );
}
