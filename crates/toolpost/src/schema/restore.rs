//! The way back from components of an OpenAPI document to a schema of its own.
//!
//! A `$ref` of a schema leads into the schema itself. In a document it would lead into the document,
//! so a schema that is put there leaves its definitions among the components, and its references lead
//! to these. [`restored`] undoes that to the letter.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Where the schemas of a document stand.
pub(crate) const COMPONENTS: &str = "#/components/schemas/";
/// What a component says about the definition that it was: its `key`, its `keyword` if that is not
/// `$defs`, its `title`, and the `schema` itself where the component says it in other words.
pub(crate) const ORIGIN: &str = "x-toolpost-definition";
/// The keywords that hold definitions.
pub(crate) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// How deep a schema is looked at; what is deeper does not compile.
const DEEPEST: u32 = 512;

/// The schema that was described by a reference to a component, with the members beside it put back.
/// Its definitions are those that `$defs` among these names, and whatever else is led to, under the keys
/// that the components themselves have. Anything else is as it is.
///
/// `None` if a component is missing.
pub(crate) fn restored<'d, 'c: 'd>(
    described: &'d Value,
    component: impl Fn(&str) -> Option<&'c Value>,
) -> Option<Value> {
    let Some(root) = name(described) else { return Some(described.clone()) };
    let mut ways = HashMap::from([(root, "#".to_owned())]);
    let mut parts = vec![Part { keyword: "", key: "", described, text: component(root)? }];
    for (keyword, key, described) in definitions(described) {
        let name = name(described)?;
        ways.insert(name, way(keyword, key));
        parts.push(Part { keyword, key, described, text: component(name)? });
    }
    let mut at = 0;
    while let Some(part) = parts.get(at) {
        let led: Vec<&str> = components_of(part.text).collect();
        for name in led {
            if ways.contains_key(name) {
                continue;
            }
            let text = component(name)?;
            let Some((keyword, key)) = place(text) else { continue };
            ways.insert(name, way(keyword, key));
            parts.push(Part { keyword, key, described: &Value::Null, text });
        }
        at += 1;
    }
    let mut parts = parts.iter();
    let mut schema = parts.next()?.restored(&ways)?;
    for part in parts {
        schema.get_mut(part.keyword).is_none().then(|| schema[part.keyword] = Map::new().into());
        schema[part.keyword][part.key] = part.restored(&ways)?;
    }
    Some(schema)
}

/// What a schema is put together from.
struct Part<'a> {
    keyword: &'a str,
    key: &'a str,
    /// What is said beside the reference to it.
    described: &'a Value,
    /// The component.
    text: &'a Value,
}

impl Part<'_> {
    fn restored(&self, ways: &HashMap<&str, String>) -> Option<Value> {
        let origin = self.text.get(ORIGIN);
        let mut part = original(self.text).clone();
        redirect(&mut part, &|reference| {
            let name = component_name(reference)?;
            Some(format!("{}{}", ways.get(name)?, &reference[COMPONENTS.len() + name.len()..]))
        });
        let Some(members) = part.as_object_mut() else { return Some(part) };
        members.shift_remove(ORIGIN);
        let title = origin.and_then(|origin| origin.get("title"));
        members.extend(title.map(|title| ("title".to_owned(), title.clone())));
        let is_beside = |keyword: &str| keyword != "$ref" && !DEFINITIONS.contains(&keyword);
        let beside = self.described.as_object().into_iter().flatten();
        let beside = beside.filter(|(keyword, _)| is_beside(keyword));
        members.extend(beside.map(|(keyword, said)| (keyword.clone(), said.clone())));
        Some(part)
    }
}

/// The text of a component as it was, which it says itself where it is said in other words.
fn original(component: &Value) -> &Value {
    component.get(ORIGIN).and_then(|origin| origin.get("schema")).unwrap_or(component)
}

/// The keyword and the key that a component has in the schemas that it is a definition of.
fn place(component: &Value) -> Option<(&str, &str)> {
    let origin = component.get(ORIGIN)?;
    let keyword = origin.get("keyword").map_or(Some("$defs"), Value::as_str)?;
    Some((keyword, origin.get("key")?.as_str()?))
}

fn way(keyword: &str, key: &str) -> String {
    format!("#/{keyword}/{}", escaped(key))
}

