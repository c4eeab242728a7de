//! What a tool takes: always an object, since the protocol knows no other arguments.

use serde_json::{Map, Value};

use super::kinds::Kinds;
use super::spell::{self, spell_out};
use crate::error::CallError;
use crate::payload::Payload;
use crate::schema::{Issue, Schema};

/// The argument that holds an input which is no object.
pub(super) const MEMBER: &str = "input";

/// How arguments become an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taking {
    /// The arguments are the input.
    Arguments,
    /// The input is one of the arguments, because no object would fit.
    Member {
        /// Whether the input may be left out, which is `null`.
        is_optional: bool,
    },
    /// The input is `null`, whatever the arguments are.
    Nothing,
}

impl Taking {
    pub(super) fn of(schema: &Schema) -> Self {
        let kinds = Kinds::of(&schema.json());
        match (kinds.has_object() || kinds.is_empty(), kinds.has_null()) {
            (true, _) => Self::Arguments,
            (false, true) if kinds.only_null() => Self::Nothing,
            (false, is_optional) => Self::Member { is_optional },
        }
    }

    /// The input in some arguments.
    ///
    /// # Errors
    ///
    /// `VALIDATION_ERROR`: the one argument that matters is missing, or there are no arguments at all.
    pub(super) fn input(self, arguments: Payload) -> Result<Payload, CallError> {
        let Self::Member { is_optional } = self else {
            let is_nothing = self == Self::Nothing;
            return Ok(if is_nothing { Value::Null.into() } else { arguments });
        };
        let mut members: Map<String, Value> = arguments.into_typed().map_err(|error| {
            CallError::validation(format!("the arguments cannot be read: {error}"), &[])
        })?;
        match members.remove(MEMBER) {
            Some(input) => Ok(input.into()),
            None if is_optional => Ok(Value::Null.into()),
            None => {
                // Its path is that of the input, which stands below the arguments.
                let missing = Issue::new("", "this property is required and missing");
                Err(CallError::validation("the input does not fit", &[missing]))
            }
        }
    }

    /// Where the input stands in the arguments.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Member { .. } => "/input",
            _ => "",
        }
    }

    /// The schema of the arguments.
    ///
    /// It is the operation's own, with a root that every client takes: `type` is `object`, and no
    /// schema in it is a boolean.
    pub(super) fn schema(self, schema: &Schema) -> Map<String, Value> {
        let mut root = Map::from_iter([("type".to_owned(), "object".into())]);
        match self {
            Self::Arguments => add_root(&mut root, &schema.json()),
            Self::Nothing => {}
            Self::Member { is_optional } => {
                let Embedded { mut inner, draft } = embedded(&schema.json(), "#/properties/input");
                spell_out(&mut inner);
                if let Some(draft) = draft {
                    root.insert("$schema".to_owned(), draft);
                }
                let properties = Map::from_iter([(MEMBER.to_owned(), inner)]);
                root.insert("properties".to_owned(), properties.into());
                if !is_optional {
                    root.insert("required".to_owned(), Value::Array(vec![MEMBER.into()]));
                }
            }
        }
        root
    }
}

fn add_root(root: &mut Map<String, Value>, document: &Value) {
    match document {
        Value::Object(members) if is_readable(members) => {
            for (keyword, value) in members.iter().filter(|(keyword, _)| *keyword != "type") {
                root.insert(keyword.clone(), value.clone());
            }
            root.iter_mut().for_each(|(keyword, value)| spell::below(keyword, value));
        }
        Value::Bool(false) => drop(root.insert("not".to_owned(), Value::Object(Map::new()))),
        _ => {}
    }
}

/// Whether the root can be read by clients that look at nothing else.
fn is_readable(members: &Map<String, Value>) -> bool {
    let properties = members.get("properties").is_none_or(|properties| {
        let is_schema = |schema: &Value| schema.is_object() || schema.is_boolean();
        properties.as_object().is_some_and(|properties| properties.values().all(is_schema))
    });
    let required = members.get("required").is_none_or(|required| {
        required.as_array().is_some_and(|names| names.iter().all(Value::is_string))
    });
    properties && required && members.get("$schema").is_none_or(Value::is_string)
}

/// A document for a place in another.
pub(super) struct Embedded {
    pub(super) inner: Value,
    /// Its `$schema`, which belongs at the root of the other.
    pub(super) draft: Option<Value>,
}

/// The document as it reads when its root stands at `place` of another.
pub(super) fn embedded(document: &Value, place: &str) -> Embedded {
    let mut inner = document.clone();
    // One that has a name of its own is what its references are relative to.
    if inner.get("$id").is_none() {
        rebase(&mut inner, place);
    }
    if inner.is_boolean() {
        spell_out(&mut inner);
    }
    let draft = inner.as_object_mut().and_then(|members| members.shift_remove("$schema"));
    Embedded { inner, draft: draft.filter(Value::is_string) }
}

fn rebase(schema: &mut Value, place: &str) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| rebase(item, place)),
        Value::Object(members) => {
            for (keyword, value) in members.iter_mut() {
                match (keyword.as_str(), value) {
                    ("$ref", Value::String(reference)) => {
                        if reference == "#" || reference.starts_with("#/") {
                            reference.replace_range(..1, place);
                        }
                    }
                    ("const" | "enum" | "default" | "examples", _) => {}
                    (_, value) => rebase(value, place),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_input_is_said_as_an_object() {
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
            assert_eq!(Value::Object(Taking::of(&taken).schema(&taken)), expected, "{schema}");
        }
    }

    #[test]
    fn arguments_become_the_input() {
        let text = json!({"type": "string"});
        let maybe = json!({"type": ["string", "null"]});
        for (schema, arguments, expected) in [
            (json!(true), json!({"input": 1}), Ok(json!({"input": 1}))),
            (json!({"type": "null"}), json!({"any": 1}), Ok(json!(null))),
            (text.clone(), json!({"input": "a"}), Ok(json!("a"))),
            (text.clone(), json!({}), Err("VALIDATION_ERROR: the input does not fit")),
            (maybe, json!({}), Ok(json!(null))),
        ] {
            let taking = Taking::of(&Schema::new(schema).unwrap());
            for arguments in
                [arguments.clone().into(), Payload::from_json(arguments.to_string()).unwrap()]
            {
                let input = taking.input(arguments);
                let input =
                    input.map(|input| input.into_value().unwrap()).map_err(|e| e.to_string());
                assert_eq!(input, expected.clone().map_err(str::to_owned));
            }
        }
        let taking = Taking::of(&Schema::new(text).unwrap());
        assert!(taking.input(json!(5).into()).is_err());
    }
}
