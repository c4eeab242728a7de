//! Maps tool arguments, which are always an object, to operation inputs.

use serde_json::{Map, Value};

use super::boolean_schemas::{self, expand_booleans};
use super::json_types::infer_types;
use crate::error::CallError;
use crate::json::JsonObject;
use crate::payload::Payload;
use crate::schema::{Issue, Schema, TypeSet, map_refs};

/// Name of the argument that holds an input that is not an object.
pub(super) const INPUT_ARGUMENT: &str = "input";

/// How the arguments of a tool map to the operation input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputMapping {
    /// The arguments object is the input.
    Arguments,
    /// The input is the argument `input`, because the input schema admits no object.
    Property {
        /// Whether the input can be omitted, which means `null`.
        is_optional: bool,
    },
    /// The input is always `null`; arguments are ignored.
    Null,
}

impl InputMapping {
    pub(super) fn from_schema(schema: &Schema) -> Self {
        let types = infer_types(&schema.json());
        match types {
            TypeSet::NONE => Self::Arguments,
            TypeSet::NULL => Self::Null,
            _ if types.overlaps(TypeSet::OBJECT) => Self::Arguments,
            _ => Self::Property { is_optional: types.overlaps(TypeSet::NULL) },
        }
    }

    /// Extracts the operation input from the arguments.
    ///
    /// # Errors
    ///
    /// Returns `VALIDATION_ERROR` if `input` is missing or the arguments are not an object.
    pub(super) fn extract_input(self, arguments: Payload) -> Result<Payload, CallError> {
        let is_optional = match self {
            Self::Arguments => return Ok(arguments),
            Self::Null => return Ok(Value::Null.into()),
            Self::Property { is_optional } => is_optional,
        };
        let mut members: JsonObject = arguments
            .into_typed()
            .map_err(|error| CallError::validation(format!("invalid arguments: {error}"), &[]))?;
        match members.remove(INPUT_ARGUMENT) {
            Some(input) => Ok(input.into()),
            None if is_optional => Ok(Value::Null.into()),
            None => {
                // The path is relative to the input, not to the arguments.
                let missing = Issue::new("", "required property is missing");
                Err(CallError::validation("invalid input", &[missing]))
            }
        }
    }

    /// Path of the input within the arguments.
    pub(super) fn input_path(self) -> &'static str {
        match self {
            Self::Property { .. } => "/input",
            _ => "",
        }
    }

    /// Returns the schema of the arguments.
    ///
    /// For an object input, this is the input schema of the operation with a root that all clients
    /// accept: `type` is `object`, and boolean subschemas are written as objects.
    pub(super) fn arguments_schema(self, schema: &Schema) -> JsonObject {
        let mut root = Map::from_iter([("type".to_owned(), "object".into())]);
        match self {
            Self::Arguments => copy_root_keywords(&mut root, &schema.json()),
            Self::Null => {}
            Self::Property { is_optional } => {
                let EmbeddedSchema { mut inner, draft } =
                    embed(&schema.json(), "#/properties/input");
                expand_booleans(&mut inner);
                if let Some(draft) = draft {
                    root.insert("$schema".to_owned(), draft);
                }
                let properties = Map::from_iter([(INPUT_ARGUMENT.to_owned(), inner)]);
                root.insert("properties".to_owned(), properties.into());
                if !is_optional {
                    root.insert("required".to_owned(), Value::Array(vec![INPUT_ARGUMENT.into()]));
                }
            }
        }
        root
    }
}

fn copy_root_keywords(root: &mut JsonObject, document: &Value) {
    match document {
        Value::Object(members) if has_portable_root(members) => {
            for (keyword, value) in members.iter().filter(|(keyword, _)| *keyword != "type") {
                root.insert(keyword.clone(), value.clone());
            }
            root.iter_mut()
                .for_each(|(keyword, value)| boolean_schemas::expand_keyword(keyword, value));
        }
        Value::Bool(false) => drop(root.insert("not".to_owned(), Value::Object(Map::new()))),
        _ => {}
    }
}

/// Whether the root keywords have the types that clients expect.
fn has_portable_root(members: &JsonObject) -> bool {
    let properties = members.get("properties").is_none_or(|properties| {
        let is_schema = |schema: &Value| schema.is_object() || schema.is_boolean();
        properties.as_object().is_some_and(|properties| properties.values().all(is_schema))
    });
    let required = members.get("required").is_none_or(|required| {
        required.as_array().is_some_and(|names| names.iter().all(Value::is_string))
    });
    properties && required && members.get("$schema").is_none_or(Value::is_string)
}

