//! What a call of an MCP tool through the registry costs beside the same call by a minimal client.
//!
//! Both start with a JSON value and end with one, and take turns. The servers give back their
//! arguments and are processes of their own, so that the processor time of this one is that of the
//! client: what is claimed is the median of the surplus per call with one call in flight. Everything
//! is done on one thread, and then with two, where tasks wake each other across threads.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/latency.rs"]
mod latency;
#[path = "mcp/raw.rs"]
mod raw;
#[path = "mcp/server.rs"]
mod server;
#[path = "harness/spread.rs"]
mod spread;

use std::process::Command;
use std::time::{Duration, Instant};

use child::Program;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use latency::latency;
use raw::{Pipe, Post, Raw};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use server::{Echo, Era};
use spread::median;
use tokio::runtime::{Builder, Runtime};
use toolpost::mcp::{
    HttpSettings, McpSettings, McpSource, McpTransport, SourceHooks, StdioSettings,
};
use toolpost::{Pipeline, Registry};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program a server on its standard input and output.
const SERVE_STDIO: &str = "--serve-stdio";

/// Makes this program a server on a port that it prints.
const SERVE_HTTP: &str = "--serve-http";

/// The most processor time that the registry may add to a call, in microseconds.
const AT_MOST: f64 = 60.0;

/// What is called, and how often in a round.
struct Call {
    tool: &'static str,
    size: &'static str,
    arguments: Value,
    batch: usize,
    /// What grows with the size is the checking of values, which the other client does not do.
    is_claimed: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [SERVE_STDIO, name] => Echo::new(Era::named(name)).serve_stdio(),
        [SERVE_HTTP, name] => runtime(1).block_on(Echo::new(Era::named(name)).serve_http()),
        // What is no flag of cargo's picks rows by their names.
        others => {
            let wanted = others.iter().find(|word| !word.starts_with('-')).unwrap_or(&"");
            bench_all(wanted);
        }
    }
}

