//! The cost of a room: a message of 1 KB to 100 participants, compared with a tungstenite
//! broadcast.
//!
//! Three processes: the gateway (`toolpost serve`, with its journal), the baseline, and this one,
//! which runs all participants. Every participant receives every message. The gateway checks each
//! message against the capabilities of its sender, parses it and records it in the journal before
//! delivery. The rounds of gateway and baseline alternate; the results are medians. Run it with
//! `cargo bench -p toolpost-cli --bench room`.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "room/baseline.rs"]
mod baseline;
#[path = "harness/child.rs"]
mod child;
#[path = "harness/claim.rs"]
mod claim;
#[path = "room/participants.rs"]
mod participants;
#[path = "harness/stats.rs"]
mod stats;
#[path = "harness/temp_dir.rs"]
mod temp_dir;

use std::path::Path;
use std::process::Command;

use child::ChildProcess;
use claim::claim;
use participants::{PARTICIPANTS, ParticipantLoad};
use stats::median;
use temp_dir::TempDir;
use tokio::runtime::Builder;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs this program as the baseline, on a port that it prints.
const SERVE_BASELINE: &str = "--serve-baseline";

/// Measured rounds of each side, after the warm-up rounds.
const ROUNDS: usize = 9;
const WARM_UP: usize = 2;

/// Minimum deliveries, relative to the baseline.
const MIN_DELIVERY_RATIO: f64 = 0.5;

fn main() {
    if std::env::args().any(|argument| argument == SERVE_BASELINE) {
        // The same number of threads as the gateway.
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(baseline::serve());
    }
    let temp_dir = TempDir::new("room");
    let (_gateway, address) = serve(&temp_dir);
    let mut respawn = Command::new(std::env::current_exe().unwrap());
    respawn.arg(SERVE_BASELINE);
    let (_baseline, baseline_address) = ChildProcess::start(respawn);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut ours = ParticipantLoad::connect_all(&address, "/ws?topic=bench&participant=").await;
        let mut baseline = ParticipantLoad::connect_all(&baseline_address, "/?").await;
        compare(&mut ours, &mut baseline).await;
    });
}

async fn compare(ours: &mut ParticipantLoad, baseline: &mut ParticipantLoad) {
    let (mut rates, mut baseline_rates) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let (rate, baseline_rate) = (ours.run_round().await, baseline.run_round().await);
        // The first rounds include one-time initialization.
        if round >= WARM_UP {
            rates.push(rate);
            baseline_rates.push(baseline_rate);
        }
    }
    let ratio = median(rates.iter().zip(&baseline_rates).map(|(a, b)| a / b).collect());
    println!(
        "A chat message of 1 KB to {PARTICIPANTS} participants, compared with tungstenite alone:"
    );
    println!("  a room    {:9.0} deliveries per second", median(rates));
    println!("  tungstenite {:7.0} deliveries per second", median(baseline_rates));
    println!("  {ratio:.2} of the baseline");
    claim(
        "deliveries of tungstenite alone",
        1.0 / ratio,
        "times those of a room",
        1.0 / MIN_DELIVERY_RATIO,
    );
}

fn serve(temp_dir: &TempDir) -> (ChildProcess, String) {
    // A rate limit that is never reached.
    let config = "[room.bench]\nmessages_per_minute = 100_000_000\n";
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_toolpost"));
    gateway.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(temp_dir.0.join("data"));
    gateway.arg("--config").arg(temp_dir.file("toolpost.toml", config));
    gateway.env("TOOLPOST_LOG", "warn").current_dir(Path::new("/"));
    let (gateway, banner) = ChildProcess::start(gateway);
    (gateway, banner.rsplit_once("http://").unwrap().1.to_owned())
}
