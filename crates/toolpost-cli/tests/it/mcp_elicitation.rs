//! Server requests during a call (elicitation, sampling, roots), handled by third-party clients.
//!
//! Servers of both protocol generations run behind one gateway, over HTTP and as processes. Each
//! client calls tools of each server that send requests, and every response must come from the
//! client.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::TempFolder;
use super::mcp::{Gateway, everything, server};
use super::mcp_conformance::Fixtures;
use super::process::wait_until;

/// Tools that send requests, the text expected in their results, and whether the server uses
/// sessions. Requests of a server with sessions reach only clients with sessions.
const CALLS: [(&str, &str, bool); 9] = [
    ("old__test_elicitation", "blue", true),
    ("old__test_sampling", "The model says: Paris", true),
    ("old__test_input_required_result_list_roots", "file:///there", true),
    ("old-pipe__odd", "blue", true),
    ("everything__trigger-sampling-request", "Paris", true),
    ("new__test_elicitation", "blue", false),
    ("new__test_sampling", "The model says: Paris", false),
    ("new__test_input_required_result_multiple_inputs", "state-ok", false),
    ("new-pipe__odd", "blue", false),
];

/// The clients, their package folders and their protocol generations.
const CLIENTS: [(&[&str], &str, &[&str]); 4] = [
    (&["npm/node_modules/.bin/node", "sdk1.mjs"], "clients", &["legacy"]),
    (&["npm/node_modules/.bin/node", "sdk2.mjs"], "clients", &["legacy", "modern"]),
    (&["py/bin/python", "client.py"], "py", &["legacy"]),
    (&["py2/bin/python", "client.py"], "py2", &["legacy", "modern"]),
];

fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache").canonicalize().unwrap()
}

fn config(old: u16, new: u16, [node, everything]: &[String; 2]) -> String {
    let odd = server("misbehaving_server.py");
    let odd = odd.display();
    let all = "sampling = 'client', roots = 'client'";
    format!(
        "[source.old]\nmcp = {{ url = 'http://127.0.0.1:{old}/mcp', {all} }}\n\
         [source.new]\nmcp = {{ url = 'http://127.0.0.1:{new}/mcp', {all} }}\n\
         [source.old-pipe]\nmcp = {{ command = 'python3', args = ['{odd}', 'needs-input'] }}\n\
         [source.new-pipe]\nmcp = {{ command = 'python3', args = ['{odd}', '--modern', \
         'needs-input-politely', '3'] }}\n\
         [source.everything]\nmcp = {{ command = '{node}', args = ['{everything}'], {all} }}\n"
    )
}

/// Runs a client with a job and returns its result.
fn run(client: &[&str], packages: &str, job: &Value) -> Value {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolpost-gateway/tests/clients");
    let mut child = Command::new(cache().join(client[0]))
        .args(&client[1..])
        .arg(cache().join(packages))
        .current_dir(scripts)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{job}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.wait().unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{client:?}: {error}: {line}"))
}

fn check(client: &[&str], generation: &str, transport: &str, found: &Value) {
    for (position, (tool, expected, has_session)) in CALLS.into_iter().enumerate() {
        let response = found["answers"][position].to_string();
        let reaches = generation == "legacy" || !has_session;
        let expected = if reaches { expected } else { "responds only between calls" };
        assert!(
            response.contains(expected),
            "{client:?} {generation} {transport} {tool}: {response} of {found}"
        );
    }
}

#[test]
fn third_party_clients_answer_server_requests() {
    let everything = everything();
    let (old, new) = (Fixtures::start(Some("legacy")), Fixtures::start(Some("modern")));
    let folder = TempFolder::new("mcp-questions");
    folder.write("toolpost.toml", &config(old.port, new.port, &everything));
    let gateway = Gateway::start(&folder);
    for probe in ["old.test_simple_text", "new.test_simple_text"] {
        wait_until(probe, || gateway.call(probe).0 == 200);
    }
    for probe in ["old-pipe.odd", "new-pipe.odd", "everything.trigger-sampling-request"] {
        // The call fails, because the HTTP API has no client for server requests, but the tool
        // exists.
        wait_until(probe, || gateway.call(probe).0 != 404);
    }
    let calls: Vec<_> = CALLS
        .iter()
        .map(|(tool, ..)| json!({"name": tool, "arguments": arguments(tool)}))
        .collect();
    let config = folder.path().join("toolpost.toml");
    let url = format!("http://{}/mcp?tools=all", gateway.address());
    let command = [
        env!("CARGO_BIN_EXE_toolpost"),
        "mcp",
        "--tools",
        "all",
        "--wait",
        "30s",
        "--config",
        config.to_str().unwrap(),
    ];
    for (client, packages, generations) in CLIENTS {
        for generation in generations {
            let over_http = json!({"url": url, "era": generation, "calls": calls});
            check(client, generation, "http", &run(client, packages, &over_http));
            let over_stdio = json!({"command": command, "era": generation, "calls": calls});
            check(client, generation, "stdio", &run(client, packages, &over_stdio));
        }
    }
}

fn arguments(tool: &str) -> Value {
    match tool {
        _ if tool.contains("elicitation") => json!({"message": "who?"}),
        _ if tool.contains("sampling") => json!({"prompt": "the capital?"}),
        _ => json!({}),
    }
}
