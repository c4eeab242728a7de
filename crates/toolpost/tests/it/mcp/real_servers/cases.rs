//! The servers and their call cases.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::ExpectedOutcome::{CallFails, Contains, ToolFails};
use super::{CallCase, RealServer};

const NODE: &str = "{cache}/npm/node_modules/.bin/node";

pub(super) const SERVERS: [RealServer; 10] = [
    RealServer {
        name: "everything",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js",
            "stdio",
        ],
        env: &[],
        is_http: false,
        cases: everything,
    },
    RealServer {
        name: "everything (HTTP)",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js",
            "streamableHttp",
        ],
        env: &[("PORT", "{port}")],
        is_http: true,
        cases: everything,
    },
    RealServer {
        name: "filesystem",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
            "{scratch}",
        ],
        env: &[],
        is_http: false,
        cases: filesystem,
    },
    RealServer {
        name: "memory",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-memory/dist/index.js",
        ],
        env: &[("MEMORY_FILE_PATH", "{scratch}/memory.jsonl")],
        is_http: false,
        cases: memory,
    },
    RealServer {
        name: "sequential-thinking",
        protocol: "2025-11-25",
        command: &[
            NODE,
            "{cache}/npm/node_modules/@modelcontextprotocol/server-sequential-thinking/dist/index.js",
        ],
        env: &[],
        is_http: false,
        cases: sequential_thinking,
    },
    RealServer {
        name: "time",
        protocol: "2025-11-25",
        command: &["{cache}/py/bin/mcp-server-time"],
        env: &[],
        is_http: false,
        cases: time,
    },
    RealServer {
        name: "git",
        protocol: "2025-11-25",
        command: &["{cache}/py/bin/mcp-server-git", "--repository", "{scratch}/repository"],
        env: &[],
        is_http: false,
        cases: git,
    },
    RealServer {
        name: "sqlite",
        protocol: "2025-11-25",
        command: &["{cache}/py/bin/mcp-server-sqlite", "--db-path", "{scratch}/data.db"],
        env: &[],
        is_http: false,
        cases: sqlite,
    },
    RealServer {
        name: "python 2.x",
        protocol: "2026-07-28",
        command: &["{cache}/py2/bin/python", "{servers}/python_sdk_server.py", "stdio"],
        env: &[],
        is_http: false,
        cases: modern,
    },
    RealServer {
        name: "python 2.x (HTTP)",
        protocol: "2026-07-28",
        command: &["{cache}/py2/bin/python", "{servers}/python_sdk_server.py", "http", "{port}"],
        env: &[],
        is_http: true,
        cases: modern,
    },
];

/// Creates the files that the servers read.
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

fn everything(_: &Path) -> Vec<CallCase> {
    let file = json!({"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"});
    let reference = json!({"type": "ref/prompt", "name": "completable-prompt"});
    let department = json!({"name": "department", "value": "E"});
    let resource = json!({"uri": "demo://resource/static/document/features.md"});
    vec![
        ("echo", json!({"message": "hello"}), Contains("Echo: hello")),
        ("echo", json!({}), CallFails("invalid input for x.echo")),
        ("get-annotated-message", json!({"messageType": "error"}), Contains("\"priority\":1")),
        ("get-env", json!({}), Contains("PATH")),
        ("get-resource-links", json!({"count": 2}), Contains("resource_link")),
        (
            "get-resource-reference",
            json!({"resourceId": 1}),
            Contains("demo://resource/dynamic/text/1"),
        ),
        ("get-structured-content", json!({"location": "Chicago"}), Contains("\"conditions\":")),
        ("get-sum", json!({"a": 2, "b": 3}), Contains("is 5")),
        ("get-tiny-image", json!({}), Contains("image/png")),
        ("gzip-file-as-resource", file, Contains("application/gzip")),
        ("toggle-simulated-logging", json!({}), Contains("logging")),
        ("toggle-simulated-logging", json!({}), Contains("logging")),
        ("toggle-subscriber-updates", json!({}), Contains("updates")),
        ("toggle-subscriber-updates", json!({}), Contains("updates")),
        (
            "trigger-long-running-operation",
            json!({"duration": 0.4, "steps": 4}),
            Contains("completed"),
        ),
        (
            "trigger-elicitation-request",
            json!({}),
            ToolFails("does not accept `elicitation` requests"),
        ),
        // The tool requires a task, which the client does not support.
        ("simulate-research-query", json!({"topic": "tea"}), ToolFails("requires task")),
        ("resources/list", json!({}), Contains("demo://resource/static/document/features.md")),
        ("resources/templates/list", json!({}), Contains("demo://resource/dynamic/text/")),
        ("resources/subscribe", resource.clone(), Contains("subscribed")),
        ("resources/read", resource, Contains("text/markdown")),
        ("resources/read", json!({"uri": "demo://none"}), CallFails("demo://none")),
        ("prompts/list", json!({}), Contains("args-prompt")),
        (
            "prompts/get",
            json!({"name": "args-prompt", "arguments": {"city": "Bern"}}),
            Contains("Bern"),
        ),
        (
            "completion/complete",
            json!({"ref": reference, "argument": department}),
            Contains("Engineering"),
        ),
    ]
}

