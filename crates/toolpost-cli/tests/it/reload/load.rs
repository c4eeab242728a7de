//! Many reloads under load: callers of unchanged sources are not affected.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use toolpost::hub::Spoke;
use toolpost::protocol::Secret;
use toolpost::transport::WsConnector;
use toolpost::{HandlerError, Operation};

use super::fixture::{Gateway, Service, identity, labeled_server};
use super::{connect, subscribe};
use crate::process::wait_until;

const CALLERS: usize = 64;
const RELOADS: usize = 50;

/// The operations that each caller calls in turn: of a stdio MCP server, an HTTP service, a spoke,
/// and a built-in one.
const OPERATIONS: [&str; 4] = ["files.who", "pets.who", "box.text.echo", "demo.add"];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reloads_under_load_fail_no_calls() {
    let service = Service::start();
    let (ours, of_box) = identity("box", "");
    let (theirs, of_ci) = identity("ci", "");
    let pets = "[source.pets]\nopenapi = \"pets.json\"\naccess = \"open\"\n";
    let spoke = "[source.box]\nspoke = { identity = \"box\" }\n";
    let stays = format!("{ours}{theirs}{pets}{spoke}{}", labeled_server("files", "stays"));
    let gateway = Arc::new(Gateway::start("reload-load", ""));
    gateway.folder.write("pets.json", &service.document());
    gateway.write_config(&stays);
    gateway.reload();
    let address = format!("ws://{}/hub", gateway.address);
    let connector = WsConnector::new(&address, Some(Secret::new(of_box))).unwrap();
    let echo = async |text: String| Ok::<_, HandlerError>(text);
    let spoke = Spoke::new("box");
    let spoke = spoke.operation(Operation::query("text.echo", echo).build().unwrap()).unwrap();
    let spoke = spoke.connect(connector);
    spoke.ready().await.unwrap();
    for name in ["files", "pets", "box"] {
        gateway.wait_for(name, "ready");
    }
    let before = call_who(&gateway, &of_ci, "files.who");

    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut callers = Vec::new();
    for number in 0..CALLERS {
        let (over, calls) = (Arc::clone(&over), Arc::clone(&calls));
        let client = connect(&gateway, &of_ci).await;
        let (gateway, token) = (Arc::clone(&gateway), of_ci.clone());
        callers.push(tokio::spawn(async move {
            let mut failed = Vec::new();
            let mut turn = number;
            while !over.load(Ordering::Relaxed) {
                let id = OPERATIONS[turn % OPERATIONS.len()];
                let input = match id {
                    "demo.add" => json!({"a": 1, "b": turn}),
                    "box.text.echo" => json!("hello"),
                    _ => json!({}),
                };
                // Half of the callers use the call protocol, half use HTTP.
                let message = if number % 2 == 0 {
                    client.call_json(id, input).await.err().map(|error| error.to_string())
                } else {
                    let (gateway, token) = (Arc::clone(&gateway), token.clone());
                    let called =
                        tokio::task::spawn_blocking(move || gateway.call(id, Some(&token), &input));
                    let (status, message) = called.await.unwrap();
                    (status != 200).then(|| format!("{status} {message}"))
                };
                failed.extend(message.map(|message| format!("{id}: {message}")));
                calls.fetch_add(1, Ordering::Relaxed);
                turn += 1;
            }
            failed
        }));
    }
    let watching = {
        let (over, stream) = (Arc::clone(&over), subscribe(&gateway, &of_ci));
        tokio::task::spawn_blocking(move || count_events(stream, &over))
    };
    let talking = {
        let (over, gateway, token) = (Arc::clone(&over), Arc::clone(&gateway), of_ci.clone());
        tokio::task::spawn_blocking(move || call_over_mcp(&gateway, &token, &over))
    };
    let reloading = Arc::clone(&gateway);
    let counted = Arc::clone(&calls);
    let reloads =
        tokio::task::spawn_blocking(move || reload_repeatedly(&reloading, &stays, &counted));
    let rejected = reloads.await;
    over.store(true, Ordering::Relaxed);
    let rejected = rejected.unwrap();
    let mut failed = Vec::new();
    for caller in callers {
        failed.extend(caller.await.unwrap());
    }
    let calls = calls.load(Ordering::Relaxed);
    let (ticks, mcp_calls) = (watching.await.unwrap(), talking.await.unwrap());
    eprintln!(
        "{RELOADS} reloads, {rejected} rejected, {calls} calls by {CALLERS} callers, {mcp_calls} in one MCP \
         session, {ticks} events of one stream"
    );
    assert!(ticks > 10 && mcp_calls > 10, "{ticks} {mcp_calls}");
    assert_eq!(failed, [""; 0]);
    assert!(calls > 1_000 && rejected == RELOADS / 10, "{calls} {rejected}");
    assert_eq!(
        call_who(&gateway, &of_ci, "files.who"),
        before,
        "the same process with one handshake"
    );
    spoke.close().await;
}

