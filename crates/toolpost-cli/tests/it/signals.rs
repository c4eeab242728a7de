//! Ctrl-C (SIGINT) cancels the running handler.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::{command, stderr};

fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn sigint_cancels_local_handler() {
    // The start of the handler is logged, so the test knows when to interrupt.
    let mut child = command(&["call", "demo.slow", "--ms", "60000"])
        .env("TOOLPOST_LOG", "info,toolpost_gateway=debug")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let started = log.next().unwrap().unwrap();
    assert!(started.contains("demo.slow starts"), "{started}");
    interrupt(&child);
    let rest: Vec<String> = log.map(Result::unwrap).collect();
    assert!(
        rest.iter().any(|line| line.contains("demo.slow was canceled and stopped")),
        "{rest:?}"
    );
    assert!(rest.iter().any(|line| line.contains("ABORTED")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn sigint_ends_subscription() {
    let mut child = command(&["subscribe", "demo.clock", "--count", "100000", "--every-ms", "10"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    interrupt(&child);
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("ABORTED"), "{}", stderr(&output));
}
