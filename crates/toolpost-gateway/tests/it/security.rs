//! Every test that `docs/security.md` names exists.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Appends the text of every Rust file below a folder.
fn read_rust_sources(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            read_rust_sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn security_doc_names_only_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let page = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let mut all = String::new();
    read_rust_sources(&root.join("crates"), &mut all);
    let documented = page.split("[`").skip(1).filter_map(|rest| rest.split_once("`]"));
    let documented: Vec<&str> =
        documented.map(|(name, _)| name).filter(|name| !name.contains('.')).collect();
    assert!(documented.len() > 20, "the page names its tests");
    let tests = test_names(&all);
    for name in documented {
        assert!(tests.contains(name), "docs/security.md names `{name}`, which is no test");
    }
}

/// Returns the names of the functions that directly follow a test attribute.
fn test_names(text: &str) -> HashSet<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_mark = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    let below = lines.windows(2).filter(|lines| is_mark(lines[0])).map(|lines| lines[1]);
    below
        .map(|line| line.strip_prefix("async ").unwrap_or(line))
        .filter_map(|line| line.strip_prefix("fn ")?.split('(').next())
        .collect()
}
