//! What a call through the door for MCP clients costs the gateway, beside axum that parses and
//! answers the same body.
//!
//! Every part is a process of its own: the gateway (`toolpost serve`, `toolpost mcp`), the servers behind
//! it, the reference, and this one, which calls as clients of 2025-11-25 with a session and of
//! 2026-07-28 without. What is claimed is the processor time of the gateway alone; it and the
//! reference take turns, and medians are told. Run it with `cargo bench --bench mcp_door`, and with a
//! part of the name of a row for that row alone.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "mcp_door/bare.rs"]
mod bare;
#[path = "harness/child.rs"]
mod child;
#[path = "harness/claim.rs"]
mod claim;
#[path = "mcp_door/gateway.rs"]
mod gateway;
#[path = "harness/latency.rs"]
mod latency;
#[path = "mcp_door/load.rs"]
mod load;
#[path = "mcp_door/many.rs"]
mod many;
#[path = "harness/memory.rs"]
mod memory;
#[path = "mcp_door/message.rs"]
mod message;
#[path = "mcp_door/pipe.rs"]
mod pipe;
#[path = "mcp/server.rs"]
mod server;
#[path = "harness/spread.rs"]
mod spread;
#[path = "mcp_door/wire.rs"]
mod wire;

use std::time::Duration;

use claim::claim;
use gateway::{Backends, Server, again, toolpost};
use latency::latency;
use load::{Asked, IN_FLIGHT, Load};
use memory::resident;
use pipe::Pipe;
use serde_json::{Value, json};
use server::{Echo, Era};
use spread::median;
use tokio::runtime::Builder;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program a server on its standard input and output.
const SERVE_STDIO: &str = "--serve-stdio";

/// Makes this program a server on a port that it prints.
const SERVE_HTTP: &str = "--serve-http";

/// Makes this program a server with a thousand tools on its standard input and output.
const SERVE_MANY: &str = "--serve-many";

/// Makes this program the reference, on a port that it prints.
const SERVE_BARE: &str = "--serve-bare";

/// Turns of either side, without those at first that warm up.
const TURNS: usize = 25;
const WARM_UP: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let one_thread = || Builder::new_current_thread().enable_all().build().unwrap();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [SERVE_STDIO, era] => Echo::new(Era::named(era)).serve_stdio(),
        [SERVE_MANY] => Echo::with(Era::Legacy, &many::tools()).serve_stdio(),
        [SERVE_HTTP, era] => one_thread().block_on(Echo::new(Era::named(era)).serve_http()),
        // As many threads as the gateway has.
        [SERVE_BARE] => Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(bare::serve(&many::tools())),
        // What is no flag of cargo's picks rows by their names.
        others => {
            let wanted = others.iter().find(|word| !word.starts_with('-')).unwrap_or(&"");
            one_thread().block_on(bench(wanted));
        }
    }
}

async fn bench(wanted: &str) {
    let backends = Backends::start();
    let bare = Server::this(&[SERVE_BARE]);
    let embedded = Server::embedded();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let at_start = resident(embedded.process());
    let configured = Server::configured(&backends).await;

    println!("A call over HTTP, {IN_FLIGHT} in flight, beside axum that parses and answers it:");
    for call in calls().iter().filter(|call| call.name().contains(wanted)) {
        let ours = if call.is_local() { &embedded } else { &configured };
        over_http(call, ours, &bare).await;
    }
    println!("A call over stdio, {IN_FLIGHT} in flight, beside a program that answers it:");
    let is_wanted = |call: &&Call| call.is_claimed() && call.is_of_one_era();
    for call in calls().iter().filter(is_wanted) {
        let name = format!("{} over stdio", call.name());
        if name.contains(wanted) {
            over_pipe(&name, call, &backends).await;
        }
    }
    println!("A list of 1,000 tools, beside axum that has its text ready:");
    for era in [Era::Legacy, Era::Modern] {
        let name = format!("{} client, list", era.name());
        if name.contains(wanted) {
            list(&name, era, &configured, &bare).await;
        }
    }
    println!("Memory of a gateway with nothing but what is built in:");
    // The last connections are closed, and what was freed may be given back.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    claim("resident after the start", megabytes(at_start), "MB", 20.0);
    claim("resident after the load", megabytes(resident(embedded.process())), "MB", 20.0);
}

/// A tool that is called, by whom, and what that may cost.
struct Call {
    era: Era,
    source: &'static str,
    tool: &'static str,
    what: &'static str,
    arguments: Value,
    /// The most processor time of a call over HTTP, in microseconds, if something is claimed.
    at_most: Option<f64>,
}

impl Call {
    fn name(&self) -> String {
        format!("{} client, {} {} {}", self.era.name(), self.source, self.tool, self.what)
    }

    fn is_claimed(&self) -> bool {
        self.at_most.is_some()
    }

    fn is_of_one_era(&self) -> bool {
        self.is_local() || self.source.ends_with(self.era.name())
    }

    fn is_local(&self) -> bool {
        self.source == "local"
    }

