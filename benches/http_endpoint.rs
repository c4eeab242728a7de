//! The cost of a call over HTTP, compared with an axum handler that parses and writes the same JSON.
//!
//! Separate processes: the gateway (`toolpost serve`), the baseline, the baseline again as an HTTP
//! service behind the gateway, and `wrk`, which makes the calls. The claims are about the processor
//! time of the gateway per request. The rounds of gateway and baseline alternate and take one second
//! each; the results are medians. Run it with `cargo bench --bench http_endpoint`.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "http_endpoint/baseline.rs"]
mod baseline;
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

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use child::ChildProcess;
use claim::claim;
use load::{IN_FLIGHT, Load};
use serde_json::json;
use stats::median;
use tokio::runtime::Builder;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs this program as the baseline, on a port that it prints.
const SERVE_BASELINE: &str = "--serve-baseline";

/// Runs this program as the service behind the gateway: the baseline with one thread, so that it
/// leaves the other cores to the gateway.
const SERVE_UPSTREAM: &str = "--serve-upstream";

/// Measured rounds of each side, after the warm-up rounds.
const ROUNDS: usize = 11;
const WARM_UP: usize = 2;

/// Maximum processor time of a call, relative to the baseline.
const MAX_CPU_RATIO: f64 = 1.6;
/// Maximum processor time of a call to an HTTP service, in microseconds.
const MAX_UPSTREAM_MICROS: f64 = 100.0;

const BODY: &str = r#"{"a":2,"b":3}"#;

fn main() {
    let has_argument = |name: &str| std::env::args().any(|argument| argument == name);
    let runtime = match (has_argument(SERVE_BASELINE), has_argument(SERVE_UPSTREAM)) {
        // The same number of threads as the gateway.
        (true, _) => Some(Builder::new_multi_thread().enable_all().build().unwrap()),
        (_, true) => Some(Builder::new_current_thread().enable_all().build().unwrap()),
        _ => None,
    };
    if let Some(runtime) = runtime {
        return runtime.block_on(baseline::serve());
    }
    let temp_dir = TempDir::new();
    let (baseline, baseline_address) = respawn(SERVE_BASELINE);
    let (_upstream, upstream_address) = respawn(SERVE_UPSTREAM);
    let (gateway, address) = serve(&temp_dir, &upstream_address);
    let baseline_url = format!("http://{baseline_address}/api/demo/add");
    let post = temp_dir.script("post", BODY);
    let nested = temp_dir.script("nested", &format!(r#"{{"body":{BODY}}}"#));
    let get = temp_dir.file("get.lua", "");

    println!("A call over HTTP, {IN_FLIGHT} in flight, compared with axum alone:");
    for (name, path, script, limit) in [
        ("POST demo.add", "demo/add", &post, CostLimit::Ratio(MAX_CPU_RATIO)),
        ("GET demo.add", "demo/add?a=2&b=3", &get, CostLimit::Unlimited),
        ("POST demo.add, envelope", "demo/add?envelope=true", &post, CostLimit::Unlimited),
        (
            "POST to an HTTP service",
            "upstream/add",
            &nested,
            CostLimit::Micros(MAX_UPSTREAM_MICROS),
        ),
    ] {
        let ours = Load::new(gateway.0.id(), format!("http://{address}/api/{path}"), script);
        let baseline = Load::new(baseline.0.id(), baseline_url.clone(), &post);
        compare(name, ours, baseline, &limit);
    }
}

/// The maximum cost of a call.
enum CostLimit {
    Unlimited,
    Ratio(f64),
    Micros(f64),
}

/// Starts this program with another argument and returns its address.
fn respawn(argument: &str) -> (ChildProcess, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(argument);
    ChildProcess::start(command)
}

/// Starts a gateway with an HTTP service as a source.
fn serve(temp_dir: &TempDir, service: &str) -> (ChildProcess, String) {
    let number = json!({"type": "number"});
    let add = json!({"type": "object", "properties": {"a": number, "b": number}});
    let sum = json!({"type": "object", "properties": {"sum": number}, "required": ["sum"]});
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Service", "version": "1"},
        "servers": [{"url": format!("http://{service}")}],
        "paths": {"/api/demo/add": {"post": {
            "operationId": "add",
            "requestBody": {"required": true, "content": {"application/json": {"schema": add}}},
            "responses": {"200": {
                "description": "the sum",
                "content": {"application/json": {"schema": sum}},
            }},
        }}},
    });
    let document = temp_dir.file("upstream.json", &document.to_string());
    // `benches/journal.rs` measures the cost of the journal.
    let journal = "[journal]\nmode = \"off\"\n";
    let source = format!("{journal}[source.upstream]\nopenapi = {document:?}\naccess = \"open\"\n");
    let log = temp_dir.0.join("log");
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_toolpost"));
    gateway.args(["serve", "--listen", "127.0.0.1:0", "--config"]);
    gateway.arg(temp_dir.file("toolpost.toml", &source)).env_remove("TOOLPOST_LOG");
    gateway.env("XDG_DATA_HOME", temp_dir.0.join("data"));
    gateway.current_dir(Path::new("/")).stderr(std::fs::File::create(&log).unwrap());
    let (gateway, banner) = ChildProcess::start(gateway);
    for _ in 0..200 {
        if std::fs::read_to_string(&log).unwrap().contains("source ready") {
            return (gateway, banner.rsplit_once("http://").unwrap().1.to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the source is not ready:\n{}", std::fs::read_to_string(log).unwrap())
}

/// The median over all rounds of the ratio of the processor times.
fn cpu_ratio(ours: &Load, other: &Load) -> f64 {
    median(ours.cpu.iter().zip(&other.cpu).map(|(ours, other)| ours / other).collect())
}

fn compare(name: &str, mut ours: Load, mut baseline: Load, limit: &CostLimit) {
    for round in 0..WARM_UP + ROUNDS {
        ours.run_round();
        baseline.run_round();
        if round < WARM_UP {
            // The first rounds include one-time initialization.
            ours.reset();
            baseline.reset();
        }
    }
    let (ratio, cpu) = (cpu_ratio(&ours, &baseline), median(ours.cpu.clone()));
    let baseline_cpu = median(baseline.cpu.clone());
    println!("  {name}: CPU {cpu:5.1} vs {baseline_cpu:5.1} µs ({ratio:.2} times)");
    println!("    {} vs {}", ours.summary(), baseline.summary());
    match limit {
        CostLimit::Unlimited => {}
        CostLimit::Ratio(limit) => claim(name, ratio, "times the CPU of axum alone", *limit),
        CostLimit::Micros(limit) => claim(name, cpu, "µs of CPU", *limit),
    }
}

/// A temporary folder that is removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Self {
        let path =
            std::env::temp_dir().join(format!("toolpost-http-endpoint-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a `wrk` script that posts a body.
    fn script(&self, name: &str, body: &str) -> PathBuf {
        let text = format!(
            "wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n\
             wrk.headers['accept'] = '*/*'\nwrk.body = '{body}'\n"
        );
        self.file(&format!("{name}.lua"), &text)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A leftover temporary folder is not an error.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
