//! Checks that keywords have the values that their draft requires, and measures a document before
//! its references are indexed.

use std::collections::HashSet;

use referencing::Draft;
use serde_json::Value;

use super::super::SchemaError;
use super::super::budget::Budget;
use super::super::program::TypeSet;
use super::super::subschemas::{KeywordValue, subschemas};
use crate::json::{JsonObject, ValuePath};

/// The value that a keyword must have.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Number,
    PositiveNumber,
    Size,
    List,
    Map,
    Schema,
    Schemas,
    SchemaOrSchemas,
    SchemaMap,
    TypeNames,
    Names,
    NamesMap,
    SchemaOrNamesMap,
}

/// Checks a document and all its subschemas.
pub(in crate::schema) fn check_document(
    document: &Value,
    budget: &Budget<'_>,
) -> Result<(), SchemaError> {
    let mut check = DocumentCheck { budget, nodes: 0, ids: 0 };
    check.visit(document, Draft::default(), 0, &ValuePath::ROOT)?;
    // References are indexed again for each embedded resource that refers to them.
    let indexing = check.nodes.saturating_mul(1 + check.ids);
    if budget.spend(indexing) && budget.allocate(indexing.saturating_mul(32)) {
        Ok(())
    } else {
        Err(SchemaError::over_budget(budget))
    }
}

struct DocumentCheck<'a> {
    budget: &'a Budget<'a>,
    nodes: usize,
    /// Number of embedded resources.
    ids: usize,
}

