//! JSON Schemas, compiled once on first use and shared.

mod bundle;
#[cfg(feature = "typebox-cast")]
mod cast;
mod compile;
mod dialect;
mod issue;
mod normalize;
mod program;
mod property_names;
mod repair;
mod secret;
mod secret_values;
#[cfg_attr(not(feature = "openapi"), allow(dead_code, reason = "created only by imports"))]
mod shared_defs;
mod subschemas;
mod type_text;
mod unbundle;
mod validate;
mod warnings;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub(crate) use bundle::{
    ComponentNames, collect_refs, is_relocatable, parse_definition_pointer, ref_round_trips,
};
pub use issue::Issue;
pub(crate) use issue::MISSING_PROPERTY;
use normalize::RepairScope;
use program::SchemaProgram;
pub(crate) use program::{IntegerRule, TypeSet};
pub use property_names::PropertyNames;
pub use repair::{Extras, Normalized, Repair, RepairAction};
pub use secret::{MASKED, Secrets};
pub(crate) use secret_values::SecretValues;
pub(crate) use shared_defs::{SharedDefinition, SharedDefs, SplitRoot, SplitSchema};
#[cfg(feature = "openapi")]
pub(crate) use subschemas::KeywordValue;
pub(crate) use subschemas::{subschemas_mut, visit_schemas_mut};
pub(crate) use type_text::TypeText;
#[cfg(feature = "openapi")]
pub(crate) use unbundle::referenced_components;
pub(crate) use unbundle::unbundle;
pub(crate) use unbundle::{
    COMPONENTS_PREFIX, DEFINITION_EXTENSION, definitions, map_refs, ref_targets,
};
use warnings::SchemaWarnings;

/// A JSON Schema and its compiled form. Clones share both.
///
/// The dialect is 2020-12 unless `$schema` specifies another. `format` is an annotation and is not
/// validated. References to URLs and files are rejected, so compiling a schema performs no I/O.
#[derive(Clone)]
pub struct Schema {
    inner: Arc<SchemaInner>,
}

struct SchemaInner {
    document: SchemaDocument,
    lazy: LazyForms,
}

/// Data derived from the document on first use, because most operations are never called.
#[derive(Default)]
struct LazyForms {
    compiled: OnceLock<Result<CompiledSchema, SchemaError>>,
    #[cfg(feature = "typebox-cast")]
    cast: OnceLock<typebox_cast::CastSchema>,
    secrets: OnceLock<Secrets>,
}

/// Storage of a schema document.
enum SchemaDocument {
    /// A standalone document.
    Inline(Value),
    /// Part of a larger document, extracted on each access.
    Part(Arc<dyn SchemaPart>),
    /// Like `Part`, with definitions that can be extracted one by one.
    #[cfg_attr(not(feature = "openapi"), allow(dead_code, reason = "created only by imports"))]
    SharedDefs(Arc<dyn SharedDefs>),
}

/// A schema inside a larger document, whose definitions it shares with other schemas.
pub trait SchemaPart: Send + Sync {
    /// Returns the schema as a standalone document with all referenced definitions.
    fn to_value(&self) -> Value;

    /// Returns the names of the properties. By default, they are read from the extracted document.
    fn property_names(&self) -> PropertyNames {
        PropertyNames::of(&self.to_value())
    }
}

/// The two compiled forms of a document.
struct CompiledSchema {
    /// Validates and repairs values.
    program: SchemaProgram,
    /// Produces error messages, and decides validity where the program cannot.
    validator: jsonschema::Validator,
    /// Validators that produce error messages for a single node, built on first use.
    shallow_validators: Box<[OnceLock<Option<Box<jsonschema::Validator>>>]>,
    warnings: SchemaWarnings,
}

/// Error returned when a schema cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The document is neither an object nor a boolean.
    #[error("a schema must be an object or a boolean, found {found}")]
    NotASchema {
        /// JSON type of the document.
        found: &'static str,
    },
    /// The document cannot be compiled.
    #[error("schema does not compile at `{at}`: {message}")]
    DoesNotCompile {
        /// JSON Pointer to the invalid part of the schema.
        at: String,
        /// Description of the problem.
        message: String,
    },
}

impl SchemaError {
    fn at_root(message: impl Into<String>) -> Self {
        Self::DoesNotCompile { at: String::new(), message: message.into() }
    }
}

/// Rewrites OpenAPI 3.0 and older drafts to 2020-12; `None` if the document nests too deeply.
pub(crate) fn rewrite_to_2020_12(document: &Value) -> Option<Cow<'_, Value>> {
    Some(dialect::rewrite(document).ok()?.map_or(Cow::Borrowed(document), Cow::Owned))
}

