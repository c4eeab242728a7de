//! Self-contained schemas: their content, and that they always compile.

use super::*;

/// Imports a response schema. Returns the output schema and the warnings.
fn response_schema(version: &str, schema: &Value, components: &Value) -> (Value, Vec<String>) {
    let responses = match version {
        "2.0" => json!({"200": {"schema": schema}}),
        _ => json!({"200": {"content": {"application/json": {"schema": schema}}}}),
    };
    let mut members = json!({"paths": {"/a": {"get": {"responses": responses}}}});
    match version {
        "2.0" => members["definitions"] = components.clone(),
        _ => members["components"] = json!({ "schemas": components }),
    }
    let (operation, warnings) = import_single_with_warnings(&document(version, &members));
    (operation.spec.output_schema.json().into_owned(), warnings)
}

#[test]
fn older_dialects_convert_to_json_schema_2020_12() {
    let rows = [
        ("3.0.0", json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
        ("2.0", json!({"type": "string", "x-nullable": true}), json!({"type": ["string", "null"]})),
        (
            "3.0.0",
            json!({"type": "string", "enum": ["a"], "nullable": true}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (
            "3.0.0",
            json!({"allOf": [{"type": "string"}], "nullable": true, "description": "d"}),
            json!({"description": "d", "anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]}),
        ),
        ("3.0.0", json!({"minimum": 1, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 1})),
        ("3.0.0", json!({"exclusiveMaximum": false, "maximum": 1}), json!({"maximum": 1})),
        (
            "3.1.0",
            json!({"exclusiveMinimum": 1, "minimum": 0}),
            json!({"exclusiveMinimum": 1, "minimum": 0}),
        ),
        (
            "3.0.0",
            json!({"type": "string", "example": "x"}),
            json!({"type": "string", "examples": ["x"]}),
        ),
        (
            "3.1.0",
            json!({"type": "string", "examples": ["x"]}),
            json!({"type": "string", "examples": ["x"]}),
        ),
        (
            "3.0.0",
            json!({"type": "integer", "x-a": 1, "xml": {}, "externalDocs": {}}),
            json!({"type": "integer"}),
        ),
        (
            "2.0",
            json!({"items": [{"type": "null"}], "additionalItems": false}),
            json!({"prefixItems": [{"type": "null"}], "items": false}),
        ),
        ("3.1.0", json!({"type": ["string", null]}), json!({"type": ["string", "null"]})),
        (
            "2.0",
            json!({"discriminator": "kind"}),
            json!({"discriminator": {"propertyName": "kind"}}),
        ),
        (
            "3.1.0",
            json!({"$id": "https://example.test/s", "$anchor": "a", "type": "string"}),
            json!({"type": "string"}),
        ),
        (
            "3.1.0",
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "null"}),
            json!({"type": "null"}),
        ),
        (
            "3.1.0",
            json!({"const": null, "unevaluatedProperties": false}),
            json!({"const": null, "unevaluatedProperties": false}),
        ),
    ];
    for (version, schema, expected) in rows {
        let (found, warnings) = response_schema(version, &schema, &json!({}));
        assert_eq!(found, expected, "{schema}");
        assert_eq!(warnings, [""; 0], "{schema}");
    }
}

#[test]
fn referenced_schemas_are_bundled_once() {
    let pet = json!({"properties": {"next": {"$ref": "#/components/schemas/Pet"}, "tag": {"$ref": "#/components/schemas/Tag"},
        "tags": {"items": {"$ref": "#/components/schemas/Tag"}}}});
    let tag = json!({"type": "string"});
    let components = json!({"Pet": pet, "Tag": tag, "Unused": {"type": "null"}});
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    // A referenced schema becomes the root, and references to it become `#`.
    let (found, _) = response_schema("3.0.0", &to("Pet"), &components);
    assert_eq!(
        found,
        json!({"properties": {"next": {"$ref": "#"}, "tag": {"$ref": "#/$defs/Tag"},
            "tags": {"items": {"$ref": "#/$defs/Tag"}}}, "$defs": {"Tag": {"type": "string"}}})
    );
    let (found, _) = response_schema("3.0.0", &json!({"items": to("Pet")}), &components);
    assert_eq!(
        found,
        json!({"items": {"$ref": "#/$defs/Pet"}, "$defs": {
            "Pet": {"properties": {"next": {"$ref": "#/$defs/Pet"}, "tag": {"$ref": "#/$defs/Tag"},
                "tags": {"items": {"$ref": "#/$defs/Tag"}}}},
            "Tag": {"type": "string"}}})
    );
}

#[test]
fn ref_siblings_apply_from_openapi_3_1() {
    let beside = json!({"properties": {"a": {"$ref": "#/components/schemas/A", "maxLength": 3, "description": "d"},
        "b": {"$ref": "#/components/schemas/A", "nullable": true}}});
    let components = json!({"A": {"type": "string"}});
    let reference = json!({"$ref": "#/$defs/A"});
    let (old, _) = response_schema("3.0.0", &beside, &components);
    assert_eq!(old["properties"]["a"], json!({"$ref": "#/$defs/A", "description": "d"}));
    assert_eq!(old["properties"]["b"], json!({"anyOf": [reference, {"type": "null"}]}));
    let (new, _) = response_schema("3.1.0", &beside, &components);
    assert_eq!(
        new["properties"]["a"],
        json!({"$ref": "#/$defs/A", "maxLength": 3, "description": "d"})
    );
    let mut dialect = document(
        "3.1.0",
        &json!({
            "jsonSchemaDialect": "http://json-schema.org/draft-07/schema#", "components": {"schemas": components},
            "paths": {"/a": {"get": {"responses": {"200": {"content": {"application/json": {"schema": beside}}}}}}},
        }),
    );
    let found = import_single(&dialect).spec.output_schema.json().into_owned();
    assert_eq!(found["properties"]["a"], json!({"$ref": "#/$defs/A", "description": "d"}));
    dialect["jsonSchemaDialect"] = "https://spec.openapis.org/oas/3.1/dialect/base".into();
    assert_eq!(*import_single(&dialect).spec.output_schema.json(), new);
}

#[test]
fn required_depends_on_read_only_and_write_only() {
    let components = json!({"schemas": {
        "Id": {"type": "string", "readOnly": true},
        "Base": {"type": "object", "properties": {"id": {"$ref": "#/components/schemas/Id"}, "made": {"type": "string", "readOnly": true},
            "secret": {"type": "string", "writeOnly": true}, "name": {"type": "string"}}},
        "Whole": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "made", "secret", "name"]}]},
    }});
    let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Whole"}}});
    let operation = import_single(&document(
        "3.0.0",
        &json!({"components": components, "paths": {"/a": {"post": {
        "requestBody": {"content": content}, "responses": {"200": {"content": content}}}}}}),
    ));
    let input = operation.spec.input_schema.json().into_owned();
    assert_eq!(input["$defs"]["Whole"]["allOf"][1], json!({"required": ["secret", "name"]}));
    let output = operation.spec.output_schema.json().into_owned();
    assert_eq!(output["allOf"][1], json!({"required": ["id", "made", "name"]}));
}

