//! Documents with the constructs of public APIs: every operation is imported and every schema
//! compiles.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use url::Url;

use super::super::super::document::{DocumentFile, DocumentSet, parse};
use super::*;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

#[test]
fn documents_import_completely_and_compile() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/documents");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 9, "{paths:?}");
    paths.iter().for_each(|path| check_document(path));
}

fn check_document(path: &Path) {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let documents = Arc::new(load(path));
    let found = import(&documents, "api").unwrap();
    let again = import(&documents, "api").unwrap();
    compile_schemas(&found);
    let skipped = found.skipped.iter().map(|one| (&one.method, &one.path, &one.reason));
    assert_eq!(skipped.collect::<Vec<_>>(), [], "{name}: nothing is skipped");
    if let Some(pairs) = count_operations(&documents.root().to_value()) {
        assert_eq!(found.operations.len(), pairs, "{name}: nothing is missing");
    }
    let names: HashSet<&str> = found.operations.iter().map(|one| &*one.spec.name).collect();
    assert_eq!(names.len(), found.operations.len(), "{name}: names are unique");
    assert_eq!(fingerprint(&found), fingerprint(&again), "{name}: the import is deterministic");
}

/// Returns the parts of an import that must be deterministic.
fn fingerprint(import: &ImportResult) -> String {
    let operation = |one: &ImportedOperation| {
        let plan = &one.plan;
        format!("{} {:?} {:?} {:?}", one.spec.name, plan.parameters, plan.servers, plan.security)
    };
    let operations: Vec<String> = import.operations.iter().map(operation).collect();
    format!("{operations:?} {:?}", import.warnings)
}

/// Loads a file, or a folder of files that refer to each other.
fn load(path: &Path) -> DocumentSet {
    let mut paths = Vec::new();
    collect_files(path, &mut paths);
    paths.sort();
    let is_main = |path: &PathBuf| {
        matches!(
            path.file_name().and_then(|name| name.to_str()),
            Some("openapi.yaml" | "swagger.json")
        )
    };
    paths.sort_by_key(|path| !is_main(path));
    let file = |path: &PathBuf| DocumentFile {
        url: Url::from_file_path(path.canonicalize().unwrap()).unwrap(),
        tree: parse(&fs::read(path).unwrap()).unwrap().tree,
    };
    paths.iter().map(file).collect()
}

fn collect_files(path: &Path, paths: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        return paths.push(path.to_owned());
    }
    for entry in fs::read_dir(path).unwrap() {
        collect_files(&entry.unwrap().path(), paths);
    }
}

/// Counts the operations of a document without the importer. Returns `None` if path items are in
/// other files.
fn count_operations(document: &Value) -> Option<usize> {
    let Some(Value::Object(paths)) = document.get("paths") else { return Some(0) };
    let mut pairs = 0;
    let is_32 = document["openapi"].as_str().is_some_and(|version| version.starts_with("3.2"));
    for (_, item) in paths.iter().filter(|(path, _)| path.starts_with('/')) {
        let item = match item.get("$ref").and_then(Value::as_str) {
            Some(reference) => document.pointer(reference.strip_prefix('#')?)?,
            None => item,
        };
        let is_pair =
            |key: &&String| METHODS.contains(&key.as_str()) || (is_32 && key.as_str() == "query");
        pairs += item.as_object().unwrap().keys().filter(is_pair).count();
        pairs += item
            .get("additionalOperations")
            .and_then(Value::as_object)
            .map_or(0, |more| more.len());
    }
    Some(pairs)
}

fn compile_schemas(import: &ImportResult) {
    for imported in &import.operations {
        for schema in schemas_of(imported) {
            if let Err(error) = schema.compile() {
                panic!("{}: {error}\n{:#}", imported.spec.name, schema.json());
            }
        }
    }
}
