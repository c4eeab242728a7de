//! The way back from components of an OpenAPI document to a schema of its own.
//!
//! A `$ref` of a schema leads into the schema itself. In a document it would lead into the document,
//! so a schema that is put there leaves its definitions among the components, and its references lead
//! to these. [`restored`] undoes that to the letter.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Where the schemas of a document stand.
pub(crate) const COMPONENTS: &str = "#/components/schemas/";
/// The keywords that hold definitions.
pub(crate) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// How deep a schema is looked at; what is deeper does not compile.
const DEEPEST: u32 = 512;

/// The schema that was described by a reference to a component, with the members beside it put back;
/// `$defs` among these says which components were its definitions. Anything else is as it is.
///
/// `None` if a component is missing.
pub(crate) fn restored<'a>(
    described: &Value,
    component: impl Fn(&str) -> Option<&'a Value>,
) -> Option<Value> {
    let Some(root) = name(described) else { return Some(described.clone()) };
    let mut ways = HashMap::from([(root, "#".to_owned())]);
    for (keyword, key, definition) in definitions(described) {
        ways.insert(name(definition)?, format!("#/{keyword}/{}", escaped(key)));
    }
    let back = |described: &Value| {
        let mut part = component(name(described)?)?.clone();
        redirect(&mut part, &|reference| {
            let rest = reference.strip_prefix(COMPONENTS)?;
            let end = rest.find('/').unwrap_or(rest.len());
            Some(format!("{}{}", ways.get(&rest[..end])?, &rest[end..]))
        });
        let beside = described.as_object()?.iter().filter(|(keyword, _)| *keyword != "$ref");
        part.as_object_mut()?.extend(beside.map(|(keyword, said)| (keyword.clone(), said.clone())));
        Some(part)
    };
    let mut schema = back(described)?;
    for keyword in DEFINITIONS {
        let parts = schema.get_mut(keyword).and_then(Value::as_object_mut).into_iter().flatten();
        for (_, part) in parts {
            *part = back(part)?;
        }
    }
    Some(schema)
}

/// The component that a schema refers to.
fn name(described: &Value) -> Option<&str> {
    described.get("$ref")?.as_str()?.strip_prefix(COMPONENTS)
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
#[cfg(feature = "mcp")]
pub(crate) fn look<'a>(schema: &'a Value, seen: &mut impl FnMut(&'a Map<String, Value>)) {
    look_above(schema, DEEPEST, seen);
}

#[cfg(feature = "mcp")]
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
