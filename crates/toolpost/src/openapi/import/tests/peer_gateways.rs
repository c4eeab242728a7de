//! Documents of other gateways.

use super::super::super::plan::ServiceProtocol;
use super::*;
use crate::spec::{OperationKind, OperationSpec};

/// Returns a path item as another gateway writes it.
fn peer_path(namespace: &str, name: &str, kind: &str, more: &Value) -> Value {
    let mut extension = json!({
        "namespace": namespace, "name": name, "version": "1.0.0", "type": kind, "description": "",
        "inputSchema": true, "outputSchema": true,
    });
    for (name, value) in more.as_object().unwrap() {
        extension[name] = value.clone();
    }
    let mut item = json!({"post": {
        "operationId": format!("{namespace}_{name}"),
        "parameters": [{"name": "timeout", "in": "query", "schema": {"type": "string"}}],
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
        "responses": {"200": {"description": "ok"}},
        "x-toolpost-operation": extension,
    }});
    if kind != "mutation" {
        item["get"] = json!({
            "operationId": format!("{namespace}_{name}_get"), "responses": {"200": {"description": "ok"}},
            "x-toolpost-operation": {"namespace": namespace, "name": name, "form": "query"},
        });
    }
    item
}

fn peer_document(paths: &Value) -> Value {
    document(
        "3.1.0",
        &json!({"x-toolpost": {"version": "1"}, "servers": [{"url": "/"}], "paths": paths}),
    )
}

#[test]
fn peer_operations_are_imported_unchanged() {
    let own = json!({"type": "object", "properties": {"next": {"$ref": "#"}, "p": {"$ref": "#/$defs/P"}},
        "$defs": {"P": {"oneOf": [{"type": "object"}, {"type": "object"}], "nullable": true, "default": 7}}, "required": ["p"]});
    let placed = json!({"title": "Out", "type": "object", "required": ["a"],
        "properties": {"a": {"type": "integer", "readOnly": true}, "b": {"$ref": "#/$defs/in"}, "c": {"$ref": "#"}},
        "$defs": {"in": {"items": {"$ref": "#/$defs/in"}}}});
    let components = json!({"schemas": {
        "Out": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "readOnly": true},
            "b": {"$ref": "#/components/schemas/In"}, "c": {"$ref": "#/components/schemas/Out"}}},
        "In": {"items": {"$ref": "#/components/schemas/In"}},
    }});
    let errors = json!([{"code": "NO_PET", "description": "It ran away.", "schema": {"type": "object"}, "httpStatus": 409},
        {"code": "LATE", "description": "", "schema": true}]);
    let message = json!({
        "version": "2.1.0", "title": "Adds", "description": " Adds\n", "tags": ["a", "b"], "_meta": {"x": [1]},
        "inputSchema": own, "outputSchema": {"$ref": "#/components/schemas/Out", "title": "Out", "$defs": {"in": {"$ref": "#/components/schemas/In"}}},
        "errorSchemas": errors, "exclusive": true, "idempotent": true,
        "accessControl": {"requiredScopes": ["there"]},
    });
    let item = peer_path("demo", "a/b", "mutation", &message);
    let mut document = peer_document(&json!({"/api/demo/a%2Fb": item}));
    document["components"] = components;
    for (namespaces, id) in
        [(Namespaces::Below, ["api", "demo.a/b"]), (Namespaces::Keep, ["demo", "a/b"])]
    {
        let import = super::super::import(&document_set(&document), "api", namespaces).unwrap();
        assert_eq!((&*import.warnings, &*import.skipped), (&[][..], &[][..]));
        let [ImportedOperation { spec, plan }] = &import.operations[..] else {
            panic!("there is one")
        };
        let expected: OperationSpec = serde_json::from_value(json!({
            "namespace": id[0], "name": id[1], "version": "2.1.0", "type": "mutation", "title": "Adds",
            "description": " Adds\n", "tags": ["a", "b"], "_meta": {"x": [1], "toolpost/hub": "api"},
            "inputSchema": own, "outputSchema": placed, "errorSchemas": errors,
            "exclusive": true, "idempotent": true, "accessControl": {"requiredScopes": []},
        })).unwrap();
        assert_eq!(serde_json::to_value(spec).unwrap(), serde_json::to_value(&expected).unwrap());
        assert_eq!((plan.protocol, &*plan.path), (ServiceProtocol::Toolpost, "/api/demo/a%2Fb"));
        assert!(plan.parameters.is_empty() && plan.body.is_none());
    }
}

