//! Which servers there are, and what is asked of each.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Expect::{Errs, Fails, Says};
use super::{Ask, Server};

const NODE: &str = "{cache}/npm/node_modules/.bin/node";

pub(super) const SERVERS: [Server; 10] = [
    Server {
        name: "everything",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js",
            "stdio",
        ],
        env: &[],
        is_http: false,
        asks: everything,
    },
    Server {
        name: "everything (HTTP)",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js",
            "streamableHttp",
        ],
        env: &[("PORT", "{port}")],
        is_http: true,
        asks: everything,
    },
    Server {
        name: "filesystem",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
            "{scratch}",
        ],
        env: &[],
        is_http: false,
        asks: filesystem,
    },
    Server {
        name: "memory",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-memory/dist/index.js",
        ],
        env: &[("MEMORY_FILE_PATH", "{scratch}/memory.jsonl")],
        is_http: false,
        asks: memory,
    },
    Server {
        name: "sequential-thinking",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-sequential-thinking/dist/index.js",
        ],
        env: &[],
        is_http: false,
        asks: sequential_thinking,
    },
    Server {
        name: "time",
        protocol: "2025-11-25",
        command: &["{cache}/py/bin/mcp-server-time"],
        env: &[],
        is_http: false,
        asks: time,
    },
    Server {
        name: "git",
        protocol: "2025-11-25",
        command: &["{cache}/py/bin/mcp-server-git", "--repository", "{scratch}/repository"],
        env: &[],
        is_http: false,
        asks: git,
    },
    Server {
        name: "sqlite",
        protocol: "2025-11-25",
        command: &["{cache}/py/bin/mcp-server-sqlite", "--db-path", "{scratch}/data.db"],
        env: &[],
        is_http: false,
        asks: sqlite,
    },
    Server {
        name: "python 2.x",
        protocol: "2026-07-28",
        command: &["{cache}/py2/bin/python", "{servers}/modern.py", "stdio"],
        env: &[],
        is_http: false,
        asks: modern,
    },
    Server {
        name: "python 2.x (HTTP)",
        protocol: "2026-07-28",
        command: &["{cache}/py2/bin/python", "{servers}/modern.py", "http", "{port}"],
        env: &[],
        is_http: true,
        asks: modern,
    },
];

