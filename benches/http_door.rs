//! What a call over HTTP costs, beside a handler of axum that parses and writes the same JSON.
//!
//! Every part is a process of its own: the gateway (`manila serve`), the reference, and the one that
//! calls. What is claimed is the processor time of the gateway for a request, as a multiple of the
//! reference's; the two take turns, and medians are told. Run it with `cargo bench --bench http_door`.

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

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use child::Program;
use claim::claim;
use load::{IN_FLIGHT, Load};
use spread::{latency, median};
use tokio::runtime::Builder;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program the reference, on a port that it prints.
const SERVE_BARE: &str = "--serve-bare";

/// Turns of either side, without those at first that warm up.
const TURNS: usize = 40;
const WARM_UP: usize = 4;

/// How many times the processor time of the reference a call may cost.
const MOST: f64 = 1.6;

const BODY: &str = r#"{"a":2,"b":3}"#;

fn main() {
    let is_bare = std::env::args().any(|argument| argument == SERVE_BARE);
    if is_bare {
        // As many threads as the gateway has.
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(bare::serve());
    }
    Builder::new_current_thread().enable_all().build().unwrap().block_on(bench());
}

async fn bench() {
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_manila"));
    gateway.args(["serve", "--listen", "127.0.0.1:0"]).env_remove("MANILA_LOG");
    gateway.current_dir(Path::new("/"));
    let (gateway, said) = Program::start(gateway);
    let gateway_address = address(said.rsplit_once("http://").unwrap().1);
    let mut bare = Command::new(std::env::current_exe().unwrap());
    bare.arg(SERVE_BARE);
    let (bare, said) = Program::start(bare);
    let bare_address = address(&said);

    println!("A call of demo.add over HTTP, {IN_FLIGHT} in flight, beside axum alone:");
    for (name, request, at_most) in [
        ("POST", post("/api/demo/add"), Some(MOST)),
        ("GET", get("/api/demo/add?a=2&b=3"), None),
        ("POST, envelope", post("/api/demo/add?envelope=true"), None),
    ] {
        let mut ours = Load::connect(gateway.0.id(), gateway_address, request).await;
        let mut reference = Load::connect(bare.0.id(), bare_address, post("/api/demo/add")).await;
        for turn in 0..WARM_UP + TURNS {
            if turn == WARM_UP {
                ours.forget();
                reference.forget();
            }
            ours.turn().await;
            reference.turn().await;
        }
        report(name, ours, reference, at_most);
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn post(path: &str) -> String {
    let length = BODY.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{BODY}"
    )
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n")
}

fn report(name: &str, ours: Load, bare: Load, at_most: Option<f64>) {
    let times = ours.beside(&bare);
    println!(
        "  {name}: CPU {:5.1} beside {:5.1} µs ({times:.2} times)  {:6.0} beside {:6.0} a second  {} beside {}",
        median(ours.cpu),
        median(bare.cpu),
        median(ours.rates),
        median(bare.rates),
        latency(ours.times),
        latency(bare.times)
    );
    if let Some(at_most) = at_most {
        claim(&format!("{name} demo.add"), times, "times the CPU of axum alone", at_most);
    }
}
