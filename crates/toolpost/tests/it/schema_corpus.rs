//! Replays the fuzz corpus without the fuzzer.

use std::path::Path;

use toolpost::{Extras, Schema};

use crate::schema_properties::assert_normalize_invariants;

#[test]
fn fuzz_corpus_upholds_normalize_invariants() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/schema_value");
    let mut replayed = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let mut documents = bytes.splitn(2, |byte| matches!(byte, b'\n' | 0));
        let json = serde_json::from_slice(documents.next().unwrap()).unwrap();
        let value = serde_json::from_slice(documents.next().unwrap()).unwrap();
        let validator = jsonschema::options().should_validate_formats(false).build(&json).unwrap();
        let schema = Schema::new(json).unwrap();
        for extras in [Extras::Strip, Extras::Keep] {
            assert_normalize_invariants(&schema, &validator, &value, extras);
        }
        replayed += 1;
    }
    assert!(replayed >= 20, "only {replayed} files in the corpus");
}
