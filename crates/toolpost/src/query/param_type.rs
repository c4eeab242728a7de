//! Classification of a property as text, a list of texts, or JSON.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::QueryStyle;
use crate::json::JsonObject;
use crate::schema::type_name;

/// Maximum number of references and nullable choices; a longer chain counts as a cycle.
const MAX_REF_DEPTH: usize = 16;

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
    Json,
}

/// How the text of a parameter is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarKind {
    /// Always a string, even if it looks like another type.
    Text,
    /// A number or boolean.
    Literal,
    Json,
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
        Self { property, shape: param_shape(root, property).unwrap_or(ParamShape::Json) }
    }

    pub(super) fn style(&self) -> QueryStyle {
        match self.shape {
            ParamShape::Text(..) => QueryStyle::Text,
            ParamShape::List(..) => QueryStyle::Repeated,
            ParamShape::Json => QueryStyle::Json,
        }
    }

    pub(super) fn scalar_kind(&self) -> ScalarKind {
        match self.shape {
            ParamShape::Text(_, reading) | ParamShape::List(_, _, reading) => reading,
            ParamShape::Json => ScalarKind::Json,
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
            ParamShape::Json => return Cow::Borrowed(self.property),
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
    let types = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
        Some(_) => return None,
        None => match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().map(type_name).collect(),
            (None, Some(value)) => vec![type_name(value)],
            _ => return None,
        },
    };
    Some(types.into_iter().filter(|name| *name != "null").collect())
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
