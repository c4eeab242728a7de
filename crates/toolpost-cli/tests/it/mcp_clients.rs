//! `toolpost mcp`: serves the operations to an MCP client over stdio.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use super::TempFolder;
use super::process::{OutputLines, Process};

pub(super) struct Client {
    child: Process,
    input: Option<ChildStdin>,
    output: OutputLines,
}

impl Client {
    pub(super) fn start(folder: &TempFolder, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
        command.arg("mcp").args(arguments).current_dir(folder.path()).env_remove("TOOLPOST_TOKEN");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Process::spawn(&mut command);
        let input = child.stdin.take();
        let output = child.stdout_lines();
        Self { child, input, output }
    }

    pub(super) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        self.recv_with_member("id")
    }

    pub(super) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Returns the next message with the given member: `id` for responses, `method` for
    /// notifications.
    pub(super) fn recv_with_member(&mut self, member: &str) -> Value {
        loop {
            let line = self.output.next().expect("another message");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get(member).is_some() {
                return message;
            }
        }
    }

    /// Closes the standard input of the process and waits until it has exited.
    fn close(mut self) {
        drop(self.input.take());
        assert!(self.output.next().is_none());
        assert!(self.child.exit_status().success());
    }
}

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn mcp_stdio_lists_and_calls_tools() {
    let folder = TempFolder::new("mcp-clients");
    let script = super::mcp::server("misbehaving_server.py");
    let config = format!(
        "[mcp]\ndialect = \"ok\"\ntools = \"compact\"\n\n[source.odd]\nmcp = {{ command = \"python3\", args = [{:?}, \"plain\"] }}\n",
        script.to_str().unwrap()
    );
    std::fs::write(folder.path().join("toolpost.toml"), config).unwrap();
    let mut client = Client::start(&folder, &[]);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    let welcome = client.request("initialize", &hello);
    assert_eq!(welcome["result"]["serverInfo"]["name"], "toolpost");
    assert_eq!(names(&client.request("tools/list", &json!({}))).len(), 4);
    let add = json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}});
    let sum = client.request("tools/call", &add);
    assert_eq!(sum["result"]["structuredContent"], json!({"ok": true, "data": {"sum": 3}}));
    client.close();

    // Command-line options override the configuration; the source is ready when its tools are
    // listed.
    let mut client =
        Client::start(&folder, &["--tools", "all", "--dialect", "data", "--source", "odd"]);
    let listed = names(&client.request("tools/list", &json!({})));
    assert!(!listed.is_empty() && !listed.iter().any(|name| name.contains("demo")), "{listed:?}");
    client.close();
}

#[test]
fn mcp_startup_errors_go_to_stderr() {
    let folder = TempFolder::new("mcp-clients-wrong");
    for (arguments, message) in [
        (&["mcp", "--tools", "some"][..], "`some` is not one of all, compact, auto"),
        (&["mcp", "--config", "none.toml"], "none.toml"),
        (&["mcp", "--source", "dem"], "no source `dem` in the configuration"),
    ] {
        let ended = folder.toolpost(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(super::stderr(&ended).contains(message), "{}", super::stderr(&ended));
        assert!(ended.stdout.is_empty());
    }
}

/// A client's file read by `toolpost mcp` can contain `toolpost mcp` itself.
#[test]
fn mcp_recursion_is_limited() {
    let folder = TempFolder::new("mcp-clients-itself");
    let itself = env!("CARGO_BIN_EXE_toolpost");
    let servers =
        json!({"mcpServers": {"me": {"command": itself, "args": ["mcp", "--wait", "30s"]}}});
    folder.write(".mcp.json", &servers.to_string());
    let mut client = Client::start(&folder, &["--wait", "30s"]);
    // Each level has the next one as a source; the last one exits with an error.
    let listed = names(&client.request("tools/list", &json!({})));
    let deepest = listed.iter().map(|name| name.matches("me__").count()).max();
    assert!(deepest.is_some_and(|deepest| deepest <= 4), "{listed:?}");
    client.close();
}

/// Uses a real MCP server from npm.
#[test]
fn npm_server_resource_subscription_notifies() {
    let [node, everything] = super::mcp::everything();
    let folder = TempFolder::new("mcp-clients-follow");
    let config = format!(
        "[source.all]\nmcp = {{ command = {node:?}, args = [{everything:?}, \"stdio\"] }}\n"
    );
    folder.write("toolpost.toml", &config);
    let mut client = Client::start(&folder, &["--tools", "all", "--wait", "30s"]);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    let welcome = client.request("initialize", &hello);
    assert_eq!(welcome["result"]["capabilities"]["resources"]["subscribe"], true);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let listed = client.request("resources/list", &json!({}));
    let uri = listed["result"]["resources"][0]["uri"].as_str().expect("a resource").to_owned();
    assert!(uri.starts_with("toolpost:all:"), "{uri}");
    let responded = client.request("resources/subscribe", &json!({"uri": uri}));
    assert_eq!(responded["result"], json!({}), "{responded}");
    let toggle = json!({"name": "all__toggle-subscriber-updates", "arguments": {}});
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": toggle}));
    let mut received = client.recv_with_member("method");
    while received["method"] != "notifications/resources/updated" {
        received = client.recv_with_member("method");
    }
    assert_eq!(received["params"], json!({"uri": uri}));
}
