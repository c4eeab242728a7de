//! The cost of an MCP tool call through the registry, compared with a minimal client.
//!
//! Both start and end with a JSON value; their rounds alternate. The servers echo their arguments in
//! separate processes, so the processor time of this process is that of the client. The claim is
//! about the median surplus per call with one call in flight. Everything runs on one thread first,
//! then on two, where async tasks wake each other across threads.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/child.rs"]
mod child;
#[path = "mcp/echo_server.rs"]
mod echo_server;
#[path = "harness/latency.rs"]
mod latency;
#[path = "mcp/minimal_client.rs"]
mod minimal_client;
#[path = "harness/stats.rs"]
mod stats;

use std::process::Command;
use std::time::{Duration, Instant};

use child::ChildProcess;
use echo_server::{EchoServer, ProtocolGeneration};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use latency::latency;
use minimal_client::{HttpClient, MinimalClient, StdioClient};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use stats::median;
use tokio::runtime::{Builder, Runtime};
use toolpost::mcp::{HttpSettings, McpSettings, McpSource, McpTransport, StdioSettings};
use toolpost::{Pipeline, Registry, RunningSource, SourceHooks};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs this program as a server on its standard input and output.
const SERVE_STDIO: &str = "--serve-stdio";

/// Runs this program as a server on a port that it prints.
const SERVE_HTTP: &str = "--serve-http";

/// Maximum processor time that the registry may add to a call, in microseconds.
const MAX_SURPLUS_MICROS: f64 = 60.0;

/// A tool call and how often it is made in a round.
struct Call {
    tool: &'static str,
    size: &'static str,
    arguments: Value,
    batch: usize,
    /// Only small payloads are: validation grows with the size, and the minimal client has none.
    is_claimed: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [SERVE_STDIO, name] => EchoServer::new(ProtocolGeneration::from_name(name)).serve_stdio(),
        [SERVE_HTTP, name] => {
            runtime(1).block_on(EchoServer::new(ProtocolGeneration::from_name(name)).serve_http());
        }
        // An argument that is not a flag selects rows by name.
        others => {
            let filter = others.iter().find(|argument| !argument.starts_with('-')).unwrap_or(&"");
            run_all(filter);
        }
    }
}

fn run_all(filter: &str) {
    for threads in [1, 2] {
        println!(
            "A tool call, ours compared with a minimal client, runtime with {threads} thread(s):"
        );
        let runtime = runtime(threads);
        for (transport_name, generation) in [
            ("stdio", ProtocolGeneration::Legacy),
            ("stdio", ProtocolGeneration::Modern),
            ("http", ProtocolGeneration::Legacy),
            ("http", ProtocolGeneration::Modern),
        ] {
            let filter = filter.to_owned();
            // Spawned, because `block_on` runs its future outside the worker threads.
            let bench =
                async move { tokio::spawn(bench(transport_name, generation, filter)).await };
            runtime.block_on(bench).unwrap();
        }
    }
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().build().unwrap()
}

/// Measures all calls to one server.
async fn bench(transport_name: &'static str, generation: ProtocolGeneration, filter: String) {
    let row_name = |call: &Call| {
        format!("{transport_name} {} {:>5} {}", generation.name(), call.size, call.tool)
    };
    let calls: Vec<_> =
        calls().into_iter().filter(|call| row_name(call).contains(&filter)).collect();
    if calls.is_empty() {
        return;
    }
    let mut server = None;
    let (mut minimal_client, transport) = match transport_name {
        "stdio" => {
            let program = std::env::current_exe().unwrap();
            let stdio =
                StdioSettings::new(program.to_str().unwrap(), [SERVE_STDIO, generation.name()]);
            (
                MinimalClient::Stdio(Box::new(StdioClient::start(generation).await)),
                McpTransport::Stdio(stdio),
            )
        }
        _ => {
            let (process, url) = start_http(generation);
            server = Some(process);
            let http = HttpSettings::new(url.clone());
            (
                MinimalClient::Http(Box::new(HttpClient::new(generation, url))),
                McpTransport::Http(http),
            )
        }
    };
    let registry = Registry::new();
    let settings = McpSettings::new(transport);
    let source =
        RunningSource::start(&registry, McpSource::new("echo", settings), SourceHooks::default());
    let info = source.ready(Duration::from_secs(10)).await.unwrap();
    assert_eq!(info.protocol, generation.version());
    let pipeline = Pipeline::new(registry);
    for call in &calls {
        row(&row_name(call), call, &pipeline, &mut minimal_client).await;
    }
    source.close().await;
    drop(server);
}