/// The files that the servers find.
pub(super) fn prepare(scratch: &Path) {
    let repository = scratch.join("repository");
    std::fs::create_dir(&repository).unwrap();
    std::fs::write(scratch.join("note.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(scratch.join("dot.png"), [0x89, b'P', b'N', b'G']).unwrap();
    std::fs::write(repository.join("a.txt"), "first\n").unwrap();
    for arguments in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["config", "user.name", "Ann"],
        &["config", "user.email", "ann@example.org"],
        &["add", "a.txt"],
        &["commit", "--quiet", "--message=begin"],
    ] {
        let ended = Command::new("git").args(arguments).current_dir(&repository).status();
        assert!(ended.unwrap().success(), "git {arguments:?}");
    }
    std::fs::write(repository.join("a.txt"), "second\n").unwrap();
}

fn everything(_: &Path) -> Vec<Ask> {
    let file = json!({"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"});
    let reference = json!({"type": "ref/prompt", "name": "completable-prompt"});
    let department = json!({"name": "department", "value": "E"});
    let resource = json!({"uri": "demo://resource/static/document/features.md"});
    vec![
        ("echo", json!({"message": "hello"}), Says("Echo: hello")),
        ("echo", json!({}), Fails("does not fit x.echo")),
        ("get-annotated-message", json!({"messageType": "error"}), Says("\"priority\":1")),
        ("get-env", json!({}), Says("PATH")),
        ("get-resource-links", json!({"count": 2}), Says("resource_link")),
        (
            "get-resource-reference",
            json!({"resourceId": 1}),
            Says("demo://resource/dynamic/text/1"),
        ),
        ("get-structured-content", json!({"location": "Chicago"}), Says("\"conditions\":")),
        ("get-sum", json!({"a": 2, "b": 3}), Says("is 5")),
        ("get-tiny-image", json!({}), Says("image/png")),
        ("gzip-file-as-resource", file, Says("application/gzip")),
        ("toggle-simulated-logging", json!({}), Says("logging")),
        ("toggle-simulated-logging", json!({}), Says("logging")),
        ("toggle-subscriber-updates", json!({}), Says("updates")),
        ("toggle-subscriber-updates", json!({}), Says("updates")),
        ("trigger-long-running-operation", json!({"duration": 0.4, "steps": 4}), Says("completed")),
        ("trigger-elicitation-request", json!({}), Errs("cannot be asked for `elicitation`")),
        // It wants to be a task, which nobody here can wait for.
        ("simulate-research-query", json!({"topic": "tea"}), Errs("requires task")),
        ("resources/list", json!({}), Says("demo://resource/static/document/features.md")),
        ("resources/templates/list", json!({}), Says("demo://resource/dynamic/text/")),
        ("resources/subscribe", resource.clone(), Says("subscribed")),
        ("resources/read", resource, Says("text/markdown")),
        ("resources/read", json!({"uri": "demo://none"}), Fails("demo://none")),
        ("prompts/list", json!({}), Says("args-prompt")),
        (
            "prompts/get",
            json!({"name": "args-prompt", "arguments": {"city": "Bern"}}),
            Says("Bern"),
        ),
        (
            "completion/complete",
            json!({"ref": reference, "argument": department}),
            Says("Engineering"),
        ),
    ]
}

fn filesystem(scratch: &Path) -> Vec<Ask> {
    let at = |name: &str| scratch.join(name).to_string_lossy().into_owned();
    let here = scratch.to_string_lossy().into_owned();
    let edit = json!([{"oldText": "new", "newText": "newer"}]);
    vec![
        ("read_file", json!({"path": at("note.txt")}), Says("two")),
        ("read_text_file", json!({"path": at("note.txt"), "head": 1}), Says("one")),
        ("read_text_file", json!({"path": at("none.txt")}), Errs("ENOENT")),
        ("read_text_file", json!({"path": "/etc/passwd"}), Errs("Access denied")),
        ("read_media_file", json!({"path": at("dot.png")}), Says("image/png")),
        ("read_multiple_files", json!({"paths": [at("note.txt")]}), Says("three")),
        ("write_file", json!({"path": at("b.txt"), "content": "new"}), Says("wrote")),
        ("edit_file", json!({"path": at("b.txt"), "edits": edit}), Says("newer")),
        ("create_directory", json!({"path": at("folder")}), Says("created")),
        ("list_directory", json!({"path": here}), Says("[DIR] folder")),
        ("list_directory_with_sizes", json!({"path": here}), Says("note.txt")),
        ("directory_tree", json!({"path": here}), Says("note.txt")),
        ("move_file", json!({"source": at("b.txt"), "destination": at("c.txt")}), Says("moved")),
        ("search_files", json!({"path": here, "pattern": "c.*"}), Says("c.txt")),
        ("get_file_info", json!({"path": at("c.txt")}), Says("size")),
        ("list_allowed_directories", json!({}), Says("Allowed")),
    ]
}

fn memory(_: &Path) -> Vec<Ask> {
    let ann = json!([{"name": "Ann", "entityType": "person", "observations": ["likes tea"]}]);
    let knows = json!([{"from": "Ann", "to": "Ann", "relationType": "knows"}]);
    let observed = json!([{"entityName": "Ann", "contents": ["is tall"]}]);
    let forgotten = json!([{"entityName": "Ann", "observations": ["is tall"]}]);
    vec![
        ("create_entities", json!({"entities": ann}), Says("likes tea")),
        ("create_relations", json!({"relations": knows}), Says("knows")),
        ("add_observations", json!({"observations": observed}), Says("is tall")),
        ("read_graph", json!({}), Says("Ann")),
        ("search_nodes", json!({"query": "tea"}), Says("Ann")),
        ("open_nodes", json!({"names": ["Ann"]}), Says("Ann")),
        ("resources/list", json!({}), Says("memory://knowledge-graph")),
        ("resources/templates/list", json!({}), Says("resourceTemplates")),
        ("resources/read", json!({"uri": "memory://knowledge-graph"}), Says("Ann")),
        ("resources/subscribe", json!({"uri": "memory://knowledge-graph"}), Says("subscribed")),
        ("delete_observations", json!({"deletions": forgotten}), Says("success")),
        ("delete_relations", json!({"relations": knows}), Says("success")),
        ("delete_entities", json!({"entityNames": ["Ann"]}), Says("success")),
    ]
}

fn sequential_thinking(_: &Path) -> Vec<Ask> {
    let thought = json!({"thought": "think", "nextThoughtNeeded": false, "thoughtNumber": 1,
        "totalThoughts": 1});
    vec![("sequentialthinking", thought, Says("\"thoughtNumber\":1"))]
}

fn time(_: &Path) -> Vec<Ask> {
    let noon =
        json!({"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    vec![
        ("get_current_time", json!({"timezone": "Etc/UTC"}), Says("Etc/UTC")),
        ("get_current_time", json!({"timezone": "Moon/Base"}), Errs("Moon/Base")),
        ("convert_time", noon, Says("21:00")),
    ]
}

fn git(scratch: &Path) -> Vec<Ask> {
    let path = scratch.join("repository").to_string_lossy().into_owned();
    let with = |name: &str, value: serde_json::Value| json!({"repo_path": path, name: value});
    let here = || json!({"repo_path": path});
    vec![
        ("git_status", here(), Says("a.txt")),
        ("git_diff_unstaged", here(), Says("+second")),
        ("git_add", with("files", json!(["a.txt"])), Says("staged")),
        ("git_diff_staged", here(), Says("+second")),
        ("git_reset", here(), Says("reset")),
        ("git_add", with("files", json!(["a.txt"])), Says("staged")),
        ("git_commit", with("message", json!("go on")), Says("committed")),
        ("git_log", here(), Says("go on")),
        ("git_show", with("revision", json!("HEAD")), Says("+second")),
        ("git_show", with("revision", json!("nowhere")), Errs("nowhere")),
        ("git_diff", with("target", json!("HEAD~1")), Says("+second")),
        ("git_create_branch", with("branch_name", json!("side")), Says("side")),
        ("git_checkout", with("branch_name", json!("side")), Says("side")),
        ("git_branch", with("branch_type", json!("local")), Says("* side")),
    ]
}

fn sqlite(_: &Path) -> Vec<Ask> {
    let create = "CREATE TABLE people (name TEXT, age INTEGER)";
    let insert = "INSERT INTO people VALUES ('Ann', 41)";
    let prompt = json!({"name": "mcp-demo", "arguments": {"topic": "tea"}});
    vec![
        ("create_table", json!({"query": create}), Says("created")),
        ("write_query", json!({"query": insert}), Says("affected_rows")),
        ("read_query", json!({"query": "SELECT * FROM people"}), Says("Ann")),
        ("read_query", json!({"query": "SELECT * FROM nowhere"}), Says("no such table")),
        ("list_tables", json!({}), Says("people")),
        ("describe_table", json!({"table_name": "people"}), Says("age")),
        ("append_insight", json!({"insight": "few people"}), Says("added")),
        ("resources/list", json!({}), Says("memo://insights")),
        ("resources/templates/list", json!({}), Fails("not found")),
        ("resources/read", json!({"uri": "memo://insights"}), Says("few people")),
        ("prompts/list", json!({}), Says("mcp-demo")),
        ("prompts/get", prompt, Says("tea")),
    ]
}

fn modern(_: &Path) -> Vec<Ask> {
    vec![
        ("add", json!({"a": 2, "b": 3}), Says("\"result\":5")),
        ("add", json!({"a": "two", "b": 3}), Fails("does not fit x.add")),
        ("place", json!({"city": "Zürich"}), Says("\"height\":408.5")),
        ("words", json!({"text": "less but better"}), Says("\"better\"")),
        ("shout", json!({"text": "less"}), Says("LESS")),
        ("fail", json!({"reason": "no paper"}), Errs("Error executing tool fail")),
        ("steps", json!({"count": 3}), Says("done")),
        ("resources/list", json!({}), Says("static://motto")),
        ("resources/templates/list", json!({}), Says("note://{name}")),
        ("resources/read", json!({"uri": "note://tea"}), Says("a note about tea")),
        ("resources/subscribe", json!({"uri": "note://tea"}), Says("subscribed")),
        ("resources/read", json!({"uri": "static://motto"}), Says("less, but better")),
        ("resources/read", json!({"uri": "nowhere://x"}), Fails("nowhere://x")),
        ("prompts/list", json!({}), Says("greet")),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": "Ann"}}), Says("Greet Ann.")),
    ]
}
