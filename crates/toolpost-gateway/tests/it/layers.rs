//! Checks the direction of `crate::` imports: a module imports only from lower layers, and modules
//! of one layer do not import each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The layers, from lowest to highest. A module of `endpoint` is named by its path.
const LAYERS: [(&str, &[&str]); 8] = [
    (
        "core",
        &[
            "admin",
            "approval",
            "auth",
            "builtin",
            "data",
            "durable",
            "glob",
            "gzip",
            "input_digest",
            "journal",
            "kind_filter",
            "limits",
            "shorthand",
            "telemetry",
            "units",
        ],
    ),
    ("rooms", &["room"]),
    ("services", &["mcp_service", "openapi_document"]),
    (
        "shared by endpoints",
        &[
            "endpoint/accept",
            "endpoint/bearer",
            "endpoint/body",
            "endpoint/etag",
            "endpoint/origin_guard",
            "endpoint/problem",
            "endpoint/settings",
            "endpoint/static_page",
            "endpoint/websocket",
        ],
    ),
    ("server", &["server"]),
    (
        "endpoints",
        &[
            "endpoint/console",
            "endpoint/health",
            "endpoint/http",
            "endpoint/hub",
            "endpoint/mcp",
            "endpoint/oauth_metadata",
            "endpoint/openapi",
            "endpoint/rooms",
        ],
    ),
    ("runtime", &["config", "source", "runtime"]),
    ("crate root", &["lib"]),
];

/// Layers whose modules never import each other.
const SEPARATE: [&str; 1] = ["endpoints"];

#[test]
fn modules_import_only_lower_layers() {
    let imports = imports();
    let mut wrong = Vec::new();
    for (module, used) in imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)))
    {
        let (from, to) = (rank(module), rank(used));
        if to > from || to == from && SEPARATE.contains(&LAYERS[from].0) {
            let (from, to) = (LAYERS[from].0, LAYERS[to].0);
            wrong.push(format!("{module} ({from}) imports {used} ({to})"));
        }
    }
    assert!(wrong.is_empty(), "these imports point the wrong way:\n{}", wrong.join("\n"));
}

#[test]
fn modules_have_no_import_cycle() {
    let mut imports = imports();
    // Modules without imports are removed until only cycles and what imports them remain.
    loop {
        let leaves: Vec<String> =
            imports.iter().filter(|(_, to)| to.is_empty()).map(|(name, _)| name.clone()).collect();
        if leaves.is_empty() {
            break;
        }
        imports.retain(|name, _| !leaves.contains(name));
        for used in imports.values_mut() {
            used.retain(|name| !leaves.contains(name));
        }
    }
    assert!(imports.is_empty(), "these modules import each other in a cycle: {imports:#?}");
}

fn rank(module: &str) -> usize {
    let layer = LAYERS.iter().position(|(_, modules)| modules.contains(&module));
    layer.unwrap_or_else(|| panic!("`{module}` is not in LAYERS: add it to a layer"))
}

/// Returns the modules that each module imports outside its tests.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let exports = endpoint_exports(&source);
    let mut imports = BTreeMap::<String, BTreeSet<String>>::new();
    for file in rust_files(&source) {
        let path = module_path(file.strip_prefix(&source).unwrap());
        let module = module_name(&path, &exports);
        // `endpoint/mod.rs` only names the endpoints.
        if module == "endpoint" {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let used = used_paths(&path, &text).into_iter().map(|path| module_name(&path, &exports));
        // `endpoint` itself has only names of the modules below it.
        let used = used.filter(|used| *used != module && used != "endpoint");
        imports.entry(module.clone()).or_default().extend(used);
    }
    assert!(imports.values().map(BTreeSet::len).sum::<usize>() > 50, "no imports were found");
    imports
}

/// Returns the name in [`LAYERS`] of a path such as `endpoint::http::sse` or `room::Rooms`.
fn module_name(path: &[String], exports: &BTreeMap<String, String>) -> String {
    match path {
        [first, second, ..] if first == "endpoint" => {
            format!("endpoint/{}", exports.get(second).unwrap_or(second))
        }
        [first, ..] => first.clone(),
        [] => "lib".to_owned(),
    }
}

/// Returns the names that `endpoint/mod.rs` re-exports, with their modules.
fn endpoint_exports(source: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(source.join("endpoint/mod.rs")).unwrap();
    let uses = text.split(" use ").skip(1).flat_map(expand);
    uses.map(|path| (path.last().unwrap().clone(), path[0].clone())).collect()
}

fn module_path(file: &Path) -> Vec<String> {
    let names = file.iter().map(|name| name.to_str().unwrap().trim_end_matches(".rs").to_owned());
    names.filter(|name| !matches!(name.as_str(), "mod" | "lib")).collect()
}

/// Returns the paths with `crate::` or `super::` in the code outside tests.
fn used_paths(module: &[String], text: &str) -> Vec<Vec<String>> {
    let code = text.split("#[cfg(test)]\n").next().unwrap_or_default();
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let absolute = code.split("crate::").skip(1).flat_map(expand);
    let relative = code.split("use super::").skip(1).flat_map(|rest| {
        let (mut rest, mut base) = (rest, module.split_last().map_or(module, |(_, base)| base));
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, base) = (above, base.split_last().map_or(base, |(_, base)| base));
        }
        expand(rest).into_iter().map(move |path| [base, &path].concat())
    });
    absolute.chain(relative).collect()
}

/// Expands the start of a text, such as `a::{b::C, d}; rest`, into its paths.
fn expand(text: &str) -> Vec<Vec<String>> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, rest) = (text[..end].to_owned(), &text[end..]);
    if name == "self" {
        return vec![Vec::new()];
    }
    let below = match rest.strip_prefix("::") {
        Some(below) => expand(below),
        None if name.is_empty() && rest.starts_with('{') => {
            return group(&rest[1..]).into_iter().flat_map(expand).collect();
        }
        None => vec![Vec::new()],
    };
    below.into_iter().map(|path| [vec![name.clone()], path].concat()).collect()
}

/// Splits the items of a group at the commas outside nested groups.
fn group(text: &str) -> Vec<&str> {
    let (mut items, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                items.push(text[start..at].trim());
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    items.into_iter().filter(|item| !item.is_empty()).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Tests can import from any layer.
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
