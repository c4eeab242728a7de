//! Ctrl-C (SIGINT) cancels the running handler.

use std::process::Stdio;

use super::command;
use super::process::{OutputLines, Process};

#[test]
fn sigint_cancels_local_handler() {
    // The start of the handler is logged, so the test knows when to interrupt.
    let mut command = command(&["call", "demo.slow", "--ms", "60000"]);
    command.env("TOOLPOST_LOG", "info,toolpost_gateway=debug").stdout(Stdio::null());
    let mut child = Process::spawn(command.stderr(Stdio::piped()));
    let mut log = OutputLines::of(child.stderr.take().unwrap());
    let started = log.next().unwrap();
    assert!(started.contains("demo.slow started"), "{started}");
    child.signal("-INT");
    let rest: Vec<String> = log.collect();
    assert!(
        rest.iter().any(|line| line.contains("demo.slow was canceled and stopped")),
        "{rest:?}"
    );
    assert!(rest.iter().any(|line| line.contains("ABORTED")), "{rest:?}");
    assert_eq!(child.exit_status().code(), Some(1));
}

#[test]
fn sigint_ends_subscription() {
    let mut command =
        command(&["subscribe", "demo.clock", "--count", "100000", "--every-ms", "10"]);
    let mut child = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let log = OutputLines::of(child.stderr.take().unwrap());
    child.stdout_lines().next().unwrap();
    child.signal("-INT");
    let log: Vec<String> = log.collect();
    assert!(log.iter().any(|line| line.contains("ABORTED")), "{log:?}");
    assert_eq!(child.exit_status().code(), Some(1));
}
