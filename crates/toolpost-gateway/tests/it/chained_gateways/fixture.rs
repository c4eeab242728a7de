//! A gateway with operations of every kind from every kind of source, and a second gateway that
//! imports it.

use std::path::Path;

use axum::Router;
use axum::extract::Path as Segment;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use toolpost::hub::SpokeHandle;
use toolpost::{
    CallContext, ContentBlock, DomainError, Envelope, ErrorDefinition, Handler, HandlerError,
    HandlerOutput, McpMeta, Operation, OperationKind, OperationSpec, Payload, Registry,
};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, GatewaySettings, Sources};

use super::relay::Relay;
use crate::TestGateway;
use crate::spokes::{TIMEOUT, spoke, with_timeout};

pub(super) struct Fixture {
    pub(super) first: TestGateway,
    pub(super) second: TestGateway,
    /// Relay between the two gateways.
    pub(super) relay: Relay,
    feed: broadcast::Sender<u64>,
    sources: [Sources; 2],
    _spoke: SpokeHandle,
    pets: JoinHandle<()>,
}

impl Fixture {
    /// Starts both gateways.
    pub(super) async fn start() -> Self {
        let [node, everything] = everything_server();
        let (feed_sender, _) = broadcast::channel(1_000);
        let first = TestGateway::start_with(local(&feed_sender), GatewaySettings::default()).await;
        let (origin, pets) = pets().await;
        let text = format!(
            "[source.everything]\nmcp = {{ command = {node:?}, args = [{everything:?}, \"stdio\"] }}\n\
             [source.pets]\nopenapi = {{ document = \"{origin}/openapi.json\" }}\n"
        );
        let sources = first.gateway.start_sources(&config(&text));
        wait_until_ready(&sources).await;
        let spoke = spoke(&first, None, "box", spoke_operations()).await;
        let line = Relay::start(first.address).await;
        let second = TestGateway::start().await;
        let text = format!("[source.first]\nopenapi = \"http://{}/openapi.json\"\n", line.address);
        let own = second.gateway.start_sources(&config(&text));
        wait_until_ready(&own).await;
        let sources = [sources, own];
        Self { first, second, relay: line, feed: feed_sender, sources, _spoke: spoke, pets }
    }