/// Adds, changes and removes other sources and identities. Returns the number of rejected
/// configurations.
fn reload_repeatedly(gateway: &Gateway, stays: &str, calls: &AtomicU64) -> usize {
    let mut rejected = 0;
    for turn in 0..RELOADS {
        let others = match turn % 10 {
            0 => labeled_server("other", "one"),
            1 => labeled_server("other", "two"),
            2 => format!("{}timeout = \"5s\"\n", labeled_server("other", "two")),
            3 => {
                "[source.other]\nmcp = { command = \"toolpost-test-no-such-program\" }\n".to_owned()
            }
            4 => "[source.other]\nopenapi = \"pets.json\"\nprefix = \"x_\"\n".to_owned(),
            5 => "[source.other]\nhub = { url = \"ws://127.0.0.1:9\" }\n".to_owned(),
            6 => "not TOML".to_owned(),
            7 => identity("newcomer", "").0,
            8 => "[mcp]\ncompact_above = 7\n".to_owned(),
            9 => format!("[limits]\nsource_calls = {}\ncaller_calls = {}\n", 90 + turn, 900 + turn),
            _ => String::new(),
        };
        gateway.write_config(&format!("{stays}{others}"));
        let seen = calls.load(Ordering::Relaxed);
        let (status, message) = gateway.reload();
        match turn % 10 {
            6 => rejected += usize::from(status == 409),
            _ => {
                assert_eq!(status, 200, "{turn}: {message}");
                let unchanged = message["data"]["unchanged"].as_array().unwrap();
                assert_eq!(unchanged.len(), 3, "{turn}: {message}");
            }
        }
        // Waits until callers have made calls with this configuration.
        wait_until("others call", || calls.load(Ordering::Relaxed) > seen + 20);
    }
    rejected
}

fn call_who(gateway: &Gateway, token: &str, id: &str) -> Value {
    let (status, message) = gateway.call(id, Some(token), &json!({}));
    assert_eq!(status, 200, "{message}");
    message["data"].clone()
}

/// Reads a stream until the load ends and for one more event. Returns the number of events.
fn count_events(stream: BufReader<TcpStream>, over: &AtomicBool) -> usize {
    let mut ticks = 0;
    for line in stream.lines().map(Result::unwrap) {
        assert!(!line.starts_with("event: "), "the stream continues: {line}");
        ticks += usize::from(line.starts_with("data: "));
        if over.load(Ordering::Relaxed) && line.starts_with("data: ") {
            return ticks;
        }
    }
    panic!("the stream ended after {ticks} events");
}

/// Makes calls in one MCP session until the load ends. Returns the number of calls.
fn call_over_mcp(gateway: &Gateway, token: &str, over: &AtomicBool) -> usize {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "load", "version": "1"}}});
    let welcome = post_mcp(gateway, token, "", &hello).to_ascii_lowercase();
    let session = welcome.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
    let mut calls = 0;
    while !over.load(Ordering::Relaxed) {
        calls += 1;
        let call = json!({"jsonrpc": "2.0", "id": calls, "method": "tools/call", "params": {
            "name": "demo__add", "arguments": {"a": 1, "b": calls}}});
        let response = post_mcp(gateway, token, &headers, &call);
        assert!(response.contains(&format!("\"sum\":{}", calls + 1)), "{response}");
    }
    calls
}

/// Sends a request to `/mcp` and returns the response with its head.
fn post_mcp(gateway: &Gateway, token: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let head = format!(
        "POST /mcp?dialect=data HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\naccept: application/json\r\n\
         authorization: Bearer {token}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}
