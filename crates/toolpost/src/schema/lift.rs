//! A schema whose definitions stand apart from it, among the components of an OpenAPI document.

use std::collections::HashMap;

use serde_json::Value;

use super::restore::{COMPONENTS, DEFINITIONS, escaped, look, redirect};

/// The dialect of a document, in which a schema need not say what it is.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Whether a schema means the same wherever it stands, once its references lead to where its parts
/// are: it is of the dialect of the document, and neither it nor a part of it has a name of its own.
pub(crate) fn is_movable(document: &Value) -> bool {
    let Some(root) = document.as_object() else { return false };
    let mut is_movable = root.get("$schema").is_none_or(|said| said == DIALECT);
    look(document, &mut |members| {
        let has = |keyword: &&str| {
            members.contains_key(*keyword)
                && !(*keyword == "$schema" && std::ptr::eq(members, root))
        };
        is_movable &= !NAMING.iter().any(has);
        is_movable &= members.get("$ref").is_none_or(|reference| {
            reference.as_str().is_some_and(|text| text == "#" || text.starts_with("#/"))
        });
    });
    is_movable
}

/// Keywords that change what references mean.
const NAMING: [&str; 9] = [
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

/// The names of a schema and of its definitions among the components.
#[derive(Debug, Clone, Default)]
pub(crate) struct Homes {
    /// The component that is the schema itself.
    pub(crate) root: String,
    /// The components that are its definitions, by keyword and key.
    pub(crate) definitions: HashMap<(&'static str, String), String>,
}

impl Homes {
    /// Makes the references of a part of the schema lead to components.
    pub(crate) fn lift(&self, part: &mut Value) {
        redirect(part, &|reference| self.component(reference));
    }

    fn component(&self, reference: &str) -> Option<String> {
        let pointer = reference.strip_prefix('#')?;
        let Some((keyword, key, rest)) = definition(pointer) else {
            return Some(format!("{COMPONENTS}{}{pointer}", self.root));
        };
        let home = self.definitions.get(&(keyword, key))?;
        Some(format!("{COMPONENTS}{home}{rest}"))
    }
}

/// The keyword and the key of the definition that a pointer leads into, and the way inside it.
pub(crate) fn definition(pointer: &str) -> Option<(&'static str, String, &str)> {
    let (keyword, rest) = pointer.strip_prefix('/')?.split_once('/')?;
    let keyword = DEFINITIONS.into_iter().find(|known| *known == keyword)?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (token, rest) = rest.split_at(end);
    Some((keyword, unescaped(token), rest))
}

/// The references of a part, in the order in which they stand there.
pub(crate) fn references(part: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(part, &mut |members| {
        found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
    });
    found
}

/// Whether a reference comes back as it was when it has led to a component.
pub(crate) fn is_plain(reference: &str) -> bool {
    let Some((_, key, rest)) = definition(reference.trim_start_matches('#')) else { return true };
    reference.ends_with(&format!("/{}{rest}", escaped(&key)))
}

/// A token of a pointer; percent signs stay, since nobody writes them but those who must.
fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::super::restore::{definitions, restored};
    use super::*;

    fn homes() -> Homes {
        let home = |keyword, key: &str, name: &str| ((keyword, key.to_owned()), name.to_owned());
        let definitions = [
            home("$defs", "a", "ShopA"),
            home("$defs", "b/c", "ShopBC"),
            home("definitions", "a", "ShopOldA"),
        ];
        Homes { root: "ShopSellInput".to_owned(), definitions: definitions.into() }
    }

    #[test]
    fn references_lead_to_components() {
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
            homes().lift(&mut schema);
            assert_eq!(schema["items"]["$ref"], expected, "{reference}");
        }
    }

    #[test]
    fn what_only_looks_like_a_reference_is_data() {
        let schema = json!({
            "properties": {"$ref": {"type": "string"}, "x": {"default": {"$ref": "#"}}},
            "const": {"$ref": "#"}, "enum": [{"$ref": "#"}], "x-own": {"$ref": "#"},
        });
        let mut lifted = schema.clone();
        homes().lift(&mut lifted);
        assert_eq!(lifted, schema);
    }

    #[test]
    fn what_was_lifted_is_restored_to_the_letter() {
        let schema = json!({
            "$schema": DIALECT,
            "title": "Sale",
            "properties": {"one": {"$ref": "#/$defs/a"}, "again": {"$ref": "#"}},
            "discriminator": {"propertyName": "one", "mapping": {"x": "#/$defs/b~1c"}},
            "$defs": {
                "a": {"title": "A", "items": {"$ref": "#/$defs/b~1c"}},
                "b/c": {"anyOf": [{"$ref": "#/properties/one"}, true]},
            },
        });
        let homes = homes();
        let mut components = Map::new();
        for (keyword, key, part) in definitions(&schema) {
            let mut part = part.clone();
            homes.lift(&mut part);
            part.as_object_mut().unwrap().shift_remove("title");
            components.insert(homes.definitions[&(keyword, key.clone())].clone(), part);
        }
        let mut root = schema.clone();
        homes.lift(&mut root);
        for keyword in ["$schema", "title", "$defs"] {
            root.as_object_mut().unwrap().shift_remove(keyword);
        }
        components.insert(homes.root.clone(), root);
        let described = json!({
            "$ref": "#/components/schemas/ShopSellInput",
            "$schema": DIALECT,
            "title": "Sale",
            "$defs": {
                "a": {"$ref": "#/components/schemas/ShopA", "title": "A"},
                "b/c": {"$ref": "#/components/schemas/ShopBC"},
            },
        });
        let component = |name: &str| components.get(name);
        assert_eq!(restored(&described, component), Some(schema));
        for whole in [json!(true), json!({"type": "string"}), json!({"$ref": "#/$defs/a"})] {
            assert_eq!(restored(&whole, component), Some(whole));
        }
        let missing = json!({"$ref": "#/components/schemas/Nobody"});
        assert_eq!(restored(&missing, component), None);
    }

    #[test]
    fn a_schema_with_a_name_of_its_own_stays_where_it_is() {
        for (schema, expected) in [
            (json!({"type": "string"}), true),
            (json!({"$schema": DIALECT, "items": {"$ref": "#"}}), true),
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
            assert_eq!(is_movable(&schema), expected, "{schema}");
        }
    }
}
