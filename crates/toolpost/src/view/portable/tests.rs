use serde_json::json;

use super::*;

fn portable_json(schema: &Value) -> Value {
    let portable = to_portable(schema, "#").unwrap();
    let mut root = portable.root;
    if !portable.definitions.is_empty() {
        root.insert("$defs".to_owned(), portable.definitions.into());
    }
    root.into()
}

#[test]
fn keywords_of_both_drafts_are_unchanged() {
    for schema in [
        json!({}),
        json!({"type": "object", "title": "T", "description": "d", "properties": {"a": {"type": "string",
            "default": null, "minLength": 1}}, "required": ["a"], "additionalProperties": false}),
        json!({"type": "array", "items": {"type": ["string", "null"]}, "uniqueItems": true}),
        json!({"oneOf": [{"const": 1}, {"enum": ["a", null]}], "not": {"type": "null"}}),
        json!({"if": {"required": ["a"]}, "then": {"minProperties": 2}, "else": {"maxProperties": 0}}),
        json!({"contains": {"type": "integer"}, "x-note": {"a": [1]}}),
        json!({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
        json!({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "null"}}}),
        json!({"$ref": "#/$defs/tree", "description": "d", "$defs": {"tree": {"type": "object",
            "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}}}),
    ] {
        let portable = portable_json(&schema);
        let mut expected = schema.clone();
        expected.sort_all_objects();
        let mut found = portable;
        found.sort_all_objects();
        assert_eq!(found, expected);
    }
}

#[test]
fn draft_specific_keywords_are_rewritten() {
    for (schema, expected) in [
        (json!(true), json!({})),
        (json!(false), json!({"not": {}})),
        (
            json!({"properties": {"a": true, "b": false}}),
            json!({"properties": {"a": {}, "b": {"not": {}}}}),
        ),
        // Identifiers, formats and unknown keywords are omitted.
        (
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://a/b",
            "$anchor": "x", "format": "date-time", "unknown": 1, "type": "string"}),
            json!({"type": "string"}),
        ),
        (
            json!({"$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}, "unused": {}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}),
        ),
        (
            json!({"properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a"}}}),
            json!({"properties": {"a": {"type": "null"}, "b": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "null"}}}),
        ),
        (
            json!({"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "null"}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}),
        ),
        (
            json!({"$ref": "#/$defs/a", "minLength": 1, "$defs": {"a": {"type": "string"}}}),
            json!({"minLength": 1, "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "string"}}}),
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "minLength": 1,
            "definitions": {"a": {"type": "string"}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}),
        ),
        (
            json!({"allOf": [{"$ref": "#/$defs/a/b"}, {"$ref": "#/$defs/b"}],
            "$defs": {"b": {"type": "null"}, "a": {"b": {"type": "string"}}}}),
            json!({"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b_2"}],
            "$defs": {"b": {"type": "string"}, "b_2": {"type": "null"}}}),
        ),
        (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({
            "anyOf": [{"not": {"required": ["a"], "type": "object"}}, {"required": ["b"]}]}),
        ),
        (
            json!({"dependencies": {"a": {"minProperties": 2}}, "type": "object"}),
            json!({"type": "object",
            "allOf": [{"anyOf": [{"not": {"required": ["a"], "type": "object"}}, {"minProperties": 2}]}]}),
        ),
    ] {
        assert_eq!(portable_json(&schema), expected, "{schema}");
    }
}

#[test]
fn unsupported_keywords_are_omitted_and_reported() {
    let open = json!({"unevaluatedProperties": false});
    for (schema, expected) in [
        (json!({"type": "object", "unevaluatedProperties": false}), json!({"type": "object"})),
        (json!({"pattern": "\\p{L}", "type": "string"}), json!({"type": "string"})),
        (json!({"multipleOf": 0.1}), json!({})),
        (json!({"dependentRequired": {"": ["b"]}}), json!({})),
        (json!({"not": {"required": [""]}}), json!({})),
        // JavaScript objects inherit this member.
        (
            json!({"properties": {"constructor": {"type": "string"}}, "required": ["constructor"],
                "additionalProperties": false}),
            json!({"properties": {"constructor": {}}, "required": ["constructor"],
                "additionalProperties": false}),
        ),
        (json!({"not": {"required": ["toString"]}}), json!({})),
        (json!({"dependentRequired": {"valueOf": ["b"]}}), json!({})),
        (json!({"not": open, "minItems": 1}), json!({"minItems": 1})),
        (json!({"oneOf": [open, {"type": "null"}]}), json!({"anyOf": [{}, {"type": "null"}]})),
        (
            json!({"oneOf": [open], "minItems": 1}),
            json!({"minItems": 1, "allOf": [{"anyOf": [{}]}]}),
        ),
        (json!({"if": open, "then": {"type": "null"}}), json!({})),
        (json!({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": open}}), json!({"$defs": {"a": {}}})),
        (json!({"contains": {}, "minContains": 0}), json!({})),
        (
            json!({"contains": {"type": "null"}, "maxContains": 2}),
            json!({"contains": {"type": "null"}}),
        ),
        (
            json!({"patternProperties": {"^a$": {}}, "additionalProperties": false}),
            json!({"patternProperties": {}}),
        ),
        (json!({"prefixItems": [{"type": "null"}, {"type": "string"}]}), json!({})),
        (
            json!({"prefixItems": [{"type": "null"}, {"type": "string"}], "items": false}),
            json!({"maxItems": 2, "items": {"anyOf": [{"type": "null"}, {"type": "string"}]}}),
        ),
        (
            json!({"prefixItems": [{"type": "null"}], "items": {"type": "string"}}),
            json!({"items": {"anyOf": [{"type": "null"}, {"type": "string"}]}}),
        ),
        (
            json!({"items": [{"type": "null"}], "maxItems": 1}),
            json!({"maxItems": 1, "items": {"type": "null"}}),
        ),
        (json!({"$dynamicRef": "#a", "$dynamicAnchor": "a"}), json!({})),
        (json!({"$ref": "https://example.org/other"}), json!({})),
        (json!({"$ref": "#/$defs/none"}), json!({})),
        (
            json!({"properties": {"a": {"$id": "own", "$ref": "#/x"}}}),
            json!({"properties": {"a": {}}}),
        ),
        (
            json!({"type": "objekt", "required": 5, "enum": [], "anyOf": [], "properties": []}),
            json!({}),
        ),
    ] {
        assert_eq!(portable_json(&schema), expected, "{schema}");
        assert!(!to_portable(&schema, "#").unwrap().omitted.is_empty(), "{schema}");
    }
}

#[test]
fn root_refs_are_rebased_to_given_pointer() {
    let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
    let portable = to_portable(&schema, "#/properties/data").unwrap();
    assert_eq!(portable.root["properties"]["next"], json!({"$ref": "#/properties/data"}));
}

#[test]
fn hostile_schemas_are_rejected_or_bounded() {
    let chain = |length: usize| {
        let links =
            (0..length).map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)})));
        let mut links: Map<String, Value> = links.collect();
        links.insert(format!("d{length}"), json!({}));
        json!({"$ref": "#/$defs/d0", "$defs": links})
    };
    let many: Map<String, Value> = (0..300)
        .map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", (n + 7) % 300)})))
        .collect();
    let wide = Value::from_iter((0..60_000).map(|n| json!({"minimum": n})));
    for (schema, expected) in [
        (json!({"$ref": "#"}), PortableError::Cycle),
        (json!({"allOf": [{"$ref": "#"}]}), PortableError::Cycle),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
            PortableError::Cycle,
        ),
        (chain(40), PortableError::Cycle),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": many}),
            PortableError::TooManyDefinitions,
        ),
        (json!({"anyOf": wide}), PortableError::TooLarge),
    ] {
        assert_eq!(to_portable(&schema, "#").unwrap_err(), expected);
    }
    assert!(to_portable(&chain(20), "#").is_ok());
    let around = |inner: Value, _| Map::from_iter([("items".to_owned(), inner)]).into();
    let deep = (0..5_000).fold(json!({}), around);
    let portable = portable_json(&deep);
    assert!(portable.to_string().len() < 1_000);
    // Drop the value level by level, because its own drop recurses.
    let mut rest = deep;
    while let Some(inner) = rest.get_mut("items").map(Value::take) {
        rest = inner;
    }
}

