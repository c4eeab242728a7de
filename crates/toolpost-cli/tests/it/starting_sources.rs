//! Requests that arrive while the only source is starting: a real server whose start waits for a
//! file.

use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use super::TempFolder;
use super::mcp::{Gateway, everything, post_to, python};
use super::mcp_clients::Client;
use super::process::{output_of, wait_until};
use super::{command, json, stderr};

const RESOURCE: &str = "toolpost:all:demo://resource/static/document/features.md";

/// A folder whose configuration has the source `all`, which starts once the file `go` exists.
fn waiting_source(name: &str) -> TempFolder {
    let folder = TempFolder::new(name);
    let [node, everything] = everything();
    let go = folder.path().join("go");
    let script = "while [ ! -e \"$0\" ]; do sleep 0.05; done; exec \"$1\" \"$2\" stdio";
    let arguments = json!(["-c", script, go, node, everything]);
    folder.write(
        "toolpost.toml",
        &format!("[source.all]\nmcp = {{ command = \"sh\", args = {arguments} }}\n"),
    );
    folder
}

#[test]
fn stdio_requests_wait_for_starting_source() {
    let folder = waiting_source("starting-stdio");
    let mut client = Client::start(&folder, &["--tools", "all", "--wait", "1m"]);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    client.request("initialize", &hello);
    let requests = [
        ("tools/call", json!({"name": "all__echo", "arguments": {"message": "hi"}}), "Echo: hi"),
        ("prompts/get", json!({"name": "all__simple-prompt"}), "simple prompt"),
        ("resources/read", json!({"uri": RESOURCE}), "text/markdown"),
        ("tools/call", json!({"name": "hub__search", "arguments": {"query": "echo"}}), "all.echo"),
        (
            "tools/call",
            json!({"name": "hub__call", "arguments":
                {"id": "all.echo", "input": {"message": "hey"}}}),
            "Echo: hey",
        ),
        ("tools/list", json!({}), "all__echo"),
        ("prompts/list", json!({}), "all__simple-prompt"),
        ("resources/list", json!({}), RESOURCE),
    ];
    for (id, (method, params, _)) in (10..).zip(&requests) {
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }
    // Messages are read in order, so the other requests have arrived and none has a response.
    client.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    let first = client.recv_with_member("id");
    assert_eq!(first["id"], 9, "{first}");
    folder.write("go", "");
    for _ in &requests {
        let response = client.recv_with_member("id");
        let row = usize::try_from(response["id"].as_u64().unwrap() - 10).unwrap();
        let expected = requests[row].2;
        assert!(response["result"].to_string().contains(expected), "{expected}: {response}");
    }
}

#[test]
fn session_per_call_clients_wait_for_starting_source() {
    let folder = waiting_source("starting-http");
    let gateway = Gateway::start(&folder);
    let (url, [node, _]) = (format!("http://{}", gateway.address()), everything());
    let mut session_client = Command::new(python());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/session_per_request.py");
    session_client.args([script, &format!("{url}/mcp?tools=all")]);
    let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/clients/node_modules");
    let mut inspector = Command::new(node);
    inspector.arg(format!("{clients}/@modelcontextprotocol/inspector/clients/cli/build/index.js"));
    inspector.args(["--quiet", "--format", "json", "--transport", "http", "--server-url"]);
    inspector.args([&format!("{url}/mcp?tools=all"), "--method", "tools/call"]);
    inspector.args(["--tool-name", "all__echo", "--tool-args-json", r#"{"message":"two"}"#]);
    // Only legacy clients have sessions, which are counted below.
    inspector.args(["--protocol-era", "legacy"]).env("HOME", folder.path());
    let mut call = command(&["call", "all.echo", "--message", "three", "--url", &url]);
    let mut search = command(&["call", "hub.search", "--query", "echo", "--url", &url]);
    let spawn = |command: &mut Command| {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().unwrap()
    };
    let sessions_are = |count: usize| {
        let line = format!("toolpost_connections{{endpoint=\"mcp\"}} {count}\n");
        gateway.text("/metrics").contains(&line)
    };
    // Lists and searches wait for ten seconds only, so the program that starts slowest is first.
    let inspector = spawn(&mut inspector);
    wait_until("the Inspector is connected", || sessions_are(1));
    let started = [&mut session_client, &mut call, &mut search].map(spawn);
    let (address, message) = (gateway.address().to_owned(), json!({"message": "four"}));
    let posted = thread::spawn(move || post_to(&address, "/api/all/echo", &message));
    // The sessions of the two clients. Their requests follow immediately.
    wait_until("the clients are connected", || sessions_are(6));
    folder.write("go", "");
    let inspector = output_of(inspector);
    let [sessions, call, search] = started.map(output_of);
    let results = json(&sessions);
    for (result, expected) in results.as_array().unwrap().iter().zip([
        "Echo: one",
        "simple",
        "markdown",
        "all.echo",
        "all__echo",
    ]) {
        assert!(result.is_object() && result.to_string().contains(expected), "{result}");
    }
    for (output, expected) in
        [(inspector, "Echo: two"), (call, "Echo: three"), (search, "all.echo")]
    {
        let found: Value = json(&output);
        assert!(found.to_string().contains(expected), "{found} {}", stderr(&output));
    }
    let (status, body) = posted.join().unwrap();
    assert!(status == 200 && body.contains("Echo: four"), "{status} {body}");
}

/// A source that never starts: requests end within their deadline and name it.
#[test]
fn waiting_for_starting_source_ends_before_deadline() {
    let folder = waiting_source("starting-deadline");
    let gateway = Gateway::start(&folder);
    let (status, body) = gateway.post("/api/all/echo?timeout=500ms", &json!({"message": "hi"}));
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("`all` is not ready yet: it is starting"), "{body}");
    let query = json!({"query": "echo", "full": false});
    let (status, body) = gateway.post("/api/hub/search?timeout=500ms", &query);
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("still starting, call again for their operations: all"), "{body}");
    let (_, body) = gateway.post("/api/hub/list?timeout=500ms", &json!({"namespace": "all"}));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["starting"], json!(["all"]), "{body}");
    let (status, body) = gateway.post("/api/hub/schema?timeout=500ms", &json!({"id": "all.echo"}));
    assert_eq!(status, 503, "{body}");

    let mut client = Client::start(&folder, &["--tools", "all", "--wait", "100ms"]);
    let search = json!({"name": "hub__search", "arguments": {"query": "echo"}});
    let found = client.request("tools/call", &search);
    assert!(found["result"].to_string().contains("still starting"), "{found}");
}
