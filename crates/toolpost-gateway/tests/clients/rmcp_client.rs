//! The Rust SDK, `rmcp`, in this process.

use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;
use toolpost::view::ProtocolGeneration;

use super::check::PreservedMembers;
use super::fixture::ExpectedCall;
use super::matrix::Row;
use super::{BOTH_GENERATIONS, ClientInfo, ClientRun, ClientTransport, RUN_TIMEOUT, TestEnv};

/// Its types drop unknown members.
const CLIENT: ClientInfo = ClientInfo { name: "crates.io rmcp", preserves: PreservedMembers::None };

type Client = RunningService<RoleClient, ()>;

pub(super) async fn run(test_env: &TestEnv) -> Vec<Row> {
    let mut rows = Vec::new();
    for session in ClientRun::all(BOTH_GENERATIONS) {
        let finding = Box::pin(run_session(test_env, session, &test_env.calls));
        let found = tokio::time::timeout(RUN_TIMEOUT, finding).await;
        let found = found.unwrap_or_else(|_| Err("timed out".to_owned()));
        let found = found.unwrap_or_else(|reason| json!({"failed": reason}));
        rows.push(test_env.evaluate(CLIENT, session, &test_env.calls, &found));
    }
    rows
}

async fn run_session(
    test_env: &TestEnv,
    session: ClientRun,
    calls: &[ExpectedCall],
) -> Result<Value, String> {
    let mut program = Command::new(&test_env.program);
    program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(TestEnv::log_file("rmcp"))
        .kill_on_drop(true);
    let mut child = None;
    let client = match session.transport {
        ClientTransport::Http => {
            let config = StreamableHttpClientTransportConfig::with_uri(test_env.url(session));
            let transport = StreamableHttpClientTransport::with_client(http(), config);
            ().serve_with_lifecycle(transport, lifecycle_mode(session.generation)).await
        }
        ClientTransport::Stdio => {
            let running = child.insert(program.arg(session.dialect.as_str()).spawn().unwrap());
            let streams = (running.stdout.take().unwrap(), running.stdin.take().unwrap());
            ().serve_with_lifecycle(streams, lifecycle_mode(session.generation)).await
        }
    };
    let client = client.map_err(|error: ClientInitializeError| error.to_string())?;
    let found = run_calls(&client, calls).await?;
    client.cancel().await.map_err(|error| error.to_string())?;
    Ok(found)
}

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn lifecycle_mode(generation: ProtocolGeneration) -> ClientLifecycleMode {
    match generation {
        ProtocolGeneration::Modern => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
        _ => ClientLifecycleMode::Initialize,
    }
}

async fn run_calls(client: &Client, calls: &[ExpectedCall]) -> Result<Value, String> {
    let tools = client.list_all_tools().await.map_err(|error| error.to_string())?;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    let mut responses = Vec::new();
    for call in calls {
        let arguments = call.arguments.as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new(call.tool.clone()).with_arguments(arguments);
        responses.push(match client.call_tool(params).await {
            Ok(result) => json!({"result": result}),
            Err(error) => json!({"thrown": error.to_string()}),
        });
    }
    let protocol = client.peer_info().map(|info| info.protocol_version.to_string());
    Ok(json!({"version": version(), "protocol": protocol, "tools": names, "answers": responses}))
}

/// Returns the version of `rmcp` in the lock file.
fn version() -> Option<&'static str> {
    let lock = include_str!("../../../../Cargo.lock");
    let (_, rest) = lock.split_once("name = \"rmcp\"\nversion = \"")?;
    rest.split('"').next()
}
