//! The command as a person or a script uses it: arguments in, output and exit code out.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and its rows are tuples"
)]

mod calls;
mod cast;
mod catalog;
mod envelope;
mod readme;
mod serve;
mod signals;

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn manila(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manila"));
    command.args(arguments).env_remove("MANILA_LOG").env("RUST_BACKTRACE", "0");
    command
}

/// Runs a command with this on its standard input.
fn piped(arguments: &[&str], input: &str) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
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
