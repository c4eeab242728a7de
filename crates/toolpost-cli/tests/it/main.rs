//! Integration tests that run the `toolpost` binary: arguments in, output and exit code out.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and its rows are tuples"
)]

mod add;
mod approval;
mod binary;
mod calls;
mod catalog;
#[cfg(target_os = "linux")]
mod chained_gateways;
#[cfg(target_os = "linux")]
mod compact_tools;
mod config;
mod defaults;
mod durable_calls;
mod envelope;
#[cfg(target_os = "linux")]
mod http_sse;
mod journal;
#[cfg(target_os = "linux")]
mod mcp;
mod mcp_clients;
#[cfg(target_os = "linux")]
mod mcp_conformance;
mod mcp_elicitation;
mod normalize;
mod openapi;
#[cfg(target_os = "linux")]
mod operability;
mod process;
mod readme;
#[cfg(target_os = "linux")]
mod reload;
mod remote;
mod results;
mod room_command;
mod rooms;
mod running_gateway;
mod sdk_client;
mod serve;
mod signals;
#[cfg(target_os = "linux")]
mod starting_sources;
mod terminal;
mod tls;
mod upstream;
#[cfg(target_os = "linux")]
mod watch_child;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

fn toolpost(arguments: &[&str]) -> Output {
    process::run(&mut command(arguments))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
    command.args(arguments).env("RUST_BACKTRACE", "0");
    for variable in ["TOOLPOST_LOG", "TOOLPOST_TOKEN", "TOOLPOST_URL"] {
        command.env_remove(variable);
    }
    command.env("XDG_DATA_HOME", data_home());
    command
}

/// A unique data home, so that gateways do not share data or use the user's own.
fn data_home() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("data");
    home.join(format!("{}-{count}", std::process::id()))
}

/// Runs a command with the given standard input.
///
/// A command that rejects its arguments exits without reading its input, so the pipe may break.
/// Another thread writes the input, so that a command may write before it has read everything.
fn run_with_stdin(arguments: &[&str], input: &str) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || match stdin.write_all(input.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        });
        process::output_of(child)
    })
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", stdout(output), stderr(output)))
}

/// A temporary folder, removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("toolpost-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// Runs a command in this folder.
    fn toolpost(&self, arguments: &[&str]) -> Output {
        process::run(command(arguments).current_dir(&self.0))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
