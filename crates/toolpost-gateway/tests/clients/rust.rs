//! The SDK for Rust, `rmcp`, in this process.

use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;
use toolpost::view::Era;

use super::check::Keeps;
use super::matrix::Row;
use super::world::Call;
use super::{BOTH, PATIENCE, Place, Session, Way, Who};

/// Its types have no room for members that it does not know.
const WHO: Who = Who { name: "crates.io rmcp", keeps: Keeps::None };

type Client = RunningService<RoleClient, ()>;

pub(super) async fn try_out(place: &Place) -> Vec<Row> {
    let mut rows = Vec::new();
    for session in Session::all(BOTH) {
        let finding = Box::pin(found(place, session, &place.calls));
        let found = tokio::time::timeout(PATIENCE, finding).await;
        let found = found.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        let found = found.unwrap_or_else(|reason| json!({"failed": reason}));
        rows.push(place.judge(WHO, session, &place.calls, &found));
    }
    rows
}

async fn found(place: &Place, session: Session, calls: &[Call]) -> Result<Value, String> {
    let mut program = Command::new(&place.program);
    program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Place::log("rmcp"))
        .kill_on_drop(true);
    let mut child = None;
    let client = match session.way {
        Way::Http => {
            let config = StreamableHttpClientTransportConfig::with_uri(place.url(session));
            let transport = StreamableHttpClientTransport::with_client(http(), config);
            ().serve_with_lifecycle(transport, mode(session.era)).await
        }
        Way::Stdio => {
            let running = child.insert(program.arg(session.dialect.as_str()).spawn().unwrap());
            let streams = (running.stdout.take().unwrap(), running.stdin.take().unwrap());
            ().serve_with_lifecycle(streams, mode(session.era)).await
        }
    };
    let client = client.map_err(|error: ClientInitializeError| error.to_string())?;
    let found = answers(&client, calls).await?;
    client.cancel().await.map_err(|error| error.to_string())?;
    Ok(found)
}

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn mode(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Modern => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
        _ => ClientLifecycleMode::Initialize,
    }
}

async fn answers(client: &Client, calls: &[Call]) -> Result<Value, String> {
    let tools = client.list_all_tools().await.map_err(|error| error.to_string())?;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    let mut answers = Vec::new();
    for call in calls {
        let arguments = call.arguments.as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new(call.tool.clone()).with_arguments(arguments);
        answers.push(match client.call_tool(params).await {
            Ok(result) => json!({"result": result}),
            Err(error) => json!({"thrown": error.to_string()}),
        });
    }
    let protocol = client.peer_info().map(|info| info.protocol_version.to_string());
    Ok(json!({"version": version(), "protocol": protocol, "tools": names, "answers": answers}))
}

/// The version that this was built with.
fn version() -> Option<&'static str> {
    let lock = include_str!("../../../../Cargo.lock");
    let (_, rest) = lock.split_once("name = \"rmcp\"\nversion = \"")?;
    rest.split('"').next()
}
