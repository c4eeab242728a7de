//! Classification of a property as text, a list of texts, or JSON.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::QueryStyle;
use crate::json::JsonObject;
use crate::payload::{Payload, PayloadError};
use crate::schema::{IntegerRule, TypeSet, type_name};

/// Maximum number of references and nullable choices; a longer chain counts as a cycle.
const MAX_REF_DEPTH: usize = 16;

/// Maximum number of schemas whose types are inspected for a property.
pub(super) const MAX_SCHEMAS: u32 = 1_000;

/// Keywords that do not restrict which values are valid.
const ANNOTATIONS: [&str; 11] = [
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
];

/// Keywords that select or combine schemas. Their effect depends on the value.
const COMBINATORS: [&str; 9] =
    ["$dynamicRef", "$recursiveRef", "$ref", "allOf", "anyOf", "else", "if", "not", "oneOf"];

/// A property and its shape after resolving references.
#[derive(Debug, Clone)]
pub(super) struct ParamType<'a> {
    /// The property's schema as written in the input schema.
    property: &'a Value,
    shape: ParamShape<'a>,
}

#[derive(Debug, Clone)]
enum ParamShape<'a> {
    Text(&'a JsonObject, ScalarKind),
    List(&'a JsonObject, &'a JsonObject, ScalarKind),
    Json(TypeSet),
}

/// How the text of a parameter is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarKind {
    /// Always a string, even if it looks like another type.
    Text,
    /// A number or boolean.
    Literal,
    /// JSON of these types. If they include strings, other text is a string.
    Json(TypeSet),
}

/// Returns the properties of a plain object schema, one with only `type`, `properties`, `required`,
/// a trivial `additionalProperties` or `unevaluatedProperties`, and annotations. Other schemas
/// cannot be described parameter by parameter.
pub(super) fn plain_properties(root: &Value) -> Option<&JsonObject> {
    let members = root.as_object()?;
    let is_plain = members.iter().all(|(keyword, value)| match keyword.as_str() {
        "type" => value == "object",
        "properties" | "required" => true,
        "additionalProperties" | "unevaluatedProperties" => {
            value.is_boolean() || *value == json!({})
        }
        other => is_annotation(other),
    });
    if !is_plain {
        return None;
    }
    static EMPTY: std::sync::LazyLock<JsonObject> = std::sync::LazyLock::new(Map::new);
    let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false));
    match members.get("properties") {
        Some(properties) => properties.as_object(),
        None => is_closed.then_some(&*EMPTY),
    }
}

impl<'a> ParamType<'a> {
    pub(super) fn new(root: &'a Value, property: &'a Value) -> Self {
        let shape = param_shape(root, property)
            .unwrap_or_else(|| ParamShape::Json(value_types(root, property, &mut { MAX_SCHEMAS })));
        Self { property, shape }
    }

    pub(super) fn style(&self) -> QueryStyle {
        match self.shape {
            ParamShape::Text(..) => QueryStyle::Text,
            ParamShape::List(..) => QueryStyle::Repeated,
            ParamShape::Json(_) => QueryStyle::Json,
        }
    }

    pub(super) fn scalar_kind(&self) -> ScalarKind {
        match self.shape {
            ParamShape::Text(_, reading) | ParamShape::List(_, _, reading) => reading,
            ParamShape::Json(types) => ScalarKind::Json(types),
        }
    }

    /// Returns the schema of the values that the parameter can encode.
    pub(super) fn schema(&self) -> Cow<'a, Value> {
        let mut schema = match self.shape {
            ParamShape::Text(text, _) => without_null(text),
            ParamShape::List(list, items, _) => {
                let mut list = without_null(list);
                list.insert("items".to_owned(), without_null(items).into());
                let min_items = list.get("minItems").and_then(Value::as_u64).unwrap_or(0).max(1);
                list.insert("minItems".to_owned(), min_items.into());
                list
            }
            ParamShape::Json(_) => return Cow::Borrowed(self.property),
        };
        // Annotations of the property override those of the schema it refers to.
        let annotations = self.property.as_object().into_iter().flatten();
        for (keyword, value) in annotations.filter(|(keyword, value)| {
            is_annotation(keyword) && !(*keyword == "default" && value.is_null())
        }) {
            schema.insert(keyword.clone(), value.clone());
        }
        Cow::Owned(schema.into())
    }
}

fn param_shape<'a>(root: &'a Value, property: &'a Value) -> Option<ParamShape<'a>> {
    let schema = resolve_refs(root, property)?;
    if let Some(kind) = scalar_kind(schema) {
        return Some(ParamShape::Text(schema, kind));
    }
    let is_list = non_null_types(schema)? == ["array"] && !schema.contains_key("prefixItems");
    let allows_items = schema.get("maxItems").and_then(Value::as_u64) != Some(0);
    if !is_list || !allows_items || schema.contains_key("enum") || schema.contains_key("const") {
        return None;
    }
    let items = resolve_refs(root, schema.get("items")?)?;
    Some(ParamShape::List(schema, items, scalar_kind(items)?))
}