    fn params(&self) -> Value {
        let namespace = if self.is_local() { "demo" } else { self.source };
        json!({"name": format!("{namespace}__{}", self.tool), "arguments": self.arguments})
    }

    fn asked(&self) -> Asked<'static> {
        let least = self.arguments.to_string().len();
        let (path, method) = ("/mcp?tools=all", "tools/call");
        Asked { era: self.era, path, method, params: self.params(), least }
    }

    /// Fails unless the answer holds what was sent, as a structure or as a text.
    fn check(&self, answer: &Value) {
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or("null");
        let text: Value = serde_json::from_str(text).unwrap_or_default();
        let holds = |found: &Value| {
            let mut sent = self.arguments.as_object().unwrap().iter();
            sent.all(|(key, value)| found[key] == *value)
        };
        assert!(holds(&result["structuredContent"]) || holds(&text), "{answer}");
    }
}

/// A kilobyte each time: one text, which is what a call itself costs, or many small things, where
/// reading, checking and writing them costs as much again on either side.
fn calls() -> Vec<Call> {
    let items = (0..23).map(|n| json!({"id": n, "name": "an item", "is_new": true}));
    let items = json!({"items": items.collect::<Value>()});
    let text = json!({"text": "Remember the milk, eggs and bread. ".repeat(30)});
    let mut calls = Vec::new();
    for era in [Era::Legacy, Era::Modern] {
        let mut call = |source, tool, what, arguments: &Value, at_most| {
            calls.push(Call { era, source, tool, what, arguments: arguments.clone(), at_most });
        };
        call("local", "note", "text", &text, Some(80.0));
        for (source, at_most) in [
            ("stdio_legacy", 125.0),
            ("stdio_modern", 125.0),
            ("http_legacy", 150.0),
            ("http_modern", 150.0),
        ] {
            call(source, "data", "text", &text, Some(at_most));
            call(source, "text", "text", &text, Some(at_most));
            call(source, "data", "items", &items, None);
        }
    }
    calls
}

async fn over_http(call: &Call, gateway: &Server, bare: &Server) {
    let asked = call.asked();
    let (mut ours, first) = Load::http(gateway, &asked, IN_FLIGHT).await;
    call.check(&first);
    let (mut bare, first) = Load::http(bare, &asked, IN_FLIGHT).await;
    call.check(&first);
    turns(&mut ours, &mut bare, 30 * IN_FLIGHT).await;
    let (name, cpu) = (call.name(), median(ours.cpu.clone()));
    report(&name, ours, bare);
    if let Some(at_most) = call.at_most {
        claim(&name, cpu, "µs of CPU", at_most);
    }
}

async fn over_pipe(name: &str, call: &Call, backends: &Backends) {
    let mut command = toolpost();
    command.args(["mcp", "--tools", "all"]);
    if !call.is_local() {
        command.arg("--config").arg(backends.config());
    }
    let (mut ours, first) = Load::pipe(Pipe::start(command), &call.asked()).await;
    call.check(&first);
    let mut asked = call.asked();
    asked.params["name"] = json!(if call.is_local() { "data" } else { call.tool });
    let echo = Pipe::start(again(&[SERVE_STDIO, call.era.name()]));
    let (mut bare, first) = Load::pipe(echo, &asked).await;
    call.check(&first);
    turns(&mut ours, &mut bare, 30 * IN_FLIGHT).await;
    report(name, ours, bare);
}

async fn list(name: &str, era: Era, gateway: &Server, bare: &Server) {
    let (method, params) = ("tools/list", json!({}));
    // One connection, since an answer is large and whoever reads it is one.
    let asked = Asked { era, path: "/mcp?tools=all", method, params, least: 1_000_000 };
    let (mut ours, first) = Load::http(gateway, &asked, 1).await;
    assert_eq!(first["result"]["tools"].as_array().map(Vec::len), Some(1_000), "{first:.300}");
    let (mut bare, _) = Load::http(bare, &asked, 1).await;
    turns(&mut ours, &mut bare, 30).await;
    let cpu = median(ours.cpu.clone());
    println!("  {} bytes in the first answer", first.to_string().len());
    report(name, ours, bare);
    claim(name, cpu / 1e3, "ms of CPU", 1.0);
}

/// Either side in turns.
async fn turns(ours: &mut Load, bare: &mut Load, count: usize) {
    for turn in 0..WARM_UP + TURNS {
        if turn == WARM_UP {
            ours.forget();
            bare.forget();
        }
        ours.turn(count).await;
        bare.turn(count).await;
    }
}

fn report(name: &str, ours: Load, bare: Load) {
    let times = ours.beside(&bare);
    println!(
        "  {name}: CPU {:6.1} beside {:5.1} µs ({times:.1} times)  {:6.0} beside {:6.0} a second  {} beside {}",
        median(ours.cpu),
        median(bare.cpu),
        median(ours.rates),
        median(bare.rates),
        latency(ours.times),
        latency(bare.times)
    );
}
