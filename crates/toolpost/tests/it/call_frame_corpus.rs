//! Runs the call protocol checks on the fuzz corpus.

#[path = "../../../../fuzz/checks/call_frame.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn call_frame_fuzz_corpus_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/call_frame");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 20, "found {} files", files.len());
    for file in files {
        checks::check(&fs::read(&file).unwrap());
    }
}
