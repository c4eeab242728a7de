//! Third-party servers: every tool that needs no network, resources and prompts.
//!
//! `scripts/fetch-test-data` downloads them. The results are printed as a table (`--nocapture`),
//! and written to `mcp-matrix.txt` in `CARGO_TARGET_TMPDIR`.

mod cases;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use toolpost::SourceStatus;
use toolpost::mcp::{HttpSettings, McpTransport, StdioSettings};
use toolpost::protocol::Secret;

use super::fixture::{McpFixture, ScratchDir};

/// A server and its call cases.
struct RealServer {
    name: &'static str,
    /// The protocol version it negotiates.
    protocol: &'static str,
    /// The command line; `{cache}`, `{servers}`, `{scratch}` and `{port}` are replaced.
    command: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    is_http: bool,
    cases: fn(&Path) -> Vec<CallCase>,
}

/// An operation, its input, and the expected outcome.
type CallCase = (&'static str, Value, ExpectedOutcome);

#[derive(Debug, Clone, Copy)]
enum ExpectedOutcome {
    /// The result contains this text.
    Contains(&'static str),
    /// The tool result is an error and contains this text.
    ToolFails(&'static str),
    /// The call fails with an error that contains this text.
    CallFails(&'static str),
}

#[tokio::test]
async fn real_servers_pass_every_call_case() {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let missing: Vec<_> = ["npm", "py", "py2"]
        .into_iter()
        .filter(|folder| !cache.join(folder).join(".packages").exists())
        .collect();
    assert!(missing.is_empty(), "no {missing:?} in .cache: run scripts/fetch-test-data");
    let cache = cache.canonicalize().unwrap();
    let rows = join_all(cases::SERVERS.iter().map(|server| server.run_cases(&cache))).await;
    let head = ["server", "version", "protocol", "tools", "operations", "calls", "as expected"];
    let mut matrix = format_row(&head.map(str::to_owned));
    for row in rows.iter().map(|row| &row.cells) {
        matrix.push_str(&format_row(row));
    }
    println!("{matrix}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-matrix.txt");
    std::fs::write(file, &matrix).unwrap();
    let failures: Vec<_> = rows.into_iter().flat_map(|row| row.failures).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn format_row(cells: &[String; 7]) -> String {
    let [server, cells @ ..] = cells;
    let cells = cells.iter().map(|cell| format!("{cell:>12}")).collect::<String>();
    format!("{server:<22}{cells}\n")
}

/// Results of one server.
struct MatrixRow {
    cells: [String; 7],
    failures: Vec<String>,
}

impl RealServer {
    async fn run_cases(&self, cache: &Path) -> MatrixRow {
        let scratch = ScratchDir::new();
        cases::prepare(scratch.path());
        let cases = (self.cases)(scratch.path());
        let (transport, child) = self.transport(cache, scratch.path());
        // An HTTP server is started separately and may not be listening yet.
        let often = Duration::from_millis(200);
        let fixture = McpFixture::with_transport(transport, scratch, None, |settings| {
            settings.restart = (often, often);
        });
        fixture.wait_status(|status| matches!(status, SourceStatus::Ready(_))).await;
        let found = fixture.server_info().await;
        let mut failures = self.untested_operations(&fixture, &cases);
        if found.protocol != self.protocol || !found.warnings.is_empty() {
            failures.push(format!("{}: {} {:?}", self.name, found.protocol, found.warnings));
        }
        let mut as_expected = 0;
        for (operation, input, expected) in &cases {
            match run_case(&fixture, operation, input, *expected).await {
                Ok(()) => as_expected += 1,
                Err(message) => {
                    failures.push(format!("{} {operation} {input}: {message}", self.name));
                }
            }
        }
        let (version, protocol) = (found.version.clone(), found.protocol.clone());
        let operations = fixture.pipeline.registry().catalog().len();
        let counts = [found.tools.len(), operations, cases.len(), as_expected];
        let [tools, operations, calls, right] = counts.map(|count| count.to_string());
        let cells = [self.name.to_owned(), version, protocol, tools, operations, calls, right];
        fixture.close().await;
        drop(child);
        MatrixRow { cells, failures }
    }

    /// Reports operations that no case calls, and cases without an operation.
    fn untested_operations(&self, fixture: &McpFixture, cases: &[CallCase]) -> Vec<String> {
        let catalog = fixture.pipeline.registry().catalog();
        let listed: BTreeSet<_> =
            catalog.list().iter().map(|operation| operation.spec().name.clone()).collect();
        let tested: BTreeSet<_> = cases.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let odd = listed.symmetric_difference(&tested);
        odd.map(|name| format!("{}: `{name}` is not both in the list and in the table", self.name))
            .collect()
    }

    fn transport(&self, cache: &Path, scratch: &Path) -> (McpTransport, Option<HttpServerProcess>) {
        let port = free_port();
        let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
        let fill_in = |text: &str| {
            text.replace("{cache}", &cache.to_string_lossy())
                .replace("{servers}", &servers.to_string_lossy())
                .replace("{scratch}", &scratch.to_string_lossy())
                .replace("{port}", &port.to_string())
        };
        let command: Vec<_> = self.command.iter().map(|part| fill_in(part)).collect();
        let env = self.env.iter().map(|(name, value)| ((*name).to_owned(), fill_in(value)));
        if self.is_http {
            let mut process = Command::new(&command[0]);
            process.args(&command[1..]).envs(env).stdin(Stdio::null());
            let child = process.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let url = format!("http://127.0.0.1:{port}/mcp").parse().unwrap();
            return (McpTransport::Http(HttpSettings::new(url)), Some(HttpServerProcess(child)));
        }
        let mut stdio = StdioSettings::new(&command[0], &command[1..]);
        stdio.env = env.map(|(name, value)| (name, Secret::new(value))).collect();
        stdio.cwd = Some(PathBuf::from(scratch));
        (McpTransport::Stdio(stdio), None)
    }
}

async fn run_case(
    fixture: &McpFixture,
    operation: &str,
    input: &Value,
    expected: ExpectedOutcome,
) -> Result<(), String> {
    let response = match operation {
        "resources/subscribe" => fixture.first_value(operation, input.clone()).await,
        _ => fixture.call(operation, input.clone()).await,
    };
    let (is_error, message) = match response {
        Ok(envelope) => (Some(envelope.is_error()), serde_json::to_string(&envelope).unwrap()),
        Err(error) => (None, error.to_string()),
    };
    let (awaited, text) = match expected {
        ExpectedOutcome::Contains(text) => (Some(false), text),
        ExpectedOutcome::ToolFails(text) => (Some(true), text),
        ExpectedOutcome::CallFails(text) => (None, text),
    };
    let is_right = is_error == awaited && message.contains(text);
    is_right
        .then_some(())
        .ok_or_else(|| format!("{expected:?}, but it is {is_error:?} {message:.600}"))
}

/// An HTTP server process, killed on drop.
struct HttpServerProcess(Child);

impl Drop for HttpServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a free port, for servers that cannot report the port they listen on.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
