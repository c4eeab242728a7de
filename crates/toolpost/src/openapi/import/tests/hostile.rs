//! Invalid and hostile documents: the import does not panic, no operation is lost, and all schemas
//! compile.

use proptest::prelude::*;
use serde_json::Map;

use super::*;

/// Imports a document and compiles all schemas of its operations.
fn import_and_compile(document: &Value) -> ImportResult {
    let import = import_document(document);
    for operation in &import.operations {
        for schema in schemas_of(operation) {
            schema.compile().unwrap_or_else(|error| panic!("{error} in {:#}", schema.json()));
            let _ = schema.is_valid(&json!({"a": [{"b": 1}], "body": {"next": null}}));
        }
    }
    import
}

fn document_with_response_schema(schema: &Value, components: &Value) -> Value {
    let content = json!({"application/json": {"schema": schema}});
    document(
        "3.1.0",
        &json!({"components": {"schemas": components}, "paths": {"/a": {"post": {
        "requestBody": {"content": content}, "responses": {"200": {"content": content}}}}}}),
    )
}

#[test]
fn circular_and_long_reference_chains_are_imported() {
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    import_and_compile(&document_with_response_schema(&to("A"), &json!({"A": to("A")})));
    import_and_compile(&document_with_response_schema(
        &to("A"),
        &json!({"A": {"allOf": [to("A")]}}),
    ));
    import_and_compile(&document_with_response_schema(
        &to("A"),
        &json!({"A": {"anyOf": [to("B")], "not": to("A")}, "B": {"oneOf": [to("A")]}}),
    ));
    import_and_compile(&document_with_response_schema(
        &to("A"),
        &json!({"A": {"properties": {"a": to("B")}}, "B": {"items": to("A")}}),
    ));
    let row: Map<String, Value> = (0..2_000)
        .map(|at| (format!("S{at}"), json!({"properties": {"next": to(&format!("S{}", at + 1))}})))
        .collect();
    let import = import_and_compile(&document_with_response_schema(&to("S0"), &row.into()));
    let written = import.operations[0].spec.output_schema.json().into_owned();
    assert_eq!(written["$defs"].as_object().unwrap().len(), 1_999);
    let hops: Map<String, Value> =
        (0..200).map(|at| (format!("S{at}"), to(&format!("S{}", at + 1)))).collect();
    import_and_compile(&document_with_response_schema(&to("S0"), &hops.into()));
}

#[test]
fn deeply_nested_schemas_are_split_into_definitions() {
    let deep = (0..55).fold(
        json!({"type": "integer"}),
        |inner, _| json!({"properties": {"a": inner}, "nullable": true, "not": false}),
    );
    let import = import_and_compile(&document_with_response_schema(&deep, &json!({})));
    let schema = &import.operations[0].spec.output_schema;
    let value = |end: Value| (0..55).fold(end, |inner, _| json!({ "a": inner }));
    assert!(schema.is_valid(&value(json!(1))).unwrap());
    assert!(!schema.is_valid(&value(json!("1"))).unwrap(), "nothing is lost");
    let listed = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let (operation, warnings) = import_single_with_warnings(&document_with_response_schema(
        &json!({"const": listed}),
        &json!({}),
    ));
    assert!(warnings[0].contains("nests deeper than 32 levels"), "{warnings:?}");
    assert_eq!(*operation.spec.output_schema.json(), json!({}));
}

