//! The Inspector's command line. It runs a process for each request, so each session lists the
//! tools and makes one call. The four sessions of a dialect cover every kind of call.

use std::path::PathBuf;
use std::process::Stdio;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::process::Command;
use toolpost::view::{Dialect, ProtocolGeneration};

use super::check::PreservedMembers;
use super::fixture::ExpectedCall;
use super::matrix::Row;
use super::{BOTH_GENERATIONS, ClientInfo, ClientRun, ClientTransport, RUN_TIMEOUT, TestEnv};

const CLIENT: ClientInfo =
    ClientInfo { name: "npm @modelcontextprotocol/inspector", preserves: PreservedMembers::Outer };

/// Exit code of a call whose result is an error.
const TOOL_ERROR_EXIT_CODE: i32 = 5;

pub(super) async fn run(test_env: &TestEnv) -> Vec<Row> {
    let kinds = one_call_of_each_kind(&test_env.calls);
    let sessions = ClientRun::all(BOTH_GENERATIONS).enumerate().map(|(number, session)| {
        let call = kinds[number / Dialect::ALL.len() % kinds.len()].clone();
        async move {
            let found =
                tokio::time::timeout(RUN_TIMEOUT, run_session(test_env, session, &call)).await;
            let found = found.unwrap_or_else(|_| Err("timed out".to_owned()));
            let found = found.unwrap_or_else(|reason| json!({"failed": reason}));
            test_env.evaluate(CLIENT, session, &[call], &found)
        }
    });
    // Most of the run time is startup, so two run concurrently.
    stream::iter(sessions).buffered(2).collect().await
}

/// Returns a successful call, a failing call and one whose result does not match the schema.
fn one_call_of_each_kind(all: &[ExpectedCall]) -> [ExpectedCall; 3] {
    [("odd__forest", "ok"), ("odd__tree", "declared"), ("odd__tuple", "invalid")].map(|expected| {
        let is_selected = |call: &&ExpectedCall| {
            (&*call.tool, &call.arguments["how"]) == (expected.0, &expected.1.into())
        };
        all.iter().find(is_selected).unwrap().clone()
    })
}

async fn run_session(
    test_env: &TestEnv,
    session: ClientRun,
    call: &ExpectedCall,
) -> Result<Value, String> {
    // With `--strict`, the Inspector checks the listed schemas. An error is exit code 6.
    let listed = request(test_env, session, &["--method", "tools/list", "--strict"]).await?;
    let tools = listed["result"]["tools"].as_array();
    let names: Vec<_> = tools.into_iter().flatten().map(|tool| tool["name"].clone()).collect();
    let arguments = call.arguments.to_string();
    let method = ["--method", "tools/call", "--tool-name", &call.tool, "--tool-args-json"];
    let call_result = request(test_env, session, &[&method[..], &[&arguments]].concat()).await;
    let response = call_result.unwrap_or_else(|reason| json!({"thrown": reason}));
    // The Inspector does not report the protocol version, but uses the requested generation.
    let (version, protocol) = (version(test_env), session.protocol());
    Ok(json!({"version": version, "protocol": protocol, "tools": names, "answers": [response]}))
}

async fn request(test_env: &TestEnv, session: ClientRun, what: &[&str]) -> Result<Value, String> {
    let generation_name =
        if session.generation == ProtocolGeneration::Modern { "modern" } else { "legacy" };
    let mut command = Command::new(test_env.cache.join("npm/node_modules/.bin/node"));
    command.arg(package(test_env).join("clients/cli/build/index.js"));
    command.args(["--quiet", "--format", "json", "--protocol-era", generation_name]).args(what);
    match session.transport {
        ClientTransport::Http => {
            command.args(["--transport", "http", "--server-url", &test_env.url(session)])
        }
        ClientTransport::Stdio => command.args(test_env.command(session)),
    };
    // The Inspector stores server data in the home directory.
    command.env("HOME", env!("CARGO_TARGET_TMPDIR"));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0 | TOOL_ERROR_EXIT_CODE) => {
            serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {complaint}"))
        }
        _ => Err(complaint.into_owned()),
    }
}

fn package(test_env: &TestEnv) -> PathBuf {
    test_env.cache.join("clients/node_modules/@modelcontextprotocol/inspector")
}

fn version(test_env: &TestEnv) -> Value {
    let manifest = std::fs::read(package(test_env).join("package.json")).unwrap();
    serde_json::from_slice::<Value>(&manifest).unwrap()["version"].take()
}
