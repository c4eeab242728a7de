//! The cost of the journal: calls over HTTP with and without it, a search in a million calls, and
//! their verification.
//!
//! The two gateways run the same program under the load of `wrk`. Their rounds alternate and take one
//! second each; the throughput is compared. The million calls are made in this process and read with
//! `toolpost log`. Run it with `cargo bench -p toolpost-cli --bench journal`.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/claim.rs"]
mod claim;
#[path = "harness/cpu.rs"]
mod cpu;
#[path = "http_endpoint/load.rs"]
mod load;
#[path = "harness/stats.rs"]
mod stats;
#[path = "harness/temp_dir.rs"]
mod temp_dir;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use child::ChildProcess;
use claim::claim;
use load::{IN_FLIGHT, Load};
use serde_json::{Value, json};
use stats::median;
use temp_dir::TempDir;
use toolpost::{Authority, CallRequest, HandlerError, Identity, Operation, Pipeline, Registry};
use toolpost_gateway::journal::{Journal, JournalReader, JournalSettings};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measured rounds of each side, after the warm-up rounds.
const ROUNDS: usize = 9;
const WARM_UP: usize = 2;

/// Minimum throughput, relative to a gateway without a journal.
const MIN_THROUGHPUT_RATIO: f64 = 0.85;
/// Maximum duration of a search in milliseconds, including the start of the command.
const MAX_SEARCH_MILLIS: f64 = 100.0;
/// Minimum number of records verified per second.
const MIN_VERIFIED_PER_SECOND: f64 = 200_000.0;

const CALLS: u64 = 1_000_000;
const OPERATIONS: u64 = 20;
const CALLERS: u64 = 5;

fn main() {
    let temp_dir = TempDir::new("journal");
    throughput(&temp_dir);
    let data = temp_dir.0.join("million");
    fill(&data);
    search(&temp_dir, &data);
    verify(&data);
}

fn throughput(temp_dir: &TempDir) {
    let script = temp_dir.file(
        "post.lua",
        "wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n\
         wrk.body = '{\"a\":2,\"b\":3}'\n",
    );
    let start = |mode: &str| {
        let data = temp_dir.0.join(mode);
        let config = format!("[journal]\nmode = \"{mode}\"\n");
        let (gateway, address) = serve(&data, &temp_dir.file(&format!("{mode}.toml"), &config));
        let load = Load::new(gateway.0.id(), format!("http://{address}/api/demo/add"), &script);
        (gateway, load)
    };
    let (_with, mut with) = start("batch");
    let (_without, mut without) = start("off");
    for round in 0..WARM_UP + ROUNDS {
        with.run_round();
        without.run_round();
        if round < WARM_UP {
            with.reset();
            without.reset();
        }
    }
    let ratio = median(with.rates.iter().zip(&without.rates).map(|(a, b)| a / b).collect());
    let (cpu, cpu_without) = (median(with.cpu.clone()), median(without.cpu.clone()));
    println!("A call over HTTP, {IN_FLIGHT} in flight, journal = \"batch\" compared with \"off\":");
    println!("  batch {}, CPU {cpu:.1} µs", with.summary());
    println!("  off   {}, CPU {cpu_without:.1} µs", without.summary());
    println!("  the journal costs {:.1} µs of CPU per call", cpu - cpu_without);
    claim(
        "throughput without a journal",
        1.0 / ratio,
        "times that with it",
        1.0 / MIN_THROUGHPUT_RATIO,
    );
}

/// Writes a journal of a million calls.
fn fill(data: &Path) {
    let registry = Registry::new();
    for number in 0..OPERATIONS {
        let echo = async |input: Value| Ok::<_, HandlerError>(input);
        let operation = Operation::query(&format!("bench.operation-{number}"), echo);
        registry.register(operation.build().unwrap()).unwrap();
    }
    let journal = Journal::open(data, &JournalSettings::default()).unwrap();
    let pipeline = Pipeline::builder(registry.clone()).audit(journal.sink(&registry)).build();
    let callers: Vec<Arc<Identity>> =
        (0..CALLERS).map(|n| Arc::new(Identity::new(format!("caller-{n}")))).collect();
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for n in 0..CALLS {
            // Operation 0 is called once in a thousand calls; the search looks for it.
            let operation = if n % 1_000 == 0 { 0 } else { 1 + n % (OPERATIONS - 1) };
            let operation = format!("bench.operation-{operation}");
            let caller = Arc::clone(&callers[usize::try_from(n % CALLERS).unwrap()]);
            let input = json!({"text": "a call like many others", "number": n});
            let request = CallRequest::new(&operation, input).endpoint(toolpost::Endpoint::Http);
            pipeline.call(request, Authority::untrusted(Some(caller))).await.unwrap();
        }
    });
    journal.close();
    let micros = began.elapsed().as_secs_f64() * 1e6;
    #[expect(clippy::cast_precision_loss, reason = "a million is exact")]
    let each = micros / CALLS as f64;
    println!("{CALLS} calls in this process, {each:.1} µs each, all records written");
}

/// Searches through a running gateway, with `toolpost log`.
fn search(temp_dir: &TempDir, data: &Path) {
    let (gateway, address) = serve(data, &temp_dir.file("search.toml", ""));
    let url = format!("ws://{address}");
    let token = std::fs::read_to_string(data.join("operator.token")).unwrap();
    for (name, arguments) in [
        ("log --op X --since 1h, one of twenty", ["--op", "bench.operation-7", "--since", "1h"]),
        (
            "log --op X --since 1h, one call in a thousand",
            ["--op", "bench.operation-0", "--since", "1h"],
        ),
        ("log --op X --since 1h, never called", ["--op", "bench.none", "--since", "1h"]),
        ("log --op X --identity Y", ["--op", "bench.operation-0", "--identity", "caller-0"]),
    ] {
        let times = (0..9).map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
            command.args(["log", "--json", "--url", &url]).args(arguments);
            command.env("TOOLPOST_TOKEN", token.trim());
            let began = Instant::now();
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let lines = output.stdout.iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(lines, if name.contains("never") { 0 } else { 50 }, "{name}");
            began.elapsed().as_secs_f64() * 1e3
        });
        claim(name, median(times.collect()), "ms", MAX_SEARCH_MILLIS);
    }
    drop(gateway);
}

fn verify(data: &Path) {
    let archive = JournalReader::new(data, &JournalSettings::default());
    let rates = (0..3).map(|_| {
        let began = Instant::now();
        let verdicts = archive.verify(None).unwrap();
        assert!(verdicts.iter().all(|verdict| verdict.ok), "{verdicts:?}");
        let records: u64 = verdicts.iter().map(|verdict| verdict.records).sum();
        assert!(records >= 2 * CALLS, "{records}");
        #[expect(clippy::cast_precision_loss, reason = "the count is small enough to be exact")]
        let rate = records as f64 / began.elapsed().as_secs_f64();
        rate
    });
    let rate = median(rates.collect());
    println!("{rate:.0} records verified per second");
    claim("a record verified", 1e6 / rate, "µs", 1e6 / MIN_VERIFIED_PER_SECOND);
}

fn serve(data: &Path, config: &Path) -> (ChildProcess, String) {
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_toolpost"));
    gateway.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    gateway.arg("--config").arg(config).env("TOOLPOST_LOG", "warn").current_dir(Path::new("/"));
    let (gateway, banner) = ChildProcess::start(gateway);
    (gateway, banner.rsplit_once("http://").unwrap().1.to_owned())
}
