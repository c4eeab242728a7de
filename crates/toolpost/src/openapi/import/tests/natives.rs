//! Documents of other gateways.

use super::super::super::plan::Language;
use super::*;
use crate::spec::{Kind, OperationSpec};

/// A path of another gateway's document, as the gateway writes it.
fn path(namespace: &str, name: &str, kind: &str, more: &Value) -> Value {
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

fn of(paths: &Value) -> Value {
    document(
        "3.1.0",
        &json!({"x-toolpost": {"version": "1"}, "servers": [{"url": "/"}], "paths": paths}),
    )
}

#[test]
fn operations_are_the_same_here() {
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
    let said = json!({
        "version": "2.1.0", "title": "Adds", "description": " Adds\n", "tags": ["a", "b"], "_meta": {"x": [1]},
        "inputSchema": own, "outputSchema": {"$ref": "#/components/schemas/Out", "title": "Out", "$defs": {"in": {"$ref": "#/components/schemas/In"}}},
        "errorSchemas": errors, "exclusive": true, "idempotent": true,
        "accessControl": {"requiredScopes": ["there"]},
    });
    let item = path("demo", "a/b", "mutation", &said);
    let mut document = of(&json!({"/api/demo/a%2Fb": item}));
    document["components"] = components;
    for (namespaces, id) in
        [(Namespaces::Below, ["api", "demo.a/b"]), (Namespaces::Keep, ["demo", "a/b"])]
    {
        let import = super::super::import(&library(&document), "api", namespaces).unwrap();
        assert_eq!((&*import.warnings, &*import.skipped), (&[][..], &[][..]));
        let [Imported { spec, plan }] = &import.operations[..] else { panic!("there is one") };
        let expected: OperationSpec = serde_json::from_value(json!({
            "namespace": id[0], "name": id[1], "version": "2.1.0", "type": "mutation", "title": "Adds",
            "description": " Adds\n", "tags": ["a", "b"], "_meta": {"x": [1], "toolpost/hub": "api"},
            "inputSchema": own, "outputSchema": placed, "errorSchemas": errors,
            "exclusive": true, "idempotent": true, "accessControl": {"requiredScopes": []},
        })).unwrap();
        assert_eq!(serde_json::to_value(spec).unwrap(), serde_json::to_value(&expected).unwrap());
        assert_eq!((plan.language, &*plan.path), (Language::Toolpost, "/api/demo/a%2Fb"));
        assert!(plan.parameters.is_empty() && plan.body.is_none());
    }
}

#[test]
fn kinds_are_told_and_other_forms_are_skipped() {
    let paths = json!({
        "/api/a/q": path("a", "q", "query", &json!({})),
        "/api/a/m": path("a", "m", "mutation", &json!({})),
        "/api/b/s": path("b", "s", "subscription", &json!({})),
        "/other": {"get": {"operationId": "a.q"}},
    });
    let import = imported(&of(&paths));
    assert_eq!(import.warnings, []);
    let named = |one: &Imported| (one.spec.name.clone(), one.spec.kind);
    let names: Vec<_> = import.operations.iter().map(named).collect();
    // What another gateway calls an operation nobody else is called.
    let other = ("a.q_get_other".to_owned(), Kind::Query);
    assert_eq!(
        names,
        [
            ("a.q".to_owned(), Kind::Query),
            ("a.m".to_owned(), Kind::Mutation),
            ("b.s".to_owned(), Kind::Subscription),
            other,
        ]
    );
    let skipped: Vec<_> =
        import.skipped.iter().map(|one| (&*one.method, &*one.path, &*one.reason)).collect();
    assert_eq!(
        skipped,
        [
            ("GET", "/api/a/q", "it is another form of a.q, which is called by POST"),
            ("GET", "/api/b/s", "it is another form of b.s, which is called by POST"),
        ]
    );
}

/// Each row: what is different about an operation, and what is said about that. All are imported as
/// operations of any service.
#[test]
fn what_is_said_wrongly_is_not_taken_for_anything() {
    let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"not": inner}));
    let rows = [
        (json!(null), "it must be an object, found null"),
        (json!("demo.add"), "it must be an object, found string"),
        (json!([]), "it must be an object, found array"),
        (json!({}), "missing field `name`"),
        (json!({"form": "query"}), "`` is not a namespace"),
        (
            json!({"form": 7, "namespace": "a", "name": "x"}),
            "a.x, of which it is a form, is not there",
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
        (json!({"description": {}}), "invalid type: map, expected a string"),
        (json!({"tags": "a"}), "expected a sequence"),
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
    for (more, words) in rows {
        let mut item = path("demo", "add", "mutation", &json!({}));
        match more.as_object().filter(|more| !more.is_empty() && !more.contains_key("form")) {
            Some(more) => more.iter().for_each(|(name, value)| {
                item["post"]["x-toolpost-operation"][name] = value.clone();
            }),
            None => item["post"]["x-toolpost-operation"] = more.clone(),
        }
        let (operation, warnings) = with_warnings(&of(&json!({"/api/demo/add": item})));
        assert_eq!(operation.plan.language, Language::Http, "{more}");
        assert_eq!(operation.spec.name, "demo_add", "{more}");
        assert_eq!(warnings.len(), 1, "{more}: {warnings:?}");
        let place = "/paths/~1api~1demo~1add/post/x-toolpost-operation: ";
        assert!(
            warnings[0].starts_with(place) && warnings[0].contains(words),
            "{more}: {}",
            warnings[0]
        );
        assert!(
            warnings[0].ends_with("it is imported as an operation of any service"),
            "{}",
            warnings[0]
        );
    }
}

/// Each row: a path and a method where no operation of a gateway can be.
#[test]
fn what_stands_in_the_wrong_place_is_not_taken_for_anything() {
    for (at, method, words) in [
        ("/api/demo/add", "get", "called by POST, and this is GET"),
        ("/api/demo/add", "put", "called by POST, and this is PUT"),
        ("/api/{namespace}/add", "post", "its path has something to be filled in"),
        ("/api/demo/add?x=1", "post", "its path has something to be filled in"),
        ("/api/demo/add#x", "post", "its path has something to be filled in"),
    ] {
        let item = path("demo", "add", "mutation", &json!({}));
        let import = imported(&of(&json!({ at: {method: item["post"]} })));
        assert_eq!(import.operations.len() + import.skipped.len(), 1, "{at} {method}");
        let said = import.warnings.iter().filter(|one| one.message.contains(words));
        assert_eq!(said.count(), 1, "{at} {method}: {:?}", import.warnings);
        assert!(import.operations.iter().all(|one| one.plan.language == Language::Http));
    }
}

/// Each row: an operation that is understood and not wanted, and why.
#[test]
fn what_is_not_to_be_taken_over_is_skipped() {
    let long = "x".repeat(198);
    for (namespace, name, more, words) in [
        (
            "far",
            "add",
            json!({"_meta": {"toolpost/hub": "x"}}),
            "far.add came to that gateway from another one",
        ),
        ("hub", "list", json!({}), "hub.list is about that gateway itself"),
        ("demo", &*long, json!({}), "1 to 200 characters, found 203"),
    ] {
        let paths = json!({"/p": path(namespace, name, "mutation", &more), "/q": path("a", "b", "mutation", &json!({}))});
        let import = imported(&of(&paths));
        assert_eq!(
            (import.operations.len(), import.skipped.len(), import.warnings.len()),
            (1, 1, 0),
            "{name}"
        );
        assert!(import.skipped[0].reason.contains(words), "{}", import.skipped[0].reason);
    }
    let twice = json!({"/p": path("a", "b", "query", &json!({})), "/q": path("a", "b", "mutation", &json!({}))});
    let import = imported(&of(&twice));
    assert_eq!((import.operations.len(), import.skipped.len()), (1, 2));
    assert!(import.skipped.iter().any(|one| one.reason == "a.b is in the document twice"));
}

#[test]
fn a_huge_extension_costs_no_more_than_its_text() {
    let properties = (0..20_000).map(|at| (format!("p{at}"), json!({"type": "string"})));
    let properties: serde_json::Map<_, _> = properties.collect();
    let large = json!({"type": "object", "properties": properties});
    let mut paths = json!({});
    for at in 0..200 {
        let shared = json!({"inputSchema": {"$ref": "#/components/schemas/Large"}});
        paths[format!("/api/a/o{at}")] = path("a", &format!("o{at}"), "mutation", &shared);
    }
    let mut document = of(&paths);
    document["components"] = json!({"schemas": {"Large": large}});
    let import = imported(&document);
    assert_eq!((import.operations.len(), import.warnings.len()), (200, 0));
    assert_eq!(*import.operations[199].spec.input_schema.json(), large);
}

/// What refers to the same components again and again would be more than there is time for.
#[test]
fn components_are_put_together_only_so_often() {
    let large = json!({"enum": (0..300_000).collect::<Vec<_>>()});
    let mut paths = json!({});
    for at in 0..20 {
        let own =
            json!({"inputSchema": {"$ref": "#/components/schemas/Large", "title": at.to_string()}});
        paths[format!("/api/a/o{at}")] = path("a", &format!("o{at}"), "mutation", &own);
    }
    let mut document = of(&paths);
    document["components"] = json!({"schemas": {"Large": large}});
    let import = imported(&document);
    let natives = import.operations.iter().filter(|one| one.plan.language == Language::Toolpost);
    assert_eq!((natives.count(), import.operations.len()), (13, 20));
    let words = "inputSchema: the schemas of the document are too large together";
    assert_eq!(import.warnings.iter().filter(|one| one.message.contains(words)).count(), 7);
}
