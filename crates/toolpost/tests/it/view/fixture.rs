//! Operations with unusual schemas, and helpers to list and call them.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolpost::view::{
    Dialect, ListMode, ProtocolGeneration, ResultStatus, Tool, ToolSet, ViewSettings,
};
use toolpost::{
    Authority, CallError, CallRequest, Catalog, Envelope, Handler, HandlerError, HandlerOutput,
    LocalMeta, McpMeta, Meta, Operation, OperationKind, OperationSpec, Outcome, OutputPolicy,
    Payload, Pipeline, Registry, ResultPolicy, Schema,
};

/// The response of an operation.
#[derive(Clone)]
pub(super) enum HandlerResponse {
    /// Data of a local operation.
    Data(Value),
    /// Data and result of an MCP server.
    Mcp(Value, Box<McpMeta>),
    Error(CallError),
}

/// Creates a spec with the given schemas.
pub(super) fn spec(id: &str, kind: OperationKind, input: Value, output: Value) -> OperationSpec {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.input_schema = Schema::new(input).unwrap();
    spec.output_schema = Schema::new(output).unwrap();
    spec
}

/// Returns the spec with the metadata of its source.
pub(super) fn with_meta(mut spec: OperationSpec, meta: &Value) -> OperationSpec {
    spec.meta = meta.as_object().cloned().map(Into::into);
    spec
}

/// Returns operations with edge cases that clients must be able to handle.
pub(super) fn edge_case_specs() -> Vec<OperationSpec> {
    let any = || json!(true);
    let query = |name: &str, input: Value, output: Value| {
        spec(&format!("demo.{name}"), OperationKind::Query, input, output)
    };
    let mut add = query(
        "add",
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "b": true}, "required": ["a"],
            "$defs": {"n": {"type": "number"}}}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sum", "type": "object",
            "properties": {"sum": {"type": "number", "format": "double"}}, "required": ["sum"]}),
    );
    (add.title, add.description) = (Some("Add".to_owned()), "Adds two numbers.".to_owned());
    let mut note = spec(
        "demo.note",
        OperationKind::Mutation,
        json!({"type": "object"}),
        json!({"type": "null"}),
    );
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
            OperationKind::Subscription,
            any(),
            json!({"$ref": "#/$defs/tick",
            "$defs": {"tick": {"type": "integer"}}}),
        ),
        with_meta(
            spec("box.fs/read", OperationKind::Query, json!({"type": "object"}), any()),
            &imported,
        ),
        spec(
            "box.stat",
            OperationKind::Mutation,
            json!({"type": "object"}),
            json!({"type": "object",
            "properties": {"size": {"type": "integer"}}, "required": ["size"]}),
        ),
    ]
}

/// Creates a catalog of operations without handlers.
pub(super) fn catalog(specs: impl IntoIterator<Item = OperationSpec>) -> Arc<Catalog> {
    let registry = Registry::new();
    for spec in specs {
        registry.register(Operation::from_spec(spec).build().unwrap()).unwrap();
    }
    registry.catalog()
}

/// Returns the first page of all tools.
pub(super) fn list_tools(
    catalog: Arc<Catalog>,
    dialect: Dialect,
    generation: ProtocolGeneration,
) -> Value {
    let tool_set = ToolSet::new(catalog, ViewSettings::new(dialect));
    let listing = tool_set.listing(ListMode::All, generation, |_| true);
    let mut page = Vec::new();
    listing.page(None).unwrap().write(&mut page, None);
    serde_json::from_slice(&page).unwrap()
}

/// A result and its declared schema.
pub(super) struct WrittenResult {
    pub(super) result: Value,
    pub(super) status: ResultStatus,
    pub(super) output_schema: Option<Value>,
}

/// Calls an operation with the default policy through a pipeline and writes the result.
pub(super) async fn call_and_write(
    spec: &OperationSpec,
    response: HandlerResponse,
    dialect: Dialect,
    generation: ProtocolGeneration,
) -> WrittenResult {
    let builder = Operation::from_spec(spec.clone()).handler(handler(spec, response));
    let (ended, tool) = call(builder.build().unwrap(), dialect).await;
    write(&tool, generation, ended)
}

/// Calls an operation through a pipeline and writes the result for a legacy client.
pub(super) async fn call_with_policy(
    spec: &OperationSpec,
    response: HandlerResponse,
    dialect: Dialect,
    output: OutputPolicy,
) -> WrittenResult {
    let builder = Operation::from_spec(spec.clone()).handler(handler(spec, response));
    let operation = builder.policy(ResultPolicy::new(output)).build().unwrap();
    let (ended, tool) = call(operation, dialect).await;
    write(&tool, ProtocolGeneration::Legacy, ended)
}

