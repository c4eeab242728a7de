//! The relaxed form: without the constraints that the result of an external source may violate.
//!
//! A client that validates results rejects a result after the call took effect. The relaxed form
//! keeps what describes the data (types, properties, items) and accepts every value that the
//! original accepts. Every type below the root also admits null.

use serde_json::{Value, json};

use super::PortableSchema;
use super::structure::is_annotation;
use crate::json::JsonObject;

/// Appended to the description of a relaxed schema.
const NOTE: &str = "Relaxed: results may violate the full schema, which `hub.schema` returns.";

/// Whether a keyword is omitted in the relaxed form.
pub(super) fn is_omitted(keyword: &str) -> bool {
    matches!(
        keyword,
        "required"
            | "enum"
            | "const"
            | "pattern"
            | "minimum"
            | "maximum"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "multipleOf"
            | "minLength"
            | "maxLength"
            | "minItems"
            | "maxItems"
            | "uniqueItems"
            | "contains"
            | "minContains"
            | "maxContains"
            | "minProperties"
            | "maxProperties"
            | "propertyNames"
            | "dependentRequired"
            | "dependentSchemas"
            | "dependencies"
            | "not"
            | "if"
            | "unevaluatedProperties"
            | "unevaluatedItems"
    )
}

/// Adds `null` to the value of `type`.
pub(super) fn with_null(types: Value) -> Value {
    let null = Value::from("null");
    let mut names = match types {
        Value::Array(names) => names,
        name if name == null => return name,
        name => vec![name],
    };
    if !names.contains(&null) {
        names.push(null);
    }
    Value::Array(names)
}

/// Admits null in addition to what a schema admits.
pub(super) fn or_null(schema: Value) -> Value {
    let variants = vec![schema, json!({"type": "null"})];
    JsonObject::from_iter([("anyOf".to_owned(), Value::Array(variants))]).into()
}

/// Whether a written schema accepts everything.
pub(super) fn is_unconstrained(schema: &Value) -> bool {
    schema.as_object().is_some_and(JsonObject::is_empty)
}

impl PortableSchema {
    /// States in the description that the schema is relaxed.
    pub(super) fn describe_as_relaxed(&mut self) {
        let description = match self.root.get("description").and_then(Value::as_str) {
            // A schema of another gateway can already be relaxed.
            Some(description) if description.ends_with(NOTE) => return,
            Some(description) if !description.is_empty() => format!("{description} {NOTE}"),
            _ => NOTE.to_owned(),
        };
        self.root.insert("description".to_owned(), description.into());
    }

    /// Whether the root accepts every object `{"result": …}`: it has only a type, properties with
    /// other names, and annotations.
    pub(in super::super) fn accepts_wrapped_data(&self) -> bool {
        self.root.iter().all(|(keyword, value)| match keyword.as_str() {
            "type" => value == "object",
            "properties" => value.get(super::super::output::RESULT_PROPERTY).is_none(),
            keyword => is_annotation(keyword),
        })
    }
}
