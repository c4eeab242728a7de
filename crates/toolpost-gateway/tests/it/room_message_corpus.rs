//! Runs the checks of the room message fuzz target on its corpus.

#[path = "../../../../fuzz/checks/room_message.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn room_message_fuzz_corpus_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/room_message");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 20, "found {} files", files.len());
    for file in files {
        checks::check(&fs::read(&file).unwrap());
    }
}
