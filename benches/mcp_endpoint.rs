//! The cost of a call through the MCP endpoint, compared with axum that parses the same body and
//! responds.
//!
//! Separate processes: the gateway (`toolpost serve`, `toolpost mcp`), its MCP servers, the baseline,
//! and this one, which calls as a client of 2025-11-25 with a session and of 2026-07-28 without. The
//! claims are about the processor time of the gateway alone. The rounds of gateway and baseline
//! alternate; the results are medians. Run it with `cargo bench --bench mcp_endpoint`; an argument
//! selects the rows whose name contains it.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "mcp_endpoint/baseline.rs"]
mod baseline;
#[path = "harness/child.rs"]
mod child;
#[path = "harness/claim.rs"]
mod claim;
#[path = "harness/cpu.rs"]
mod cpu;
#[path = "mcp/echo_server.rs"]
mod echo_server;
#[path = "mcp_endpoint/gateway.rs"]
mod gateway;
#[path = "mcp_endpoint/http_client.rs"]
mod http_client;
#[path = "harness/latency.rs"]
mod latency;
#[path = "mcp_endpoint/load.rs"]
mod load;
#[path = "harness/memory.rs"]
mod memory;
#[path = "mcp_endpoint/message.rs"]
mod message;
#[path = "harness/stats.rs"]
mod stats;
#[path = "mcp_endpoint/stdio_client.rs"]
mod stdio_client;
#[path = "harness/temp_dir.rs"]
mod temp_dir;
#[path = "mcp_endpoint/tool_catalog.rs"]
mod tool_catalog;

use std::time::Duration;

use claim::claim;
use echo_server::{EchoServer, ProtocolGeneration};
use gateway::{Backends, Server, respawn};
use latency::latency;
use load::{IN_FLIGHT, Load, LoadRequest};
use memory::resident;
use serde_json::{Value, json};
use stats::median;
use stdio_client::StdioClient;
use tokio::runtime::Builder;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs this program as a server on its standard input and output.
const SERVE_STDIO: &str = "--serve-stdio";

/// Runs this program as a server on a port that it prints.
const SERVE_HTTP: &str = "--serve-http";

/// Runs this program as a server with a thousand tools on its standard input and output.
const SERVE_MANY: &str = "--serve-many";

/// Runs this program as the baseline, on a port that it prints.
const SERVE_BASELINE: &str = "--serve-baseline";

/// Measured rounds of each side, after the warm-up rounds.
const ROUNDS: usize = 25;
const WARM_UP: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let one_thread = || Builder::new_current_thread().enable_all().build().unwrap();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [SERVE_STDIO, generation] => {
            EchoServer::new(ProtocolGeneration::from_name(generation)).serve_stdio();
        }
        [SERVE_MANY] => {
            EchoServer::with_tools(ProtocolGeneration::Legacy, &tool_catalog::tools())
                .serve_stdio();
        }
        [SERVE_HTTP, generation] => one_thread()
            .block_on(EchoServer::new(ProtocolGeneration::from_name(generation)).serve_http()),
        // The same number of threads as the gateway.
        [SERVE_BASELINE] => Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(baseline::serve(&tool_catalog::tools())),
        // An argument that is not a flag selects rows by name.
        others => {
            let filter = others.iter().find(|argument| !argument.starts_with('-')).unwrap_or(&"");
            one_thread().block_on(bench(filter));
        }
    }
}

async fn bench(filter: &str) {
    let backends = Backends::start();
    let baseline = Server::respawned(&[SERVE_BASELINE]);
    let builtin_gateway = Server::builtin_gateway(&backends);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let at_start = resident(builtin_gateway.process());
    let configured_gateway = Server::configured_gateway(&backends).await;

    println!(
        "A call over HTTP, {IN_FLIGHT} in flight, compared with axum that parses it and responds:"
    );
    for call in calls().iter().filter(|call| call.name().contains(filter)) {
        let ours = if call.is_local() { &builtin_gateway } else { &configured_gateway };
        over_http(call, ours, &baseline).await;
    }
    println!("A call over stdio, {IN_FLIGHT} in flight, compared with a program that echoes it:");
    let is_measured = |call: &&Call| call.is_claimed() && call.is_same_generation();
    for call in calls().iter().filter(is_measured) {
        let name = format!("{} over stdio", call.name());
        if name.contains(filter) {
            over_stdio(&name, call, &backends).await;
        }
    }
    println!("A list of 1,000 tools, compared with axum that has it serialized in advance:");
    for generation in [ProtocolGeneration::Legacy, ProtocolGeneration::Modern] {
        let name = format!("{} client, list", generation.name());
        if name.contains(filter) {
            list(&name, generation, &configured_gateway, &baseline).await;
        }
    }
    println!("Memory of a gateway with only the built-in operations:");
    // The last connections close, and freed memory can be returned to the system.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    claim("resident after the start", megabytes(at_start), "MB", 20.0);
    claim("resident after the load", megabytes(resident(builtin_gateway.process())), "MB", 20.0);
}

/// A tool call of one client generation and its maximum cost.
struct Call {
    generation: ProtocolGeneration,
    source: &'static str,
    tool: &'static str,
    what: &'static str,
    arguments: Value,
    /// Maximum processor time of a call over HTTP, in microseconds, if there is a claim.
    at_most: Option<f64>,
}

