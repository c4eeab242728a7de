//! What the journal costs: calls over HTTP with it and without, a search in a million calls, and a
//! verification of them.
//!
//! The two gateways are the same program, take turns of a second under the load of `wrk`, and what is
//! compared is their throughput. The million calls are made in this process and read by the command
//! that people use. Run it with `cargo bench -p toolpost-cli --bench journal`.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/claim.rs"]
mod claim;
#[path = "harness/folder.rs"]
mod folder;
#[path = "http_door/load.rs"]
mod load;
#[path = "harness/spread.rs"]
mod spread;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use child::Program;
use claim::claim;
use folder::Folder;
use load::{IN_FLIGHT, Load};
use serde_json::{Value, json};
use spread::median;
use toolpost::{Authority, CallRequest, HandlerError, Identity, Operation, Pipeline, Registry};
use toolpost_gateway::journal::{Archive, Journal, Settings};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Turns of either side, without those at first that warm up.
const TURNS: usize = 9;
const WARM_UP: usize = 2;

/// The least part of the throughput without a journal.
const LEAST_PART: f64 = 0.8;
/// The most milliseconds of a search, the start of the command included.
const MOST_SEARCH: f64 = 100.0;
/// The least records verified in a second.
const LEAST_VERIFIED: f64 = 200_000.0;

const CALLS: u64 = 1_000_000;
const OPERATIONS: u64 = 20;
const CALLERS: u64 = 5;

fn main() {
    let folder = Folder::new("journal");
    throughput(&folder);
    let data = folder.0.join("million");
    fill(&data);
    search(&folder, &data);
    verify(&data);
}

fn throughput(folder: &Folder) {
    let script = folder.file(
        "post.lua",
        "wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n\
         wrk.body = '{\"a\":2,\"b\":3}'\n",
    );
    let start = |mode: &str| {
        let data = folder.0.join(mode);
        let config = format!("[journal]\nmode = \"{mode}\"\n");
        let (gateway, address) = serve(&data, &folder.file(&format!("{mode}.toml"), &config));
        let load = Load::new(gateway.0.id(), format!("http://{address}/api/demo/add"), &script);
        (gateway, load)
    };
    let (_with, mut with) = start("batch");
    let (_without, mut without) = start("off");
    for turn in 0..WARM_UP + TURNS {
        with.turn();
        without.turn();
        if turn < WARM_UP {
            with.forget();
            without.forget();
        }
    }
    let part = median(with.rates.iter().zip(&without.rates).map(|(a, b)| a / b).collect());
    let (cpu, cpu_without) = (median(with.cpu.clone()), median(without.cpu.clone()));
    println!("A call over HTTP, {IN_FLIGHT} in flight, journal = \"batch\" beside \"off\":");
    println!("  batch {}, CPU {cpu:.1} µs", with.words());
    println!("  off   {}, CPU {cpu_without:.1} µs", without.words());
    println!("  the journal costs {:.1} µs of CPU a call", cpu - cpu_without);
    claim("throughput without a journal", 1.0 / part, "times that with it", 1.0 / LEAST_PART);
}

/// Makes the journal of a million calls.
fn fill(data: &Path) {
    let registry = Registry::new();
    for number in 0..OPERATIONS {
        let echo = async |input: Value| Ok::<_, HandlerError>(input);
        let operation = Operation::query(&format!("bench.operation-{number}"), echo);
        registry.register(operation.build().unwrap()).unwrap();
    }
    let journal = Journal::open(data, &Settings::default()).unwrap();
    let pipeline = Pipeline::builder(registry.clone()).audit(journal.sink(&registry)).build();
    let callers: Vec<Arc<Identity>> =
        (0..CALLERS).map(|n| Arc::new(Identity::new(format!("caller-{n}")))).collect();
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for n in 0..CALLS {
            // One operation is called once in a thousand, and is the one that is looked for.
            let operation = if n % 1_000 == 0 { 0 } else { 1 + n % (OPERATIONS - 1) };
            let operation = format!("bench.operation-{operation}");
            let caller = Arc::clone(&callers[usize::try_from(n % CALLERS).unwrap()]);
            let input = json!({"text": "a call like many others", "number": n});
            let request = CallRequest::new(&operation, input).door("http");
            pipeline.call(request, Authority::outside(Some(caller))).await.unwrap();
        }
    });
    journal.close();
    let micros = began.elapsed().as_secs_f64() * 1e6;
    #[expect(clippy::cast_precision_loss, reason = "a million is exact")]
    let each = micros / CALLS as f64;
    println!("{CALLS} calls in this process, {each:.1} µs each, all of it written");
}

/// Asks a gateway that runs, with the command that people use.
fn search(folder: &Folder, data: &Path) {
    let (gateway, address) = serve(data, &folder.file("search.toml", ""));
    let url = format!("ws://{address}");
    for (name, arguments) in [
        ("log --op X --since 1h, one of twenty", ["--op", "bench.operation-7", "--since", "1h"]),
        (
            "log --op X --since 1h, one call in a thousand",
            ["--op", "bench.operation-0", "--since", "1h"],
        ),
        ("log --op X --since 1h, never called", ["--op", "bench.none", "--since", "1h"]),
        ("log --op X --who Y", ["--op", "bench.operation-0", "--who", "caller-0"]),
    ] {
        let times = (0..9).map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
            command.args(["log", "--json", "--url", &url, "--data"]).arg(data).args(arguments);
            let began = Instant::now();
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let lines = output.stdout.iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(lines, if name.contains("never") { 0 } else { 50 }, "{name}");
            began.elapsed().as_secs_f64() * 1e3
        });
        claim(name, median(times.collect()), "ms", MOST_SEARCH);
    }
    drop(gateway);
}

fn verify(data: &Path) {
    let archive = Archive::new(data, &Settings::default());
    let rates = (0..3).map(|_| {
        let began = Instant::now();
        let verdicts = archive.verify(None).unwrap();
        assert!(verdicts.iter().all(|verdict| verdict.ok), "{verdicts:?}");
        let records: u64 = verdicts.iter().map(|verdict| verdict.records).sum();
        assert!(records >= 2 * CALLS, "{records}");
        #[expect(clippy::cast_precision_loss, reason = "so many are exact")]
        let rate = records as f64 / began.elapsed().as_secs_f64();
        rate
    });
    let rate = median(rates.collect());
    println!("{rate:.0} records verified in a second");
    claim("a record verified", 1e6 / rate, "µs", 1e6 / LEAST_VERIFIED);
}

fn serve(data: &Path, config: &Path) -> (Program, String) {
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_toolpost"));
    gateway.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    gateway.arg("--config").arg(config).env("TOOLPOST_LOG", "warn").current_dir(Path::new("/"));
    let (gateway, said) = Program::start(gateway);
    (gateway, said.rsplit_once("http://").unwrap().1.to_owned())
}
