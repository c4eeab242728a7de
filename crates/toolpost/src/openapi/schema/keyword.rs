//! Rules for the values of schema keywords. Keywords with invalid values are omitted.

use super::super::document::{CompactValue, Node};
use super::context::SchemaContext;
use crate::schema::KeywordValue;

/// The expected value of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordRule {
    Reference,
    DynamicReference,
    Schema,
    Schemas,
    SchemaMap,
    PatternMap,
    /// One schema, or an array of schemas as in older drafts.
    Items,
    Type,
    Number,
    /// A number, or a boolean that makes the adjacent limit exclusive, as in older drafts.
    Limit,
    Divisor,
    Count,
    Flag,
    Text,
    Pattern,
    Names,
    NamesMap,
    Values,
    ValueList,
    Default,
    Constant,
    Example,
    Discriminator,
    /// The keyword has no meaning in JSON Schema, or is expressed in another way.
    Ignored,
}

pub(super) fn keyword_rule(keyword: &str) -> KeywordRule {
    match keyword {
        "$ref" => KeywordRule::Reference,
        "$dynamicRef" | "$recursiveRef" => KeywordRule::DynamicReference,
        "patternProperties" => KeywordRule::PatternMap,
        "items" => KeywordRule::Items,
        "type" => KeywordRule::Type,
        "minimum" | "maximum" => KeywordRule::Number,
        "exclusiveMinimum" | "exclusiveMaximum" => KeywordRule::Limit,
        "multipleOf" => KeywordRule::Divisor,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => KeywordRule::Count,
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => KeywordRule::Flag,
        "title" | "description" | "$comment" | "format" | "contentEncoding"
        | "contentMediaType" => KeywordRule::Text,
        "pattern" => KeywordRule::Pattern,
        "required" => KeywordRule::Names,
        "dependentRequired" => KeywordRule::NamesMap,
        "enum" => KeywordRule::Values,
        "examples" => KeywordRule::ValueList,
        "default" => KeywordRule::Default,
        "const" => KeywordRule::Constant,
        "example" => KeywordRule::Example,
        "discriminator" => KeywordRule::Discriminator,
        // Definitions are written where they are referenced.
        "additionalItems" | "contentSchema" | "$defs" | "definitions" | "dependencies" => {
            KeywordRule::Ignored
        }
        _ => match KeywordValue::of(keyword) {
            KeywordValue::Schema => KeywordRule::Schema,
            KeywordValue::SchemaArray => KeywordRule::Schemas,
            KeywordValue::SchemaMap => KeywordRule::SchemaMap,
            _ => KeywordRule::Ignored,
        },
    }
}

/// Maximum nesting depth of values that are copied without interpretation.
const MAX_VALUE_DEPTH: u32 = 32;

/// Returns why a keyword of `schema` is omitted, or `None` if it is valid.
pub(super) fn keyword_error(
    context: &SchemaContext,
    keyword: &str,
    value: Node<'_>,
    schema: Node<'_>,
) -> Option<String> {
    let wants = |what: &str| {
        Some(format!("`{keyword}` must be {what}, found {}; it is ignored", describe_value(value)))
    };
    match keyword_rule(keyword) {
        KeywordRule::Reference if value.as_str().is_none() => wants("a string"),
        KeywordRule::Schema if !is_schema(value) => wants("a schema"),
        KeywordRule::Items if !is_schema(value) && !value.is_array() => wants("a schema"),
        KeywordRule::Schemas if value.items().len() == 0 => wants("a list of schemas"),
        KeywordRule::SchemaMap | KeywordRule::PatternMap if !value.is_object() => {
            wants("an object of schemas")
        }
        KeywordRule::Type => type_error(value),
        KeywordRule::Number if value.as_number().is_none() => wants("a number"),
        KeywordRule::Limit if value.as_number().is_none() && value.as_bool().is_none() => {
            wants("a number")
        }
        KeywordRule::Divisor if !value.as_number().is_some_and(|n| n.as_f64() > Some(0.0)) => {
            wants("a number greater than 0")
        }
        KeywordRule::Count if !is_count(value) => wants("a non-negative integer"),
        KeywordRule::Flag if value.as_bool().is_none() => wants("true or false"),
        KeywordRule::Text if value.as_str().is_none() => wants("a string"),
        KeywordRule::Pattern => match value.as_str() {
            Some(pattern) if context.is_valid_pattern(pattern) => None,
            Some(pattern) => Some(format!(
                "`{}` is not a valid ECMAScript regular expression; `{keyword}` is ignored",
                truncated(pattern)
            )),
            None => wants("a string"),
        },
        KeywordRule::Names if !value.is_array() => wants("a list of names"),
        KeywordRule::NamesMap
            if !value.is_object() || !value.members().all(|(_, names)| is_name_list(names)) =>
        {
            wants("an object of lists of names")
        }
        KeywordRule::Values if value.items().len() == 0 => wants("a list of values"),
        KeywordRule::Values => enum_error(value, schema).or_else(|| depth_error(keyword, value)),
        KeywordRule::ValueList if !value.is_array() => wants("a list of values"),
        KeywordRule::ValueList | KeywordRule::Constant | KeywordRule::Example => {
            depth_error(keyword, value)
        }
        KeywordRule::Default => {
            default_error(value, schema).or_else(|| depth_error(keyword, value))
        }
        _ => None,
    }
}