#[test]
fn invalid_keywords_are_dropped_with_a_warning() {
    let rows = [
        (json!({"type": "any"}), json!({}), "`any` is not a JSON Schema type"),
        (json!({"type": 7}), json!({}), "`number` is not a JSON Schema type"),
        (json!({"type": ["string", "text"]}), json!({}), "`text` is not a JSON Schema type"),
        (
            json!({"type": "string", "required": true}),
            json!({"type": "string"}),
            "`required` must be a list of names, found boolean",
        ),
        (json!({"enum": "a"}), json!({}), "`enum` must be a list of values, found the text `a`"),
        (json!({"enum": []}), json!({}), "found an empty list"),
        (
            json!({"type": "string", "enum": [1]}),
            json!({"type": "string"}),
            "no value of `enum` matches `type`",
        ),
        (
            json!({"pattern": "(?<"}),
            json!({}),
            "`(?<` is not a valid ECMAScript regular expression",
        ),
        (
            json!({"pattern": "\\p{javaLetter}++"}),
            json!({}),
            "is not a valid ECMAScript regular expression",
        ),
        (json!({"pattern": 7}), json!({}), "`pattern` must be a string, found 7"),
        (json!({"minimum": "1"}), json!({}), "`minimum` must be a number, found the text `1`"),
        (json!({"exclusiveMinimum": "yes"}), json!({}), "`exclusiveMinimum` must be a number"),
        (json!({"multipleOf": 0}), json!({}), "a number greater than 0, found 0"),
        (
            json!({"maxLength": -1}),
            json!({}),
            "`maxLength` must be a non-negative integer, found -1",
        ),
        (json!({"minItems": 1.5}), json!({}), "found 1.5"),
        (json!({"uniqueItems": "no"}), json!({}), "`uniqueItems` must be true or false"),
        (json!({"properties": ["a"]}), json!({}), "`properties` must be an object of schemas"),
        (
            json!({"properties": {"a": "string"}}),
            json!({"properties": {"a": true}}),
            "a schema must be an object, found string",
        ),
        (json!({"items": "string"}), json!({}), "`items` must be a schema"),
        (json!({"allOf": []}), json!({}), "`allOf` must be a list of schemas, found an empty list"),
        (json!({"oneOf": {"type": "null"}}), json!({}), "`oneOf` must be a list of schemas"),
        (
            json!({"anyOf": [null, {"type": "null"}]}),
            json!({"anyOf": [true, {"type": "null"}]}),
            "found null; any value is accepted",
        ),
        (json!({"not": "x"}), json!({}), "`not` must be a schema"),
        (
            json!({"additionalProperties": "x"}),
            json!({}),
            "`additionalProperties` must be a schema",
        ),
        (
            json!({"patternProperties": {"(": {}}}),
            json!({"patternProperties": {}}),
            "is not a valid regular expression",
        ),
        (json!({"dependentRequired": {"a": "b"}}), json!({}), "lists of names"),
        (
            json!({"type": "integer", "default": "x"}),
            json!({"type": "integer"}),
            "`default` does not match `type`",
        ),
        (
            json!({"enum": ["a"], "default": "b"}),
            json!({"enum": ["a"]}),
            "`default` is not in `enum`",
        ),
        (
            json!({"items": {"$ref": "#/components/schemas/Gone"}}),
            json!({"items": {}}),
            "does not exist",
        ),
        (
            json!({"items": {"$ref": "#/info/title"}}),
            json!({"items": {}}),
            "does not refer to a schema",
        ),
        (json!({"items": {"$ref": 7}}), json!({"items": {}}), "`$ref` must be a string"),
        (
            json!({"items": {"$ref": "#/components/schemas/Loop"}}),
            json!({"items": {}}),
            "is a circular reference",
        ),
        (
            json!({"properties": {"a": {"$dynamicRef": "#node"}}}),
            json!({"properties": {"a": {}}}),
            "no anchor `#node`",
        ),
    ];
    let components = json!({"Loop": {"$ref": "#/components/schemas/Pool"}, "Pool": {"$ref": "#/components/schemas/Loop"}});
    for (schema, expected, message) in rows {
        let (found, warnings) = response_schema("3.1.0", &schema, &components);
        assert_eq!(found, expected, "{schema}");
        assert_eq!(warnings.len(), 1, "{schema} {warnings:?}");
        assert!(warnings[0].contains(message), "{warnings:?}");
        assert!(warnings[0].starts_with("/paths/~1a/get/responses/200/content/"), "{warnings:?}");
    }
}