/// Calls a local operation and writes the result for a legacy client.
pub(super) async fn call_operation(operation: Operation, dialect: Dialect) -> WrittenResult {
    let (ended, tool) = call(operation, dialect).await;
    write(&tool, ProtocolGeneration::Legacy, ended)
}

/// Writes the result of a call with a fixed time.
pub(super) fn write(
    tool: &Tool,
    generation: ProtocolGeneration,
    ended: Result<Outcome, CallError>,
) -> WrittenResult {
    let mut result = Vec::new();
    let sent = tool.write_result_at(&mut result, generation, ended, 1_750_185_000_000);
    let result = serde_json::from_slice(&result).unwrap();
    let registry = Registry::new();
    registry.register(Operation::clone(tool.operation())).unwrap();
    let tools = list_tools(registry.catalog(), tool.dialect(), generation);
    let declared = tools["tools"][0].get("outputSchema").cloned();
    WrittenResult { result, status: sent, output_schema: declared }
}

async fn call(operation: Operation, dialect: Dialect) -> (Result<Outcome, CallError>, Arc<Tool>) {
    let registry = Registry::new();
    let id = operation.id().to_string();
    registry.register(operation).unwrap();
    let tool_set = ToolSet::new(registry.catalog(), ViewSettings::new(dialect));
    let tool = Arc::clone(tool_set.tool(&toolpost::view::tool_name(&id.parse().unwrap())).unwrap());
    // The input is irrelevant here.
    let request = CallRequest::new(&id, Payload::empty_object());
    let ended = Pipeline::new(registry).call(request, Authority::untrusted(None)).await;
    (ended, tool)
}

fn handler(spec: &OperationSpec, response: HandlerResponse) -> Handler {
    let id = format!("{}.{}", spec.namespace, spec.name);
    Handler::once_fn(move |_, _| {
        let (response, id) = (response.clone(), id.clone());
        async move { into_output(response, &id) }
    })
}

fn into_output(response: HandlerResponse, id: &str) -> Result<HandlerOutput, HandlerError> {
    let timestamp = 1_750_185_000_000;
    match response {
        HandlerResponse::Data(data) => {
            let meta = Meta::Local(LocalMeta::new(id, timestamp));
            Ok(HandlerOutput::Envelope(Envelope { data: data.into(), meta }))
        }
        HandlerResponse::Mcp(data, mut meta) => {
            meta.timestamp = Some(timestamp);
            Ok(HandlerOutput::Envelope(Envelope::mcp(data.into(), *meta)))
        }
        HandlerResponse::Error(error) => Err(error.into()),
    }
}

/// Creates a tool set with one operation of the default policy, and returns its tool.
pub(super) fn tool(spec: OperationSpec, dialect: Dialect) -> Arc<Tool> {
    tool_with_policy(spec, dialect, OutputPolicy::default())
}

/// Creates a tool set with one operation, and returns its tool.
pub(super) fn tool_with_policy(
    spec: OperationSpec,
    dialect: Dialect,
    output: OutputPolicy,
) -> Arc<Tool> {
    let name = toolpost::view::tool_name(&spec.id().unwrap());
    let operation = Operation::from_spec(spec).policy(ResultPolicy::new(output));
    let registry = Registry::new();
    registry.register(operation.build().unwrap()).unwrap();
    let tool_set = ToolSet::new(registry.catalog(), ViewSettings::new(dialect));
    Arc::clone(tool_set.tool(&name).unwrap())
}

/// Creates the response of an MCP server. The data is the structured content, or else the content
/// blocks.
pub(super) fn mcp(result: &Value) -> HandlerResponse {
    let mut members: Map<String, Value> = result.as_object().unwrap().clone();
    members.insert("source".to_owned(), "mcp".into());
    members.entry("isError").or_insert(false.into());
    members.entry("content").or_insert(json!([]));
    let data = members.get("structuredContent").or_else(|| members.get("content")).unwrap().clone();
    let envelope: Envelope =
        serde_json::from_value(json!({"data": data, "meta": members})).unwrap();
    let Meta::Mcp(meta) = envelope.meta else { panic!("the result is an MCP envelope") };
    HandlerResponse::Mcp(data, meta)
}