/// A document prepared for embedding in another.
pub(super) struct EmbeddedSchema {
    pub(super) inner: Value,
    /// The `$schema` of the document, which belongs at the root of the enclosing one.
    pub(super) draft: Option<Value>,
}

/// Rewrites the references of a document for embedding at `base_pointer` of another.
pub(super) fn embed(document: &Value, base_pointer: &str) -> EmbeddedSchema {
    let mut inner = document.clone();
    // References in a document with its own `$id` are relative to that `$id`.
    if inner.get("$id").is_none() {
        map_refs(&mut inner, &|reference| {
            let pointer = reference.strip_prefix('#')?;
            let is_pointer = pointer.is_empty() || pointer.starts_with('/');
            is_pointer.then(|| format!("{base_pointer}{pointer}"))
        });
    }
    if inner.is_boolean() {
        expand_booleans(&mut inner);
    }
    let draft = inner.as_object_mut().and_then(|members| members.shift_remove("$schema"));
    EmbeddedSchema { inner, draft: draft.filter(Value::is_string) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn input_schema_is_always_an_object_schema() {
        let plain = json!({"type": "object"});
        let point = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["x"],
            "$defs": {"n": {"type": "number"}}, "additionalProperties": false, "x-own": 1});
        for (schema, expected) in [
            (json!(true), plain.clone()),
            (json!({}), plain.clone()),
            (json!(false), json!({"type": "object", "not": {}})),
            (point.clone(), point),
            (json!({"type": ["object", "null"]}), plain.clone()),
            (json!({"type": "null"}), plain.clone()),
            (
                json!({"properties": {"a": true, "b": false}}),
                json!({"type": "object", "properties": {"a": {}, "b": {"not": {}}}}),
            ),
            (json!({"properties": 5}), plain),
            (
                json!({"oneOf": [{"type": "object"}, {"type": "string"}]}),
                json!({"type": "object", "oneOf": [{"type": "object"}, {"type": "string"}]}),
            ),
            (
                json!({"type": "string"}),
                json!({"type": "object", "properties": {"input": {"type": "string"}},
                "required": ["input"]}),
            ),
            (
                json!({"type": ["string", "null"]}),
                json!({"type": "object",
                "properties": {"input": {"type": ["string", "null"]}}}),
            ),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}),
                json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#",
                    "properties": {"input": {"type": "string"}}, "required": ["input"]}),
            ),
            (
                json!({"type": "array", "items": {"$ref": "#/$defs/a"}, "default": {"$ref": "#"},
                "$defs": {"a": {"items": {"$ref": "#"}}}}),
                json!({"type": "object", "required": ["input"], "properties": {"input": {"type": "array",
                "items": {"$ref": "#/properties/input/$defs/a"}, "default": {"$ref": "#"},
                "$defs": {"a": {"items": {"$ref": "#/properties/input"}}}}}}),
            ),
        ] {
            let taken = Schema::new(schema.clone()).unwrap();
            assert_eq!(
                Value::Object(InputMapping::from_schema(&taken).arguments_schema(&taken)),
                expected,
                "{schema}"
            );
        }
    }

    #[test]
    fn arguments_map_to_operation_input() {
        let text = json!({"type": "string"});
        let maybe = json!({"type": ["string", "null"]});
        for (schema, arguments, expected) in [
            (json!(true), json!({"input": 1}), Ok(json!({"input": 1}))),
            (json!({"type": "null"}), json!({"any": 1}), Ok(json!(null))),
            (text.clone(), json!({"input": "a"}), Ok(json!("a"))),
            (text.clone(), json!({}), Err("VALIDATION_ERROR: invalid input")),
            (maybe, json!({}), Ok(json!(null))),
        ] {
            let mapping = InputMapping::from_schema(&Schema::new(schema).unwrap());
            for arguments in
                [arguments.clone().into(), Payload::from_json(arguments.to_string()).unwrap()]
            {
                let input = mapping.extract_input(arguments);
                let input =
                    input.map(|input| input.into_value().unwrap()).map_err(|e| e.to_string());
                assert_eq!(input, expected.clone().map_err(str::to_owned));
            }
        }
        let mapping = InputMapping::from_schema(&Schema::new(text).unwrap());
        assert!(mapping.extract_input(json!(5).into()).is_err());
    }
}
