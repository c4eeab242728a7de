//! Servers that others wrote: every tool that needs no network, resources and prompts.
//!
//! `scripts/fetch-test-data` brings them. What was called is printed as a table (`--nocapture`), and
//! written to `mcp-matrix.txt` in the folder that cargo has for the files of tests.

mod tables;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use toolpost::mcp::{HttpSettings, McpTransport, SourceStatus, StdioSettings};
use toolpost::protocol::Secret;

use super::rig::{Rig, Scratch};

/// A server, and what is asked of it.
struct Server {
    name: &'static str,
    /// What it speaks when it may choose.
    protocol: &'static str,
    /// The command line; `{cache}`, `{servers}`, `{scratch}` and `{port}` are replaced.
    command: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    is_http: bool,
    asks: fn(&Path) -> Vec<Ask>,
}

/// An operation, its input, and what must come of it.
type Ask = (&'static str, Value, Expect);

#[derive(Debug, Clone, Copy)]
enum Expect {
    /// The result holds this text.
    Says(&'static str),
    /// The result says that the tool failed, and holds this text.
    Errs(&'static str),
    /// There is no result, for a reason that holds this text.
    Fails(&'static str),
}

#[tokio::test]
async fn servers_of_others_can_be_used_whole() {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let missing: Vec<_> = ["npm", "py", "py2"]
        .into_iter()
        .filter(|folder| !cache.join(folder).join(".packages").exists())
        .collect();
    if !missing.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "{missing:?} of .cache are missing");
        eprintln!("SKIPPED: real MCP servers; scripts/fetch-test-data brings {missing:?}");
        return;
    }
    let cache = cache.canonicalize().unwrap();
    let rows = join_all(tables::SERVERS.iter().map(|server| server.try_out(&cache))).await;
    let head = ["server", "version", "protocol", "tools", "operations", "calls", "as expected"];
    let mut matrix = line(&head.map(str::to_owned));
    for row in rows.iter().map(|row| &row.cells) {
        matrix.push_str(&line(row));
    }
    println!("{matrix}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-matrix.txt");
    std::fs::write(file, &matrix).unwrap();
    let wrong: Vec<_> = rows.into_iter().flat_map(|row| row.wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn line(cells: &[String; 7]) -> String {
    let [server, cells @ ..] = cells;
    let cells = cells.iter().map(|cell| format!("{cell:>12}")).collect::<String>();
    format!("{server:<22}{cells}\n")
}

/// What was found out about a server.
struct Row {
    cells: [String; 7],
    wrong: Vec<String>,
}

impl Server {
    async fn try_out(&self, cache: &Path) -> Row {
        let scratch = Scratch::new();
        tables::prepare(scratch.path());
        let asks = (self.asks)(scratch.path());
        let (transport, child) = self.transport(cache, scratch.path());
        // A server that somebody else starts may not be there yet when it is first looked for.
        let often = Duration::from_millis(200);
        let rig = Rig::over(transport, scratch, None, |settings| settings.restart = (often, often));
        rig.becomes(|status| matches!(status, SourceStatus::Ready(_))).await;
        let found = rig.found().await;
        let mut wrong = self.unexpected(&rig, &asks);
        if found.protocol != self.protocol || !found.warnings.is_empty() {
            wrong.push(format!("{}: {} {:?}", self.name, found.protocol, found.warnings));
        }
        let mut as_expected = 0;
        for (operation, input, expected) in &asks {
            match ask(&rig, operation, input, *expected).await {
                Ok(()) => as_expected += 1,
                Err(said) => wrong.push(format!("{} {operation} {input}: {said}", self.name)),
            }
        }
        let (version, protocol) = (found.server_version.clone(), found.protocol.clone());
        let operations = rig.pipeline.registry().catalog().len();
        let counts = [found.tools.len(), operations, asks.len(), as_expected];
        let [tools, operations, calls, right] = counts.map(|count| count.to_string());
        let cells = [self.name.to_owned(), version, protocol, tools, operations, calls, right];
        rig.close().await;
        drop(child);
        Row { cells, wrong }
    }

    /// What a new version of the server has that no row calls, and the other way round.
    fn unexpected(&self, rig: &Rig, asks: &[Ask]) -> Vec<String> {
        let catalog = rig.pipeline.registry().catalog();
        let offered: BTreeSet<_> =
            catalog.list().iter().map(|operation| operation.spec().name.clone()).collect();
        let asked: BTreeSet<_> = asks.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let odd = offered.symmetric_difference(&asked);
        odd.map(|name| format!("{}: `{name}` is not both in the list and in the table", self.name))
            .collect()
    }

    fn transport(&self, cache: &Path, scratch: &Path) -> (McpTransport, Option<Running>) {
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
            return (McpTransport::Http(HttpSettings::new(url)), Some(Running(child)));
        }
        let mut stdio = StdioSettings::new(&command[0], &command[1..]);
        stdio.env = env.map(|(name, value)| (name, Secret::new(value))).collect();
        stdio.cwd = Some(PathBuf::from(scratch));
        (McpTransport::Stdio(stdio), None)
    }
}

async fn ask(rig: &Rig, operation: &str, input: &Value, expected: Expect) -> Result<(), String> {
    let answer = match operation {
        "resources/subscribe" => rig.first(operation, input.clone()).await,
        _ => rig.call(operation, input.clone()).await,
    };
    let (is_error, said) = match answer {
        Ok(envelope) => (Some(envelope.is_error()), serde_json::to_string(&envelope).unwrap()),
        Err(error) => (None, error.to_string()),
    };
    let (wanted, words) = match expected {
        Expect::Says(words) => (Some(false), words),
        Expect::Errs(words) => (Some(true), words),
        Expect::Fails(words) => (None, words),
    };
    let is_right = is_error == wanted && said.contains(words);
    is_right
        .then_some(())
        .ok_or_else(|| format!("{expected:?}, but it is {is_error:?} {said:.600}"))
}

/// A server over HTTP; gone with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that nobody listens on, for a server that cannot say which one it took.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
