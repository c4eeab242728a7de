//! Checks documents with the constructs of public APIs.

use std::fs;
use std::path::{Path, PathBuf};

use toolpost::openapi::parsers::{ParsedDocument, parse_yaml_with_both_readers};

#[test]
fn documents_parse_like_reference_parsers() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/documents"));
    assert!(files.len() >= 15, "found {} files", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let document = ParsedDocument::parse(text.as_bytes())
            .unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let value = document.to_value();
        assert!(value.is_object(), "{file:?}");
        if file.extension().is_some_and(|extension| extension == "json") {
            assert!(value == serde_json::from_str::<serde_json::Value>(&text).unwrap(), "{file:?}");
        } else {
            let [first, second] = parse_yaml_with_both_readers(&text);
            assert!(first.is_none_or(|first| first == value), "{file:?}");
            assert!(second.is_none_or(|second| second == value), "{file:?}: the parsers disagree");
        }
    }
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
