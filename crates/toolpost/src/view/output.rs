//! Tool output and its published schema.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::input::{EmbeddedSchema, embed};
use super::json_types::infer_types;
use super::portable::{self, PortableError, PortableSchema};
use super::settings::{Dialect, ProtocolGeneration};
use crate::json::JsonObject;
use crate::operation::{Operation, OutputPolicy};
use crate::schema::{Issue, Schema, TypeSet};
use crate::spec::{OperationKind, OperationSpec};

/// Property that wraps data which cannot be sent on its own.
pub(super) const RESULT_PROPERTY: &str = "result";

/// How the output schema of an operation is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaForm {
    /// In portable form. Results that do not match it are errors.
    Declared,
    /// Without the constraints that a result may violate. Every result matches it, wrapped in
    /// `{result}` if necessary.
    Relaxed,
}

/// What the output schema of an operation implies about its data.
#[derive(Debug)]
pub(super) struct OutputMapping {
    types: TypeSet,
    /// `None` if no output schema is published.
    pub(super) form: Option<SchemaForm>,
    /// The published schema of data that is not wrapped; created if the pipeline has not found the
    /// data valid.
    data_schema: OnceLock<Schema>,
}

/// A published schema, and notes about what it omits.
#[derive(Debug, Default)]
pub(super) struct OutputSchema {
    pub(super) schema: Option<JsonObject>,
    pub(super) notes: Vec<String>,
}

impl OutputMapping {
    pub(super) fn from_operation(operation: &Operation) -> Self {
        let document = output_document(operation.spec());
        let types = infer_types(&document);
        let has_schema = |form: &SchemaForm| data_schema(&document, types, *form).is_ok();
        let form = schema_form(operation, &document).filter(has_schema);
        Self { types, form, data_schema: OnceLock::new() }
    }

    /// Whether data is always wrapped in `{result}`. Before 2026-07-28, data is wrapped unless it
    /// is always an object. Later, it is wrapped if it can be `null`, because members of a result
    /// are never null.
    pub(super) fn is_wrapped(&self, generation: ProtocolGeneration) -> bool {
        match generation {
            ProtocolGeneration::Legacy => !is_always_object(self.types),
            ProtocolGeneration::Modern => self.types.overlaps(TypeSet::NULL),
        }
    }

    /// Validates data against the published schema. Only data that the pipeline has not found valid
    /// needs this, because the published schema accepts what the schema of the operation accepts.
    pub(super) fn validate(&self, spec: &OperationSpec, data: &Value) -> Vec<Issue> {
        let Some(form) = self.form else { return Vec::new() };
        let published = self.data_schema.get_or_init(|| {
            let schema = data_schema(&output_document(spec), self.types, form);
            Schema::new(schema.unwrap_or_default().into_document().into())
                .expect("the schema is an object")
        });
        published.validate(data).unwrap_or_else(|error| vec![Issue::new("", error.to_string())])
    }
}

fn is_always_object(types: TypeSet) -> bool {
    TypeSet::OBJECT.contains(types)
}

/// Returns how the output schema is published. Only the program itself and the policy `enforce`
/// guarantee that data matches the declared schema.
fn schema_form(operation: &Operation, document: &Value) -> Option<SchemaForm> {
    match operation.policy().output {
        OutputPolicy::Raw => None,
        _ if is_unknown(document) => None,
        OutputPolicy::Enforce => Some(SchemaForm::Declared),
        _ if operation.is_local_typed() => Some(SchemaForm::Declared),
        _ => Some(SchemaForm::Relaxed),
    }
}

/// Returns the output schema that a tool publishes.
pub(super) fn output_schema(
    operation: &Operation,
    dialect: Dialect,
    mapping: &OutputMapping,
    generation: ProtocolGeneration,
) -> OutputSchema {
    let document = output_document(operation.spec());
    let Some(form) = schema_form(operation, &document) else { return OutputSchema::default() };
    let schema = match dialect {
        Dialect::Data if !mapping.is_wrapped(generation) => {
            data_schema(&document, mapping.types, form)
        }
        Dialect::Data => wrapped_schema(&document, form, "#/properties/result", |data| {
            object_schema(&[(RESULT_PROPERTY, data)])
        }),
        Dialect::Envelope => wrapped_schema(&document, form, "#/properties/data", envelope_schema),
        Dialect::Ok => wrapped_schema(&document, form, "#/oneOf/0/properties/data", ok_schema),
        Dialect::ToolEnvelopeV1 => return OutputSchema::default(),
    };
    match schema {
        Ok(schema) => {
            let notes = omission_note(&schema.omitted).into_iter().collect();
            OutputSchema { schema: Some(schema.into_document()), notes }
        }
        Err(error) => OutputSchema {
            schema: None,
            notes: vec![format!("its output schema is not published: {error}")],
        },
    }
}

