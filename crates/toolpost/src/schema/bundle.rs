//! Moves the definitions of a schema into the components of an OpenAPI document.

use std::collections::HashMap;

use serde_json::Value;

use super::subschemas::visit_schemas;
use super::unbundle::{COMPONENTS_PREFIX, DEFINITION_KEYWORDS, map_refs};
use crate::json::{escape_token, unescape_token};

/// Dialect of the generated document; schemas in it can omit `$schema`.
const JSON_SCHEMA_2020_12: &str = "https://json-schema.org/draft/2020-12/schema";

/// Whether a schema keeps its meaning when moved, given that its references are rewritten. It must
/// use the dialect of the document, contain no keywords that change the meaning of references, and
/// refer only to itself by JSON Pointer.
pub(crate) fn is_relocatable(document: &Value) -> bool {
    let Some(root) = document.as_object() else { return false };
    let mut is_movable = root.get("$schema").is_none_or(|dialect| dialect == JSON_SCHEMA_2020_12);
    visit_schemas(document, &mut |members| {
        let has = |keyword: &&str| {
            members.contains_key(*keyword)
                && !(*keyword == "$schema" && std::ptr::eq(members, root))
        };
        is_movable &= !IDENTIFIER_KEYWORDS.iter().any(has);
        is_movable &= members.get("$ref").is_none_or(|reference| {
            reference.as_str().is_some_and(|text| text == "#" || text.starts_with("#/"))
        });
    });
    is_movable
}

/// Keywords that change how references are resolved.
const IDENTIFIER_KEYWORDS: [&str; 9] = [
    "$id",
    "id",
    "$schema",
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
];

/// Component names of a schema and its definitions.
#[derive(Debug, Clone, Default)]
pub(crate) struct ComponentNames {
    /// Name of the component that holds the root schema.
    pub(crate) root: String,
    /// Names of the components that hold the definitions, by keyword and key.
    pub(crate) definitions: HashMap<(&'static str, String), String>,
}

impl ComponentNames {
    /// Rewrites the references in part of the schema to refer to components.
    pub(crate) fn rewrite_refs(&self, part: &mut Value) {
        map_refs(part, &|reference| self.component_ref(reference));
    }