impl Call {
    fn name(&self) -> String {
        format!("{} client, {} {} {}", self.generation.name(), self.source, self.tool, self.what)
    }

    fn is_claimed(&self) -> bool {
        self.at_most.is_some()
    }

    fn is_same_generation(&self) -> bool {
        self.is_local() || self.source.ends_with(self.generation.name())
    }

    fn is_local(&self) -> bool {
        self.source == "local"
    }

    fn params(&self) -> Value {
        let namespace = if self.is_local() { "demo" } else { self.source };
        json!({"name": format!("{namespace}__{}", self.tool), "arguments": self.arguments})
    }

    fn load_request(&self) -> LoadRequest<'static> {
        let min_response_len = self.arguments.to_string().len();
        let (path, method) = ("/mcp?tools=all", "tools/call");
        LoadRequest {
            generation: self.generation,
            path,
            method,
            params: self.params(),
            min_response_len,
        }
    }

    /// Panics unless the response contains the arguments, as structured content or as text.
    fn check(&self, response: &Value) {
        let result = &response["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or("null");
        let text: Value = serde_json::from_str(text).unwrap_or_default();
        let contains_arguments = |found: &Value| {
            let mut sent = self.arguments.as_object().unwrap().iter();
            sent.all(|(key, value)| found[key] == *value)
        };
        let structured = &result["structuredContent"];
        assert!(contains_arguments(structured) || contains_arguments(&text), "{response}");
    }
}

/// One kilobyte each: one string, which measures the call itself, or many small values, where both
/// sides spend as much again on parsing, validation and serialization.
fn calls() -> Vec<Call> {
    let items = (0..23).map(|n| json!({"id": n, "name": "an item", "is_new": true}));
    let items = json!({"items": items.collect::<Value>()});
    let text = json!({"text": "Remember the milk, eggs and bread. ".repeat(30)});
    let mut calls = Vec::new();
    for generation in [ProtocolGeneration::Legacy, ProtocolGeneration::Modern] {
        let mut call = |source, tool, what, arguments: &Value, at_most| {
            calls.push(Call {
                generation,
                source,
                tool,
                what,
                arguments: arguments.clone(),
                at_most,
            });
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

async fn over_http(call: &Call, gateway: &Server, baseline: &Server) {
    let load_request = call.load_request();
    let (mut ours, first) = Load::http(gateway, &load_request, IN_FLIGHT).await;
    call.check(&first);
    let (mut baseline, first) = Load::http(baseline, &load_request, IN_FLIGHT).await;
    call.check(&first);
    run_rounds(&mut ours, &mut baseline, 30 * IN_FLIGHT).await;
    let (name, cpu) = (call.name(), median(ours.cpu.clone()));
    report(&name, ours, baseline);
    if let Some(at_most) = call.at_most {
        claim(&name, cpu, "µs of CPU", at_most);
    }
}

async fn over_stdio(name: &str, call: &Call, backends: &Backends) {
    let mut command = backends.toolpost();
    command.args(["mcp", "--tools", "all"]);
    if !call.is_local() {
        command.arg("--config").arg(backends.config());
    }
    let (mut ours, first) = Load::stdio(StdioClient::start(command), &call.load_request()).await;
    call.check(&first);
    let mut load_request = call.load_request();
    load_request.params["name"] = json!(if call.is_local() { "data" } else { call.tool });
    let echo = StdioClient::start(respawn(&[SERVE_STDIO, call.generation.name()]));
    let (mut baseline, first) = Load::stdio(echo, &load_request).await;
    call.check(&first);
    run_rounds(&mut ours, &mut baseline, 30 * IN_FLIGHT).await;
    report(name, ours, baseline);
}

async fn list(name: &str, generation: ProtocolGeneration, gateway: &Server, baseline: &Server) {
    let (method, params) = ("tools/list", json!({}));
    // One connection, because the response is large and one client reads it.
    let load_request = LoadRequest {
        generation,
        path: "/mcp?tools=all",
        method,
        params,
        min_response_len: 1_000_000,
    };
    let (mut ours, first) = Load::http(gateway, &load_request, 1).await;
    assert_eq!(first["result"]["tools"].as_array().map(Vec::len), Some(1_000), "{first:.300}");
    let (mut baseline, _) = Load::http(baseline, &load_request, 1).await;
    run_rounds(&mut ours, &mut baseline, 30).await;
    let cpu = median(ours.cpu.clone());
    println!("  {} bytes in the first response", first.to_string().len());
    report(name, ours, baseline);
    claim(name, cpu / 1e3, "ms of CPU", 1.0);
}

/// Alternates rounds of both sides.
async fn run_rounds(ours: &mut Load, baseline: &mut Load, count: usize) {
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            ours.reset();
            baseline.reset();
        }
        ours.run_round(count).await;
        baseline.run_round(count).await;
    }
}

fn report(name: &str, ours: Load, baseline: Load) {
    let ratio = ours.cpu_ratio(&baseline);
    println!(
        "  {name}: CPU {:6.1} vs {:5.1} µs ({ratio:.1} times)  {:6.0} vs {:6.0} a second  {} vs {}",
        median(ours.cpu),
        median(baseline.cpu),
        median(ours.rates),
        median(baseline.rates),
        latency(ours.times),
        latency(baseline.times)
    );
}