/// The components that a component leads to.
pub(crate) fn components_of(component: &Value) -> impl Iterator<Item = &str> {
    links(original(component)).into_iter().filter_map(component_name)
}

/// Where the parts of a schema lead, by references and by discriminators.
pub(crate) fn links(part: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    look(part, &mut |members| {
        found.extend(members.get("$ref").and_then(Value::as_str));
        let mapping = members.get("discriminator").and_then(|it| it.get("mapping"));
        let targets = mapping.and_then(Value::as_object).into_iter().flatten();
        found.extend(targets.filter_map(|(_, target)| target.as_str()));
    });
    found.retain(|link| link.starts_with('#'));
    found
}

/// The component that a schema refers to.
fn name(described: &Value) -> Option<&str> {
    described.get("$ref")?.as_str()?.strip_prefix(COMPONENTS)
}

/// The component that a reference leads into.
fn component_name(reference: &str) -> Option<&str> {
    let rest = reference.strip_prefix(COMPONENTS)?;
    Some(&rest[..rest.find('/').unwrap_or(rest.len())])
}

/// The definitions at the root of a schema.
pub(crate) fn definitions(
    document: &Value,
) -> impl Iterator<Item = (&'static str, &String, &Value)> {
    DEFINITIONS.into_iter().flat_map(move |keyword| {
        let parts = document.get(keyword).and_then(Value::as_object).into_iter().flatten();
        parts.map(move |(key, part)| (keyword, key, part))
    })
}

/// Sends references elsewhere, those of a discriminator too.
pub(crate) fn redirect(part: &mut Value, to: &impl Fn(&str) -> Option<String>) {
    let turn = |value: &mut Value| {
        if let Some(other) = value.as_str().and_then(to) {
            *value = other.into();
        }
    };
    each(part, &mut |members| {
        members.get_mut("$ref").into_iter().for_each(turn);
        let mapping = members.get_mut("discriminator").and_then(|it| it.get_mut("mapping"));
        let targets = mapping.and_then(Value::as_object_mut).into_iter().flatten();
        targets.for_each(|(_, target)| turn(target));
    });
}

/// Shows every schema that is an object, and no data that looks like one.
pub(crate) fn each(schema: &mut Value, show: &mut impl FnMut(&mut Map<String, Value>)) {
    each_above(schema, DEEPEST, show);
}

fn each_above(schema: &mut Value, depth: u32, show: &mut impl FnMut(&mut Map<String, Value>)) {
    let (Some(depth), Some(members)) = (depth.checked_sub(1), schema.as_object_mut()) else {
        return;
    };
    show(members);
    for (keyword, value) in members {
        match (Holds::of(keyword), value) {
            (Holds::Schema, Value::Array(list)) => {
                list.iter_mut().for_each(|item| each_above(item, depth, show));
            }
            (Holds::Schema, value) => each_above(value, depth, show),
            (Holds::Named, Value::Object(parts)) => {
                parts.values_mut().for_each(|part| each_above(part, depth, show));
            }
            _ => {}
        }
    }
}

/// The same for somebody who only looks.
pub(crate) fn look<'a>(schema: &'a Value, seen: &mut impl FnMut(&'a Map<String, Value>)) {
    look_above(schema, DEEPEST, seen);
}

fn look_above<'a>(schema: &'a Value, depth: u32, seen: &mut impl FnMut(&'a Map<String, Value>)) {
    let (Some(depth), Some(members)) = (depth.checked_sub(1), schema.as_object()) else { return };
    seen(members);
    for (keyword, value) in members {
        match (Holds::of(keyword), value) {
            (Holds::Schema, Value::Array(list)) => {
                list.iter().for_each(|item| look_above(item, depth, seen));
            }
            (Holds::Schema, value) => look_above(value, depth, seen),
            (Holds::Named, Value::Object(parts)) => {
                parts.values().for_each(|part| look_above(part, depth, seen));
            }
            _ => {}
        }
    }
}

/// What a keyword holds.
enum Holds {
    /// A schema, or a list of them.
    Schema,
    /// Schemas by names.
    Named,
    Data,
}

impl Holds {
    fn of(keyword: &str) -> Self {
        match keyword {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
            | "dependencies" => Self::Named,
            "items"
            | "prefixItems"
            | "additionalItems"
            | "unevaluatedItems"
            | "contains"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contentSchema" => Self::Schema,
            _ => Self::Data,
        }
    }
}

pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