#[test]
fn peer_kinds_are_kept_and_alternate_forms_skipped() {
    let paths = json!({
        "/api/a/q": peer_path("a", "q", "query", &json!({})),
        "/api/a/m": peer_path("a", "m", "mutation", &json!({})),
        "/api/b/s": peer_path("b", "s", "subscription", &json!({})),
        "/other": {"get": {"operationId": "a.q"}},
    });
    let import = import_document(&peer_document(&paths));
    assert_eq!(import.warnings, []);
    let name_and_kind = |one: &ImportedOperation| (one.spec.name.clone(), one.spec.kind);
    let names: Vec<_> = import.operations.iter().map(name_and_kind).collect();
    // The name of a gateway operation is not used for another operation.
    let other = ("a.q_get_other".to_owned(), OperationKind::Query);
    assert_eq!(
        names,
        [
            ("a.q".to_owned(), OperationKind::Query),
            ("a.m".to_owned(), OperationKind::Mutation),
            ("b.s".to_owned(), OperationKind::Subscription),
            other,
        ]
    );
    let skipped: Vec<_> =
        import.skipped.iter().map(|one| (&*one.method, &*one.path, &*one.reason)).collect();
    assert_eq!(
        skipped,
        [
            ("GET", "/api/a/q", "it is a variant of a.q, which is called with POST"),
            ("GET", "/api/b/s", "it is a variant of b.s, which is called with POST"),
        ]
    );
}

/// Each row: a change to a valid extension, and the expected warning. All operations are imported
/// as plain HTTP operations.
#[test]
fn invalid_peer_extension_is_imported_as_plain_operation() {
    let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"not": inner}));
    let rows = [
        (json!(null), "it must be an object, found null"),
        (json!("demo.add"), "it must be an object, found string"),
        (json!([]), "it must be an object, found array"),
        (json!({}), "missing field `name`"),
        (json!({"form": "query"}), "`` is not a namespace"),
        (
            json!({"form": 7, "namespace": "a", "name": "x"}),
            "a.x, of which it is a variant, is missing",
        ),
        (
            json!({"form": "query", "namespace": "a", "name": 7}),
            "the name of an operation has 1 to 200 characters",
        ),
        (json!({"type": "stream"}), "unknown variant `stream`"),
        (json!({"type": 7}), "invalid type"),
        (json!({"namespace": "De mo"}), "`De mo` is not a namespace"),
        (json!({"namespace": 7}), "invalid type: integer `7`, expected a string"),
        (json!({"name": ""}), "the name of an operation has 1 to 200 characters, found 0"),
        (json!({"name": "x".repeat(201)}), "1 to 200 characters, found 201"),
        (json!({"description": {}}), "invalid type: object, expected a string"),
        (json!({"tags": "a"}), "expected an array"),
        (json!({"_meta": []}), "invalid type"),
        (json!({"idempotent": "yes"}), "expected a boolean"),
        (
            json!({"inputSchema": 7}),
            "inputSchema: a schema must be an object or a boolean, found number",
        ),
        (
            json!({"inputSchema": null}),
            "inputSchema: a schema must be an object or a boolean, found null",
        ),
        (json!({"inputSchema": {"type": "moon"}}), "inputSchema: schema does not compile"),
        (json!({"outputSchema": {"pattern": "("}}), "outputSchema: schema does not compile"),
        (
            json!({"outputSchema": {"$ref": "#/components/schemas/Gone"}}),
            "outputSchema: one of its components is missing",
        ),
        (
            json!({"outputSchema": {"$ref": "#/info/title"}}),
            "outputSchema: schema does not compile",
        ),
        (
            json!({"outputSchema": {"$ref": "https://elsewhere.example/x", "a": 1}}),
            "outputSchema: schema does not compile",
        ),
        (
            json!({"outputSchema": {"$ref": "file:///etc/passwd"}}),
            "outputSchema: schema does not compile",
        ),
        (json!({"errorSchemas": {}}), "`errorSchemas` must be a list, found object"),
        (json!({"errorSchemas": [7]}), "errorSchemas: missing field `code`"),
        (
            json!({"errorSchemas": [{"code": "A", "httpStatus": 70_000}]}),
            "errorSchemas: invalid value",
        ),
        (
            json!({"errorSchemas": [{"code": "A", "schema": {"type": 7}}]}),
            "schema: schema does not compile",
        ),
        (json!({"inputSchema": deep(40), "type": null}), "invalid type: null"),
    ];
    for (more, message) in rows {
        let mut item = peer_path("demo", "add", "mutation", &json!({}));
        match more.as_object().filter(|more| !more.is_empty() && !more.contains_key("form")) {
            Some(more) => more.iter().for_each(|(name, value)| {
                item["post"]["x-toolpost-operation"][name] = value.clone();
            }),
            None => item["post"]["x-toolpost-operation"] = more.clone(),
        }
        let (operation, warnings) =
            import_single_with_warnings(&peer_document(&json!({"/api/demo/add": item})));
        assert_eq!(operation.plan.protocol, ServiceProtocol::Http, "{more}");
        assert_eq!(operation.spec.name, "demo_add", "{more}");
        assert_eq!(warnings.len(), 1, "{more}: {warnings:?}");
        let prefix = "/paths/~1api~1demo~1add/post/x-toolpost-operation: ";
        assert!(
            warnings[0].starts_with(prefix) && warnings[0].contains(message),
            "{more}: {}",
            warnings[0]
        );
        assert!(
            warnings[0].ends_with("it is imported as a plain HTTP operation"),
            "{}",
            warnings[0]
        );
    }
}

