//! MCP servers as sources: added, listed, called and interrupted. No process may remain.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::process::{OutputLines, Process, TIMEOUT, output_of, run, wait_until};
use super::{TempFolder, command, json, stderr, stdout};

pub(super) fn server(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolpost/tests/servers");
    std::fs::canonicalize(folder.join(name)).unwrap()
}

/// Returns the paths of Node and of the `server-everything` script from npm.
pub(super) fn everything() -> [String; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/npm/node_modules");
    let node = root.join(".bin/node");
    let server = root.join("@modelcontextprotocol/server-everything/dist/index.js");
    assert!(node.exists() && server.exists(), "no .cache/npm: run scripts/fetch-test-data");
    [node, server].map(|path| path.to_str().unwrap().to_owned())
}

/// Returns the path of Python with version 1 of the official MCP library and servers from PyPI.
pub(super) fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/py/bin/python");
    assert!(python.exists(), "no .cache/py: run scripts/fetch-test-data");
    python
}

#[test]
fn npm_server_add_list_and_call_with_progress() {
    let [node, everything] = everything();
    let folder = TempFolder::new("everything");
    let added = folder.toolpost(&["add", "mcp", "everything", "--", &node, &everything]);
    assert!(added.status.success(), "{}", stderr(&added));
    let added = json(&added);
    assert_eq!(added["protocol"], "2025-11-25");
    assert!(added["tokens"].as_u64().unwrap() > 500, "{added}");

    let listed = json(&folder.toolpost(&["list"]));
    let listed = listed.as_array().unwrap();
    let echo = listed.iter().find(|operation| operation["id"] == "everything.echo").unwrap();
    assert_eq!((&echo["type"], &echo["status"]), (&json!("query"), &json!("online")));

    let called = json(&folder.toolpost(&["call", "everything.echo", "--message", "hi"]));
    assert_eq!(called["data"], json!([{"type": "text", "text": "Echo: hi"}]));
    assert_eq!(called["meta"]["source"], "mcp");

    let toolpost = env!("CARGO_BIN_EXE_toolpost");
    let slow = "call everything.trigger-long-running-operation --duration 2 --steps 4";
    let output = Command::new("script")
        .args(["-qec", &format!("{toolpost} {slow}"), "/dev/null"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let output = stdout(&output);
    assert!(output.contains("Long running operation completed"), "{output}");
    assert!(output.contains(" 50%") && output.contains(" 75%"), "no bar in {output:?}");

    let removed = folder.toolpost(&["remove", "everything"]);
    assert!(removed.status.success(), "{}", stderr(&removed));
    let after_removal = folder.toolpost(&["call", "everything.echo", "--message", "hi"]);
    assert!(stderr(&after_removal).contains("OPERATION_NOT_FOUND"), "{}", stderr(&after_removal));
}

/// Each row: options and configuration of `toolpost mcp` without a home directory, the exit code,
/// and whether the journal is written.
#[test]
fn mcp_without_home_uses_configured_data_folder() {
    let off = "[journal]\nmode = \"off\"\n";
    for (options, config, code, writes) in
        [(&["--data", "kept"][..], "", 0, true), (&[], "", 1, false), (&[], off, 0, false)]
    {
        let folder = TempFolder::new("mcp-data");
        folder.write("toolpost.toml", config);
        let mut mcp = command(&["mcp"]);
        mcp.args(options).current_dir(folder.path()).stdin(Stdio::null());
        let ended = run(mcp.env_remove("XDG_DATA_HOME").env_remove("HOME"));
        let message = stderr(&ended);
        assert_eq!(ended.status.code(), Some(code), "{options:?} {config:?}: {message}");
        assert_eq!(message.contains("set the data folder with --data"), code == 1, "{message}");
        assert_eq!(folder.path().join("kept/journal").exists(), writes, "{options:?} {config:?}");
    }
}

#[test]
fn sigint_cancels_call_at_mcp_server() {
    let folder = TempFolder::new("interrupt");
    let log = folder.path().join("log");
    let config = format!(
        "[source.odd]\nmcp = {{ command = 'python3', args = ['{}', 'plain'], \
         env = {{ ODD_LOG = '{}' }} }}\n",
        server("misbehaving_server.py").display(),
        log.display()
    );
    std::fs::write(folder.path().join("toolpost.toml"), config).unwrap();
    let child = command(&["call", "odd.sleep", r#"{"seconds": 600}"#])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let message = |text: &str| std::fs::read_to_string(&log).is_ok_and(|log| log.contains(text));
    wait_until("the call arrives", || message("tools/call"));
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    let output = output_of(child);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("ABORTED"), "{}", stderr(&output));
    assert!(message("notifications/cancelled"), "{}", std::fs::read_to_string(&log).unwrap());
}

#[test]
fn call_error_contains_only_standard_error_of_that_call() {
    let folder = TempFolder::new("stderr-of-call");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/sdk_stdio_server.py");
    let arguments = json!([script, folder.path().join("crashed")]);
    let config = format!(
        "[source.py]\nmcp = {{ command = {:?}, args = {arguments}, max_restart = \"1m\" }}\n",
        python()
    );
    folder.write("toolpost.toml", &config);
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]);
    serve.current_dir(folder.path()).stderr(Stdio::piped()).env("TOOLPOST_LOG", "info");
    let (mut gateway, address, _) = Process::serve(&mut serve);
    let mut log = OutputLines::of(gateway.stderr.take().unwrap());
    let call = |tool: &str, input: &Value| post_to(&address, &format!("/api/py/{tool}"), input);

    let note = json!({"text": "the order of Ann"});
    wait_until("the server is there", || call("note", &note).0 == 200);
    assert!(log.any(|line| line.contains("the order of Ann")), "it is logged");
    let (status, body) = call("crash", &json!({}));
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("code 3") && body.contains("out of memory"), "{body}");
    assert!(!body.contains("Ann"), "{body}");

    // The server does not start again.
    assert!(log.any(|line| line.contains("the database is locked")), "it is logged");
    let (status, body) = call("note", &json!({"text": "x"}));
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("offline: the server ended: exited with code"), "{body}");
    assert!(!body.contains("out of memory") && !body.contains("locked"), "{body}");
}