fn bench_all(wanted: &str) {
    for threads in [1, 2] {
        println!(
            "A call of a tool, ours beside a minimal client, runtime with {threads} thread(s):"
        );
        let runtime = runtime(threads);
        for (wire, era) in [
            ("stdio", Era::Legacy),
            ("stdio", Era::Modern),
            ("http", Era::Legacy),
            ("http", Era::Modern),
        ] {
            let wanted = wanted.to_owned();
            // A task of its own, since whoever blocks on a runtime is not one of its threads.
            let bench = async move { tokio::spawn(bench(wire, era, wanted)).await };
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

/// All calls to one server.
async fn bench(wire: &'static str, era: Era, wanted: String) {
    let named = |call: &Call| format!("{wire} {} {:>5} {}", era.name(), call.size, call.tool);
    let calls: Vec<_> = calls().into_iter().filter(|call| named(call).contains(&wanted)).collect();
    if calls.is_empty() {
        return;
    }
    let mut server = None;
    let (mut raw, transport) = match wire {
        "stdio" => {
            let this = std::env::current_exe().unwrap();
            let stdio = StdioSettings::new(this.to_str().unwrap(), [SERVE_STDIO, era.name()]);
            (Raw::Pipe(Box::new(Pipe::start(era).await)), McpTransport::Stdio(stdio))
        }
        _ => {
            let (program, url) = start_http(era);
            server = Some(program);
            let http = HttpSettings::new(url.clone());
            (Raw::Post(Box::new(Post::new(era, url))), McpTransport::Http(http))
        }
    };
    let registry = Registry::new();
    let settings = McpSettings::new(transport);
    let source = McpSource::start(&registry, "echo", settings, SourceHooks::default());
    let found = source.ready(Duration::from_secs(10)).await.unwrap();
    assert_eq!(found.protocol, era.version());
    let pipeline = Pipeline::new(registry);
    for call in &calls {
        row(&named(call), call, &pipeline, &mut raw).await;
    }
    source.close().await;
    drop(server);
}

fn start_http(era: Era) -> (Program, reqwest::Url) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([SERVE_HTTP, era.name()]);
    let (program, address) = Program::start(command);
    (program, format!("http://{address}/mcp").parse().unwrap())
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

/// What was measured of one client.
#[derive(Default)]
struct Measured {
    /// Processor time per call of each round, in microseconds.
    cpu: Vec<f64>,
    rates: Vec<f64>,
    times: Vec<Duration>,
}

impl Measured {
    /// One round.
    async fn time(&mut self, batch: usize, run: impl AsyncFnOnce(&mut Vec<Duration>)) {
        let (began, cpu) = (Instant::now(), cpu_micros());
        run(&mut self.times).await;
        self.cpu.push((cpu_micros() - cpu) / batch as f64);
        self.rates.push(batch as f64 / began.elapsed().as_secs_f64());
    }
}

async fn row(name: &str, call: &Call, pipeline: &Pipeline, raw: &mut Raw) {
    let [ours, bare] = rounds(call, pipeline, raw, 1).await;
    let surplus = surplus(&ours, &bare);
    println!(
        "  {name}: CPU {:6.1} beside {:6.1} µs  {} beside {}",
        median(ours.cpu),
        median(bare.cpu),
        latency(ours.times),
        latency(bare.times)
    );
    let [ours, bare] = rounds(call, pipeline, raw, 32).await;
    let surplus_of_32 = self::surplus(&ours, &bare);
    println!(
        "    32 in flight: CPU {:6.1} beside {:6.1} µs  {:6.0} beside {:6.0} calls/s, CPU {surplus_of_32:+.1} µs",
        median(ours.cpu),
        median(bare.cpu),
        median(ours.rates),
        median(bare.rates)
    );
    if call.is_claimed {
        let verdict = if surplus <= AT_MOST { "holds" } else { "DOES NOT HOLD" };
        println!("claim {verdict}: {surplus:+.1} µs of CPU per call, at most {AT_MOST}");
    } else {
        println!("    for comparison: {surplus:+.1} µs of CPU per call");
    }
}

/// Ours and the minimal client in turns.
async fn rounds(
    call: &Call,
    pipeline: &Pipeline,
    raw: &mut Raw,
    in_flight: usize,
) -> [Measured; 2] {
    let operation = format!("echo.{}", call.tool);
    let (mut ours, mut bare) = (Measured::default(), Measured::default());
    for round in 0..28 {
        // The first rounds pay for what is made on first use.
        if round == 3 {
            (ours, bare) = Default::default();
        }
        let one = async || {
            let envelope = pipeline.execute(&operation, call.arguments.clone()).await.unwrap();
            assert!(!envelope.data.is_null());
        };
        let run = async |times: &mut _| keep_in_flight(in_flight, call.batch, times, one).await;
        ours.time(call.batch, run).await;
        let run = async |times: &mut _| raw.run(call, in_flight, call.batch, times).await;
        bare.time(call.batch, run).await;
    }
    [ours, bare]
}

/// Makes `batch` calls, so many at a time, and notes how long each took.
async fn keep_in_flight<F: Future<Output = ()>>(
    in_flight: usize,
    batch: usize,
    times: &mut Vec<Duration>,
    call: impl Fn() -> F,
) {
    let timed = || {
        let (began, calling) = (Instant::now(), call());
        async move {
            calling.await;
            began.elapsed()
        }
    };
    let mut running: FuturesUnordered<_> = (0..in_flight).map(|_| timed()).collect();
    let mut left = batch - in_flight;
    while let Some(took) = running.next().await {
        times.push(took);
        if left > 0 {
            left -= 1;
            running.push(timed());
        }
    }
}

/// The processor time that this process has used, in microseconds.
fn cpu_micros() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The median of what ours took more than the other, round by round.
fn surplus(ours: &Measured, bare: &Measured) -> f64 {
    median(ours.cpu.iter().zip(&bare.cpu).map(|(ours, bare)| ours - bare).collect())
}