fn start_http(generation: ProtocolGeneration) -> (ChildProcess, reqwest::Url) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([SERVE_HTTP, generation.name()]);
    let (process, address) = ChildProcess::start(command);
    (process, format!("http://{address}/mcp").parse().unwrap())
}

fn calls() -> Vec<Call> {
    let call = |tool, size, items, batch| {
        let items = (0..items).map(|n| json!({"id": n, "name": "an item", "is_new": true}));
        let arguments = json!({"items": items.collect::<Value>()});
        Call { tool, size, arguments, batch, is_claimed: size == "1 KB" }
    };
    vec![
        call("data", "1 KB", 23, 300),
        call("text", "1 KB", 23, 300),
        call("data", "64 KB", 1_400, 60),
        call("text", "64 KB", 1_400, 60),
    ]
}

/// The measurements of one client.
#[derive(Default)]
struct Measured {
    /// Processor time per call of each round, in microseconds.
    cpu: Vec<f64>,
    rates: Vec<f64>,
    times: Vec<Duration>,
}

impl Measured {
    /// Measures one round.
    async fn time(&mut self, batch: usize, run: impl AsyncFnOnce(&mut Vec<Duration>)) {
        let (start, cpu) = (Instant::now(), cpu_micros());
        run(&mut self.times).await;
        self.cpu.push((cpu_micros() - cpu) / batch as f64);
        self.rates.push(batch as f64 / start.elapsed().as_secs_f64());
    }
}

async fn row(name: &str, call: &Call, pipeline: &Pipeline, minimal_client: &mut MinimalClient) {
    let [ours, baseline] = rounds(call, pipeline, minimal_client, 1).await;
    let surplus = median_surplus(&ours, &baseline);
    println!(
        "  {name}: CPU {:6.1} vs {:6.1} µs  {} vs {}",
        median(ours.cpu),
        median(baseline.cpu),
        latency(ours.times),
        latency(baseline.times)
    );
    let [ours, baseline] = rounds(call, pipeline, minimal_client, 32).await;
    let surplus_at_32 = median_surplus(&ours, &baseline);
    println!(
        "    32 in flight: CPU {:6.1} vs {:6.1} µs  {:6.0} vs {:6.0} calls/s, CPU {surplus_at_32:+.1} µs",
        median(ours.cpu),
        median(baseline.cpu),
        median(ours.rates),
        median(baseline.rates)
    );
    if call.is_claimed {
        let status = if surplus <= MAX_SURPLUS_MICROS { "holds" } else { "FAILS" };
        println!("claim {status}: {surplus:+.1} µs of CPU per call, at most {MAX_SURPLUS_MICROS}");
    } else {
        println!("    for comparison: {surplus:+.1} µs of CPU per call");
    }
}

/// Alternates rounds of ours and of the minimal client.
async fn rounds(
    call: &Call,
    pipeline: &Pipeline,
    minimal_client: &mut MinimalClient,
    in_flight: usize,
) -> [Measured; 2] {
    let operation = format!("echo.{}", call.tool);
    let (mut ours, mut baseline) = (Measured::default(), Measured::default());
    for round in 0..28 {
        // The first rounds include one-time initialization.
        if round == 3 {
            (ours, baseline) = Default::default();
        }
        let one = async || {
            let envelope = pipeline.call_trusted(&operation, call.arguments.clone()).await.unwrap();
            assert!(!envelope.data.is_null());
        };
        let run = async |times: &mut _| run_concurrently(in_flight, call.batch, times, one).await;
        ours.time(call.batch, run).await;
        let run =
            async |times: &mut _| minimal_client.run(call, in_flight, call.batch, times).await;
        baseline.time(call.batch, run).await;
    }
    [ours, baseline]
}

/// Makes `batch` calls, `in_flight` at a time, and records the duration of each.
async fn run_concurrently<F: Future<Output = ()>>(
    in_flight: usize,
    batch: usize,
    times: &mut Vec<Duration>,
    call: impl Fn() -> F,
) {
    let timed = || {
        let (start, calling) = (Instant::now(), call());
        async move {
            calling.await;
            start.elapsed()
        }
    };
    let mut running: FuturesUnordered<_> = (0..in_flight).map(|_| timed()).collect();
    let mut remaining = batch - in_flight;
    while let Some(took) = running.next().await {
        times.push(took);
        if remaining > 0 {
            remaining -= 1;
            running.push(timed());
        }
    }
}

/// The processor time that this process has used, in microseconds.
fn cpu_micros() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The median over all rounds of the difference in processor time.
fn median_surplus(ours: &Measured, baseline: &Measured) -> f64 {
    median(ours.cpu.iter().zip(&baseline.cpu).map(|(ours, baseline)| ours - baseline).collect())
}
