//! A gateway with operations from every kind of source, including unusual ones.

use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolpost::hub::{Spoke, SpokeHandle};
use toolpost::mcp::{McpSettings, McpSource, McpTransport, StdioSettings};
use toolpost::openapi::{DocumentLocation, OpenApiSettings, from_openapi};
use toolpost::transport::WsConnector;
use toolpost::{
    ErrorDefinition, Handler, HandlerError, HandlerOutput, Operation, OperationKind, OperationSpec,
    PipelineSettings, Registry, RunningSource, Schema, SourceHooks,
};
use toolpost_gateway::auth::Authenticator;
use toolpost_gateway::{DrainReport, Gateway, GatewaySettings, builtin};

/// Timeout for a source to become ready.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_millis(60);

/// The demo operations and those of `odd_operations.json`, which return their input.
pub(super) fn local() -> Registry {
    let registry = builtin::registry();
    let odd: Vec<Value> = serde_json::from_str(include_str!("odd_operations.json")).unwrap();
    let long = json!({"name": "n".repeat(200), "input": {"type": "object"}});
    for odd in odd.iter().chain([&long]) {
        registry.register(echo(odd)).unwrap();
    }
    registry
}

/// The operations of [`local`] and one with a percent sign in its name, which `openapi-typescript`
/// decodes twice.
pub(super) fn local_and_percent() -> Registry {
    let registry = local();
    registry.register(echo(&json!({"name": "50%", "input": {"type": "object"}}))).unwrap();
    registry
}

fn echo(odd: &Value) -> Operation {
    let name = odd["name"].as_str().unwrap();
    let kind = odd
        .get("kind")
        .map_or(OperationKind::Query, |kind| serde_json::from_value(kind.clone()).unwrap());
    let id = format!("odd.{name}").parse().unwrap();
    let schema = Schema::new(odd["input"].clone()).unwrap();
    let mut spec = OperationSpec::new(&id, kind);
    spec.description = "Gives back what it is given.".to_owned();
    (spec.input_schema, spec.output_schema) = (schema.clone(), schema.clone());
    spec.error_schemas = vec![
        ErrorDefinition::new("NO_ROOM", "When there is no room.").with_schema(schema),
        ErrorDefinition::new("GONE", "").with_http_status(410),
    ];
    let handler = match kind {
        OperationKind::Subscription => Handler::stream_fn(|_, input| {
            let once = futures::stream::iter([Ok::<_, HandlerError>(HandlerOutput::Data(input))]);
            once.boxed()
        }),
        _ => Handler::once_fn(async |_, input| Ok(HandlerOutput::Data(input))),
    };
    Operation::from_spec(spec).handler(handler).build().unwrap()
}

/// A running gateway.
pub(super) struct TestGateway {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<DrainReport>,
}

impl TestGateway {
    pub(super) async fn start(registry: Registry, authenticator: Authenticator) -> Self {
        // Generated inputs request delays and timeouts of an hour, so calls are limited to a short
        // timeout.
        let (mut settings, mut endpoints) =
            (PipelineSettings::default(), GatewaySettings::default());
        settings.call_timeout = CALL_TIMEOUT;
        endpoints.http.max_timeout = CALL_TIMEOUT;
        let builder = Gateway::builder(registry)
            .pipeline(|pipeline| pipeline.settings(settings))
            .settings(endpoints)
            .authenticator(authenticator)
            .listen("127.0.0.1:0");
        let (gateway, listener) = builder.bind().await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            gateway.serve(listener, async { drop(stopped.await) }).await.unwrap()
        });
        Self { address, stop, task: served }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) async fn document(&self) -> Value {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let response = client.get(self.url("/openapi.json")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json().await.unwrap()
    }

    pub(super) async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }
}

/// A gateway with operations of every kind from every kind of source.
pub(super) struct Fixture {
    pub(super) gateway: TestGateway,
    mcp_source: RunningSource,
    spoke: SpokeHandle,
}

impl Fixture {
    pub(super) async fn start(cache: &Path) -> Self {
        let registry = local_and_percent();
        // No test generator can produce a valid input for this schema.
        registry.register(echo(&json!({"name": "never", "input": false}))).unwrap();
        let everything = everything(&registry, cache).await;
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolpost/tests/data/openapi");
        for (name, file) in
            [("library", "library-2.0"), ("shop", "shop-3.0"), ("streams", "streams-3.2")]
        {
            let path = data.join(format!("{file}.yaml"));
            let document = std::fs::read_to_string(&path).unwrap();
            let settings =
                OpenApiSettings::new(DocumentLocation::from_path_or_url(path.to_str().unwrap()));
            from_openapi(&registry, name, &document, settings).unwrap();
        }
        let served = TestGateway::start(registry, Authenticator::allow_anonymous()).await;
        let spoke = spoke(&served).await;
        Self { gateway: served, mcp_source: everything, spoke }
    }

    pub(super) async fn close(self) {
        self.spoke.close().await;
        self.mcp_source.close().await;
        self.gateway.stop().await;
    }
}

async fn everything(registry: &Registry, cache: &Path) -> RunningSource {
    let modules = cache.join("npm/node_modules");
    let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    let node = modules.join(".bin/node");
    let arguments = [script.to_str().unwrap(), "stdio"];
    let server = StdioSettings::new(node.to_str().unwrap(), arguments);
    let settings = McpSettings::new(McpTransport::Stdio(server));
    let source = RunningSource::start(
        registry,
        McpSource::new("everything", settings),
        SourceHooks::default(),
    );
    source.ready(SOURCE_TIMEOUT).await.unwrap();
    source
}

async fn spoke(served: &TestGateway) -> SpokeHandle {
    let double = async |number: i64| Ok::<_, HandlerError>(number.wrapping_mul(2));
    let count = |most: u8| futures::stream::iter(0..most).map(Ok::<_, HandlerError>);
    let spoke = Spoke::new("box")
        .operation(Operation::query("box.double", double).build().unwrap())
        .and_then(|spoke| spoke.operation(Operation::subscription("box.count", count).build()?))
        .unwrap();
    let connector = WsConnector::new(&served.url("/hub").replace("http", "ws"), None).unwrap();
    let session = spoke.connect(connector);
    tokio::time::timeout(SOURCE_TIMEOUT, session.ready()).await.unwrap().unwrap();
    session
}
