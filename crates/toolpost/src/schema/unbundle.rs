//! Restores a standalone schema from the components of an OpenAPI document.
//!
//! A `$ref` in a standalone schema is relative to the schema; in an OpenAPI document it is relative
//! to the document. When a schema is added to a document, its definitions therefore become
//! components and its references are rewritten. [`unbundle`] reverses this exactly.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::subschemas::{visit_schemas, visit_schemas_mut};
use crate::json::escape_token;

/// Reference prefix of the component schemas in an OpenAPI document.
pub(crate) const COMPONENTS_PREFIX: &str = "#/components/schemas/";
/// Extension of a component with the metadata of the original definition: its `key`, its `keyword`
/// if that is not `$defs`, its `title`, and the original `schema` if the component differs from it.
pub(crate) const DEFINITION_EXTENSION: &str = "x-toolpost-definition";
/// Keywords that contain definitions.
pub(crate) const DEFINITION_KEYWORDS: [&str; 2] = ["$defs", "definitions"];

/// Restores a schema that was replaced by a reference to a component, with the members next to the
/// reference. Its definitions are those listed in `$defs` next to the reference, and all other
/// referenced components, under the keys that the components specify. Any other schema is returned
/// unchanged.
///
/// Returns `None` if a component is missing.
pub(crate) fn unbundle<'d, 'c: 'd>(
    described: &'d Value,
    component: impl Fn(&str) -> Option<&'c Value>,
) -> Option<Value> {
    let Some(root) = root_component(described) else { return Some(described.clone()) };
    let mut definition_refs = HashMap::from([(root, "#".to_owned())]);
    let part = |keyword, key, annotations, name| {
        Some(BundledPart { keyword, key, annotations, component: component(name)? })
    };
    let mut parts = vec![part("", "", described, root)?];
    for (keyword, key, described) in definitions(described) {
        let name = root_component(described)?;
        definition_refs.insert(name, definition_ref(keyword, key));
        parts.push(part(keyword, key, described, name)?);
    }
    let mut at = 0;
    while let Some(part) = parts.get(at) {
        let led: Vec<&str> = referenced_components(part.component).collect();
        for name in led {
            if definition_refs.contains_key(name) {
                continue;
            }
            let text = component(name)?;
            let Some((keyword, key)) = definition_location(text) else { continue };
            definition_refs.insert(name, definition_ref(keyword, key));
            parts.push(BundledPart { keyword, key, annotations: &Value::Null, component: text });
        }
        at += 1;
    }
    let mut parts = parts.iter();
    let mut schema = parts.next()?.unbundle(&definition_refs)?;
    for part in parts {
        schema.get_mut(part.keyword).is_none().then(|| schema[part.keyword] = Map::new().into());
        schema[part.keyword][part.key] = part.unbundle(&definition_refs)?;
    }
    Some(schema)
}

/// A component that becomes the root or a definition of the restored schema.
struct BundledPart<'a> {
    keyword: &'a str,
    key: &'a str,
    /// Object with the reference to the component and the members next to it.
    annotations: &'a Value,
    /// The component schema.
    component: &'a Value,
}

impl BundledPart<'_> {
    fn unbundle(&self, definition_refs: &HashMap<&str, String>) -> Option<Value> {
        let origin = self.component.get(DEFINITION_EXTENSION);
        let mut part = original_schema(self.component).clone();
        map_refs(&mut part, &|reference| {
            let name = component_name(reference)?;
            Some(format!(
                "{}{}",
                definition_refs.get(name)?,
                &reference[COMPONENTS_PREFIX.len() + name.len()..]
            ))
        });
        let Some(members) = part.as_object_mut() else { return Some(part) };
        members.shift_remove(DEFINITION_EXTENSION);
        let title = origin.and_then(|origin| origin.get("title"));
        members.extend(title.map(|title| ("title".to_owned(), title.clone())));
        let is_beside =
            |keyword: &str| keyword != "$ref" && !DEFINITION_KEYWORDS.contains(&keyword);
        let beside = self.annotations.as_object().into_iter().flatten();
        let beside = beside.filter(|(keyword, _)| is_beside(keyword));
        members.extend(beside.map(|(keyword, value)| (keyword.clone(), value.clone())));
        Some(part)
    }
}

/// Returns the original schema of a component: in the extension if they differ.
fn original_schema(component: &Value) -> &Value {
    component.get(DEFINITION_EXTENSION).and_then(|origin| origin.get("schema")).unwrap_or(component)
}

/// Returns the keyword and key that a component has as a definition.
fn definition_location(component: &Value) -> Option<(&str, &str)> {
    let origin = component.get(DEFINITION_EXTENSION)?;
    let keyword = origin.get("keyword").map_or(Some("$defs"), Value::as_str)?;
    Some((keyword, origin.get("key")?.as_str()?))
}

fn definition_ref(keyword: &str, key: &str) -> String {
    format!("#/{keyword}/{}", escape_token(key))
}

/// Returns the names of the components that a component references.
pub(crate) fn referenced_components(component: &Value) -> impl Iterator<Item = &str> {
    ref_targets(original_schema(component)).into_iter().filter_map(component_name)
}

/// Returns the targets of all local references, including those of discriminators.
pub(crate) fn ref_targets(part: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    visit_schemas(part, &mut |members| {
        found.extend(members.get("$ref").and_then(Value::as_str));
        let mapping = members.get("discriminator").and_then(|it| it.get("mapping"));
        let targets = mapping.and_then(Value::as_object).into_iter().flatten();
        found.extend(targets.filter_map(|(_, target)| target.as_str()));
    });
    found.retain(|link| link.starts_with('#'));
    found
}

/// Returns the name of the component that the schema's `$ref` refers to.
fn root_component(described: &Value) -> Option<&str> {
    described.get("$ref")?.as_str()?.strip_prefix(COMPONENTS_PREFIX)
}

/// Returns the name of the component that a reference points into.
fn component_name(reference: &str) -> Option<&str> {
    let rest = reference.strip_prefix(COMPONENTS_PREFIX)?;
    Some(&rest[..rest.find('/').unwrap_or(rest.len())])
}

/// Returns the definitions at the root of a schema: keyword, key and schema.
pub(crate) fn definitions(
    document: &Value,
) -> impl Iterator<Item = (&'static str, &String, &Value)> {
    DEFINITION_KEYWORDS.into_iter().flat_map(move |keyword| {
        let parts = document.get(keyword).and_then(Value::as_object).into_iter().flatten();
        parts.map(move |(key, part)| (keyword, key, part))
    })
}

/// Rewrites all references, including those of discriminators.
pub(crate) fn map_refs(part: &mut Value, to: &impl Fn(&str) -> Option<String>) {
    let turn = |value: &mut Value| {
        if let Some(other) = value.as_str().and_then(to) {
            *value = other.into();
        }
    };
    visit_schemas_mut(part, &mut |members| {
        members.get_mut("$ref").into_iter().for_each(turn);
        let mapping = members.get_mut("discriminator").and_then(|it| it.get_mut("mapping"));
        let targets = mapping.and_then(Value::as_object_mut).into_iter().flatten();
        targets.for_each(|(_, target)| turn(target));
    });
}
