//! What a room costs: a message of 1 KB to 100 participants, beside a broadcast of tungstenite alone.
//!
//! Every part is a process of its own: the gateway (`toolpost serve`, with its journal), the reference, and
//! this one, which is all the participants. Everybody gets every message; the gateway checks each
//! against its sender's capabilities, finds out what it is about and writes it down before it hands it
//! over. Gateway and reference take turns, and medians are told. Run it with
//! `cargo bench -p toolpost-cli --bench room`.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "room/bare.rs"]
mod bare;
#[path = "harness/child.rs"]
mod child;
#[path = "harness/claim.rs"]
mod claim;
#[path = "room/crowd.rs"]
mod crowd;
#[path = "harness/folder.rs"]
mod folder;
#[path = "harness/spread.rs"]
mod spread;

use std::path::Path;
use std::process::Command;

use child::Program;
use claim::claim;
use crowd::{Crowd, PARTICIPANTS};
use folder::Folder;
use spread::median;
use tokio::runtime::Builder;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program the reference, on a port that it prints.
const SERVE_BARE: &str = "--serve-bare";

/// Turns of either side, without those at first that warm up.
const TURNS: usize = 9;
const WARM_UP: usize = 2;

/// The least part of the deliveries of the reference.
const LEAST_PART: f64 = 0.5;

fn main() {
    if std::env::args().any(|argument| argument == SERVE_BARE) {
        // As many threads as the gateway has.
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(bare::serve());
    }
    let folder = Folder::new("room");
    let (_gateway, address) = serve(&folder);
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.arg(SERVE_BARE);
    let (_bare, bare_address) = Program::start(again);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut ours = Crowd::gather(&address, "/ws?topic=bench&participant=").await;
        let mut bare = Crowd::gather(&bare_address, "/?").await;
        compare(&mut ours, &mut bare).await;
    });
}

async fn compare(ours: &mut Crowd, bare: &mut Crowd) {
    let (mut rates, mut bare_rates) = (Vec::new(), Vec::new());
    for turn in 0..WARM_UP + TURNS {
        let (rate, bare_rate) = (ours.turn().await, bare.turn().await);
        // The first turns pay for what is made on first use.
        if turn >= WARM_UP {
            rates.push(rate);
            bare_rates.push(bare_rate);
        }
    }
    let part = median(rates.iter().zip(&bare_rates).map(|(a, b)| a / b).collect());
    println!(
        "A chat of 1 KB to {PARTICIPANTS} participants, beside a broadcast of tungstenite alone:"
    );
    println!("  a room    {:9.0} deliveries in a second", median(rates));
    println!("  tungstenite {:7.0} deliveries in a second", median(bare_rates));
    println!("  {part:.2} of it");
    claim("deliveries of tungstenite alone", 1.0 / part, "times a room's", 1.0 / LEAST_PART);
}

fn serve(folder: &Folder) -> (Program, String) {
    // Nobody is slowed down, which is what the limits are for.
    let config = "[room.bench]\nmessages_per_minute = 100_000_000\n";
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_toolpost"));
    gateway.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.0.join("data"));
    gateway.arg("--config").arg(folder.file("toolpost.toml", config));
    gateway.env("TOOLPOST_LOG", "warn").current_dir(Path::new("/"));
    let (gateway, said) = Program::start(gateway);
    (gateway, said.rsplit_once("http://").unwrap().1.to_owned())
}