impl Schema {
    /// Creates a schema from a document. It is compiled on first use.
    ///
    /// # Errors
    ///
    /// Returns [`SchemaError::NotASchema`] if the document is neither an object nor a boolean.
    pub fn new(json: Value) -> Result<Self, SchemaError> {
        match json {
            Value::Object(_) | Value::Bool(_) => {
                Ok(Self::from_document(SchemaDocument::Inline(json)))
            }
            other => Err(SchemaError::NotASchema { found: type_name(&other) }),
        }
    }

    /// Creates a schema that is part of a larger document, from which it is extracted when needed.
    pub fn part(part: Arc<dyn SchemaPart>) -> Self {
        Self::from_document(SchemaDocument::Part(part))
    }

    /// Creates a schema whose definitions can be extracted one by one.
    #[cfg(feature = "openapi")]
    pub(crate) fn with_shared_defs(shared_defs: Arc<dyn SharedDefs>) -> Self {
        Self::from_document(SchemaDocument::SharedDefs(shared_defs))
    }

    /// Returns the schema for splitting, if its definitions can be extracted one by one.
    pub(crate) fn as_shared_defs(&self) -> Option<&dyn SharedDefs> {
        match &self.inner.document {
            SchemaDocument::SharedDefs(shared_defs) => Some(&**shared_defs),
            _ => None,
        }
    }

    /// Returns the schema without constraints: every value is valid, and values are not inspected.
    pub fn unknown() -> Self {
        static UNKNOWN: OnceLock<Schema> = OnceLock::new();
        UNKNOWN
            .get_or_init(|| Self::from_document(SchemaDocument::Inline(Value::Bool(true))))
            .clone()
    }

    /// Derives the schema from a Rust type.
    pub fn of<T: schemars::JsonSchema>() -> Self {
        Self::from_document(SchemaDocument::Inline(schemars::schema_for!(T).to_value()))
    }

    /// Derives the schema of the JSON that a Rust type serializes to. It can differ from the schema
    /// of the accepted JSON: a property with a default is always written, and a property with
    /// `skip_serializing_if` is not.
    pub fn of_serialized<T: schemars::JsonSchema>() -> Self {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<T>();
        Self::from_document(SchemaDocument::Inline(schema.to_value()))
    }

    /// Whether both are the same schema, without comparing their documents.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether this is the unknown schema, `true` or `{}`, and not part of a larger document.
    pub fn is_unknown(&self) -> bool {
        match &self.inner.document {
            SchemaDocument::Inline(Value::Bool(fits)) => *fits,
            SchemaDocument::Inline(Value::Object(members)) => members.is_empty(),
            _ => false,
        }
    }