/// A gateway process, killed on drop.
pub(super) struct Gateway {
    child: Process,
    address: String,
}

impl Gateway {
    pub(super) fn start(folder: &TempFolder) -> Self {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
        let (child, address, _) =
            Process::serve(command.current_dir(folder.path()).stderr(Stdio::null()));
        Self { child, address }
    }

    /// Returns the host and port.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Calls an operation and returns the status and the body.
    pub(super) fn call(&self, operation: &str) -> (u16, Value) {
        let (status, body) =
            self.post(&format!("/api/{}", operation.replacen('.', "/", 1)), &json!({}));
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    /// Returns the JSON at a path.
    pub(super) fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path)).unwrap_or_default()
    }

    /// Returns the text at a path.
    pub(super) fn text(&self, path: &str) -> String {
        send_request(&self.address, &format!("GET {path}"), "").1
    }

    /// Sends JSON and returns the status and the body.
    pub(super) fn post(&self, path: &str, body: &Value) -> (u16, String) {
        post_to(&self.address, path, body)
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    fn resident_kilobytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// Sends JSON to an address and returns the status and the body.
pub(super) fn post_to(address: &str, path: &str, body: &Value) -> (u16, String) {
    send_request(address, &format!("POST {path}"), &body.to_string())
}

fn send_request(address: &str, target: &str, body: &str) -> (u16, String) {
    let request = format!(
        "{target} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Returns all processes by id, with the parent id and whether the process is running.
fn processes() -> HashMap<u32, (u32, bool)> {
    let read = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut rest = stat.rsplit_once(") ")?.1.split(' ');
        let is_running = rest.next()? != "Z";
        Some((id, (rest.next()?.parse().ok()?, is_running)))
    };
    std::fs::read_dir("/proc").unwrap().filter_map(|entry| read(entry.unwrap())).collect()
}

fn descendants(of: u32) -> Vec<u32> {
    let all = processes();
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|(_, (its, _))| *its == parent).map(|(id, _)| *id));
        next += 1;
    }
    found.split_off(1)
}

#[test]
fn crashing_server_leaks_no_processes_or_descriptors() {
    const ROUNDS: usize = 200;
    let folder = TempFolder::new("crashes");
    // Each server also starts a child that would outlive it.
    let config = format!(
        "[source.odd]\nmcp = {{ command = 'sh', args = ['-c', 'sleep 600 & exec python3 {} crash'], \
         max_restart = '10ms' }}\n",
        server("misbehaving_server.py").display(),
    );
    std::fs::write(folder.path().join("toolpost.toml"), config).unwrap();
    let mut gateway = Gateway::start(&folder);
    let mut early = None;
    for round in 1..=ROUNDS {
        wait_until("the server is there", || gateway.call("odd.echo").0 == 200);
        // Measures while the server is running, as at the end.
        if round == ROUNDS / 4 {
            early = Some((gateway.descriptors(), gateway.resident_kilobytes()));
        }
        let (status, body) = gateway.call("odd.odd");
        assert_eq!((status, &body["error"]["code"]), (503, &json!("UNAVAILABLE")), "{body}");
    }
    wait_until("the server is there", || gateway.call("odd.echo").0 == 200);
    let (descriptors, resident) = early.unwrap();
    let grown = gateway.resident_kilobytes().saturating_sub(resident);
    assert!(gateway.descriptors() <= descriptors + 4, "{} descriptors", gateway.descriptors());
    assert!(grown < 8 * 1024, "{grown} kB more than after {} crashes", ROUNDS / 4);
    // The descendants are the watcher, the server and the server's child.
    let alive = descendants(gateway.child.id());
    assert_eq!(alive.len(), 3, "{alive:?}");

    gateway.child.kill().unwrap();
    gateway.child.exit_status();
    wait_until("every process has ended", || {
        let all = processes();
        alive.iter().all(|id| all.get(id).is_none_or(|(_, is_running)| !is_running))
    });
}
