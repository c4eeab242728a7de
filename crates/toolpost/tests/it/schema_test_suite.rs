//! Compares `is_valid` with the `jsonschema` crate on the official test suite.

use std::path::{Path, PathBuf};

use jsonschema::Draft;
use serde_json::{Map, Value};
use toolpost::{Schema, SchemaError};

/// Folder of the test suite, relative to the workspace root.
const SUITE: &str = ".cache/json-schema-tests";

const DRAFTS: [(&str, &str, Draft); 5] = [
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema", Draft::Draft202012),
    ("draft7", "http://json-schema.org/draft-07/schema#", Draft::Draft7),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema", Draft::Draft201909),
    ("draft6", "http://json-schema.org/draft-06/schema#", Draft::Draft6),
    ("draft4", "http://json-schema.org/draft-04/schema#", Draft::Draft4),
];

#[test]
fn is_valid_agrees_on_official_test_suite() {
    let suite = suite().unwrap_or_else(|| panic!("no {SUITE}: run scripts/fetch-test-data"));
    let mut differences = Vec::new();
    for (folder, dialect, draft) in DRAFTS {
        let mut compared = 0;
        for file in files(&suite.join(folder)) {
            let groups: Vec<Value> =
                serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            for group in &groups {
                compared += compare(group, dialect, draft, &file, &mut differences);
            }
        }
        println!("{folder}: {compared} cases compared");
        assert!(compared > 500, "{folder} has only {compared} cases");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Compares one group of the suite. Schemas with remote references are rejected by both
/// implementations.
fn compare(
    group: &Value,
    dialect: &str,
    draft: Draft,
    file: &Path,
    differences: &mut Vec<String>,
) -> usize {
    let json = with_dialect(&group["schema"], dialect);
    let crate_ = jsonschema::options().should_validate_formats(false).build(&json);
    let schema = Schema::new(json).unwrap();
    let tests = group["tests"].as_array().unwrap();
    for test in tests {
        let found = schema.is_valid(&test["data"]);
        let agree = match (&crate_, &found) {
            (Ok(validator), Ok(fits)) => validator.is_valid(&test["data"]) == *fits,
            (Err(_), Err(SchemaError::DoesNotCompile { .. })) => true,
            _ => false,
        };
        if !agree {
            let name = file.file_name().unwrap().to_string_lossy();
            differences.push(format!(
                "{draft:?} {name}: {} / {}: {found:?}, crate {:?}",
                group["description"],
                test["description"],
                crate_.as_ref().map(|validator| validator.is_valid(&test["data"])).ok(),
            ));
        }
    }
    tests.len()
}

/// Adds `$schema`, which the suite implies by folder.
fn with_dialect(schema: &Value, dialect: &str) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let mut document = Map::new();
    document.insert("$schema".to_owned(), dialect.into());
    document.extend(members.clone());
    Value::Object(document)
}

/// Returns the folder with one folder per draft; its location depends on the package.
fn suite() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(SUITE);
    ["json/tests", "node_modules/json-schema-test-suite/tests", "tests"]
        .map(|folder| root.join(folder))
        .into_iter()
        .find(|folder| folder.join("draft2020-12").is_dir())
}

/// Returns all test files of a draft, including optional ones.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "json") {
            found.push(entry);
        }
    }
    found.sort();
    found
}
