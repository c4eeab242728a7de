//! Operations of every odd shape, and a way to list and call them.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolpost::view::{Dialect, Era, Listed, Sent, Tool, Toolbox, ViewSettings};
use toolpost::{
    Authority, CallError, CallRequest, Catalog, Envelope, Handler, HandlerError, Kind, LocalMeta,
    McpMeta, Meta, Operation, OperationSpec, Outcome, Output, Payload, Pipeline, Registry, Schema,
};

/// What an operation gives.
#[derive(Clone)]
pub(super) enum Gives {
    /// Data of its own.
    Data(Value),
    /// What an MCP server said: data and the result.
    Mcp(Value, Box<McpMeta>),
    Fails(CallError),
}

/// A spec with these schemas.
pub(super) fn spec(id: &str, kind: Kind, input: Value, output: Value) -> OperationSpec {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.input_schema = Schema::new(input).unwrap();
    spec.output_schema = Schema::new(output).unwrap();
    spec
}

/// The same with its source's words.
pub(super) fn said(mut spec: OperationSpec, meta: &Value) -> OperationSpec {
    spec.meta = meta.as_object().cloned();
    spec
}

/// The operations that no client should stumble over.
pub(super) fn odd_specs() -> Vec<OperationSpec> {
    let any = || json!(true);
    let query = |name: &str, input: Value, output: Value| {
        spec(&format!("demo.{name}"), Kind::Query, input, output)
    };
    let mut add = query(
        "add",
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "b": true}, "required": ["a"],
            "$defs": {"n": {"type": "number"}}}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sum", "type": "object",
            "properties": {"sum": {"type": "number", "format": "double"}}, "required": ["sum"]}),
    );
    (add.title, add.description) = (Some("Add".to_owned()), "Adds two numbers.".to_owned());
    let mut note =
        spec("demo.note", Kind::Mutation, json!({"type": "object"}), json!({"type": "null"}));
    note.idempotent = true;
    let imported = json!({"toolpost/mcp": {
        "annotations": {"title": "Read", "readOnlyHint": true, "openWorldHint": false, "newer": 1},
        "icons": [{"src": "data:,"}], "_meta": {"vendor/a": [1]}, "newer": {"b": 2},
        "execution": {"taskSupport": "optional"},
    }});
    vec![
        add,
        note,
        query("list", any(), json!({"type": "array", "items": {"type": "string"}})),
        query(
            "count",
            json!({"type": "string", "minLength": 1}),
            json!({"type": "integer", "format": "uint"}),
        ),
        query(
            "maybe",
            json!({"type": "null"}),
            json!({"type": ["object", "null"], "properties": {"x": {}}}),
        ),
        query(
            "tree",
            any(),
            json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
            "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}}),
        ),
        query(
            "forest",
            any(),
            json!({"type": "array", "items": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}),
        ),
        query(
            "either",
            json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}]}),
        ),
        query(
            "modern",
            any(),
            json!({"type": "object", "properties": {
            "pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false},
            "word": {"type": "string", "pattern": "^\\p{L}+$"},
            "next": {"$dynamicRef": "#node"}, "any": true, "none": false},
            "dependentRequired": {"word": ["pair"]}, "unevaluatedProperties": false, "$dynamicAnchor": "node"}),
        ),
        query(
            "circle",
            any(),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}),
        ),
        query("free", any(), any()),
        query("never", json!(false), json!(false)),
        query(&"n".repeat(200), any(), json!({"type": "object"})),
        spec(
            "demo.watch",
            Kind::Subscription,
            any(),
            json!({"$ref": "#/$defs/tick",
            "$defs": {"tick": {"type": "integer"}}}),
        ),
        said(spec("box.fs/read", Kind::Query, json!({"type": "object"}), any()), &imported),
        spec(
            "box.stat",
            Kind::Mutation,
            json!({"type": "object"}),
            json!({"type": "object",
            "properties": {"size": {"type": "integer"}}, "required": ["size"]}),
        ),
    ]
}

/// A catalog of operations that cannot be called.
pub(super) fn catalog(specs: impl IntoIterator<Item = OperationSpec>) -> Arc<Catalog> {
    let registry = Registry::new();
    for spec in specs {
        registry.register(Operation::from_spec(spec).build().unwrap()).unwrap();
    }
    registry.catalog()
}

