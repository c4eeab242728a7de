//! JSON Schemas, compiled once on first use and shared.

mod budget;
mod bundle;
#[cfg(feature = "typebox-cast")]
mod cast;
mod compile;
mod dialect;
mod equality;
mod explain;
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

use budget::Budget;
#[doc(hidden)]
pub use budget::Work;
pub use budget::WorkLimits;
pub(crate) use budget::{Exceeded, RepairError, ValueSize};
pub(crate) use bundle::{
    ComponentNames, collect_refs, is_relocatable, parse_definition_pointer, ref_round_trips,
};
pub use issue::Issue;
pub(crate) use issue::MISSING_PROPERTY;
pub(crate) use normalize::RepairScope;
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

/// The compiled form of a document.
struct CompiledSchema {
    /// Validates and repairs values.
    program: SchemaProgram,
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
    /// Compiling the document takes too much work.
    #[error("schema is over budget: compiling it takes {needs}; simplify or split it")]
    OverBudget {
        /// The work that is not done.
        needs: String,
    },
}

impl SchemaError {
    fn at_root(message: impl Into<String>) -> Self {
        Self::DoesNotCompile { at: String::new(), message: message.into() }
    }

    fn over_budget(budget: &Budget<'_>) -> Self {
        Self::OverBudget {
            needs: budget.exceeded().map_or_else(String::new, |exceeded| exceeded.to_string()),
        }
    }
}

/// Whether a 2020-12 document and all its subschemas have keywords of the right types, without
/// resolving references.
pub(crate) fn is_well_formed(document: &Value) -> bool {
    !dialect::nests_too_deeply(document)
        && compile::check_document(document, &Budget::new(WorkLimits::SCHEMA)).is_ok()
}

/// Checks whether patterns can be used in a schema, with a limit on the work for all of them.
#[cfg(feature = "openapi")]
#[derive(Debug, Default)]
pub(crate) struct PatternCheck {
    steps: u64,
}

#[cfg(feature = "openapi")]
impl PatternCheck {
    const MAX_STEPS: u64 = 40_000_000;

    /// Whether a pattern is supported. Over the limit, patterns are assumed to be supported, and an
    /// unsupported one is an error when the schema is compiled.
    pub(crate) fn is_supported(&mut self, pattern: &str) -> bool {
        if self.steps > Self::MAX_STEPS {
            return true;
        }
        let budget = Budget::new(WorkLimits::SCHEMA);
        let is_supported = program::PatternMatcher::compile(pattern, &budget).is_some();
        self.steps += budget.steps();
        is_supported
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
    /// Returns [`SchemaError::DoesNotCompile`] if the schema is invalid, and
    /// [`SchemaError::OverBudget`] if compiling it takes more work than [`WorkLimits::SCHEMA`].
    pub fn compile(&self) -> Result<(), SchemaError> {
        self.compiled().map(|_| ())
    }

    /// Returns why the schema cannot be used, if it was compiled and is over budget.
    pub(crate) fn over_budget(&self) -> Option<&SchemaError> {
        match self.inner.lazy.compiled.get() {
            Some(Err(error @ SchemaError::OverBudget { .. })) => Some(error),
            _ => None,
        }
    }

    /// Whether `value` is valid. A value that takes more work than [`WorkLimits::VALUE`], or that
    /// nests too deeply, is invalid.
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
        Ok(self.is_unknown() || self.compiled()?.check(value, WorkLimits::VALUE) == Ok(true))
    }

    /// Returns the first validation errors of `value`, at most 20; the list is empty if it is valid.
    /// A value that takes more work than [`WorkLimits::VALUE`] has one error that says so.
    ///
    /// # Errors
    ///
    /// Returns an error if the schema does not compile.
    pub fn validate(&self, value: &Value) -> Result<Vec<Issue>, SchemaError> {
        if self.is_unknown() {
            return Ok(Vec::new());
        }
        let compiled = self.compiled()?;
        Ok(match compiled.check(value, WorkLimits::VALUE) {
            Ok(true) => Vec::new(),
            Ok(false) => compiled.issues(value, WorkLimits::VALUE),
            Err(exceeded) => vec![exceeded.issue(value)],
        })
    }

    /// Repairs `value` without inventing data, and returns the repairs and the remaining issues.
    ///
    /// A valid value stays valid. Missing properties get their defaults, scalars of the wrong type
    /// are converted if the conversion is lossless, and properties that no schema declares are
    /// stripped or kept, depending on `extras`. A value that takes more work than
    /// [`WorkLimits::VALUE`] or nests too deeply is left unchanged. The rules are in
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
        self.repair_or_report(value, RepairScope::All(extras))
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
        self.repair_or_report(value, RepairScope::Defaults)
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

