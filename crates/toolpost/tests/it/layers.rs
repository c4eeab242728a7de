//! Checks the direction of `use crate::` imports: a module imports only from its own layer and
//! lower layers.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers, from lowest to highest. Modules of the same layer can import each other.
const LAYERS: [&[&str]; 18] = [
    &["debug_fields", "json", "json_rpc", "prose"],
    &["circuit_breaker", "clock", "header_params", "http", "loopback", "schema", "sse", "tls"],
    &["access", "envelope", "error", "outcome", "payload", "query", "shares", "spec", "trace"],
    &["handler"],
    &["env", "fair_queue", "operation"],
    &["registry"],
    &["pipeline"],
    &["protocol"],
    &["transport"],
    &["connection"],
    &["source"],
    &["hub"],
    &["token_endpoint", "tool_envelope"],
    &["mcp"],
    &["openapi"],
    &["view"],
    &["embedded"],
    &["lib"],
];

#[test]
fn modules_import_only_lower_layers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in rust_files(&source) {
        let module = module_of(file.strip_prefix(&source).unwrap());
        let text = fs::read_to_string(&file).unwrap();
        for used in used_modules(&text) {
            seen += 1;
            if used != module && rank(&used) > rank(&module) {
                wrong.push(format!("{} uses crate::{used}", file.display()));
            }
        }
    }
    assert!(seen > 50, "no `use` lines were found");
    assert!(wrong.is_empty(), "these point the wrong way:\n{}", wrong.join("\n"));
}

fn rank(module: &str) -> usize {
    let group = LAYERS.iter().position(|group| group.contains(&module));
    group.unwrap_or_else(|| panic!("`{module}` is not in LAYERS: add it to a layer"))
}

fn module_of(path: &Path) -> String {
    let first = path.components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// Returns the modules imported with `use crate::` outside tests.
fn used_modules(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.split("use crate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && is_code(&path) {
            files.extend(rust_files(&path));
        } else if is_code(&path) && path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Whether the path is not a test folder or file; tests can import from any layer.
fn is_code(path: &Path) -> bool {
    path.file_stem().is_some_and(|name| name != "tests")
}