/// The first page of everything.
pub(super) fn listed(catalog: Arc<Catalog>, dialect: Dialect, era: Era) -> Value {
    let toolbox = Toolbox::new(catalog, ViewSettings::new(dialect));
    let listing = toolbox.listing(Listed::All, era, |_| true);
    let mut page = Vec::new();
    listing.page(None).unwrap().write(&mut page, None);
    serde_json::from_slice(&page).unwrap()
}

/// A result, and what is declared about it.
pub(super) struct Answer {
    pub(super) result: Value,
    pub(super) sent: Sent,
    pub(super) declared: Option<Value>,
}

/// Calls an operation through a pipeline, and writes what it ended with.
pub(super) async fn answer(
    spec: &OperationSpec,
    gives: Gives,
    dialect: Dialect,
    era: Era,
) -> Answer {
    let (ended, tool) = call(spec, gives, dialect).await;
    write(&tool, era, ended)
}

/// Writes what a call ended with at a fixed time.
pub(super) fn write(tool: &Tool, era: Era, ended: Result<Outcome, CallError>) -> Answer {
    let mut result = Vec::new();
    let sent = tool.write_result_at(&mut result, era, ended, 1_750_185_000_000);
    let result = serde_json::from_slice(&result).unwrap();
    let spec = tool.operation().spec().clone();
    let tools = listed(catalog([spec]), tool.dialect(), era);
    let declared = tools["tools"][0].get("outputSchema").cloned();
    Answer { result, sent, declared }
}

async fn call(
    spec: &OperationSpec,
    gives: Gives,
    dialect: Dialect,
) -> (Result<Outcome, CallError>, Arc<Tool>) {
    let registry = Registry::new();
    let builder = Operation::from_spec(spec.clone()).handler(handler(spec, gives));
    let operation = builder.build().unwrap();
    let id = operation.id().to_string();
    registry.register(operation).unwrap();
    let toolbox = Toolbox::new(registry.catalog(), ViewSettings::new(dialect));
    let tool = Arc::clone(toolbox.tool(&toolpost::view::tool_name(&id.parse().unwrap())).unwrap());
    // Inputs are not what is tested here.
    let request = CallRequest::new(&id, Payload::empty_object());
    let ended = Pipeline::new(registry).call(request, Authority::outside(None)).await;
    (ended, tool)
}

fn handler(spec: &OperationSpec, gives: Gives) -> Handler {
    let id = format!("{}.{}", spec.namespace, spec.name);
    Handler::once_fn(move |_, _| {
        let (gives, id) = (gives.clone(), id.clone());
        async move { given(gives, &id) }
    })
}

fn given(gives: Gives, id: &str) -> Result<Output, HandlerError> {
    match gives {
        Gives::Data(data) => {
            let meta = Meta::Local(LocalMeta::new(id, 1_750_185_000_000));
            Ok(Output::Envelope(Envelope { data: data.into(), meta }))
        }
        Gives::Mcp(data, meta) => Ok(Output::Envelope(Envelope::mcp(data.into(), *meta))),
        Gives::Fails(error) => Err(error.into()),
    }
}

/// The only tool of its box.
pub(super) fn tool(spec: OperationSpec, dialect: Dialect) -> Arc<Tool> {
    let name = toolpost::view::tool_name(&spec.id().unwrap());
    let toolbox = Toolbox::new(catalog([spec]), ViewSettings::new(dialect));
    Arc::clone(toolbox.tool(&name).unwrap())
}

/// The result of an MCP server, its data read as the sources read it.
pub(super) fn mcp(result: &Value) -> Gives {
    let mut members: Map<String, Value> = result.as_object().unwrap().clone();
    members.insert("source".to_owned(), "mcp".into());
    members.entry("isError").or_insert(false.into());
    members.entry("content").or_insert(json!([]));
    let data = members.get("structuredContent").or_else(|| members.get("content")).unwrap().clone();
    let envelope: Envelope =
        serde_json::from_value(json!({"data": data, "meta": members})).unwrap();
    let Meta::Mcp(meta) = envelope.meta else { panic!("it is an mcp envelope") };
    Gives::Mcp(data, meta)
}