/// Returns a document that covers many features.
fn complete_document(version: &str) -> Value {
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let content = json!({
        "application/json": {"schema": to("Pet"), "examples": {"a": {"value": 1}}},
        "multipart/form-data": {"schema": {"properties": {"f": {"type": "string", "format": "binary"}}},
            "encoding": {"f": {"contentType": "image/png", "style": "form", "headers": {"X": {"schema": {"const": "a"}}}}}},
        "text/event-stream": {"schema": to("Pet")},
    });
    document(
        version,
        &json!({
            "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
            "servers": [{"url": "https://{h}.test", "variables": {"h": {"default": "a", "enum": ["a"]}}}],
            "security": [{"key": []}, {}],
            "paths": {"/a/{id}": {
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "get": {"operationId": "x", "tags": ["t"], "parameters": [
                    {"name": "q", "in": "query", "style": "deepObject", "schema": {"type": "object", "nullable": true}},
                    {"name": "h", "in": "header", "content": {"application/json": {"schema": to("Tag")}}, "examples": {"a": {"value": 1}}}],
                    "responses": {"200": {"content": content}, "404": {"$ref": "#/components/responses/E"}, "default": {}}},
                "post": {"operationId": "x", "requestBody": {"required": true, "content": content}, "security": []},
            }, "/b": {"$ref": "#/components/pathItems/B"}},
            "components": {
                "parameters": {"Id": {"name": "id", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1, "exclusiveMinimum": true}}},
                "responses": {"E": {"description": "e", "content": {"application/problem+json": {"schema": {"type": "object"}}}}},
                "pathItems": {"B": {"put": {"responses": {"204": {}}}}},
                "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "k"}},
                "schemas": {
                    "Pet": {"type": "object", "required": ["id", "kind"], "properties": {"id": {"type": "string", "readOnly": true, "pattern": "^a"},
                        "next": to("Pet"), "tags": {"type": "array", "items": to("Tag"), "maxItems": 3, "uniqueItems": true}},
                        "allOf": [{"required": ["id"]}], "discriminator": {"propertyName": "kind", "mapping": {"t": "Tag"}},
                        "patternProperties": {"^x": {"enum": [1, "a"], "default": 1}}, "additionalProperties": false},
                    "Tag": {"oneOf": [{"type": "string", "example": "x", "default": "x"}, {"$ref": "#/components/schemas/Pet", "description": "d"}, {"not": {"const": 1}}],
                        "if": {"minLength": 1}, "then": {"$dynamicRef": "#t"}, "$anchor": "t"},
                },
            },
        }),
    )
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let pointers = [
        "#/components/schemas/Pet",
        "#/components/schemas/Tag",
        "#/paths/~1a~1{id}/get",
        "#",
        "#/gone",
        "b.yaml#/x",
        "%%",
    ];
    prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!(0)),
        Just(json!(-1.5)),
        Just(json!("")),
        Just(json!("string")),
        Just(json!("(")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, 1, "a", {}])),
        Just(json!({"": {}, "type": "file"})),
        Just(json!(["null", "string", "string"])),
        Just(json!({"a": {"b": [1]}})),
        Just(json!("\u{0}é{}")),
        Just(json!(1e300)),
        Just(json!(18_446_744_073_709_551_615_u64)),
        prop::sample::select(pointers.to_vec()).prop_map(|to| json!({"$ref": to})),
        prop::sample::select(pointers.to_vec())
            .prop_map(|to| json!({"$ref": to, "nullable": true, "type": "string"})),
    ]
}

/// Collects JSON Pointers to all nodes of a value.
fn collect_pointers(value: &Value, at: String, all: &mut Vec<String>) {
    let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| collect_pointers(item, format!("{at}/{index}"), all));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| {
                collect_pointers(member, format!("{at}/{}", escape(name)), all);
            });
        }
        _ => {}
    }
    if !at.is_empty() && at != "/openapi" && at != "/swagger" {
        all.push(at);
    }
}

fn mutate_document(version: &str, changes: &[(prop::sample::Index, Mutation)]) -> Value {
    let mut document = complete_document(version);
    for (index, change) in changes {
        let mut all = Vec::new();
        collect_pointers(&document, String::new(), &mut all);
        let pointer = index.get(&all).clone();
        let moved = match change {
            Mutation::Replace(value) => value.clone(),
            Mutation::Copy(from) => {
                let from: &String = from.get(&all);
                document.pointer(from).unwrap().clone()
            }
        };
        *document.pointer_mut(&pointer).unwrap() = moved;
        if document.to_string().len() > 200_000 {
            break;
        }
    }
    document
}

#[derive(Debug, Clone)]
enum Mutation {
    Replace(Value),
    /// Replaces a node by a copy of another node of the document.
    Copy(prop::sample::Index),
}

fn mutations() -> impl Strategy<Value = Vec<(prop::sample::Index, Mutation)>> {
    let change = prop_oneof![
        arbitrary_json().prop_map(Mutation::Replace),
        any::<prop::sample::Index>().prop_map(Mutation::Copy)
    ];
    prop::collection::vec((any::<prop::sample::Index>(), change), 1..12)
}

#[test]
fn complete_document_imports_without_warnings() {
    for version in ["3.0.3", "3.1.0", "3.2.0"] {
        let import = import_and_compile(&complete_document(version));
        assert_eq!((import.operations.len(), import.skipped.len()), (3, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn mutated_documents_import_without_panic(changes in mutations(), version in prop::sample::select(vec!["2.0", "3.0.3", "3.1.0", "3.2.0"])) {
        let document = mutate_document(version, &changes);
        let first = import_and_compile(&document);
        let second = import_document(&document);
        prop_assert_eq!(&first.warnings, &second.warnings);
        let names = |import: &ImportResult| import.operations.iter().map(|one| one.spec.name.clone()).collect::<Vec<_>>();
        let mut unique = names(&first);
        prop_assert_eq!(&unique, &names(&second));
        unique.sort();
        unique.dedup();
        prop_assert_eq!(unique.len(), first.operations.len());
    }
}