/// Whether a node can be a schema: an object, `true` or `false`.
pub(super) fn is_schema(node: Node<'_>) -> bool {
    node.is_object() || node.as_bool().is_some()
}

/// Whether a keyword is an annotation. Invalid annotations need no warning.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "title"
            | "description"
            | "$comment"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "example"
            | "examples"
            | "format"
            | "contentEncoding"
            | "contentMediaType"
    )
}

fn describe_value(value: Node<'_>) -> String {
    match (value.as_str(), value.as_number()) {
        (Some(text), _) if text.chars().count() <= 40 => format!("the text `{text}`"),
        (_, Some(number)) => number.to_string(),
        _ if value.items().len() == 0 && value.is_array() => "an empty list".to_owned(),
        _ => value.type_name().to_owned(),
    }
}

fn is_count(value: Node<'_>) -> bool {
    let number = value.as_number();
    number.is_some_and(|n| n.is_u64() || n.as_f64().is_some_and(|n| n >= 0.0 && n.fract() == 0.0))
}

fn is_name_list(value: Node<'_>) -> bool {
    value.is_array() && value.items().all(|name| name.as_str().is_some())
}

pub(super) fn is_type_name(name: &str) -> bool {
    matches!(name, "null" | "boolean" | "object" | "array" | "number" | "integer" | "string")
}

/// Checks a type name or an array of them. An unquoted `null` in YAML counts as the type name.
fn type_error(value: Node<'_>) -> Option<String> {
    let wrong = |name: &str| Some(format!("`{name}` is not a JSON Schema type; `type` is ignored"));
    match value.as_str() {
        Some("file") => None,
        Some(name) if is_type_name(name) => None,
        Some(name) => wrong(name),
        None if value.is_array() => {
            let odd = value
                .items()
                .find(|item| !item.is_null() && !item.as_str().is_some_and(is_type_name));
            match odd {
                Some(odd) => wrong(odd.as_str().unwrap_or(odd.type_name())),
                None if value.items().len() == 0 => wrong("[]"),
                None => None,
            }
        }
        None => wrong(value.type_name()),
    }
}

fn enum_error(value: Node<'_>, schema: Node<'_>) -> Option<String> {
    let types = schema.get("type")?;
    if type_error(types).is_some() || value.items().any(|item| has_type(item, types)) {
        return None;
    }
    Some("no value of `enum` matches `type`; `enum` is ignored".to_owned())
}

/// Checks a default value. An invalid one would make a valid input invalid.
fn default_error(value: Node<'_>, schema: Node<'_>) -> Option<String> {
    if value.is_null() && is_nullable(schema) {
        return None;
    }
    let types = schema.get("type").filter(|types| type_error(*types).is_none());
    if types.is_some_and(|types| !has_type(value, types)) {
        return Some("`default` does not match `type`; it is ignored".to_owned());
    }
    let is_valid =
        |listed: &Node<'_>| listed.items().len() > 0 && enum_error(*listed, schema).is_none();
    let listed = schema.get("enum").filter(is_valid);
    if listed.is_some_and(|listed| !listed.items().any(|item| is_equal(item, value))) {
        return Some("`default` is not in `enum`; it is ignored".to_owned());
    }
    None
}

fn depth_error(keyword: &str, value: Node<'_>) -> Option<String> {
    let fault = || format!("`{keyword}` nests deeper than {MAX_VALUE_DEPTH} levels; it is ignored");
    nests_deeper(value, MAX_VALUE_DEPTH).then(fault)
}

pub(super) fn nests_deeper(value: Node<'_>, levels: u32) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    value.items().any(|item| nests_deeper(item, below))
        || value.members().any(|(_, member)| nests_deeper(member, below))
}

/// Whether a schema allows null with `nullable` or `x-nullable`.
pub(super) fn is_nullable(schema: Node<'_>) -> bool {
    schema.flag("nullable") || schema.flag("x-nullable")
}

/// Whether a value has one of the types in `type`.
fn has_type(value: Node<'_>, types: Node<'_>) -> bool {
    let has = |name: &str| match name {
        "integer" => value.as_number().is_some_and(is_integer),
        name => value.type_name() == name,
    };
    match types.as_str() {
        Some(name) => has(name),
        None => types.items().any(|name| has(name.as_str().unwrap_or("null"))),
    }
}

fn is_integer(number: &serde_json::Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn is_equal(left: Node<'_>, right: Node<'_>) -> bool {
    match (left.compact_value(), right.compact_value()) {
        (CompactValue::Number(_), CompactValue::Number(_)) => {
            let number = |node: Node<'_>| node.as_number().and_then(serde_json::Number::as_f64);
            number(left) == number(right)
        }
        (CompactValue::Array(_) | CompactValue::Object(_), _) => {
            left.to_value() == right.to_value()
        }
        (left, right) => left == right,
    }
}

/// Truncates text to 80 characters.
fn truncated(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