/// Returns the schema of data that is not wrapped. In relaxed form, it also accepts every object
/// `{"result": …}`.
fn data_schema(
    document: &Value,
    types: TypeSet,
    form: SchemaForm,
) -> Result<PortableSchema, PortableError> {
    let mut schema = match form {
        SchemaForm::Declared => portable::to_portable(document, "#")?,
        SchemaForm::Relaxed => portable::to_relaxed(document, "#")?,
    };
    if form == SchemaForm::Relaxed && !schema.accepts_wrapped_data() {
        if schema.refers_to_root {
            schema = portable::to_relaxed(document, "#/anyOf/0")?;
        }
        let mut wrapped = Map::from_iter([("required".to_owned(), json!([RESULT_PROPERTY]))]);
        if !is_always_object(types) {
            wrapped = with_object_type(wrapped);
        }
        let variants = json!([schema.root, wrapped]);
        schema.root = Map::from_iter([("anyOf".to_owned(), variants)]);
    }
    if is_always_object(types) {
        schema.root = with_object_type(schema.root);
    }
    Ok(schema)
}

/// Returns the schema of a wrapper that contains the data at `pointer`. In relaxed form, the
/// wrapper accepts any data.
fn wrapped_schema(
    document: &Value,
    form: SchemaForm,
    pointer: &str,
    wrapper: impl FnOnce(Value) -> Value,
) -> Result<PortableSchema, PortableError> {
    let mut schema = match form {
        SchemaForm::Declared => portable::to_portable(document, pointer)?,
        SchemaForm::Relaxed => portable::to_relaxed(document, &format!("{pointer}/anyOf/0"))?,
    };
    let data = match form {
        SchemaForm::Declared => schema.root.into(),
        SchemaForm::Relaxed => json!({"anyOf": [schema.root, {}]}),
    };
    schema.root = match wrapper(data) {
        Value::Object(root) => root,
        _ => Map::new(),
    };
    Ok(schema)
}

fn envelope_schema(data: Value) -> Value {
    // The members of each source's meta are documented elsewhere and can be extended.
    let meta = json!({
        "type": "object",
        "properties": {"source": {"enum": ["local", "http", "mcp"]}},
        "required": ["source"],
    });
    object_schema(&[("data", data), ("meta", meta)])
}

fn ok_schema(data: Value) -> Value {
    let error = json!({
        "type": "object",
        "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "details": {}},
        "required": ["code", "message"],
    });
    let success = object_schema(&[("ok", json!({"const": true})), ("data", data)]);
    let failure = object_schema(&[("ok", json!({"const": false})), ("error", error)]);
    json!({"type": "object", "oneOf": [success, failure]})
}

/// Returns the schema of an object in which all given properties are required.
fn object_schema(properties: &[(&str, Value)]) -> Value {
    let required: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
    let properties = properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone()));
    json!({"type": "object", "properties": Map::from_iter(properties), "required": required})
}

/// Returns the schema of the data of a call, or of the list of values of a subscription.
fn output_document(spec: &OperationSpec) -> Cow<'_, Value> {
    // Structured content would repeat the text of a summary.
    if spec.summarizes {
        return Cow::Owned(Value::Bool(true));
    }
    let own = spec.output_schema.json();
    // Clients that prefer structured content would not get an image as an image.
    if spec.kind != OperationKind::Subscription && own.pointer("/properties/$binary").is_some() {
        return Cow::Owned(Value::Bool(true));
    }
    match spec.kind {
        OperationKind::Subscription if spec.output_schema.is_unknown() => {
            Cow::Owned(json!({"type": "array"}))
        }
        OperationKind::Subscription => {
            let EmbeddedSchema { inner, draft } = embed(&own, "#/items");
            let mut list = json!({"type": "array", "items": inner});
            if let Some(draft) = draft {
                list["$schema"] = draft;
            }
            Cow::Owned(list)
        }
        _ => own,
    }
}

fn is_unknown(document: &Value) -> bool {
    match document {
        Value::Object(members) => members.is_empty(),
        other => *other == Value::Bool(true),
    }
}

/// Puts `type: object` first in the root of a schema.
fn with_object_type(schema: JsonObject) -> JsonObject {
    let rest = schema.into_iter().filter(|(keyword, _)| keyword != "type");
    std::iter::once(("type".to_owned(), "object".into())).chain(rest).collect()
}

/// Returns a note about the keywords that a published schema omits, if there are any.
fn omission_note(omitted: &[String]) -> Option<String> {
    let list = omitted.join("`, `");
    let note = format!(
        "its output schema is published without `{list}`, which clients interpret differently"
    );
    (!list.is_empty()).then_some(note)
}
