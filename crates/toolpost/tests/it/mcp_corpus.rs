//! Runs the checks of the MCP message fuzzer on its corpus.

#[path = "../../../../fuzz/checks/mcp_message.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn mcp_message_corpus_passes_checks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mcp_message");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 20, "found {} files", files.len());
    for file in files {
        checks::check(&fs::read(&file).unwrap());
    }
}