    fn repair_or_report(
        &self,
        value: &mut Value,
        scope: RepairScope,
    ) -> Result<Normalized, SchemaError> {
        match self.repair_within(value, scope, WorkLimits::VALUE) {
            Ok(done) => Ok(done),
            Err(RepairError::Schema(error)) => Err(error),
            Err(RepairError::Exceeded(exceeded)) => {
                Ok(Normalized { issues: vec![exceeded.issue(value)], ..Normalized::default() })
            }
        }
    }

    /// Repairs a value within limits. If they are exceeded, the value is unchanged.
    pub(crate) fn repair_within(
        &self,
        value: &mut Value,
        scope: RepairScope,
        limits: WorkLimits<'_>,
    ) -> Result<Normalized, RepairError> {
        if self.is_unknown() {
            return Ok(Normalized::default());
        }
        let compiled = self.compiled_within(limits)?;
        if scope == RepairScope::Defaults && !compiled.program.has_defaults {
            return Ok(match compiled.check(value, limits)? {
                true => Normalized::default(),
                false => {
                    Normalized { issues: compiled.issues(value, limits), ..Normalized::default() }
                }
            });
        }
        let budget = Budget::new(limits);
        let mut outcome = normalize::normalize(&compiled.program, value, scope, &budget);
        if let Some(exceeded) = budget.exceeded() {
            return Err(exceeded.into());
        }
        compiled.warnings.add_rejected(&outcome.rejected_defaults);
        let issues = match outcome.is_valid {
            true => Vec::new(),
            false => compiled.issues(value, limits),
        };
        Ok(Normalized { repairs: outcome.take_repairs(), issues })
    }

    /// Returns the work of compiling the schema and of normalizing and describing a value, counted
    /// in steps and bytes, for tests. The schema is compiled again.
    #[doc(hidden)]
    pub fn measure(&self, value: &mut Value, extras: Extras) -> Work {
        let mut work = Work::default();
        let budget = Budget::new(WorkLimits::SCHEMA);
        let compiled = CompiledSchema::with_budget(&self.json(), &budget);
        work.add(&budget);
        let Ok(compiled) = compiled else { return work };
        let budget = Budget::new(WorkLimits::VALUE);
        let is_valid =
            normalize::normalize(&compiled.program, value, RepairScope::All(extras), &budget)
                .is_valid;
        work.add(&budget);
        if !is_valid && !budget.is_exceeded() {
            let budget = Budget::new(WorkLimits::VALUE);
            work.issues = explain::explain(&compiled.program, value, &budget).len();
            work.add(&budget);
        }
        work
    }

    /// Whether a schema in the document can apply itself to the same value, which JSON Schema leaves
    /// undefined, for tests.
    #[doc(hidden)]
    pub fn is_cyclic(&self) -> Result<bool, SchemaError> {
        Ok(!self.is_unknown() && self.compiled()?.program.is_cyclic)
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
            .get_or_init(|| CompiledSchema::new(&self.json(), WorkLimits::SCHEMA))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Compiles the schema on first use, within limits that can be lower than those of a schema.
    fn compiled_within(&self, limits: WorkLimits<'_>) -> Result<&CompiledSchema, RepairError> {
        let compiled = &self.inner.lazy.compiled;
        if compiled.get().is_some() || limits.max_steps >= WorkLimits::VALUE.max_steps {
            return Ok(self.compiled()?);
        }
        let budget = Budget::new(limits);
        let result = CompiledSchema::with_budget(&self.json(), &budget);
        if let Some(exceeded) = budget.exceeded() {
            return Err(exceeded.into());
        }
        Ok(compiled.get_or_init(|| result).as_ref().map_err(Clone::clone)?)
    }
}

impl CompiledSchema {
    fn new(json: &Value, limits: WorkLimits<'_>) -> Result<Self, SchemaError> {
        Self::with_budget(json, &Budget::new(limits))
    }

    fn with_budget(json: &Value, budget: &Budget<'_>) -> Result<Self, SchemaError> {
        let rewritten = dialect::rewrite(json)?;
        let document = rewritten.as_ref().unwrap_or(json);
        let mut program = compile::compile(document, budget)?;
        let warnings = SchemaWarnings::new(std::mem::take(&mut program.warnings));
        Ok(Self { program, warnings })
    }

    /// Whether the value is valid, or why this is not known.
    fn check(&self, value: &Value, limits: WorkLimits<'_>) -> Result<bool, Exceeded> {
        let budget = Budget::new(limits);
        let mut evaluator = validate::Evaluator::with_budget(&self.program, Extras::Keep, &budget);
        let is_valid = evaluator.check_valid(self.program.root, value);
        budget.exceeded().map_or(Ok(is_valid), Err)
    }

    /// Returns the validation errors of an invalid value.
    fn issues(&self, value: &Value, limits: WorkLimits<'_>) -> Vec<Issue> {
        explain::explain(&self.program, value, &Budget::new(limits.for_errors()))
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
