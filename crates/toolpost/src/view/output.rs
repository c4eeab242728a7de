//! Tool output and its declared schema.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::input::{EmbeddedSchema, embed};
use super::json_types::infer_types;
use super::portable::{self, PortableSchema};
use super::settings::{Dialect, ProtocolGeneration};
use crate::json::JsonObject;
use crate::schema::{Issue, Schema, TypeSet};
use crate::spec::{OperationKind, OperationSpec};

/// Property that wraps data which cannot be sent on its own.
pub(super) const RESULT_PROPERTY: &str = "result";

/// What the output schema of an operation implies about its data.
#[derive(Debug)]
pub(super) struct OutputMapping {
    types: TypeSet,
    /// Whether the tool declares an output schema for the data.
    pub(super) is_declared: bool,
    /// The declared schema of the data; created if data is invalid for the operation's own schema.
    data_schema: OnceLock<Schema>,
}

/// A declared schema, and notes about what it omits.
#[derive(Debug, Default)]
pub(super) struct OutputSchema {
    pub(super) schema: Option<JsonObject>,
    pub(super) notes: Vec<String>,
}

impl OutputMapping {
    pub(super) fn from_spec(spec: &OperationSpec) -> Self {
        let document = output_document(spec);
        let is_declared = !is_unknown(&document) && portable::to_portable(&document, "#").is_ok();
        Self { types: infer_types(&document), is_declared, data_schema: OnceLock::new() }
    }

    /// Whether declared data is wrapped in `{result}`. Before 2026-07-28, data is wrapped unless it
    /// is always an object. Later, it is wrapped if it can be `null`, because members of a result
    /// are never null.
    pub(super) fn is_wrapped(&self, generation: ProtocolGeneration) -> bool {
        match generation {
            ProtocolGeneration::Legacy => !self.is_always_object(),
            ProtocolGeneration::Modern => self.types.overlaps(TypeSet::NULL),
        }
    }

    fn is_always_object(&self) -> bool {
        TypeSet::OBJECT.contains(self.types)
    }

    /// Validates data against the declared schema.
    pub(super) fn validate(&self, spec: &OperationSpec, data: &Value) -> Vec<Issue> {
        // Data valid for the operation's own compiled schema is also valid for the declared one.
        let is_own = spec.kind != OperationKind::Subscription;
        if !self.is_declared || (is_own && spec.output_schema.is_valid(data).unwrap_or(false)) {
            return Vec::new();
        }
        let declared = self.data_schema.get_or_init(|| compile_data_schema(spec));
        declared.validate(data).unwrap_or_else(|error| vec![Issue::new("", error.to_string())])
    }
}

/// Returns the output schema that a tool declares.
pub(super) fn output_schema(
    spec: &OperationSpec,
    dialect: Dialect,
    mapping: &OutputMapping,
    generation: ProtocolGeneration,
) -> OutputSchema {
    let document = output_document(spec);
    match dialect {
        Dialect::Data if is_unknown(&document) => OutputSchema::default(),
        Dialect::Data if mapping.is_wrapped(generation) => wrapped_schema(
            &document,
            "#/properties/result",
            |data| object_schema(&[(RESULT_PROPERTY, data)]),
            SchemaFallback::Omit,
        ),
        Dialect::Data => unwrapped_schema(&document, mapping),
        Dialect::Envelope => wrapped_schema(
            &document,
            "#/properties/data",
            envelope_schema,
            SchemaFallback::AcceptAny,
        ),
        Dialect::Ok => wrapped_schema(
            &document,
            "#/oneOf/0/properties/data",
            ok_schema,
            SchemaFallback::AcceptAny,
        ),
        Dialect::ToolEnvelopeV1 => OutputSchema::default(),
    }
}

/// What to declare if the schema has no portable form.
#[derive(Clone, Copy)]
enum SchemaFallback {
    Omit,
    AcceptAny,
}

/// Returns the schema of data that is not wrapped.
fn unwrapped_schema(document: &Value, mapping: &OutputMapping) -> OutputSchema {
    let (portable_schema, notes) = portable_with_notes(document, "#");
    let schema = portable_schema.map(|portable_schema| {
        let schema = portable_schema.into_document();
        if mapping.is_always_object() { with_object_type(schema) } else { schema }
    });
    OutputSchema { schema, notes }
}

/// Returns the schema of a wrapper that contains the data at `base_pointer`.
fn wrapped_schema(
    document: &Value,
    base_pointer: &str,
    wrapper: impl FnOnce(Value) -> Value,
    absent: SchemaFallback,
) -> OutputSchema {
    let (portable_schema, notes) = portable_with_notes(document, base_pointer);
    let mut wrapped = match (portable_schema, absent) {
        (None, SchemaFallback::Omit) => return OutputSchema { schema: None, notes },
        (portable_schema, _) => portable_schema.unwrap_or_default(),
    };
    let Value::Object(root) = wrapper(wrapped.root.into()) else { return OutputSchema::default() };
    wrapped.root = root;
    OutputSchema { schema: Some(wrapped.into_document()), notes }
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

/// Returns the declared schema of the data alone, for validation.
fn compile_data_schema(spec: &OperationSpec) -> Schema {
    let portable_schema =
        portable::to_portable(&output_document(spec), "#").unwrap_or_default().into_document();
    Schema::new(portable_schema.into()).expect("the schema is an object")
}

/// Puts `type: object` first in the root of a schema.
fn with_object_type(schema: JsonObject) -> JsonObject {
    let rest = schema.into_iter().filter(|(keyword, _)| keyword != "type");
    std::iter::once(("type".to_owned(), "object".into())).chain(rest).collect()
}

/// Returns the portable form of a document, if there is one, and notes about what it omits.
fn portable_with_notes(
    document: &Value,
    base_pointer: &str,
) -> (Option<PortableSchema>, Vec<String>) {
    let portable_schema = match portable::to_portable(document, base_pointer) {
        Ok(portable_schema) => portable_schema,
        Err(error) => return (None, vec![format!("its output schema is not declared: {error}")]),
    };
    let list = portable_schema.omitted.join("`, `");
    let note = format!(
        "its output schema is declared without `{list}`, which clients interpret differently"
    );
    let notes = if list.is_empty() { Vec::new() } else { vec![note] };
    (Some(portable_schema), notes)
}
