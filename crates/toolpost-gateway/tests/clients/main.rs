//! The MCP clients that others wrote, against a gateway with every odd shape of tool.
//!
//! Each client lists the tools first, so that whatever it checks results with is in place, and then
//! makes every call, on both transports, in every dialect, in each era that it speaks. What came of
//! it is printed as a table (`--nocapture`), and written to `mcp-clients.txt` in the folder that
//! cargo has for the files of tests. `scripts/fetch-test-data` brings the clients.
//!
//! It is a program of its own, since it keeps the machine busy and other tests watch the clock.
//!
//! | file | holds |
//! |---|---|
//! | `check` | what a client must have seen of a call |
//! | `matrix` | the table |
//! | `script` | the clients for Node and Python: a process that is given jobs |
//! | `rust` | `rmcp`, in this process |
//! | `inspector` | the Inspector's command line: a process for each request |
//! | `world` | the gateway, and every call with what must come of it |
//! | `gateway` | the program that serves it on standard input and output |
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and prints what it found"
)]

mod check;
mod inspector;
mod matrix;
mod rust;
mod script;
mod world;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolpost::view::{Dialect, Era};

use check::{Keeps, Seen};
use matrix::Row;
use world::{Call, World};

/// How a gateway is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Http,
    Stdio,
}

/// A client.
#[derive(Debug, Clone, Copy)]
struct Who {
    name: &'static str,
    keeps: Keeps,
}

/// One connection of one client.
#[derive(Debug, Clone, Copy)]
struct Session {
    way: Way,
    era: Era,
    dialect: Dialect,
}

/// Where everything is.
struct Place {
    /// The folder of packages.
    cache: PathBuf,
    /// The program that serves on its standard input and output.
    program: PathBuf,
    /// The address of the gateway over HTTP.
    url: String,
    /// The names of all tools, sorted.
    tools: Vec<String>,
    calls: Vec<Call>,
}

/// What a session may not take longer than, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(240);

const BOTH: &[Era] = &[Era::Legacy, Era::Modern];

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_others_take_everything() {
    let Some(cache) = cache() else { return };
    let _ = std::fs::remove_dir_all(logs());
    let world = World::start().await;
    let listener = world.gateway.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let gateway = world.gateway.clone();
    let served =
        tokio::spawn(async move { gateway.serve(listener, async { drop(stopped.await) }).await });
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/mcp-clients-gateway");
    assert!(program.exists(), "`cargo test` builds {}", program.display());
    let mut tools = world::tools();
    tools.sort_unstable();
    let place = Place { cache, program, url, tools, calls: world::calls() };
    let scripts = join_all(script::CLIENTS.iter().map(|client| client.try_out(&place)));
    let (scripts, rust, inspector) =
        tokio::join!(scripts, rust::try_out(&place), inspector::try_out(&place));
    let rows: Vec<Row> = scripts.into_iter().flatten().chain(rust).chain(inspector).collect();
    let matrix = matrix::table(&rows);
    println!("{matrix}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-clients.txt");
    std::fs::write(file, &matrix).unwrap();
    let wrong: Vec<_> = rows.iter().flat_map(|row| row.wrong.iter().map(String::as_str)).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    drop(stop);
    served.await.unwrap().unwrap();
    world.close().await;
}

fn logs() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-clients")
}

fn cache() -> Option<PathBuf> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let missing: Vec<_> = ["npm", "clients", "py", "py2"]
        .into_iter()
        .filter(|folder| !cache.join(folder).join(".packages").exists())
        .collect();
    if missing.is_empty() {
        return Some(cache.canonicalize().unwrap());
    }
    assert!(std::env::var_os("CI").is_none(), "{missing:?} of .cache are missing");
    eprintln!("SKIPPED: real MCP clients; scripts/fetch-test-data brings {missing:?}");
    None
}

impl Session {
    /// Each way and dialect in some eras.
    fn all(eras: &'static [Era]) -> impl Iterator<Item = Self> {
        let ways = [Way::Http, Way::Stdio].into_iter();
        let both = ways.flat_map(move |way| eras.iter().map(move |era| (way, *era)));
        both.flat_map(|(way, era)| Dialect::ALL.map(|dialect| Self { way, era, dialect }))
    }

    fn protocol(self) -> &'static str {
        if self.era == Era::Modern { "2026-07-28" } else { "2025-11-25" }
    }
}

impl Place {
    fn url(&self, session: Session) -> String {
        format!("{}?tools=all&dialect={}", self.url, session.dialect)
    }

    fn command(&self, session: Session) -> [String; 2] {
        [self.program.to_string_lossy().into_owned(), session.dialect.to_string()]
    }

    /// Compares what a client found out in a session with what it should have: its version, the
    /// protocol's, the names of tools, and an answer for each call; or why it found out nothing.
    fn judge(&self, who: Who, session: Session, calls: &[Call], found: &Value) -> Row {
        let mut row = Row::new(who.name, session, calls.len());
        row.version = found["version"].as_str().unwrap_or("?").to_owned();
        if let Some(reason) = found.get("failed") {
            row.complain(&format!("it failed: {reason}"));
            return row;
        }
        if found["protocol"] != session.protocol() {
            row.complain(&format!("it speaks {}", found["protocol"]));
        }
        self.compare_tools(&mut row, &found["tools"]);
        for (position, call) in calls.iter().enumerate() {
            let answer = &found["answers"][position];
            match (Seen { session, answer, keeps: who.keeps }).check(call) {
                Ok(()) => row.right += 1,
                Err(reason) => {
                    row.complain(&format!("{} {}: {reason}", call.tool, call.arguments));
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
            row.complain(&format!("it does not list {missing:?}, but lists {listed:?}"));
        }
    }

    /// Where a client writes what nobody asked it; to be read when something is wrong.
    fn log(client: &str) -> File {
        std::fs::create_dir_all(logs()).unwrap();
        let file = logs().join(format!("{client}.log"));
        OpenOptions::new().create(true).append(true).open(file).unwrap()
    }
}

/// A session and its calls as a client reads them.
fn job(place: &Place, session: Session) -> Value {
    let calls: Vec<_> = place
        .calls
        .iter()
        .map(|call| json!({"name": call.tool, "arguments": call.arguments}))
        .collect();
    let era = if session.era == Era::Modern { "modern" } else { "legacy" };
    match session.way {
        Way::Http => json!({"url": place.url(session), "era": era, "calls": calls}),
        Way::Stdio => json!({"command": place.command(session), "era": era, "calls": calls}),
    }
}
