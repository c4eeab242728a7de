//! Checks the fuzz corpus and real documents.

#[path = "../../../../fuzz/checks/openapi_document.rs"]
pub(crate) mod checks;

use std::fs;
use std::path::{Path, PathBuf};

use toolpost::openapi::parsers::{ParsedDocument, parse_yaml_with_both_readers};

/// Maximum size of a compared document. Parsing it three times is slow without optimization.
const MAX_COMPARED_BYTES: usize = 500_000;

#[test]
fn fuzz_corpus_passes_document_checks() {
    let files = files(&root().join("fuzz/corpus/openapi_document"));
    assert!(files.len() >= 20, "found {} files", files.len());
    for file in files {
        checks::check(&fs::read(&file).unwrap());
    }
}

#[test]
fn real_documents_parse_like_reference_parsers() {
    let folders = [root().join("../shared/openapi"), root().join(".cache/openapi")];
    let Some(folder) = folders.iter().find(|folder| folder.is_dir()) else {
        println!("SKIPPED: `../shared/openapi` is not there, so no document of this world is read");
        return;
    };
    for file in files(folder) {
        let bytes = fs::read(&file).unwrap();
        let document =
            ParsedDocument::parse(&bytes).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let value = document.to_value();
        assert!(value.is_object(), "{file:?}");
        let text = String::from_utf8(bytes).unwrap();
        if file.extension().is_some_and(|extension| extension == "json") {
            assert!(value == serde_json::from_str::<serde_json::Value>(&text).unwrap(), "{file:?}");
        } else if text.len() < MAX_COMPARED_BYTES {
            let [first, second] = parse_yaml_with_both_readers(&text);
            assert!(first.is_none_or(|first| first == value), "{file:?}");
            match second {
                Some(second) => assert!(second == value, "{file:?}: the readers disagree"),
                None => println!("{file:?}: only the first reader takes it"),
            }
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all files of a folder, recursively.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all = Vec::new();
    for path in entries {
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}