#[test]
fn non_ecmascript_patterns_are_translated_or_dropped() {
    for pattern in [
        "\\A[a-z]+\\z",
        "\\A[a-z]+\\Z",
        "(?i)^[A-Z]+$",
        "^[[:lower:]]+$",
        "^(?P<n>[a-z])+$",
        "^[a-z]++$",
        "/^[a-z]+$/",
    ] {
        let (schema, warnings) =
            response_schema("3.0.0", &json!({"type": "string", "pattern": pattern}), &json!({}));
        assert!(warnings.len() <= 1, "{pattern} {warnings:?}");
        let schema = crate::schema::Schema::new(schema).unwrap();
        assert!(schema.is_valid(&json!("abc")).unwrap(), "{pattern}");
    }
}

#[test]
fn invalid_annotations_are_dropped_silently() {
    for (schema, expected) in [
        (json!({"type": "string", "default": null}), json!({"type": "string"})),
        (json!({"type": "string", "description": 7, "examples": {}}), json!({"type": "string"})),
        (json!({"type": "string", "nullable": "maybe"}), json!({"type": "string"})),
        (json!({"type": "string", "format": null}), json!({"type": "string"})),
    ] {
        let (found, warnings) = response_schema("3.0.0", &schema, &json!({}));
        assert_eq!((found, warnings), (expected, Vec::new()), "{schema}");
    }
}

#[test]
fn discriminator_mapping_points_to_bundled_schemas() {
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let schema = json!({"oneOf": [to("Cat"), to("Dog")], "discriminator": {"propertyName": "kind",
        "mapping": {"c": "#/components/schemas/Cat", "d": "Dog", "e": "Elk"}}});
    let components = json!({"Cat": {"type": "object", "title": "c"}, "Dog": {"type": "object"}, "Elk": {"type": "object"}});
    let (found, _) = response_schema("3.0.0", &schema, &components);
    assert_eq!(
        found["discriminator"],
        json!({"propertyName": "kind", "mapping": {"c": "#/$defs/Cat", "d": "#/$defs/Dog"}})
    );
    // A discriminator base allows the properties of the schemas that extend it.
    let base = json!({"properties": {"kind": {"type": "string"}}, "discriminator": {"propertyName": "kind"}});
    assert_eq!(response_schema("3.0.0", &base, &json!({})).0["additionalProperties"], json!(true));
}

#[test]
fn shared_schema_is_compiled_once() {
    let response = json!({"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}},
        "404": {"$ref": "#/components/responses/E"}});
    let import = import_document(&document(
        "3.0.0",
        &json!({
            "paths": {"/a": {"get": {"responses": response}, "put": {"responses": response}}},
            "components": {"schemas": {"A": {"type": "integer"}, "E": {"type": "string"}},
                "responses": {"E": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/E"}}}}}},
        }),
    ));
    let [one, other] = &import.operations[..] else { panic!("there are two") };
    assert_eq!(one.spec.output_schema.ptr_address(), other.spec.output_schema.ptr_address());
    let response = &other.plan.responses[1].contents[0].schema;
    assert_eq!(one.spec.error_schemas[0].schema.ptr_address(), response.ptr_address());
}
