//! The client that the MCP conformance suite runs: connects a source to the server of a scenario
//! and calls each of its operations through the pipeline.
#![allow(clippy::print_stderr, reason = "it is a command line")]

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolpost::mcp::{
    Authorizer, Elicitation, HttpSettings, McpSettings, McpSource, McpTransport, OAuthError,
    OAuthHooks,
};
use toolpost::protocol::Secret;
use toolpost::{OperationSpec, Pipeline, Registry, RunningSource, SourceHooks};
use url::Url;

type ClientError = Box<dyn std::error::Error + Send + Sync>;

/// Client metadata URL that the suite expects.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ClientError> {
    let url = Url::parse(&std::env::args().next_back().ok_or("no address")?)?;
    let context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Value::Null,
    };
    let registry = Registry::new();
    let mut hooks = OAuthHooks::default();
    hooks.authorizer = Some(Arc::new(AutoAuthorizer));
    let source = RunningSource::start(
        &registry,
        McpSource::new("suite", settings(url, &context)).oauth(hooks),
        SourceHooks::default(),
    );
    let server_info = source.ready(Duration::from_secs(20)).await?;
    eprintln!(
        "{} speaks {}: {} tools",
        server_info.title,
        server_info.protocol,
        server_info.tools.len()
    );
    for warning in &server_info.warnings {
        eprintln!("warning: {warning}");
    }
    let failed = call_all(&registry, &context).await;
    source.close().await;
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} calls failed").into()),
    }
}

fn settings(url: Url, context: &Value) -> McpSettings {
    let mut http = HttpSettings::new(url);
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    http.oauth.client_metadata_url = Some(CLIENT_METADATA_URL.to_owned());
    http.oauth.client_id = text("client_id");
    http.oauth.client_secret = text("client_secret").map(Secret::new);
    http.oauth.issuer = text("issuer");
    let mut settings = McpSettings::new(McpTransport::Http(http));
    // Legacy scenarios do not support `server/discover`.
    settings.protocol = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")
        .ok()
        .filter(|version| version.as_str() < "2026-07-28");
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    settings.elicitation = match scenario.as_str() {
        "sep-2322-client-request-state" => {
            Elicitation::Accept(Map::from_iter([("confirmed".to_owned(), true.into())]))
        }
        _ => Elicitation::Defaults,
    };
    settings
}

/// Makes the calls of the scenario, or calls every operation with a sample input. Returns the
/// number of failed calls.
async fn call_all(registry: &Registry, context: &Value) -> usize {
    let pipeline = Pipeline::new(registry.clone());
    let tool_calls = context["toolCalls"].as_array().map(|calls| {
        calls.iter().map(|call| {
            let id = format!("suite.{}", call["name"].as_str().unwrap_or_default());
            (id, without_nulls(&call["arguments"]))
        })
    });
    let calls: Vec<(String, Value)> = match tool_calls {
        Some(tool_calls) => tool_calls.collect(),
        None => {
            let catalog = registry.catalog();
            let all: Vec<_> = catalog.list().iter().map(|operation| operation.spec()).collect();
            let other = |spec: &OperationSpec| all.iter().find(|other| other.name != spec.name);
            all.iter()
                .map(|spec| {
                    (format!("suite.{}", spec.name), sample_input(spec, other(spec).copied()))
                })
                .collect()
        }
    };
    let mut failed = 0;
    for (id, input) in calls {
        match pipeline.call_trusted(&id, input).await {
            Ok(_) => eprintln!("{id}: ok"),
            Err(error) => {
                eprintln!("{id}: {error}");
                failed += 1;
            }
        }
    }
    failed
}

/// Removes null arguments, which no schema accepts.
fn without_nulls(arguments: &Value) -> Value {
    let members = arguments.as_object().into_iter().flatten();
    members.filter(|(_, value)| !value.is_null()).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Returns a sample input; a `schema` argument is the input schema of another tool.
fn sample_input(spec: &OperationSpec, other: Option<&OperationSpec>) -> Value {
    match spec.name.as_str() {
        "resources/read" => return json!({"uri": "file:///path/to/file%20name.txt"}),
        "prompts/get" => return json!({"name": "test_prompt"}),
        _ => {}
    }
    let schema = spec.input_schema.json();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let sample = |name: &str| match (name, other) {
        ("schema", Some(other)) => other.input_schema.json().into_owned(),
        _ => sample_value(&schema["properties"][name]),
    };
    required.map(|name| (name.to_owned(), sample(name))).collect()
}

fn sample_value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("sample"),
    }
}

/// Authorizes every request immediately.
#[derive(Debug)]
struct AutoAuthorizer;

impl Authorizer for AutoAuthorizer {
    fn redirect_uri(&self) -> Url {
        Url::parse("http://127.0.0.1:9876/callback").expect("a valid URL")
    }

    fn authorize(&self, address: Url) -> BoxFuture<'_, Result<Url, OAuthError>> {
        async move {
            let unfinished = |reason: String| OAuthError::Incomplete { reason };
            let none = reqwest::redirect::Policy::none();
            let client = reqwest::Client::builder().redirect(none).build();
            let client = client.map_err(|error| unfinished(error.to_string()))?;
            let response = client.get(address).send().await;
            let response = response.map_err(|error| unfinished(error.to_string()))?;
            let location = response.headers().get("location").and_then(|value| value.to_str().ok());
            let location = location.ok_or_else(|| unfinished("no redirect".to_owned()))?;
            Url::parse(location).map_err(|error| unfinished(error.to_string()))
        }
        .boxed()
    }
}