fn filesystem(scratch: &Path) -> Vec<CallCase> {
    let at = |name: &str| scratch.join(name).to_string_lossy().into_owned();
    let here = scratch.to_string_lossy().into_owned();
    let edit = json!([{"oldText": "new", "newText": "newer"}]);
    vec![
        ("read_file", json!({"path": at("note.txt")}), Contains("two")),
        ("read_text_file", json!({"path": at("note.txt"), "head": 1}), Contains("one")),
        ("read_text_file", json!({"path": at("none.txt")}), ToolFails("ENOENT")),
        ("read_text_file", json!({"path": "/etc/passwd"}), ToolFails("Access denied")),
        ("read_media_file", json!({"path": at("dot.png")}), Contains("image/png")),
        ("read_multiple_files", json!({"paths": [at("note.txt")]}), Contains("three")),
        ("write_file", json!({"path": at("b.txt"), "content": "new"}), Contains("wrote")),
        ("edit_file", json!({"path": at("b.txt"), "edits": edit}), Contains("newer")),
        ("create_directory", json!({"path": at("folder")}), Contains("created")),
        ("list_directory", json!({"path": here}), Contains("[DIR] folder")),
        ("list_directory_with_sizes", json!({"path": here}), Contains("note.txt")),
        ("directory_tree", json!({"path": here}), Contains("note.txt")),
        (
            "move_file",
            json!({"source": at("b.txt"), "destination": at("c.txt")}),
            Contains("moved"),
        ),
        ("search_files", json!({"path": here, "pattern": "c.*"}), Contains("c.txt")),
        ("get_file_info", json!({"path": at("c.txt")}), Contains("size")),
        ("list_allowed_directories", json!({}), Contains("Allowed")),
    ]
}

fn memory(_: &Path) -> Vec<CallCase> {
    let ann = json!([{"name": "Ann", "entityType": "person", "observations": ["likes tea"]}]);
    let knows = json!([{"from": "Ann", "to": "Ann", "relationType": "knows"}]);
    let observed = json!([{"entityName": "Ann", "contents": ["is tall"]}]);
    let forgotten = json!([{"entityName": "Ann", "observations": ["is tall"]}]);
    vec![
        ("create_entities", json!({"entities": ann}), Contains("likes tea")),
        ("create_relations", json!({"relations": knows}), Contains("knows")),
        ("add_observations", json!({"observations": observed}), Contains("is tall")),
        ("read_graph", json!({}), Contains("Ann")),
        ("search_nodes", json!({"query": "tea"}), Contains("Ann")),
        ("open_nodes", json!({"names": ["Ann"]}), Contains("Ann")),
        ("resources/list", json!({}), Contains("memory://knowledge-graph")),
        ("resources/templates/list", json!({}), Contains("resourceTemplates")),
        ("resources/read", json!({"uri": "memory://knowledge-graph"}), Contains("Ann")),
        ("resources/subscribe", json!({"uri": "memory://knowledge-graph"}), Contains("subscribed")),
        ("delete_observations", json!({"deletions": forgotten}), Contains("success")),
        ("delete_relations", json!({"relations": knows}), Contains("success")),
        ("delete_entities", json!({"entityNames": ["Ann"]}), Contains("success")),
    ]
}

fn sequential_thinking(_: &Path) -> Vec<CallCase> {
    let thought = json!({"thought": "think", "nextThoughtNeeded": false, "thoughtNumber": 1,
        "totalThoughts": 1});
    vec![("sequentialthinking", thought, Contains("\"thoughtNumber\":1"))]
}

