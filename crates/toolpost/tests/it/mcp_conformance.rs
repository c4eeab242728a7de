//! The official conformance suite against this client, for the newest version of each protocol
//! generation.

use std::path::{Path, PathBuf};
use std::process::Command;

fn find_suite() -> (PathBuf, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/npm/node_modules");
    let node = root.join(".bin/node");
    let suite = root.join("@modelcontextprotocol/conformance/dist/index.js");
    assert!(node.exists() && suite.exists(), "no suite in .cache: run scripts/fetch-test-data");
    (node, suite)
}

/// Runs one revision and compares the failures with the baseline. A listed failure that passes is
/// an error too.
fn run_suite(revision: &str) {
    let (node, suite) = find_suite();
    let tests = std::env::current_exe().unwrap();
    let client = tests.ancestors().nth(2).unwrap().join("examples/mcp-conformance-client");
    assert!(client.exists(), "`cargo test` builds {}", client.display());
    let baseline = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/baseline.yml");
    // The suite writes its results to its working directory.
    let folder = tests.parent().unwrap().join(format!("conformance-{revision}"));
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new(node)
        .current_dir(&folder)
        .arg(suite)
        .args(["client", "--requirements", revision, "--command"])
        .arg(client)
        .arg("--expected-failures")
        .arg(baseline)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stdout);
    let summary =
        message.split_once("=== SUITE SUMMARY ===").map_or(&*message, |(_, summary)| summary);
    println!("{revision}:{summary}");
    assert!(output.status.success(), "{message}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(message.contains("all failures are expected"), "{message}");
}

#[test]
fn conformance_2025_11_25_matches_baseline() {
    run_suite("2025-11-25");
}

#[test]
fn conformance_2026_07_28_matches_baseline() {
    run_suite("2026-07-28");
}