    /// Returns the schema document. For a [`Schema::part`] it is extracted on each call.
    pub fn json(&self) -> Cow<'_, Value> {
        match &self.inner.document {
            SchemaDocument::Inline(json) => Cow::Borrowed(json),
            SchemaDocument::Part(part) => Cow::Owned(part.to_value()),
            SchemaDocument::SharedDefs(shared_defs) => Cow::Owned(shared_defs.to_value()),
        }
    }

    /// Returns the names of the properties of an object, if the schema describes one.
    pub fn property_names(&self) -> PropertyNames {
        match &self.inner.document {
            SchemaDocument::Inline(json) => PropertyNames::of(json),
            SchemaDocument::Part(part) => part.property_names(),
            SchemaDocument::SharedDefs(shared_defs) => shared_defs.property_names(),
        }
    }

    /// Returns the schema in the notation of TypeScript, in about `max_len` bytes.
    pub(crate) fn type_text(&self, max_len: usize) -> TypeText {
        type_text::type_text(&self.json(), max_len)
    }

    /// Compiles the schema now instead of on first use.
    ///
    /// # Errors
    ///
    /// Returns [`SchemaError::DoesNotCompile`] if the schema is invalid.
    pub fn compile(&self) -> Result<(), SchemaError> {
        self.compiled().map(|_| ())
    }

    /// Whether `value` is valid. A value that nests too deeply to be validated is invalid.
    ///
    /// # Errors
    ///
    /// Returns an error if the schema does not compile.
    ///
    /// # Examples
    ///
    /// ```
    /// let schema = toolpost::Schema::new(serde_json::json!({"type": "integer"}))?;
    /// assert!(schema.is_valid(&serde_json::json!(1.0))?);
    /// assert!(!schema.is_valid(&serde_json::json!("1"))?);
    /// # Ok::<(), toolpost::SchemaError>(())
    /// ```
    pub fn is_valid(&self, value: &Value) -> Result<bool, SchemaError> {
        Ok(self.is_unknown() || self.compiled()?.is_valid(value))
    }

    /// Returns all validation errors of `value`; the list is empty if it is valid.
    ///
    /// # Errors
    ///
    /// Returns an error if the schema does not compile.
    pub fn validate(&self, value: &Value) -> Result<Vec<Issue>, SchemaError> {
        if self.is_unknown() {
            return Ok(Vec::new());
        }
        let compiled = self.compiled()?;
        Ok(if compiled.is_valid(value) { Vec::new() } else { compiled.issues(value) })
    }

    /// Repairs `value` without inventing data, and returns the repairs and the remaining issues.
    ///
    /// A valid value stays valid. Missing properties get their defaults, scalars of the wrong type
    /// are converted if the conversion is lossless, and properties that no schema declares are
    /// stripped or kept, depending on `extras`. A value that nests too deeply is left unchanged. The rules are in
    /// `docs/normalize.md`.
    ///
    /// # Errors
    ///
    /// Returns an error if the schema does not compile.
    ///
    /// # Examples
    ///
    /// ```
    /// use toolpost::{Extras, RepairAction, Schema};
    /// use serde_json::json;
    ///
    /// let schema = Schema::new(json!({"properties": {"id": {"type": "integer"}}}))?;
    /// let mut value = json!({"id": "42", "etag": "x"});
    /// let done = schema.normalize(&mut value, Extras::Strip)?;
    /// assert_eq!(value, json!({"id": 42}));
    /// assert_eq!(done.repairs[0].path, "/id");
    /// assert_eq!(done.repairs[1].action, RepairAction::Stripped);
    /// assert!(done.issues.is_empty());
    /// # Ok::<(), toolpost::SchemaError>(())
    /// ```
    pub fn normalize(&self, value: &mut Value, extras: Extras) -> Result<Normalized, SchemaError> {
        self.repair(value, RepairScope::All(extras))
    }

    /// Gives missing properties their defaults, as [`Schema::normalize`] does, and changes nothing
    /// else. Returns the repairs and the remaining issues.
    ///
    /// # Errors
    ///
    /// Returns an error if the schema does not compile.
    ///
    /// # Examples
    ///
    /// ```
    /// use toolpost::Schema;
    /// use serde_json::json;
    ///
    /// let schema = Schema::new(json!({
    ///     "properties": {"format": {"enum": ["png", "jpeg"], "default": "png"}},
    ///     "required": ["format"],
    /// }))?;
    /// let mut input = json!({});
    /// assert!(schema.fill_defaults(&mut input)?.issues.is_empty());
    /// assert_eq!(input, json!({"format": "png"}));
    /// # Ok::<(), toolpost::SchemaError>(())
    /// ```
    pub fn fill_defaults(&self, value: &mut Value) -> Result<Normalized, SchemaError> {
        if !self.is_unknown() && self.compiled()?.program.has_defaults {
            return self.repair(value, RepairScope::Defaults);
        }
        Ok(Normalized { repairs: Vec::new(), issues: self.validate(value)? })
    }

    /// Returns the warnings about the schema that this method has not returned before: defaults that
    /// are not filled in, because they do not match their schema or would make a value invalid. The
    /// path of a warning is the location of the property in the schema.
    pub fn take_warnings(&self) -> Vec<Issue> {
        match self.inner.lazy.compiled.get() {
            Some(Ok(compiled)) => compiled.warnings.take(),
            _ => Vec::new(),
        }
    }

    fn repair(&self, value: &mut Value, scope: RepairScope) -> Result<Normalized, SchemaError> {
        if self.is_unknown() {
            return Ok(Normalized::default());
        }
        let compiled = self.compiled()?;
        let mut outcome = normalize::normalize(&compiled.program, value, scope);
        compiled.warnings.add_rejected(&outcome.rejected_defaults);
        let fits = if compiled.program.requires_fallback {
            compiled.is_valid(value) || outcome.restore_if(value, |value| compiled.is_valid(value))
        } else {
            outcome.is_valid
        };
        let repairs = outcome.take_repairs();
        let issues = match outcome.mismatches {
            _ if fits && !outcome.overflow => Vec::new(),
            Some(mismatches) if !compiled.program.requires_fallback => {
                compiled.describe_mismatches(&mismatches, value)
            }
            _ => compiled.issues(value),
        };
        Ok(Normalized { repairs, issues })
    }

    /// Returns the number of schemas that normalization applies, for complexity tests.
    #[doc(hidden)]
    pub fn count_steps(&self, value: &mut Value, extras: Extras) -> Result<u64, SchemaError> {
        let scope = RepairScope::All(extras);
        Ok(normalize::normalize(&self.compiled()?.program, value, scope).steps)
    }

    /// Returns the address of the compiled form, which clones share.
    #[cfg(test)]
    pub(crate) fn ptr_address(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }

    /// Returns the secrets that the schema declares, which must not be recorded.
    pub fn secrets(&self) -> &Secrets {
        self.inner.lazy.secrets.get_or_init(|| Secrets::of(&self.json()))
    }

    fn from_document(document: SchemaDocument) -> Self {
        Self { inner: Arc::new(SchemaInner { document, lazy: LazyForms::default() }) }
    }

    fn compiled(&self) -> Result<&CompiledSchema, SchemaError> {
        self.inner
            .lazy
            .compiled
            .get_or_init(|| CompiledSchema::new(&self.json()))
            .as_ref()
            .map_err(Clone::clone)
    }
}