fn time(_: &Path) -> Vec<CallCase> {
    let noon =
        json!({"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    vec![
        ("get_current_time", json!({"timezone": "Etc/UTC"}), Contains("Etc/UTC")),
        ("get_current_time", json!({"timezone": "Moon/Base"}), ToolFails("Moon/Base")),
        ("convert_time", noon, Contains("21:00")),
    ]
}

fn git(scratch: &Path) -> Vec<CallCase> {
    let path = scratch.join("repository").to_string_lossy().into_owned();
    let with = |name: &str, value: serde_json::Value| json!({"repo_path": path, name: value});
    let here = || json!({"repo_path": path});
    vec![
        ("git_status", here(), Contains("a.txt")),
        ("git_diff_unstaged", here(), Contains("+second")),
        ("git_add", with("files", json!(["a.txt"])), Contains("staged")),
        ("git_diff_staged", here(), Contains("+second")),
        ("git_reset", here(), Contains("reset")),
        ("git_add", with("files", json!(["a.txt"])), Contains("staged")),
        ("git_commit", with("message", json!("go on")), Contains("committed")),
        ("git_log", here(), Contains("go on")),
        ("git_show", with("revision", json!("HEAD")), Contains("+second")),
        ("git_show", with("revision", json!("nowhere")), ToolFails("nowhere")),
        ("git_diff", with("target", json!("HEAD~1")), Contains("+second")),
        ("git_create_branch", with("branch_name", json!("side")), Contains("side")),
        ("git_checkout", with("branch_name", json!("side")), Contains("side")),
        ("git_branch", with("branch_type", json!("local")), Contains("* side")),
    ]
}

fn sqlite(_: &Path) -> Vec<CallCase> {
    let create = "CREATE TABLE people (name TEXT, age INTEGER)";
    let insert = "INSERT INTO people VALUES ('Ann', 41)";
    let prompt = json!({"name": "mcp-demo", "arguments": {"topic": "tea"}});
    vec![
        ("create_table", json!({"query": create}), Contains("created")),
        ("write_query", json!({"query": insert}), Contains("affected_rows")),
        ("read_query", json!({"query": "SELECT * FROM people"}), Contains("Ann")),
        ("read_query", json!({"query": "SELECT * FROM nowhere"}), Contains("no such table")),
        ("list_tables", json!({}), Contains("people")),
        ("describe_table", json!({"table_name": "people"}), Contains("age")),
        ("append_insight", json!({"insight": "few people"}), Contains("added")),
        ("resources/list", json!({}), Contains("memo://insights")),
        ("resources/templates/list", json!({}), CallFails("not found")),
        ("resources/read", json!({"uri": "memo://insights"}), Contains("few people")),
        ("prompts/list", json!({}), Contains("mcp-demo")),
        ("prompts/get", prompt, Contains("tea")),
    ]
}

fn modern(_: &Path) -> Vec<CallCase> {
    vec![
        ("add", json!({"a": 2, "b": 3}), Contains("\"result\":5")),
        ("add", json!({"a": "two", "b": 3}), CallFails("invalid input for x.add")),
        ("place", json!({"city": "Zürich"}), Contains("\"height\":408.5")),
        ("words", json!({"text": "less but better"}), Contains("\"better\"")),
        ("shout", json!({"text": "less"}), Contains("LESS")),
        ("fail", json!({"reason": "no paper"}), ToolFails("Error executing tool fail")),
        ("steps", json!({"count": 3}), Contains("done")),
        ("resources/list", json!({}), Contains("static://motto")),
        ("resources/templates/list", json!({}), Contains("note://{name}")),
        ("resources/read", json!({"uri": "note://tea"}), Contains("a note about tea")),
        ("resources/subscribe", json!({"uri": "note://tea"}), Contains("subscribed")),
        ("resources/read", json!({"uri": "static://motto"}), Contains("less, but better")),
        ("resources/read", json!({"uri": "nowhere://x"}), CallFails("nowhere://x")),
        ("prompts/list", json!({}), Contains("greet")),
        (
            "prompts/get",
            json!({"name": "greet", "arguments": {"name": "Ann"}}),
            Contains("Greet Ann."),
        ),
    ]
}
