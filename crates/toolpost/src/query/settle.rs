//! What a property comes down to: text, a list of texts, or something that only JSON can say.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::QueryStyle;
use crate::schema::type_name;

/// How far references are followed before they are taken for a circle.
const MOST_STEPS: usize = 16;

/// Keywords that say nothing about which values fit.
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

/// Keywords that choose between schemas; what they come to depends on the value.
const COMPOSING: [&str; 9] =
    ["$dynamicRef", "$recursiveRef", "$ref", "allOf", "anyOf", "else", "if", "not", "oneOf"];

/// A property, and where its references lead.
#[derive(Debug, Clone)]
pub(super) struct Settled<'a> {
    /// As the input has it.
    property: &'a Value,
    form: Form<'a>,
}

#[derive(Debug, Clone)]
enum Form<'a> {
    Text(&'a Map<String, Value>, Reading),
    List(&'a Map<String, Value>, &'a Map<String, Value>, Reading),
    Json,
}

/// What a text is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Text, whatever it looks like.
    Words,
    /// A number or a truth value.
    Literal,
    Json,
}

/// The properties of an object of which nothing is said but what its properties are. Anything else
/// could not be described parameter by parameter.
pub(super) fn properties(root: &Value) -> Option<&Map<String, Value>> {
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
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false));
    match members.get("properties") {
        Some(properties) => properties.as_object(),
        None => is_closed.then_some(&*NONE),
    }
}

impl<'a> Settled<'a> {
    pub(super) fn of(root: &'a Value, property: &'a Value) -> Self {
        Self { property, form: form(root, property).unwrap_or(Form::Json) }
    }

    pub(super) fn style(&self) -> QueryStyle {
        match self.form {
            Form::Text(..) => QueryStyle::Text,
            Form::List(..) => QueryStyle::Repeated,
            Form::Json => QueryStyle::Json,
        }
    }

    pub(super) fn reading(&self) -> Reading {
        match self.form {
            Form::Text(_, reading) | Form::List(_, _, reading) => reading,
            Form::Json => Reading::Json,
        }
    }

    /// The schema of what can be written.
    pub(super) fn schema(&self) -> Cow<'a, Value> {
        let mut schema = match self.form {
            Form::Text(text, _) => without_null(text),
            Form::List(list, items, _) => {
                let mut list = without_null(list);
                list.insert("items".to_owned(), without_null(items).into());
                let least = list.get("minItems").and_then(Value::as_u64).unwrap_or(0).max(1);
                list.insert("minItems".to_owned(), least.into());
                list
            }
            Form::Json => return Cow::Borrowed(self.property),
        };
        // What is said where the property stands is nearer than what is said where it leads.
        let said = self.property.as_object().into_iter().flatten();
        for (keyword, value) in said.filter(|(keyword, value)| {
            is_annotation(keyword) && !(*keyword == "default" && value.is_null())
        }) {
            schema.insert(keyword.clone(), value.clone());
        }
        Cow::Owned(schema.into())
    }
}

fn form<'a>(root: &'a Value, property: &'a Value) -> Option<Form<'a>> {
    let schema = follow(root, property)?;
    if let Some(reading) = reading(schema) {
        return Some(Form::Text(schema, reading));
    }
    let is_list = types(schema)? == ["array"] && !schema.contains_key("prefixItems");
    let can_hold = schema.get("maxItems").and_then(Value::as_u64) != Some(0);
    if !is_list || !can_hold || schema.contains_key("enum") || schema.contains_key("const") {
        return None;
    }
    let items = follow(root, schema.get("items")?)?;
    Some(Form::List(schema, items, reading(items)?))
}

/// Follows references, and choices between something and null, to a schema that stands for itself.
fn follow<'a>(root: &'a Value, mut schema: &'a Value) -> Option<&'a Map<String, Value>> {
    for _ in 0..MOST_STEPS {
        let members = schema.as_object()?;
        let mut composing = members.iter().filter(|(keyword, _)| COMPOSING.contains(&&***keyword));
        let Some((keyword, value)) = composing.next() else { return Some(members) };
        let is_alone = members.keys().all(|other| other == keyword || is_annotation(other));
        schema = match keyword.as_str() {
            _ if !is_alone => return None,
            "$ref" => root.pointer(value.as_str()?.strip_prefix('#')?)?,
            "anyOf" | "oneOf" => beside_null(value.as_array()?)?,
            _ => return None,
        };
    }
    None
}

/// The one choice that is not null.
fn beside_null(choices: &[Value]) -> Option<&Value> {
    let is_null = |choice: &Value| {
        let kind = choice.get("type").or_else(|| choice.get("const"));
        kind.is_some_and(|kind| kind == "null" || kind.is_null())
    };
    let mut others = choices.iter().filter(|choice| !is_null(choice));
    let only = others.next()?;
    others.next().is_none().then_some(only)
}

/// How a text is read where only texts fit, or only numbers and truth values.
fn reading(schema: &Map<String, Value>) -> Option<Reading> {
    let types = types(schema)?;
    let is_words = |name: &&str| *name == "string";
    let is_literal = |name: &&str| matches!(*name, "integer" | "number" | "boolean");
    match () {
        () if types.is_empty() => None,
        () if types.iter().all(is_words) => Some(Reading::Words),
        () if types.iter().all(is_literal) => Some(Reading::Literal),
        () => None,
    }
}

/// The types that fit beside null, if the schema says them.
fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    let named = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
        Some(_) => return None,
        None => match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().map(type_name).collect(),
            (None, Some(value)) => vec![type_name(value)],
            _ => return None,
        },
    };
    Some(named.into_iter().filter(|name| *name != "null").collect())
}

fn without_null(schema: &Map<String, Value>) -> Map<String, Value> {
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

/// Keywords that nobody knows say nothing either.
fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || keyword == "writeOnly" || keyword.starts_with("x-")
}