/// Each row: a path and method that cannot belong to a gateway operation, and part of the warning.
#[test]
fn peer_extension_at_wrong_path_or_method_is_ignored() {
    for (at, method, text) in [
        ("/api/demo/add", "get", "called with POST, but this is GET"),
        ("/api/demo/add", "put", "called with POST, but this is PUT"),
        ("/api/{namespace}/add", "post", "its path has parameters"),
        ("/api/demo/add?x=1", "post", "its path has parameters"),
        ("/api/demo/add#x", "post", "its path has parameters"),
    ] {
        let item = peer_path("demo", "add", "mutation", &json!({}));
        let import = import_document(&peer_document(&json!({ at: {method: item["post"]} })));
        assert_eq!(import.operations.len() + import.skipped.len(), 1, "{at} {method}");
        let matching = import.warnings.iter().filter(|one| one.message.contains(text));
        assert_eq!(matching.count(), 1, "{at} {method}: {:?}", import.warnings);
        assert!(import.operations.iter().all(|one| one.plan.protocol == ServiceProtocol::Http));
    }
}

/// Each row: a valid operation that is not imported, and the reason.
#[test]
fn peer_operations_not_to_import_are_skipped_with_reason() {
    let long = "x".repeat(198);
    for (namespace, name, more, message) in [
        (
            "far",
            "add",
            json!({"_meta": {"toolpost/hub": "x"}}),
            "far.add was imported by that gateway from another one",
        ),
        ("hub", "list", json!({}), "hub.list is a built-in operation of that gateway"),
        ("demo", &*long, json!({}), "1 to 200 characters, found 203"),
    ] {
        let paths = json!({"/p": peer_path(namespace, name, "mutation", &more), "/q": peer_path("a", "b", "mutation", &json!({}))});
        let import = import_document(&peer_document(&paths));
        assert_eq!(
            (import.operations.len(), import.skipped.len(), import.warnings.len()),
            (1, 1, 0),
            "{name}"
        );
        assert!(import.skipped[0].reason.contains(message), "{}", import.skipped[0].reason);
    }
    let twice = json!({"/p": peer_path("a", "b", "query", &json!({})), "/q": peer_path("a", "b", "mutation", &json!({}))});
    let import = import_document(&peer_document(&twice));
    assert_eq!((import.operations.len(), import.skipped.len()), (1, 2));
    assert!(import.skipped.iter().any(|one| one.reason == "a.b is in the document twice"));
}

#[test]
fn huge_peer_extension_is_imported_in_linear_time() {
    let properties = (0..20_000).map(|at| (format!("p{at}"), json!({"type": "string"})));
    let properties: serde_json::Map<_, _> = properties.collect();
    let large = json!({"type": "object", "properties": properties});
    let mut paths = json!({});
    for at in 0..200 {
        let shared = json!({"inputSchema": {"$ref": "#/components/schemas/Large"}});
        paths[format!("/api/a/o{at}")] = peer_path("a", &format!("o{at}"), "mutation", &shared);
    }
    let mut document = peer_document(&paths);
    document["components"] = json!({"schemas": {"Large": large}});
    let import = import_document(&document);
    assert_eq!((import.operations.len(), import.warnings.len()), (200, 0));
    assert_eq!(*import.operations[199].spec.input_schema.json(), large);
}

/// Repeated references to a large component stop at the limit.
#[test]
fn peer_component_expansion_is_limited() {
    let large = json!({"enum": (0..300_000).collect::<Vec<_>>()});
    let mut paths = json!({});
    for at in 0..20 {
        let own =
            json!({"inputSchema": {"$ref": "#/components/schemas/Large", "title": at.to_string()}});
        paths[format!("/api/a/o{at}")] = peer_path("a", &format!("o{at}"), "mutation", &own);
    }
    let mut document = peer_document(&paths);
    document["components"] = json!({"schemas": {"Large": large}});
    let import = import_document(&document);
    let natives =
        import.operations.iter().filter(|one| one.plan.protocol == ServiceProtocol::Toolpost);
    assert_eq!((natives.count(), import.operations.len()), (13, 20));
    let text = "inputSchema: the schemas of the document are too large in total";
    assert_eq!(import.warnings.iter().filter(|one| one.message.contains(text)).count(), 7);
}