    /// Publishes values to the feed once it has a subscriber.
    pub(super) async fn publish(&self, values: impl IntoIterator<Item = u64>) {
        with_timeout("a client listens", async {
            while self.feed.receiver_count() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        for value in values {
            self.feed.send(value).unwrap();
        }
    }

    pub(super) async fn stop(self) {
        self.second.stop().await;
        self.first.stop().await;
        for sources in self.sources {
            assert!(sources.close(TIMEOUT).await);
        }
        self.pets.abort();
    }
}

/// Starts another gateway that imports the first and has no operations of its own.
pub(super) async fn import_first(
    fixture: &Fixture,
    table: &str,
    beside: &str,
) -> (TestGateway, Sources) {
    let url = format!("http://{}/openapi.json", fixture.relay.address);
    let (running, sources) = importing_gateway(&url, table, beside).await;
    wait_until_ready(&sources).await;
    (running, sources)
}

/// Starts a gateway that imports an OpenAPI document. `table` is added to the `openapi` table,
/// `beside` to the source table.
pub(super) async fn importing_gateway(
    url: &str,
    table: &str,
    beside: &str,
) -> (TestGateway, Sources) {
    let gateway = Gateway::builder(Registry::new());
    let running = TestGateway::serve(gateway, "127.0.0.1:0").await;
    let comma = if table.is_empty() { "" } else { ", " };
    let document = format!("{{ document = \"{url}\"{comma}{table} }}");
    let text = format!("[source.first]\nopenapi = {document}\n{beside}\n");
    let sources = running.gateway.start_sources(&config(&text));
    (running, sources)
}

pub(super) fn specs(gateway: &Gateway) -> Vec<OperationSpec> {
    let catalog = gateway.pipeline().registry().catalog();
    catalog.list().iter().map(|operation| operation.spec().clone()).collect()
}

pub(super) fn config(text: &str) -> Config {
    Config::parse("toolpost.toml".as_ref(), text, &|_| None).unwrap()
}

async fn wait_until_ready(sources: &Sources) {
    for source in sources.running() {
        let info = source.ready(TIMEOUT).await.unwrap();
        assert!(info.warnings.is_empty(), "{}: {:?}", source.name(), info.warnings);
    }
}

/// Returns the program and the script of a real MCP server.
fn everything_server() -> [String; 2] {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/npm");
    assert!(cache.join(".packages").exists(), "no .cache/npm: run scripts/fetch-test-data");
    let modules = cache.canonicalize().unwrap().join("node_modules");
    let script = "@modelcontextprotocol/server-everything/dist/index.js";
    [".bin/node", script].map(|path| modules.join(path).to_string_lossy().into_owned())
}

/// Local operations that use every feature of the OpenAPI document.
fn local(feed_sender: &broadcast::Sender<u64>) -> Vec<Operation> {
    let spec = |id: &str, kind| OperationSpec::new(&id.parse().unwrap(), kind);
    let dynamic = |id: &str, kind, handler| {
        Operation::from_spec(spec(id, kind)).handler(handler).build().unwrap()
    };
    let echo = || Handler::once_fn(async |_, input| Ok(HandlerOutput::Dynamic(input)));
    let tool = Handler::once_fn(async |_, _| {
        let mut meta = McpMeta::new(vec![ContentBlock::text("no such file")]);
        meta.is_error = true;
        Ok(HandlerOutput::Envelope(Envelope::mcp(Payload::from(json!([])), meta)))
    });
    let broken =
        Handler::once_fn(async |_, _| Err(HandlerError::from(std::io::Error::other("hush"))));
    let crash =
        Handler::once_fn(async |_, _| -> Result<HandlerOutput, HandlerError> { panic!("hush") });
    let mut recursive = spec("t.recursive", OperationKind::Query);
    recursive.input_schema = schema(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Node", "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "required": ["name", "children"], "additionalProperties": false, "properties": {
            "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        }}},
    }));
    recursive.output_schema =
        schema(json!({"type": "object", "properties": {"children": {"items": {"$ref": "#"}}}}));
    (recursive.title, recursive.tags) = (Some("A tree".to_owned()), vec!["tree".to_owned()]);
    (recursive.version, recursive.meta) =
        ("2.3.4".to_owned(), json!({"own": [1]}).as_object().cloned().map(Into::into));
    let mut old = spec("t.old", OperationKind::Mutation);
    old.input_schema = schema(json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/old", "definitions": {"a": {"type": "integer"}},
        "properties": {"a": {"$ref": "#/definitions/a"}},
    }));
    (old.idempotent, old.exclusive) = (true, true);
    let breaks = |_: CallContext, _: Value| -> BoxStream<'static, Result<u32, HandlerError>> {
        let end = DomainError::new("TORN", "it tore").with_details(json!({"at": 2}));
        futures::stream::iter([Ok(1), Ok(2), Err(HandlerError::from(end))]).boxed()
    };
    let torn =
        ErrorDefinition::new("TORN", "It tore.").with_schema(schema(json!({"type": "object"})));
    vec![
        dynamic("t.exact", OperationKind::Query, echo()),
        dynamic("t.a/b {c}", OperationKind::Query, echo()),
        dynamic("t.tool", OperationKind::Mutation, tool),
        dynamic("t.broken", OperationKind::Query, broken),
        dynamic("t.crash", OperationKind::Mutation, crash),
        Operation::mutation("t.void", async |_: Value| Ok::<_, HandlerError>(())).build().unwrap(),
        Operation::from_spec(recursive).handler(echo()).build().unwrap(),
        Operation::from_spec(old).handler(echo()).build().unwrap(),
        Operation::subscription("t.breaks", breaks)
            .raises(torn.with_http_status(418))
            .build()
            .unwrap(),
        feed(feed_sender),
    ]
}