/// Returns the value of a string for a property: JSON of a type that the property accepts, else the
/// text if the property accepts strings.
pub(super) fn value_of_text(types: TypeSet, text: &str) -> Result<Value, PayloadError> {
    let accepts_strings = types.overlaps(TypeSet::STRING);
    if TypeSet::STRING.union(TypeSet::NULL).contains(types) && accepts_strings {
        return Ok(text.into());
    }
    match Payload::from_untrusted(text.as_bytes()).and_then(Payload::into_value) {
        Ok(value)
            if !accepts_strings
                || types.overlaps(TypeSet::of_value(&value, IntegerRule::ByValue)) =>
        {
            Ok(value)
        }
        Err(error) if !accepts_strings => Err(error),
        _ => Ok(text.into()),
    }
}

/// Returns the types of the values that a property accepts, and possibly more.
pub(super) fn value_types(root: &Value, schema: &Value, budget: &mut u32) -> TypeSet {
    let Some(rest) = budget.checked_sub(1) else { return TypeSet::ANY };
    *budget = rest;
    let Some(members) = schema.as_object() else { return TypeSet::ANY };
    let mut types = type_names(members).map_or(TypeSet::ANY, |names| {
        let names = names.into_iter().map(TypeSet::from_name);
        names.fold(TypeSet::NONE, TypeSet::union)
    });
    for keyword in ["anyOf", "oneOf"] {
        if let Some(choices) = members.get(keyword).and_then(Value::as_array) {
            let choices = choices.iter().map(|choice| value_types(root, choice, budget));
            types = types.intersection(choices.fold(TypeSet::NONE, TypeSet::union));
        }
    }
    let reference = members.get("$ref").and_then(Value::as_str);
    let target = reference.and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    target.map_or(types, |target| types.intersection(value_types(root, target, budget)))
}

/// Resolves references, and choices between a schema and null, to a schema without either.
fn resolve_refs<'a>(root: &'a Value, mut schema: &'a Value) -> Option<&'a JsonObject> {
    for _ in 0..MAX_REF_DEPTH {
        let members = schema.as_object()?;
        let mut composing =
            members.iter().filter(|(keyword, _)| COMBINATORS.contains(&&***keyword));
        let Some((keyword, value)) = composing.next() else { return Some(members) };
        let is_alone = members.keys().all(|other| other == keyword || is_annotation(other));
        schema = match keyword.as_str() {
            _ if !is_alone => return None,
            "$ref" => root.pointer(value.as_str()?.strip_prefix('#')?)?,
            "anyOf" | "oneOf" => non_null_choice(value.as_array()?)?,
            _ => return None,
        };
    }
    None
}

/// Returns the only choice that is not null, or `None` if there are several.
fn non_null_choice(choices: &[Value]) -> Option<&Value> {
    let is_null = |choice: &Value| {
        let kind = choice.get("type").or_else(|| choice.get("const"));
        kind.is_some_and(|kind| kind == "null" || kind.is_null())
    };
    let mut others = choices.iter().filter(|choice| !is_null(choice));
    let only = others.next()?;
    others.next().is_none().then_some(only)
}

/// Returns how text is parsed if the schema allows only strings, or only numbers and booleans.
fn scalar_kind(schema: &JsonObject) -> Option<ScalarKind> {
    let types = non_null_types(schema)?;
    let is_string = |name: &&str| *name == "string";
    let is_literal = |name: &&str| matches!(*name, "integer" | "number" | "boolean");
    match () {
        () if types.is_empty() => None,
        () if types.iter().all(is_string) => Some(ScalarKind::Text),
        () if types.iter().all(is_literal) => Some(ScalarKind::Literal),
        () => None,
    }
}

/// Returns the types other than null, if the schema declares types.
fn non_null_types(schema: &JsonObject) -> Option<Vec<&str>> {
    Some(type_names(schema)?.into_iter().filter(|name| *name != "null").collect())
}

/// Returns the types, if the schema declares types.
fn type_names(schema: &JsonObject) -> Option<Vec<&str>> {
    Some(match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
        Some(_) => return None,
        None => match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().map(type_name).collect(),
            (None, Some(value)) => vec![type_name(value)],
            _ => return None,
        },
    })
}

fn without_null(schema: &JsonObject) -> JsonObject {
    let mut schema = schema.clone();
    if let Some(Value::Array(names)) = schema.get_mut("type") {
        names.retain(|name| name != "null");
        if let [only] = &mut names[..] {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.shift_remove("default");
    }
    schema
}

/// Whether a keyword does not restrict values. Extension keywords (`x-…`) do not.
fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || keyword == "writeOnly" || keyword.starts_with("x-")
}
