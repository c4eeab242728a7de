//! JSON Schemas that are compiled once, on first use, and shared.

mod issue;
mod repair;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use issue::Issue;
pub use repair::{Extras, Normalised, Repair, RepairAction};

/// A JSON Schema with its compiled form; cloning it shares both.
///
/// The dialect is 2020-12 unless `$schema` says otherwise, and formats are annotations. Remote
/// and file references are refused: a schema is a document, never a reason to open a connection.
#[derive(Clone)]
pub struct Schema {
    shared: Arc<Shared>,
}

struct Shared {
    json: Value,
    /// Filled by the first check: most operations of a large catalog are never called.
    validator: OnceLock<Result<jsonschema::Validator, SchemaError>>,
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A schema is an object or a boolean.
    #[error("a schema must be an object or a boolean, found {found}")]
    NotASchema {
        /// The JSON type that was found instead.
        found: &'static str,
    },
    /// The document is an object, but not a schema that means anything.
    #[error("schema does not compile at `{at}`: {message}")]
    DoesNotCompile {
        /// JSON Pointer to the offending place inside the schema.
        at: String,
        /// What is wrong there.
        message: String,
    },
}

impl Schema {
    /// Takes a schema document as it is; it is compiled when it is first needed.
    ///
    /// # Errors
    ///
    /// [`SchemaError::NotASchema`] when the document is neither an object nor a boolean.
    pub fn new(json: Value) -> Result<Self, SchemaError> {
        match json {
            Value::Object(_) | Value::Bool(_) => Ok(Self::from_document(json)),
            other => Err(SchemaError::NotASchema { found: type_name(&other) }),
        }
    }

    /// The schema that says nothing: every value fits and nothing is looked at.
    pub fn unknown() -> Self {
        static UNKNOWN: OnceLock<Schema> = OnceLock::new();
        UNKNOWN.get_or_init(|| Self::from_document(Value::Bool(true))).clone()
    }

    /// The schema of a Rust type.
    pub fn of<T: schemars::JsonSchema>() -> Self {
        Self::from_document(schemars::schema_for!(T).to_value())
    }

    /// Whether this is the unknown schema, `true` or `{}`.
    pub fn is_unknown(&self) -> bool {
        match &self.shared.json {
            Value::Bool(fits) => *fits,
            Value::Object(members) => members.is_empty(),
            _ => false,
        }
    }

    /// The document itself.
    pub fn json(&self) -> &Value {
        &self.shared.json
    }

    /// Compiles now what would otherwise be compiled by the first check.
    ///
    /// # Errors
    ///
    /// [`SchemaError::DoesNotCompile`] names the place inside the schema.
    pub fn compile(&self) -> Result<(), SchemaError> {
        self.validator().map(|_| ()).map_err(Clone::clone)
    }

    /// Lists every place where `value` does not fit; an empty list means that it fits.
    ///
    /// # Errors
    ///
    /// The schema itself does not compile.
    pub fn check(&self, value: &Value) -> Result<Vec<Issue>, SchemaError> {
        if self.is_unknown() {
            return Ok(Vec::new());
        }
        let validator = self.validator().map_err(Clone::clone)?;
        if validator.is_valid(value) {
            return Ok(Vec::new());
        }
        Ok(validator.iter_errors(value).map(|error| Issue::from_validation(&error)).collect())
    }

    fn from_document(json: Value) -> Self {
        Self { shared: Arc::new(Shared { json, validator: OnceLock::new() }) }
    }

    fn validator(&self) -> Result<&jsonschema::Validator, &SchemaError> {
        self.shared
            .validator
            .get_or_init(|| {
                jsonschema::options()
                    .should_validate_formats(false)
                    .build(&self.shared.json)
                    .map_err(|error| SchemaError::DoesNotCompile {
                        at: error.instance_path().to_string(),
                        message: error.to_string(),
                    })
            })
            .as_ref()
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema({})", self.shared.json)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) || self.shared.json == other.shared.json
    }
}

impl serde::Serialize for Schema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shared.json.serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Schema {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The JSON name of a value's type, for messages.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
