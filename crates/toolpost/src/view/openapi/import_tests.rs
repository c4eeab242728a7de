//! Tests that describe the operations of an imported document again.

use serde_json::{Value, json};

use super::HttpApi;
use crate::openapi::{DocumentLocation, OpenApiSettings, from_openapi};
use crate::registry::Registry;
use crate::schema::unbundle;

/// Number of operations and of definitions.
const OPERATIONS: usize = 200;

fn import_and_describe(text: &str) -> (Registry, Value) {
    let registry = Registry::new();
    let settings = OpenApiSettings::new(DocumentLocation::from_path_or_url("shop.json"));
    from_openapi(&registry, "shop", text, settings).unwrap();
    let document = {
        let catalog = registry.catalog();
        HttpApi::new("1.2.3").document(catalog.list().iter().map(|one| &**one))
    };
    (registry, document)
}

/// Asserts that the schemas of every tenth operation round-trip exactly.
fn assert_schemas_round_trip(registry: &Registry, document: &Value) {
    let component = |name: &str| document["components"]["schemas"].get(name);
    let extension = |path: &Value| path["post"]["x-toolpost-operation"].clone();
    let paths = document["paths"].as_object().unwrap();
    assert!(!paths.is_empty());
    for described in paths.values().step_by(10).map(extension) {
        let id = format!("shop.{}", described["name"].as_str().unwrap());
        let catalog = registry.catalog();
        let spec = catalog.get(&id).unwrap().spec();
        let schemas = [("inputSchema", &spec.input_schema), ("outputSchema", &spec.output_schema)];
        for (role, schema) in schemas {
            let again = unbundle(&described[role], component);
            assert!(again.as_ref() == Some(&*schema.json()), "{role} of {id}: {}", described[role]);
        }
    }
}

/// Creates a document in which every operation reaches every definition.
fn document_with_shared_definitions(definition: impl Fn(usize) -> Value) -> String {
    let to = |at: usize| json!({"$ref": format!("#/components/schemas/d{}", at % OPERATIONS)});
    let content = |at: usize| json!({"application/json": {"schema": to(at)}});
    let operation = |at: usize| {
        let responses = json!({"200": {"description": "ok", "content": content(at + 1)}});
        let mut post = json!({ "responses": responses });
        // Input schemas are compiled to determine whether a body is required, so only a few
        // operations have one.
        if at.is_multiple_of(50) {
            post["requestBody"] = json!({"content": content(at)});
        }
        (format!("/p{at}"), json!({ "post": post }))
    };
    let definitions = (0..OPERATIONS).map(|at| {
        let mut one = definition(at);
        one["properties"]["next"] = to(at + 1);
        one["properties"]["first"] = to(0);
        (format!("d{at}"), one)
    });
    let definitions: serde_json::Map<_, _> = definitions.collect();
    let paths: serde_json::Map<_, _> = (0..OPERATIONS).map(operation).collect();
    json!({
        "openapi": "3.1.0", "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://shop.example"}],
        "paths": paths, "components": {"schemas": definitions},
    })
    .to_string()
}

#[test]
fn shared_definition_is_published_once() {
    let description = "A description of a property with a certain length. ".repeat(30);
    let text = document_with_shared_definitions(
        |at| json!({"title": format!("T{at}"), "description": description}),
    );
    let (registry, document) = import_and_describe(&text);
    let written = document.to_string();
    assert_eq!(written.matches(&description).count(), OPERATIONS);
    assert!(written.len() < 3 * text.len(), "{} of {}", written.len(), text.len());
    assert_schemas_round_trip(&registry, &document);
}

#[test]
fn inexact_definition_keeps_original_schema() {
    let (registry, document) = import_and_describe(&document_with_shared_definitions(
        |at| match at {
            3 => json!({"type": "object", "examples": ["no object"], "title": "Three"}),
            5 => {
                json!({"required": ["a"], "properties": {"a": {"type": "string", "readOnly": true}}})
            }
            7 => json!({
                "oneOf": [{"$ref": "#/components/schemas/d8"}, {"$ref": "#/components/schemas/d9"}],
                "discriminator": {"propertyName": "k", "mapping": {"x": "#/components/schemas/d9"}},
            }),
            _ => json!({"type": "object"}),
        },
    ));
    assert_schemas_round_trip(&registry, &document);
}
