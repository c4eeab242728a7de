//! `toolpost mcp`: the operations for a client that starts it.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::Folder;

struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
        command.arg("mcp").args(arguments).current_dir(folder.path()).env_remove("TOOLPOST_TOKEN");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        self.next_with("id")
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next message with a member of that name: an answer has an `id`, the others have a `method`.
    fn next_with(&mut self, member: &str) -> Value {
        loop {
            let line = self.output.next().expect("another message").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get(member).is_some() {
                return message;
            }
        }
    }

    /// Closes its input, and waits until it has ended.
    fn leave(mut self) {
        drop(self.input.take());
        assert!(self.output.next().is_none());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_client_starts_it_lists_calls_and_leaves() {
    let folder = Folder::new("mcp-clients");
    let script = super::mcp::server("odd.py");
    let config = format!(
        "[mcp]\ndialect = \"ok\"\ntools = \"compact\"\n\n[source.odd]\nmcp = {{ command = \"python3\", args = [{:?}, \"plain\"] }}\n",
        script.to_str().unwrap()
    );
    std::fs::write(folder.path().join("toolpost.toml"), config).unwrap();
    let mut client = Client::start(&folder, &[]);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    let welcome = client.ask("initialize", &hello);
    assert_eq!(welcome["result"]["serverInfo"]["name"], "toolpost");
    assert_eq!(names(&client.ask("tools/list", &json!({}))).len(), 4);
    let add = json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}});
    let sum = client.ask("tools/call", &add);
    assert_eq!(sum["result"]["structuredContent"], json!({"ok": true, "data": {"sum": 3}}));
    client.leave();

    // What is said on the command line holds; the source was waited for.
    let mut client =
        Client::start(&folder, &["--tools", "all", "--dialect", "data", "--source", "odd"]);
    let listed = names(&client.ask("tools/list", &json!({})));
    assert!(!listed.is_empty() && !listed.iter().any(|name| name.contains("demo")), "{listed:?}");
    client.leave();
}

#[test]
fn what_is_wrong_is_said_on_standard_error() {
    let folder = Folder::new("mcp-clients-wrong");
    for (arguments, words) in [
        (&["mcp", "--tools", "some"][..], "`some` is not one of all, compact, auto"),
        (&["mcp", "--config", "none.toml"], "none.toml"),
        (&["mcp", "--source", "dem"], "there is no source `dem` here"),
    ] {
        let ended = folder.toolpost(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(super::stderr(&ended).contains(words), "{}", super::stderr(&ended));
        assert!(ended.stdout.is_empty());
    }
}

/// A client's file that is read by `toolpost mcp` may name it again.
#[test]
fn it_notices_that_it_starts_itself() {
    let folder = Folder::new("mcp-clients-itself");
    let itself = env!("CARGO_BIN_EXE_toolpost");
    let servers =
        json!({"mcpServers": {"me": {"command": itself, "args": ["mcp", "--wait", "30s"]}}});
    folder.write(".mcp.json", &servers.to_string());
    let mut client = Client::start(&folder, &["--wait", "30s"]);
    // Each level has the one below it as a source; the last says why it does not start.
    let listed = names(&client.ask("tools/list", &json!({})));
    let deepest = listed.iter().map(|name| name.matches("me__").count()).max();
    assert!(deepest.is_some_and(|deepest| deepest <= 4), "{listed:?}");
    client.leave();
}

/// A server as people have it, from npm.
#[test]
fn a_resource_of_a_real_server_is_followed() {
    let Some([node, everything]) = super::mcp::everything() else { return };
    let folder = Folder::new("mcp-clients-follow");
    let config = format!(
        "[source.all]\nmcp = {{ command = {node:?}, args = [{everything:?}, \"stdio\"] }}\n"
    );
    folder.write("toolpost.toml", &config);
    let mut client = Client::start(&folder, &["--tools", "all", "--wait", "30s"]);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    let welcome = client.ask("initialize", &hello);
    assert_eq!(welcome["result"]["capabilities"]["resources"]["subscribe"], true);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let listed = client.ask("resources/list", &json!({}));
    let uri = listed["result"]["resources"][0]["uri"].as_str().expect("a resource").to_owned();
    assert!(uri.starts_with("toolpost:all:"), "{uri}");
    let answered = client.ask("resources/subscribe", &json!({"uri": uri}));
    assert_eq!(answered["result"], json!({}), "{answered}");
    let toggle = json!({"name": "all__toggle-subscriber-updates", "arguments": {}});
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": toggle}));
    let mut heard = client.next_with("method");
    while heard["method"] != "notifications/resources/updated" {
        heard = client.next_with("method");
    }
    assert_eq!(heard["params"], json!({"uri": uri}));
}