fn schema(json: Value) -> toolpost::Schema {
    toolpost::Schema::new(json).unwrap()
}

/// A subscription that streams the published values to every subscriber.
fn feed(feed_sender: &broadcast::Sender<u64>) -> Operation {
    let feed_sender = feed_sender.clone();
    let values = move |_: CallContext, _: Value| -> BoxStream<'static, _> {
        let received = feed_sender.subscribe();
        futures::stream::unfold(received, async |mut received| {
            let value = received.recv().await.ok()?;
            Some((Ok::<_, HandlerError>(value), received))
        })
        .boxed()
    };
    Operation::subscription("t.feed", values).build().unwrap()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct File {
    path: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Watched {
    count: u32,
}

/// Returns the operations of the spoke.
fn spoke_operations() -> Vec<Operation> {
    let read = async |file: File| match file.path.as_str() {
        "/gone" => Err(HandlerError::from(
            DomainError::new("GONE", "no longer available").with_details(json!({"path": "/gone"})),
        )),
        path => Ok(json!({"text": path, "bytes": [1, 2]})),
    };
    let watch =
        |_: CallContext, watched: Watched| -> BoxStream<'static, Result<Value, HandlerError>> {
            futures::stream::iter((0..watched.count).map(|at| Ok(json!({"at": at})))).boxed()
        };
    let gone = ErrorDefinition::new("GONE", "It is gone.").with_http_status(410);
    vec![
        Operation::query("fs.read", read).raises(gone).build().unwrap(),
        Operation::subscription("fs.watch", watch).build().unwrap(),
    ]
}

/// Starts an HTTP service with an OpenAPI document, a pet and a news stream.
async fn pets() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let pet = json!({"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "parent": {"$ref": "#/components/schemas/Pet"}}, "required": ["name"]});
    let (of, json_of) = (
        json!({"$ref": "#/components/schemas/Pet"}),
        |schema: &Value| json!({"application/json": {"schema": schema}}),
    );
    let document = json!({
        "openapi": "3.0.3", "info": {"title": "Pets", "version": "1"}, "components": {"schemas": {"Pet": pet}},
        "paths": {
            "/pets/{id}": {"get": {"operationId": "readPet", "summary": "One pet",
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "It.", "content": json_of(&of)}, "404": {"description": "None.", "content": json_of(&json!({"type": "object"}))}}}},
            "/pets": {"post": {"operationId": "addPet", "requestBody": {"required": true, "content": json_of(&of)},
                "responses": {"201": {"description": "It.", "content": json_of(&of)}}}},
            "/news": {"get": {"operationId": "followNews", "responses": {"200": {"description": "News.", "content": {"text/event-stream": {}}}}}},
        },
    })
    .to_string();
    let json = |status: StatusCode, body: Value| (status, axum::Json(body)).into_response();
    let router = Router::new()
        .route("/openapi.json", get(async move || document))
        .route(
            "/pets/{id}",
            get(async move |Segment(id): Segment<u32>| match id {
                1 => json(StatusCode::OK, json!({"id": 1, "name": "Rex", "extra": [1.50]})),
                _ => json(StatusCode::NOT_FOUND, json!({"detail": "there is no such pet"})),
            }),
        )
        .route(
            "/pets",
            post(async move || json(StatusCode::CREATED, json!({"id": 2, "name": "Tim"}))),
        )
        .route(
            "/news",
            get(async || {
                let text = "id: 7\nevent: born\ndata: {\"name\": \"Tim\"}\n\ndata: plain\n\n";
                ([(header::CONTENT_TYPE, "text/event-stream")], text)
            }),
        );
    (origin, tokio::spawn(serve(listener, router)))
}

async fn serve(listener: TcpListener, router: Router) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let service = hyper_util::service::TowerToHyperService::new(router.clone());
        let http = hyper::server::conn::http1::Builder::new();
        connections.spawn(http.serve_connection(hyper_util::rt::TokioIo::new(stream), service));
    }
}
