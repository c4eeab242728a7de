//! Third-party MCP clients against a gateway with tools of unusual shapes.
//!
//! Each client lists the tools first, so that it has the schemas to check results with. It then
//! makes every call, on both transports, in every dialect and in each protocol generation that it
//! supports. The results are printed as a table (`--nocapture`) and written to `mcp-clients.txt` in
//! cargo's folder for test files. `scripts/fetch-test-data` downloads the clients.
//!
//! This is a separate test program, since it keeps the CPU busy and other tests are sensitive to
//! timing.
//!
//! | file | contains |
//! |---|---|
//! | `check` | checks of the result that a client reports |
//! | `matrix` | the table |
//! | `script_client` | the clients for Node and Python: a process that reads jobs |
//! | `rmcp_client` | `rmcp`, in this process |
//! | `inspector` | the Inspector's command line: a process for each request |
//! | `fixture` | the gateway, and all calls with their expected outcomes |
//! | `gateway` | the program that serves it on standard input and output |
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and prints what it found"
)]

mod check;
mod fixture;
mod inspector;
mod matrix;
mod rmcp_client;
mod script_client;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolpost::view::{Dialect, ProtocolGeneration};

use check::{ObservedResult, PreservedMembers};
use fixture::{ExpectedCall, Fixture};
use matrix::Row;

/// Transport between client and gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientTransport {
    Http,
    Stdio,
}

/// A client.
#[derive(Debug, Clone, Copy)]
struct ClientInfo {
    name: &'static str,
    preserves: PreservedMembers,
}

/// The configuration of one client session.
#[derive(Debug, Clone, Copy)]
struct ClientRun {
    transport: ClientTransport,
    generation: ProtocolGeneration,
    dialect: Dialect,
}

/// Paths, URL and expectations shared by all clients.
struct TestEnv {
    /// Folder of the installed client packages.
    cache: PathBuf,
    /// The gateway executable, which serves on standard input and output.
    program: PathBuf,
    /// URL of the gateway over HTTP.
    url: String,
    /// The names of all tools, sorted.
    tools: Vec<String>,
    calls: Vec<ExpectedCall>,
}

/// Maximum time of a session, with margin for a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(240);

const BOTH_GENERATIONS: &[ProtocolGeneration] =
    &[ProtocolGeneration::Legacy, ProtocolGeneration::Modern];

#[tokio::test(flavor = "multi_thread")]
async fn third_party_clients_handle_every_tool_result() {
    let cache = package_cache();
    let _ = std::fs::remove_dir_all(log_dir());
    let test_fixture = Fixture::start().await;
    let listener = test_fixture.gateway.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let gateway = test_fixture.gateway.clone();
    let served =
        tokio::spawn(async move { gateway.serve(listener, async { drop(stopped.await) }).await });
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/mcp-clients-gateway");
    assert!(program.exists(), "`cargo test` builds {}", program.display());
    let mut tools = fixture::tools();
    tools.sort_unstable();
    let test_env = TestEnv { cache, program, url, tools, calls: fixture::calls() };
    let scripts = join_all(script_client::CLIENTS.iter().map(|client| client.run(&test_env)));
    let (scripts, rust, inspector) =
        tokio::join!(scripts, rmcp_client::run(&test_env), inspector::run(&test_env));
    let rows: Vec<Row> = scripts.into_iter().flatten().chain(rust).chain(inspector).collect();
    let matrix = matrix::table(&rows);
    println!("{matrix}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-clients.txt");
    std::fs::write(file, &matrix).unwrap();
    let wrong: Vec<_> =
        rows.iter().flat_map(|row| row.failures.iter().map(String::as_str)).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    drop(stop);
    served.await.unwrap().unwrap();
    test_fixture.close().await;
}

fn log_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-clients")
}

fn package_cache() -> PathBuf {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let missing: Vec<_> = ["npm", "clients", "bridge", "py", "py2"]
        .into_iter()
        .filter(|folder| !cache.join(folder).join(".packages").exists())
        .collect();
    assert!(missing.is_empty(), "no {missing:?} in .cache: run scripts/fetch-test-data");
    cache.canonicalize().unwrap()
}

