//! What a call over HTTP costs, beside a handler of axum that parses and writes the same JSON.
//!
//! Every part is a process of its own: the gateway (`toolpost serve`), the reference, the same as an HTTP
//! service behind the gateway, and `wrk`, which calls. What is claimed is the processor time of the
//! gateway for a request; gateway and reference take turns of a second, and medians are told. Run it
//! with `cargo bench --bench http_door`.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "http_door/bare.rs"]
mod bare;
#[path = "harness/child.rs"]
mod child;
#[path = "harness/claim.rs"]
mod claim;
#[path = "http_door/load.rs"]
mod load;
#[path = "harness/spread.rs"]
mod spread;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use child::Program;
use claim::claim;
use load::{IN_FLIGHT, Load};
use serde_json::json;
use spread::median;
use tokio::runtime::Builder;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program the reference, on a port that it prints.
const SERVE_BARE: &str = "--serve-bare";

/// Makes this program the service behind the gateway, which is the reference with one thread, so that
/// it takes no more of the machine than it needs.
const SERVE_BEHIND: &str = "--serve-behind";

/// Turns of either side, without those at first that warm up.
const TURNS: usize = 11;
const WARM_UP: usize = 2;

/// How many times the processor time of the reference a call may cost.
const MOST_TIMES: f64 = 1.6;
/// The most processor time of a call that goes on to an HTTP service, in microseconds.
const MOST_THROUGH: f64 = 100.0;

const BODY: &str = r#"{"a":2,"b":3}"#;

fn main() {
    let is_called = |name: &str| std::env::args().any(|argument| argument == name);
    let runtime = match (is_called(SERVE_BARE), is_called(SERVE_BEHIND)) {
        // As many threads as the gateway has.
        (true, _) => Some(Builder::new_multi_thread().enable_all().build().unwrap()),
        (_, true) => Some(Builder::new_current_thread().enable_all().build().unwrap()),
        _ => None,
    };
    if let Some(runtime) = runtime {
        return runtime.block_on(bare::serve());
    }
    let folder = Folder::new();
    let (bare, bare_address) = again(SERVE_BARE);
    let (_behind, behind_address) = again(SERVE_BEHIND);
    let (gateway, address) = serve(&folder, &behind_address);
    let bare_url = format!("http://{bare_address}/api/demo/add");
    let post = folder.script("post", BODY);
    let nested = folder.script("nested", &format!(r#"{{"body":{BODY}}}"#));
    let get = folder.file("get.lua", "");

    println!("A call over HTTP, {IN_FLIGHT} in flight, beside axum alone:");
    for (name, path, script, most) in [
        ("POST demo.add", "demo/add", &post, Most::Times(MOST_TIMES)),
        ("GET demo.add", "demo/add?a=2&b=3", &get, Most::Anything),
        ("POST demo.add, envelope", "demo/add?envelope=true", &post, Most::Anything),
        ("POST to an HTTP service", "bare/add", &nested, Most::Micros(MOST_THROUGH)),
    ] {
        let ours = Load::new(gateway.0.id(), format!("http://{address}/api/{path}"), script);
        let reference = Load::new(bare.0.id(), bare_url.clone(), &post);
        compare(name, ours, reference, &most);
    }
}

/// What a call may cost.
enum Most {
    Anything,
    Times(f64),
    Micros(f64),
}

/// This program as something else, and its address.
fn again(what: &str) -> (Program, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(what);
    Program::start(command)
}

/// A gateway with a service as one of its sources.
fn serve(folder: &Folder, service: &str) -> (Program, String) {
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
    let document = folder.file("bare.json", &document.to_string());
    // What the journal costs is what `benches/journal.rs` is about.
    let journal = "[journal]\nmode = \"off\"\n";
    let source = format!("{journal}[source.bare]\nopenapi = {document:?}\naccess = \"open\"\n");
    let log = folder.0.join("log");
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_toolpost"));
    gateway.args(["serve", "--listen", "127.0.0.1:0", "--config"]);
    gateway.arg(folder.file("toolpost.toml", &source)).env_remove("TOOLPOST_LOG");
    gateway.env("XDG_DATA_HOME", folder.0.join("data"));
    gateway.current_dir(Path::new("/")).stderr(std::fs::File::create(&log).unwrap());
    let (gateway, said) = Program::start(gateway);
    for _ in 0..200 {
        if std::fs::read_to_string(&log).unwrap().contains("the document was read") {
            return (gateway, said.rsplit_once("http://").unwrap().1.to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the source is not ready:\n{}", std::fs::read_to_string(log).unwrap())
}

/// How many times as much the one costs as the other, turn by turn.
fn beside(ours: &Load, other: &Load) -> f64 {
    median(ours.cpu.iter().zip(&other.cpu).map(|(ours, other)| ours / other).collect())
}

fn compare(name: &str, mut ours: Load, mut bare: Load, most: &Most) {
    for turn in 0..WARM_UP + TURNS {
        ours.turn();
        bare.turn();
        if turn < WARM_UP {
            // The first turns pay for what is made on first use.
            ours.forget();
            bare.forget();
        }
    }
    let (times, cpu) = (beside(&ours, &bare), median(ours.cpu.clone()));
    let bare_cpu = median(bare.cpu.clone());
    println!("  {name}: CPU {cpu:5.1} beside {bare_cpu:5.1} µs ({times:.2} times)");
    println!("    {} beside {}", ours.words(), bare.words());
    match most {
        Most::Anything => {}
        Most::Times(most) => claim(name, times, "times the CPU of axum alone", *most),
        Most::Micros(most) => claim(name, cpu, "µs of CPU", *most),
    }
}

/// A place for files that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder =
            std::env::temp_dir().join(format!("toolpost-http-door-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Tells `wrk` what to send.
    fn script(&self, name: &str, body: &str) -> PathBuf {
        let text = format!(
            "wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n\
             wrk.headers['accept'] = '*/*'\nwrk.body = '{body}'\n"
        );
        self.file(&format!("{name}.lua"), &text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in a folder for such things is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