impl DocumentCheck<'_> {
    /// Visits a schema. `base` is the length of the identifiers around it.
    fn visit(
        &mut self,
        schema: &Value,
        draft: Draft,
        mut base: usize,
        at: &ValuePath<'_>,
    ) -> Result<(), SchemaError> {
        let Value::Object(members) = schema else {
            return match (schema, draft) {
                (Value::Bool(_), _) => Ok(()),
                _ => Err(invalid(at, "a schema must be an object or a boolean")),
            };
        };
        let draft = draft.detect(schema);
        self.nodes += 1 + members.len();
        if let Some(id) = ["$id", "id"].iter().find_map(|name| members.get(*name)?.as_str()) {
            self.ids += usize::from(!id.starts_with('#'));
            // Identifiers inside this schema are resolved against all around them.
            base += id.len();
            self.budget.allocate(base);
        }
        if !self.budget.spend(1 + members.len()) {
            return Err(SchemaError::over_budget(self.budget));
        }
        check_members(members, draft)
            .map_err(|(keyword, message)| invalid(&at.member(keyword), &message))?;
        for (keyword, value) in members {
            // Unknown keywords of a draft are not schemas.
            if shape(keyword, draft).is_none() {
                continue;
            }
            let at = at.member(keyword);
            match (KeywordValue::of(keyword), value) {
                (KeywordValue::SchemaMap, Value::Object(map)) => {
                    for (name, schema) in map.iter().filter(|(_, schema)| !schema.is_array()) {
                        self.visit(schema, draft, base, &at.member(name))?;
                    }
                }
                (KeywordValue::Schema | KeywordValue::SchemaArray, Value::Array(list)) => {
                    for (index, schema) in list.iter().enumerate() {
                        self.visit(schema, draft, base, &at.item(index))?;
                    }
                }
                _ => {
                    for schema in subschemas(keyword, value) {
                        self.visit(schema, draft, base, &at)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Checks the keywords of one schema, without its subschemas. Returns the first invalid keyword and
/// the problem.
pub(super) fn check_members(members: &JsonObject, draft: Draft) -> Result<(), (&str, String)> {
    for (keyword, value) in members {
        if let Some(shape) = shape(keyword, draft)
            && !shape.admits(value)
        {
            return Err((keyword, format!("`{keyword}` must be {}", shape.description())));
        }
    }
    Ok(())
}

fn invalid(at: &ValuePath<'_>, message: &str) -> SchemaError {
    SchemaError::DoesNotCompile {
        at: at.pointer().as_str().to_owned(),
        message: message.to_owned(),
    }
}

/// Returns the shape of a keyword; `None` if the draft does not define it.
fn shape(keyword: &str, draft: Draft) -> Option<Shape> {
    let since = |first: Draft| rank(draft) >= rank(first);
    let until = |last: Draft| rank(draft) <= rank(last);
    Some(match keyword {
        "$schema" | "$ref" | "title" | "description" | "format" | "pattern" => Shape::Text,
        "$id" | "$comment" | "contentEncoding" | "contentMediaType" if since(Draft::Draft6) => {
            Shape::Text
        }
        "id" if draft == Draft::Draft4 => Shape::Text,
        "$anchor" if since(Draft::Draft201909) => Shape::Text,
        "$recursiveRef" if draft == Draft::Draft201909 => Shape::Text,
        "$recursiveAnchor" if draft == Draft::Draft201909 => Shape::Flag,
        "$dynamicRef" | "$dynamicAnchor" if since(Draft::Draft202012) => Shape::Text,
        "$vocabulary" if since(Draft::Draft201909) => Shape::Map,
        "uniqueItems" => Shape::Flag,
        "readOnly" if since(Draft::Draft7) => Shape::Flag,
        "writeOnly" if since(Draft::Draft7) => Shape::Flag,
        "deprecated" if since(Draft::Draft201909) => Shape::Flag,
        "exclusiveMinimum" | "exclusiveMaximum" if draft == Draft::Draft4 => Shape::Flag,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => Shape::Number,
        "multipleOf" => Shape::PositiveNumber,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            Shape::Size
        }
        "minContains" | "maxContains" if since(Draft::Draft201909) => Shape::Size,
        "enum" => Shape::List,
        "examples" if since(Draft::Draft6) => Shape::List,
        "type" => Shape::TypeNames,
        "required" => Shape::Names,
        "dependentRequired" if since(Draft::Draft201909) => Shape::NamesMap,
        "dependencies" => Shape::SchemaOrNamesMap,
        "properties" | "patternProperties" | "definitions" => Shape::SchemaMap,
        "$defs" | "dependentSchemas" if since(Draft::Draft201909) => Shape::SchemaMap,
        "allOf" | "anyOf" | "oneOf" => Shape::Schemas,
        "prefixItems" if since(Draft::Draft202012) => Shape::Schemas,
        "items" if until(Draft::Draft201909) => Shape::SchemaOrSchemas,
        "items" | "not" | "additionalProperties" => Shape::Schema,
        "additionalItems" if until(Draft::Draft201909) => Shape::Schema,
        "contains" | "propertyNames" if since(Draft::Draft6) => Shape::Schema,
        "if" | "then" | "else" if since(Draft::Draft7) => Shape::Schema,
        "unevaluatedItems" | "unevaluatedProperties" | "contentSchema"
            if since(Draft::Draft201909) =>
        {
            Shape::Schema
        }
        _ => return None,
    })
}

fn rank(draft: Draft) -> u8 {
    match draft {
        Draft::Draft4 => 0,
        Draft::Draft6 => 1,
        Draft::Draft7 => 2,
        Draft::Draft201909 => 3,
        _ => 4,
    }
}

impl Shape {
    fn admits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text, Value::String(_))
            | (Self::Flag, Value::Bool(_))
            | (Self::List, Value::Array(_))
            | (Self::Map, Value::Object(_))
            | (Self::Number, Value::Number(_)) => true,
            (Self::PositiveNumber, Value::Number(number)) => {
                number.as_f64().is_some_and(|number| number > 0.0)
            }
            (Self::Size, Value::Number(number)) => {
                number.as_u64().is_some()
                    || number.as_f64().is_some_and(|size| size >= 0.0 && size.fract() == 0.0)
            }
            (Self::Schema | Self::SchemaOrSchemas, schema) if is_schema(schema) => true,
            (Self::Schemas | Self::SchemaOrSchemas, Value::Array(list)) => {
                !list.is_empty() && list.iter().all(is_schema)
            }
            (Self::SchemaMap, Value::Object(map)) => map.values().all(is_schema),
            (Self::TypeNames, Value::String(name)) => is_type(name),
            (Self::TypeNames, Value::Array(names)) => {
                !names.is_empty()
                    && are_names(value)
                    && names.iter().filter_map(Value::as_str).all(is_type)
            }
            (Self::Names, names) => are_names(names),
            (Self::NamesMap, Value::Object(map)) => map.values().all(are_names),
            (Self::SchemaOrNamesMap, Value::Object(map)) => {
                map.values().all(|value| is_schema(value) || are_names(value))
            }
            _ => false,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Flag => "a boolean",
            Self::Number => "a number",
            Self::PositiveNumber => "a number greater than zero",
            Self::Size => "a non-negative integer",
            Self::List => "an array",
            Self::Map => "an object",
            Self::Schema => "a schema",
            Self::Schemas => "an array of schemas that is not empty",
            Self::SchemaOrSchemas => "a schema, or an array of schemas that is not empty",
            Self::SchemaMap => "an object of schemas",
            Self::TypeNames => "the name of a JSON type, or an array of different ones",
            Self::Names => "an array of different strings",
            Self::NamesMap => "an object of arrays of different strings",
            Self::SchemaOrNamesMap => "an object of schemas or arrays of different strings",
        }
    }
}

fn is_schema(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(_))
}

fn is_type(name: &str) -> bool {
    TypeSet::from_name(name) != TypeSet::NONE
}

/// Whether the value is an array of different strings.
fn are_names(value: &Value) -> bool {
    let mut seen = HashSet::new();
    value.as_array().is_some_and(|names| {
        names.iter().all(|name| name.as_str().is_some_and(|it| seen.insert(it)))
    })
}