impl ClientRun {
    /// Returns all combinations of transport, generation and dialect.
    fn all(generations: &'static [ProtocolGeneration]) -> impl Iterator<Item = Self> {
        let transports = [ClientTransport::Http, ClientTransport::Stdio].into_iter();
        let both = transports.flat_map(move |client_transport| {
            generations
                .iter()
                .map(move |protocol_generation| (client_transport, *protocol_generation))
        });
        both.flat_map(|(client_transport, protocol_generation)| {
            Dialect::ALL.map(|dialect| Self {
                transport: client_transport,
                generation: protocol_generation,
                dialect,
            })
        })
    }

    fn protocol(self) -> &'static str {
        if self.generation == ProtocolGeneration::Modern { "2026-07-28" } else { "2025-11-25" }
    }
}

impl TestEnv {
    fn url(&self, session: ClientRun) -> String {
        format!("{}?tools=all&dialect={}", self.url, session.dialect)
    }

    fn command(&self, session: ClientRun) -> [String; 2] {
        [self.program.to_string_lossy().into_owned(), session.dialect.to_string()]
    }

    /// Compares the report of a client with the expected one: client version, protocol version,
    /// tool names and a result for each call. A report may also be a failure.
    fn evaluate(
        &self,
        client_info: ClientInfo,
        session: ClientRun,
        calls: &[ExpectedCall],
        found: &Value,
    ) -> Row {
        let mut row = Row::new(client_info.name, session, calls.len());
        row.version = found["version"].as_str().unwrap_or("?").to_owned();
        if let Some(reason) = found.get("failed") {
            row.add_failure(&format!("it failed: {reason}"));
            return row;
        }
        if found["protocol"] != session.protocol() {
            row.add_failure(&format!("it speaks {}", found["protocol"]));
        }
        self.compare_tools(&mut row, &found["tools"]);
        for (position, call) in calls.iter().enumerate() {
            let reply = &found["answers"][position];
            match (ObservedResult {
                run: session,
                response: reply,
                preserves: client_info.preserves,
            })
            .check(call)
            {
                Ok(()) => row.passed += 1,
                Err(reason) => {
                    row.add_failure(&format!("{} {}: {reason}", call.tool, call.arguments));
                }
            }
        }
        row
    }

    fn compare_tools(&self, row: &mut Row, found: &Value) {
        let names = found.as_array().into_iter().flatten();
        let mut listed: Vec<_> = names.filter_map(Value::as_str).collect();
        row.tools = listed.len();
        listed.sort_unstable();
        if listed != self.tools {
            let missing: Vec<_> =
                self.tools.iter().filter(|name| !listed.contains(&name.as_str())).collect();
            listed.retain(|name| !self.tools.iter().any(|expected| expected == name));
            row.add_failure(&format!("it does not list {missing:?}, but lists {listed:?}"));
        }
    }

    /// Opens the log file for other output of a client, for debugging.
    fn log_file(client: &str) -> File {
        std::fs::create_dir_all(log_dir()).unwrap();
        let file = log_dir().join(format!("{client}.log"));
        OpenOptions::new().create(true).append(true).open(file).unwrap()
    }
}

/// Encodes a session and its calls for a script client.
fn job_json(test_env: &TestEnv, session: ClientRun) -> Value {
    let calls: Vec<_> = test_env
        .calls
        .iter()
        .map(|call| json!({"name": call.tool, "arguments": call.arguments}))
        .collect();
    let generation_name =
        if session.generation == ProtocolGeneration::Modern { "modern" } else { "legacy" };
    match session.transport {
        ClientTransport::Http => {
            json!({"url": test_env.url(session), "era": generation_name, "calls": calls})
        }
        ClientTransport::Stdio => {
            json!({"command": test_env.command(session), "era": generation_name, "calls": calls})
        }
    }
}