/// A key of one megabyte above many anchors is not copied for each of them.
#[test]
fn anchor_search_is_linear() {
    let anchored = (0..20_000).map(|n| (format!("a{n}"), json!({"$anchor": format!("n{n}")})));
    let mut long = Map::from_iter(anchored);
    long.insert("last".to_owned(), json!({"$anchor": "far"}));
    let schema =
        json!({"$ref": "#near", "$defs": {"x": {"$anchor": "near"}, "y".repeat(1 << 20): long}});
    assert_eq!(portable_json(&schema), json!({"$ref": "#/$defs/x", "$defs": {"x": {}}}));
    let schema = json!({"$ref": "#far", "$defs": schema["$defs"]});
    assert_eq!(portable_json(&schema), json!({}), "an anchor beyond the limit is not found");
}

#[test]
fn relaxed_form_omits_constraints_and_admits_null() {
    let note = "Relaxed: results may violate the full schema, which `hub.schema` returns.";
    for (schema, expected) in [
        (json!(true), json!({})),
        (json!(false), json!({})),
        (
            json!({"type": "object", "title": "T", "properties": {"a": {"type": "string", "minLength": 1},
                "b": {"type": ["integer", "null"], "minimum": 0, "maximum": 9}, "c": {"enum": ["x"]}, "d": false},
                "required": ["a"], "additionalProperties": false, "minProperties": 1}),
            json!({"type": "object", "title": "T", "properties": {"a": {"type": ["string", "null"]},
                "b": {"type": ["integer", "null"]}, "c": {}, "d": {}}}),
        ),
        (
            json!({"type": "array", "items": {"type": "integer", "multipleOf": 2}, "minItems": 1,
                "uniqueItems": true, "contains": {"const": 2}}),
            json!({"type": "array", "items": {"type": ["integer", "null"]}}),
        ),
        (
            json!({"items": [{"type": "null"}, {"type": "string"}], "additionalItems": false}),
            json!({"items": {"anyOf": [{"type": "null"}, {"type": ["string", "null"]}]}}),
        ),
        (
            json!({"additionalProperties": {"type": "string", "pattern": "^a"}, "propertyNames": {"maxLength": 1}}),
            json!({"additionalProperties": {"type": ["string", "null"]}}),
        ),
        (
            json!({"oneOf": [{"type": "object", "required": ["a"]}, {"type": "string"}], "type": "object"}),
            json!({"anyOf": [{"type": ["object", "null"]}, {"type": ["string", "null"]}], "type": "object"}),
        ),
        // A variant that accepts everything makes the list void.
        (json!({"anyOf": [{"required": ["a"]}, {"type": "string"}]}), json!({})),
        (
            json!({"if": {"required": ["a"]}, "then": {"minProperties": 2}, "not": {"type": "null"},
                "dependentRequired": {"a": ["b"]}, "unevaluatedProperties": false}),
            json!({}),
        ),
        // The root does not admit null, but a reference to it does.
        (
            json!({"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"$ref": "#/$defs/n"}},
                "$defs": {"n": {"type": "number", "exclusiveMinimum": 0}}}),
            json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
                "n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": ["number", "null"]}}}),
        ),
    ] {
        let relaxed = to_relaxed(&schema, "#").unwrap();
        assert_eq!(
            relaxed.omitted.iter().filter(|name| *name != "prefixItems").count(),
            0,
            "{schema}"
        );
        let mut expected = expected;
        expected["description"] = note.into();
        assert_eq!(Value::Object(relaxed.into_document()), expected, "{schema}");
    }
    let described = json!({"description": "A size."});
    let once = to_relaxed(&described, "#").unwrap().into_document();
    assert_eq!(once["description"], format!("A size. {note}"));
    let twice = to_relaxed(&once.clone().into(), "#").unwrap().into_document();
    assert_eq!(twice, once, "a relaxed schema is already described");
}

/// Each row: the schema, and whether its relaxed root accepts every `{"result": …}`.
#[test]
fn relaxed_root_accepts_wrapped_data_only_if_plain() {
    for (schema, expected) in [
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            true,
        ),
        (json!({"const": {"a": 1}, "x-note": 1}), true),
        (json!({"type": "object", "properties": {"result": {}}}), false),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), false),
        (json!({"type": "object", "patternProperties": {"^r": {"type": "string"}}}), false),
        (json!({"type": "array"}), false),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}), false),
    ] {
        let relaxed = to_relaxed(&schema, "#").unwrap();
        assert_eq!(relaxed.accepts_wrapped_data(), expected, "{schema}");
    }
}