impl CompiledSchema {
    fn new(json: &Value) -> Result<Self, SchemaError> {
        let rewritten = dialect::rewrite(json)?;
        let document = rewritten.as_ref().unwrap_or(json);
        let validator = jsonschema::options()
            .should_validate_formats(false)
            .build(document)
            .map_err(|error| SchemaError::DoesNotCompile {
                at: error.instance_path().to_string(),
                message: error.to_string(),
            })?;
        let mut program = compile::compile(document)?;
        let shallow = program.nodes.iter().map(|_| OnceLock::new()).collect();
        let warnings = SchemaWarnings::new(std::mem::take(&mut program.warnings));
        Ok(Self { program, validator, shallow_validators: shallow, warnings })
    }

    fn is_valid(&self, value: &Value) -> bool {
        if self.program.requires_fallback {
            return !dialect::nests_deeper(value, program::MAX_DEPTH)
                && self.validator.is_valid(value);
        }
        let mut evaluator = validate::Evaluator::new(&self.program, Extras::Keep);
        evaluator.check_valid(self.program.root, value) && !evaluator.overflow
    }

    /// Returns the errors at known mismatches, or of the whole value if a mismatch yields none.
    fn describe_mismatches(&self, mismatches: &[normalize::Mismatch], value: &Value) -> Vec<Issue> {
        let mut issues = Vec::with_capacity(mismatches.len());
        for mismatch in mismatches {
            let before = issues.len();
            if let (Some(instance), Some(validator)) =
                (value.pointer(&mismatch.path), self.shallow_validator(mismatch.node))
                && !dialect::nests_deeper(instance, program::MAX_DEPTH)
            {
                let errors =
                    validator.iter_errors(instance).map(|error| Issue::from_validation(&error));
                issues.extend(errors.map(|issue| issue.prefixed(&mismatch.path)));
            }
            if issues.len() == before {
                return self.issues(value);
            }
        }
        issues
    }

    fn shallow_validator(&self, node: program::NodeId) -> Option<&jsonschema::Validator> {
        let build = || {
            let schema = self.program.node(node).shallow.as_deref()?;
            let options = jsonschema::options().should_validate_formats(false);
            options.with_draft(self.program.draft).build(schema).ok().map(Box::new)
        };
        self.shallow_validators[node as usize].get_or_init(build).as_deref()
    }

    /// Returns the validation errors of an invalid value.
    fn issues(&self, value: &Value) -> Vec<Issue> {
        if let Some(path) = dialect::first_path_too_deep(value) {
            let message = format!("nests deeper than {} levels", program::MAX_DEPTH);
            return vec![Issue::new(path, message)];
        }
        let issues: Vec<Issue> =
            self.validator.iter_errors(value).map(|error| Issue::from_validation(&error)).collect();
        if issues.is_empty() {
            let message = "value and schema nest too deeply together to be validated";
            return vec![Issue::new("", message)];
        }
        issues
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema({})", self.json())
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.json() == other.json()
    }
}

impl serde::Serialize for Schema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Schema {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Returns the JSON type name of a value, for messages.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    struct CountingPart(AtomicUsize);

    impl SchemaPart for CountingPart {
        fn to_value(&self) -> Value {
            self.0.fetch_add(1, Ordering::Relaxed);
            json!({"type": "integer"})
        }
    }

    #[test]
    fn schema_part_is_compiled_lazily_and_once() {
        let part = Arc::new(CountingPart(AtomicUsize::new(0)));
        let written = || part.0.load(Ordering::Relaxed);
        let schema = Schema::part(Arc::clone(&part) as Arc<dyn SchemaPart>);
        assert!(!schema.is_unknown() && written() == 0);
        assert!(schema.is_valid(&json!(1)).unwrap() && !schema.is_valid(&json!("1")).unwrap());
        assert_eq!(written(), 1);
        assert_eq!(*schema.json(), json!({"type": "integer"}));
        assert_eq!(schema, Schema::new(json!({"type": "integer"})).unwrap());
    }
}
