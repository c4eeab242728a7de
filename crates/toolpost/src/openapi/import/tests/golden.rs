//! Golden files: import reports and plans, compared byte by byte.
//!
//! `TOOLPOST_BLESS=1 cargo test` rewrites the files. Review the diff.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::ImportReport;
use super::*;

#[test]
fn imports_match_golden_files() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let documents = tests.join("data/openapi");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&documents).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 3, "no documents found");
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        let import =
            import(&document_set_of(&[("https://example.test/api.yaml", &bytes)]), "api").unwrap();
        let plans: Vec<Value> =
            import.operations.iter().map(|one| plan_lines(&format!("{:#?}", one.plan))).collect();
        let report = serde_json::to_value(ImportReport::from(import)).unwrap();
        compare_with_golden(
            &tests.join("golden/openapi"),
            &name,
            &json!({"report": report, "plans": plans}),
        );
    }
}

/// Returns the debug lines of a plan, without the schemas that the report already contains.
fn plan_lines(plan: &str) -> Value {
    plan.lines().filter(|line| !line.contains("schema: Schema(")).map(str::to_owned).collect()
}

fn compare_with_golden(folder: &Path, name: &str, actual: &Value) {
    let file = folder.join(format!("{name}.json"));
    let actual = format!("{actual:#}\n");
    if std::env::var_os("TOOLPOST_BLESS").is_some() {
        fs::create_dir_all(folder).unwrap();
        fs::write(&file, &actual).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(expected == actual, "{name} changed; TOOLPOST_BLESS=1 rewrites it:\n{actual}");
}
