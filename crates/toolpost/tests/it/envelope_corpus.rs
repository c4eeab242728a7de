//! Runs the envelope detection checks on the fuzz corpus.

#[path = "../../../../fuzz/checks/envelope_detection.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn envelope_detection_fuzz_corpus_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/envelope_detection");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 10, "found {} files", files.len());
    for file in files {
        checks::check(&fs::read(&file).unwrap());
    }
}