    fn component_ref(&self, reference: &str) -> Option<String> {
        let pointer = reference.strip_prefix('#')?;
        let Some((keyword, key, rest)) = parse_definition_pointer(pointer) else {
            return Some(format!("{COMPONENTS_PREFIX}{}{pointer}", self.root));
        };
        let home = self.definitions.get(&(keyword, key))?;
        Some(format!("{COMPONENTS_PREFIX}{home}{rest}"))
    }
}

/// Parses a JSON Pointer into a definition: its keyword, its key, and the rest of the pointer.
pub(crate) fn parse_definition_pointer(pointer: &str) -> Option<(&'static str, String, &str)> {
    let (keyword, rest) = pointer.strip_prefix('/')?.split_once('/')?;
    let keyword = DEFINITION_KEYWORDS.into_iter().find(|known| *known == keyword)?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (token, rest) = rest.split_at(end);
    Some((keyword, unescape_token(token), rest))
}

/// Returns the `$ref` values in a part, in document order.
pub(crate) fn collect_refs(part: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit_schemas(part, &mut |members| {
        found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
    });
    found
}

/// Whether a reference survives the rewrite to a component reference and back unchanged.
pub(crate) fn ref_round_trips(reference: &str) -> bool {
    let Some((_, key, rest)) = parse_definition_pointer(reference.trim_start_matches('#')) else {
        return true;
    };
    reference.ends_with(&format!("/{}{rest}", escape_token(&key)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::super::unbundle::{definitions, unbundle};
    use super::*;

    fn component_names() -> ComponentNames {
        let home = |keyword, key: &str, name: &str| ((keyword, key.to_owned()), name.to_owned());
        let definitions = [
            home("$defs", "a", "ShopA"),
            home("$defs", "b/c", "ShopBC"),
            home("definitions", "a", "ShopOldA"),
        ];
        ComponentNames { root: "ShopSellInput".to_owned(), definitions: definitions.into() }
    }

    #[test]
    fn refs_are_rewritten_to_component_refs() {
        for (reference, expected) in [
            ("#", "#/components/schemas/ShopSellInput"),
            ("#/properties/x", "#/components/schemas/ShopSellInput/properties/x"),
            ("#/$defs/a", "#/components/schemas/ShopA"),
            ("#/$defs/a/items", "#/components/schemas/ShopA/items"),
            ("#/$defs/b~1c", "#/components/schemas/ShopBC"),
            ("#/definitions/a", "#/components/schemas/ShopOldA"),
            ("#/$defs/none", "#/$defs/none"),
            ("https://example.com/s", "https://example.com/s"),
        ] {
            let mut schema = json!({"items": {"$ref": reference}});
            component_names().rewrite_refs(&mut schema);
            assert_eq!(schema["items"]["$ref"], expected, "{reference}");
        }
    }

    #[test]
    fn ref_like_data_is_not_rewritten() {
        let schema = json!({
            "properties": {"$ref": {"type": "string"}, "x": {"default": {"$ref": "#"}}},
            "const": {"$ref": "#"}, "enum": [{"$ref": "#"}], "x-own": {"$ref": "#"},
        });
        let mut rewritten = schema.clone();
        component_names().rewrite_refs(&mut rewritten);
        assert_eq!(rewritten, schema);
    }

    #[test]
    fn bundled_schema_unbundles_to_identical_document() {
        let schema = json!({
            "$schema": JSON_SCHEMA_2020_12,
            "title": "Sale",
            "properties": {"one": {"$ref": "#/$defs/a"}, "again": {"$ref": "#"}},
            "discriminator": {"propertyName": "one", "mapping": {"x": "#/$defs/b~1c"}},
            "$defs": {
                "a": {"title": "A", "items": {"$ref": "#/$defs/b~1c"}},
                "b/c": {"anyOf": [{"$ref": "#/properties/one"}, true]},
            },
        });
        let homes = component_names();
        let mut components = Map::new();
        for (keyword, key, part) in definitions(&schema) {
            let mut part = part.clone();
            homes.rewrite_refs(&mut part);
            part.as_object_mut().unwrap().shift_remove("title");
            components.insert(homes.definitions[&(keyword, key.clone())].clone(), part);
        }
        let mut root = schema.clone();
        homes.rewrite_refs(&mut root);
        for keyword in ["$schema", "title", "$defs"] {
            root.as_object_mut().unwrap().shift_remove(keyword);
        }
        components.insert(homes.root.clone(), root);
        let described = json!({
            "$ref": "#/components/schemas/ShopSellInput",
            "$schema": JSON_SCHEMA_2020_12,
            "title": "Sale",
            "$defs": {
                "a": {"$ref": "#/components/schemas/ShopA", "title": "A"},
                "b/c": {"$ref": "#/components/schemas/ShopBC"},
            },
        });
        let component = |name: &str| components.get(name);
        assert_eq!(unbundle(&described, component), Some(schema));
        for standalone in [json!(true), json!({"type": "string"}), json!({"$ref": "#/$defs/a"})] {
            assert_eq!(unbundle(&standalone, component), Some(standalone));
        }
        let missing = json!({"$ref": "#/components/schemas/Missing"});
        assert_eq!(unbundle(&missing, component), None);
    }

    #[test]
    fn schema_with_identifier_is_not_relocatable() {
        for (schema, expected) in [
            (json!({"type": "string"}), true),
            (json!({"$schema": JSON_SCHEMA_2020_12, "items": {"$ref": "#"}}), true),
            (json!({"properties": {"$id": {"type": "string"}, "id": true}}), true),
            (json!({"const": {"$id": "x"}}), true),
            (json!(true), false),
            (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), false),
            (json!({"$id": "https://example.com/s"}), false),
            (json!({"items": {"$id": "s"}}), false),
            (json!({"$anchor": "here"}), false),
            (json!({"items": {"$dynamicRef": "#here"}}), false),
            (json!({"items": {"$ref": "#here"}}), false),
            (json!({"items": {"$ref": "other.json"}}), false),
        ] {
            assert_eq!(is_relocatable(&schema), expected, "{schema}");
        }
    }
}
