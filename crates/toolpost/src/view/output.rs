//! What a tool gives, as it stands on the wire.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::input::{Embedded, embedded};
use super::kinds::Kinds;
use super::portable::{self, Portable, Unsayable};
use super::settings::{Dialect, Era};
use crate::schema::{Issue, Schema};
use crate::spec::{Kind, OperationSpec};

/// The property that holds data which may not stand alone.
pub(super) const RESULT: &str = "result";

/// What is known about the data of an operation before there is any.
#[derive(Debug)]
pub(super) struct Giving {
    kinds: Kinds,
    /// Whether anything is declared about the data.
    pub(super) is_declared: bool,
    /// The declared schema of the data alone; made when data does not fit the operation's own.
    declared: OnceLock<Schema>,
}

/// A declared schema, and what could not be said in it.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub(super) schema: Option<Map<String, Value>>,
    pub(super) notes: Vec<String>,
}

impl Giving {
    pub(super) fn of(spec: &OperationSpec) -> Self {
        let document = document(spec);
        let is_declared = !is_unknown(&document) && portable::portable(&document, "#").is_ok();
        Self { kinds: Kinds::of(&document), is_declared, declared: OnceLock::new() }
    }

    /// Whether declared data stands in `{result}`: before 2026-07-28 whatever is no object, and later
    /// what may be `null`, since no member of a result ever is.
    pub(super) fn is_wrapped(&self, era: Era) -> bool {
        match era {
            Era::Legacy => !self.kinds.only_objects(),
            Era::Modern => self.kinds.has_null(),
        }
    }

    /// The places where data does not fit what is declared about it.
    pub(super) fn misfits(&self, spec: &OperationSpec, data: &Value) -> Vec<Issue> {
        // What fits the operation's own schema fits what is declared, and that one is compiled.
        let is_own = spec.kind != Kind::Subscription;
        if !self.is_declared || (is_own && spec.output_schema.fits(data).unwrap_or(false)) {
            return Vec::new();
        }
        let declared = self.declared.get_or_init(|| alone(spec));
        declared.check(data).unwrap_or_else(|error| vec![Issue::new("", error.to_string())])
    }
}

/// The schema that a tool declares.
pub(super) fn declared(
    spec: &OperationSpec,
    dialect: Dialect,
    giving: &Giving,
    era: Era,
) -> Declared {
    let document = document(spec);
    match dialect {
        Dialect::Data if is_unknown(&document) => Declared::default(),
        Dialect::Data if giving.is_wrapped(era) => around(
            &document,
            "#/properties/result",
            |data| object(&[(RESULT, data)]),
            Absent::Nothing,
        ),
        Dialect::Data => bare(&document, giving),
        Dialect::Envelope => around(&document, "#/properties/data", envelope, Absent::Anything),
        Dialect::Ok => around(&document, "#/oneOf/0/properties/data", either, Absent::Anything),
        Dialect::ToolEnvelopeV1 => Declared::default(),
    }
}

/// What is declared where nothing can be said about the data.
#[derive(Clone, Copy)]
enum Absent {
    Nothing,
    Anything,
}

/// A schema of the data itself.
fn bare(document: &Value, giving: &Giving) -> Declared {
    match portable::portable(document, "#") {
        Ok(said) => {
            let notes = notes(&said);
            let mut schema = whole(said);
            if giving.kinds.only_objects() {
                schema = typed(schema);
            }
            Declared { schema: Some(schema), notes }
        }
        Err(error) => Declared { schema: None, notes: vec![unsayable(&error)] },
    }
}

/// A schema of something around the data, which stands at `place` in it.
fn around(
    document: &Value,
    place: &str,
    wrapper: impl FnOnce(Value) -> Value,
    absent: Absent,
) -> Declared {
    let (said, notes) = match portable::portable(document, place) {
        Ok(said) => {
            let notes = notes(&said);
            (said, notes)
        }
        Err(error) => match absent {
            Absent::Nothing => return Declared { schema: None, notes: vec![unsayable(&error)] },
            Absent::Anything => (Portable::default(), vec![unsayable(&error)]),
        },
    };
    let Portable { root, definitions, .. } = said;
    let Value::Object(mut schema) = wrapper(root.into()) else { return Declared::default() };
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), definitions.into());
    }
    Declared { schema: Some(schema), notes }
}

fn envelope(data: Value) -> Value {
    // What each source says about a result is documented elsewhere and open to additions.
    let meta = json!({
        "type": "object",
        "properties": {"source": {"enum": ["local", "http", "mcp"]}},
        "required": ["source"],
    });
    object(&[("data", data), ("meta", meta)])
}

fn either(data: Value) -> Value {
    let error = json!({
        "type": "object",
        "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "details": {}},
        "required": ["code", "message"],
    });
    let success = object(&[("ok", json!({"const": true})), ("data", data)]);
    let failure = object(&[("ok", json!({"const": false})), ("error", error)]);
    json!({"type": "object", "oneOf": [success, failure]})
}

/// An object that has all of these.
fn object(properties: &[(&str, Value)]) -> Value {
    let required: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
    let properties = properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone()));
    json!({"type": "object", "properties": Map::from_iter(properties), "required": required})
}

/// What the data of a call looks like: for a subscription, the list of its values.
fn document(spec: &OperationSpec) -> Cow<'_, Value> {
    let own = spec.output_schema.json();
    match spec.kind {
        Kind::Subscription if spec.output_schema.is_unknown() => {
            Cow::Owned(json!({"type": "array"}))
        }
        Kind::Subscription => {
            let Embedded { inner, draft } = embedded(&own, "#/items");
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

/// The declared schema of the data alone, to check data with.
fn alone(spec: &OperationSpec) -> Schema {
    let said = portable::portable(&document(spec), "#").map(whole).unwrap_or_default();
    Schema::new(Value::Object(said)).expect("an object is a schema")
}

fn whole(said: Portable) -> Map<String, Value> {
    let Portable { mut root, definitions, .. } = said;
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), definitions.into());
    }
    root
}

/// The same schema of objects with a root that says so, first of all.
fn typed(schema: Map<String, Value>) -> Map<String, Value> {
    let rest = schema.into_iter().filter(|(keyword, _)| keyword != "type");
    std::iter::once(("type".to_owned(), "object".into())).chain(rest).collect()
}

fn notes(said: &Portable) -> Vec<String> {
    if said.left_out.is_empty() {
        return Vec::new();
    }
    let list = said.left_out.join("`, `");
    vec![format!("its output schema is declared without `{list}`, which clients read differently")]
}

fn unsayable(error: &Unsayable) -> String {
    format!("its output schema is not declared: {error}")
}
