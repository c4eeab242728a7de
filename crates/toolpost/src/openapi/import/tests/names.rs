//! What operations are called, and of which type they are.

use super::*;
use crate::spec::Kind;

fn names(paths: &Value) -> Vec<String> {
    let import = imported(&document("3.0.0", &json!({ "paths": paths })));
    import.operations.into_iter().map(|one| one.spec.name).collect()
}

#[test]
fn names_are_ids_or_methods_with_paths_and_unique() {
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
        // Nobody keeps a name that two have.
        (
            json!({"/a": {"get": id("list")}, "/b/{c}": {"get": id("list")}, "/d": {"get": id("x")}}),
            vec!["list_get_a", "list_get_b_c", "x"],
        ),
        // An id goes before a name that is only made up.
        (json!({"/a": {"get": {}}, "/b": {"get": id("get_a")}}), vec!["get_a_f302dfbc", "get_a"]),
        (
            json!({"/u/{id}": {"get": {}}, "/u/id": {"get": {}}}),
            vec!["get_u_id_be15b353", "get_u_id_7a9428a2"],
        ),
        (json!({"/a": {"get": id(&long)}}), vec!["get_a"]),
        (json!({"/ü/日本": {"get": {}}}), vec!["get_ü_日本"]),
    ];
    for (paths, expected) in rows {
        assert_eq!(names(&paths), expected, "{paths}");
    }
    let cut = names(&json!({ deep: {"get": {}} }));
    assert_eq!(cut[0].chars().count(), 200, "{cut:?}");
}

#[test]
fn names_do_not_depend_on_the_order() {
    let one = json!({"/a": {"get": {"operationId": "x"}, "put": {"operationId": "x"}},
        "/x/get/a": {"get": {}}, "/x": {"get": {"operationId": "x_get_a"}}});
    let other = json!({"/x": {"get": {"operationId": "x_get_a"}}, "/x/get/a": {"get": {}},
        "/a": {"put": {"operationId": "x"}, "get": {"operationId": "x"}}});
    let (mut one, mut other) = (names(&one), names(&other));
    one.sort();
    other.sort();
    assert_eq!(one, other);
    assert_eq!(one.len(), 4, "{one:?}");
}

#[test]
fn types_come_from_methods_and_media_types() {
    let rows = [
        ("get", json!({}), (Kind::Query, false)),
        ("head", json!({}), (Kind::Query, false)),
        ("options", json!({}), (Kind::Mutation, false)),
        ("trace", json!({}), (Kind::Mutation, false)),
        ("query", json!({}), (Kind::Query, false)),
        ("post", json!({}), (Kind::Mutation, false)),
        ("patch", json!({}), (Kind::Mutation, false)),
        ("put", json!({}), (Kind::Mutation, true)),
        ("delete", json!({}), (Kind::Mutation, true)),
        (
            "get",
            json!({"200": {"content": {"text/event-stream": {}}}}),
            (Kind::Subscription, false),
        ),
        (
            "post",
            json!({"2XX": {"content": {"application/json": {}, "Text/Event-Stream; charset=utf-8": {}}}}),
            (Kind::Subscription, false),
        ),
        ("get", json!({"400": {"content": {"text/event-stream": {}}}}), (Kind::Query, false)),
        (
            "get",
            json!({"default": {"content": {"text/event-stream": {}}}}),
            (Kind::Subscription, false),
        ),
    ];
    for (method, responses, expected) in rows {
        let paths = json!({"paths": {"/a": {method: {"responses": responses}}}});
        let spec = only(&document("3.2.0", &paths)).spec;
        assert_eq!((spec.kind, spec.idempotent), expected, "{method} {responses}");
    }
}

#[test]
fn words_and_meta_come_along() {
    let paths = json!({"paths": {"/a/{b}": {"summary": "Path", "get": {
        "operationId": "x", "summary": " Short ", "tags": ["t", 7, "u"], "deprecated": true,
        "externalDocs": {"url": "https://example.test/docs"},
        "parameters": [{"name": "b", "in": "path", "required": true, "schema": {}}],
    }}}});
    let spec = only(&document("3.1.0", &paths)).spec;
    assert_eq!((spec.title.as_deref(), &*spec.description), (Some("Short"), "Short"));
    assert_eq!(spec.tags, ["t", "u"]);
    assert_eq!(
        Value::Object(spec.meta.unwrap()),
        json!({"toolpost/openapi": {"method": "GET", "path": "/a/{b}", "operationId": "x",
            "deprecated": true, "externalDocs": "https://example.test/docs"}})
    );
}
