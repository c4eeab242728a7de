//! Runs the checks of a fuzz target on its corpus.

use std::fs;
use std::path::Path;

/// Calls `check` with every file of `fuzz/corpus/<target>`, which must be at least `min`.
pub(crate) fn check_corpus(target: &str, min: usize, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= min, "the corpus of {target} has {count} files, expected {min}");
}
