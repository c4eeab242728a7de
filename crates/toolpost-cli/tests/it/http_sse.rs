//! MCP servers that use the HTTP+SSE transport of 2024-11-05, from npm and PyPI.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::mcp::{Gateway, everything, post_to, python};
use super::process::{Process, wait_until};
use super::{TempFolder, json, stderr};

/// Returns a free port, for servers that cannot report the port they listen on.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn start(command: &mut Command, port: u16) -> Process {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Process::spawn(quiet);
    wait_until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    server
}

fn everything_server(port: u16) -> Process {
    let [node, everything] = everything();
    start(Command::new(node).args([&*everything, "sse"]).env("PORT", port.to_string()), port)
}

fn python_server(transport: &str, port: u16) -> Process {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/sdk_http_server.py");
    start(Command::new(python()).args([script, transport, &port.to_string()]), port)
}

/// A folder whose configuration has the source `far` at this path of a port.
fn source_at(name: &str, port: u16, path: &str) -> TempFolder {
    let folder = TempFolder::new(name);
    let url = format!("http://127.0.0.1:{port}{path}");
    let config = format!("[source.far]\nmcp = {{ url = {url:?}, max_restart = \"100ms\" }}\n");
    folder.write("toolpost.toml", &config);
    folder
}

#[test]
fn http_sse_servers_are_added_and_called() {
    let (npm, pypi) = (free_port(), free_port());
    let _servers = [everything_server(npm), python_server("sse", pypi)];
    let folder = TempFolder::new("http-sse-add");
    let url = format!("http://127.0.0.1:{npm}/sse");
    let added = folder.toolpost(&["add", "mcp", "npm", "--url", &url]);
    assert!(added.status.success(), "{}", stderr(&added));
    let added = json(&added);
    assert_eq!(added["protocol"], "2025-11-25", "{added}");

    // Some clients name the transport.
    let url = format!("http://127.0.0.1:{pypi}/sse");
    let servers = json!({"mcpServers": {"pypi": {"type": "sse", "url": url}}});
    folder.write("client.json", &servers.to_string());
    let added = folder.toolpost(&["add", "mcp", "--from", "client.json"]);
    assert!(added.status.success(), "{}", stderr(&added));
    assert!(!stderr(&added).contains("deprecated"), "{}", stderr(&added));

    for (arguments, expected) in [
        (&["call", "npm.echo", "--message", "hi"][..], "Echo: hi"),
        (&["call", "npm.get-sum", "--a", "1", "--b", "2"], "3"),
        (&["call", "pypi.add", "--a", "20", "--b", "22"], "42"),
        (&["call", "pypi.steps", "--count", "3"], "3 steps"),
    ] {
        let called = folder.toolpost(arguments);
        let data = json(&called)["data"].to_string();
        assert!(data.contains(expected), "{arguments:?}: {data} {}", stderr(&called));
    }
}

#[test]
fn http_sse_source_reconnects_after_restart() {
    let port = free_port();
    let mut server = everything_server(port);
    let folder = source_at("http-sse-restart", port, "/sse");
    let gateway = Gateway::start(&folder);
    let echo = || gateway.post("/api/far/echo", &json!({"message": "hi"}));
    let (status, body) = echo();
    assert_eq!(status, 200, "{body}");
    for _ in 0..2 {
        drop(server);
        wait_until("the calls fail", || echo().0 == 503);
        server = everything_server(port);
        wait_until("the calls succeed", || echo().0 == 200);
    }
}

#[test]
fn http_sse_call_is_canceled_by_deadline_and_stream_end() {
    let port = free_port();
    let server = python_server("sse", port);
    let folder = source_at("http-sse-cancel", port, "/sse");
    let gateway = Gateway::start(&folder);
    let file = |name: &str| folder.path().join(name);
    let input = |name: &str| json!({"file": file(name)});

    let (status, body) = gateway.post("/api/far/wait?timeout=1s", &input("late"));
    assert_eq!(status, 504, "{body}");
    wait_until("the server cancels the call", || file("late.canceled").exists());
    // The session continues.
    let (status, body) = gateway.post("/api/far/add", &json!({"a": 1, "b": 2}));
    assert!(status == 200 && body.contains('3'), "{status} {body}");

    let error =
        call_while_server_dies(&gateway, server, input("cut"), || file("cut.started").exists());
    let message = error["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("event stream"), "{error}");
    assert_eq!(error["error"]["details"]["mayHaveRun"], true, "{error}");
}

/// Calls `far.wait`, kills the server while the call runs, and returns the body of the response.
fn call_while_server_dies(
    gateway: &Gateway,
    server: Process,
    input: Value,
    is_running: impl FnMut() -> bool,
) -> Value {
    let address = gateway.address().to_owned();
    let calling = std::thread::spawn(move || post_to(&address, "/api/far/wait", &input));
    wait_until("the call runs", is_running);
    drop(server);
    let (status, body) = calling.join().unwrap();
    assert_eq!(status, 503, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn broken_http_response_is_described() {
    let port = free_port();
    let server = python_server("streamable-http", port);
    let folder = source_at("http-broken", port, "/mcp");
    let gateway = Gateway::start(&folder);
    wait_until("the server is there", || {
        gateway.post("/api/far/add", &json!({"a": 1, "b": 2})).0 == 200
    });
    let file = folder.path().join("cut");
    let started = folder.path().join("cut.started");
    let error =
        call_while_server_dies(&gateway, server, json!({"file": file}), || started.exists());
    let message = error["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("closed the connection before the end"), "{error}");
    assert!(!message.contains("chunk"), "{error}");
}

/// A server must not direct messages, which contain credentials, to another origin.
#[test]
fn http_sse_message_url_of_other_origin_is_rejected() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            reject_post_or_name_endpoint(stream.unwrap(), "http://127.0.0.1:9/messages");
        }
    });
    let folder = TempFolder::new("http-sse-origin");
    let url = format!("http://127.0.0.1:{port}/sse");
    let added = folder.toolpost(&["add", "mcp", "x", "--url", &url]);
    let message = stderr(&added);
    assert_eq!(added.status.code(), Some(3), "{message}");
    assert!(message.contains("has another origin: http://127.0.0.1:9"), "{message}");
}

/// Responds 405 to POST, and to GET with an event stream that names the URL for messages.
fn reject_post_or_name_endpoint(mut stream: TcpStream, endpoint: &str) {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut chunk).unwrap();
        request.extend_from_slice(&chunk[..count]);
    }
    let response = match request.starts_with(b"GET") {
        true => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
             event: endpoint\ndata: {endpoint}\n\n"
        ),
        false => "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\
                  connection: close\r\n\r\n"
            .to_owned(),
    };
    stream.write_all(response.as_bytes()).unwrap();
}
