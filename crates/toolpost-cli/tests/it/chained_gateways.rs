//! An MCP server behind two gateways, with responses compared byte for byte.
//!
//! Each request is sent to the server directly and then through `toolpost` → `toolpost`, at
//! endpoints with one source under its own names and at endpoints with all sources, by clients of
//! both protocol generations. The responses are equal except for the differences listed in `view`
//! and `expected_changes`.

mod client;
mod exact_json;
mod expected_changes;
mod requests;
mod view;

use std::process::Command;

use serde_json::{Value, json};

use super::TempFolder;
use super::mcp::{Gateway, everything};
use super::mcp_conformance::Fixtures;
use super::process::wait_until;
use client::{Client, ProtocolGeneration};
use requests::{EVERYTHING, FIDELITY, Request};
use view::View;

/// The servers at the end of the chain, their protocol generation and the requests they receive.
const SOURCES: [(&str, ProtocolGeneration, &[Request]); 3] = [
    ("everything", ProtocolGeneration::Legacy, EVERYTHING),
    ("fidelity", ProtocolGeneration::Legacy, FIDELITY),
    ("modern", ProtocolGeneration::Modern, FIDELITY),
];

/// Returns the command line of a server.
fn command(name: &str) -> Vec<String> {
    if name == "everything" {
        let [node, script] = everything();
        return vec![node, script, "stdio".to_owned()];
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/fidelity_server.py");
    let generation = if name == "modern" { "modern" } else { "legacy" };
    ["python3", script, generation].map(str::to_owned).to_vec()
}

/// Two chained gateways: the back one has the servers, and the front one has the back one as its
/// source.
struct Chain {
    front: Gateway,
    _back: Gateway,
    folders: [TempFolder; 2],
}

impl Chain {
    /// Starts the chain with the named servers, which log what they receive.
    fn start_with_servers(name: &str, sources: &[&str]) -> Self {
        let folders = folders(name);
        let log = folders[0].path().join("log");
        let mut entries = Vec::new();
        for source in sources {
            let command = command(source);
            let (program, arguments) = command.split_first().unwrap();
            let env = format!("{{ LOG = {log:?} }}");
            // Matches the direct client, which does not support elicitation.
            let rest = "elicitation = \"reject\"";
            let entry =
                format!("{{ command = {program:?}, args = {arguments:?}, env = {env}, {rest} }}");
            let probe = if *source == "everything" { "get-tiny-image" } else { "empty" };
            entries.push((*source, entry, probe));
        }
        Self::start(folders, &entries)
    }

    /// Starts the gateways. Each source has a name, an `mcp` entry, and a tool without required
    /// arguments.
    fn start(folders: [TempFolder; 2], sources: &[(&str, String, &str)]) -> Self {
        let config = |entry: &dyn Fn(&str, &str) -> String| -> String {
            let sources = sources.iter();
            sources
                .map(|(name, far, _)| format!("[source.{name}]\nmcp = {}\n", entry(name, far)))
                .collect()
        };
        folders[0].write("toolpost.toml", &config(&|_, entry| entry.to_owned()));
        let far = Gateway::start(&folders[0]);
        let address = far.address();
        let beyond =
            |name: &str, _: &str| format!("{{ url = 'http://{address}/mcp?source={name}' }}");
        folders[1].write("toolpost.toml", &config(&beyond));
        let front = Gateway::start(&folders[1]);
        for (name, _, probe) in sources {
            let probe = format!("{name}.{probe}");
            wait_until(&probe, || front.call(&probe).0 == 200);
        }
        Self { front, _back: far, folders }
    }

    /// Counts how often the innermost servers logged this line.
    fn count_recorded(&self, line: &str) -> usize {
        let log = std::fs::read_to_string(self.folders[0].path().join("log")).unwrap_or_default();
        log.lines().filter(|expected_value| *expected_value == line).count()
    }

    /// Returns clients of both protocol generations, over HTTP and over stdio.
    fn clients(&self, source: &str) -> impl Iterator<Item = (String, Client)> {
        let transports = [ProtocolGeneration::Legacy, ProtocolGeneration::Modern]
            .map(|generation| [(generation, "HTTP"), (generation, "stdio")]);
        transports.into_iter().flatten().map(move |(generation, transport)| {
            let client = if transport == "HTTP" {
                Client::http(self.front.address(), &format!("/mcp?source={source}"), generation)
            } else {
                let mut command = super::command(&["mcp", "--source", source]);
                Client::process(command.current_dir(self.folders[1].path()), generation)
            };
            (format!("{generation:?} over {transport}, {source}"), client)
        })
    }
}

/// Creates a folder for each gateway.
fn folders(name: &str) -> [TempFolder; 2] {
    ["far", "near"].map(|end| TempFolder::new(&format!("chain-{name}-{end}")))
}

/// Returns the responses of a server without a gateway.
fn direct_responses(
    name: &str,
    generation: ProtocolGeneration,
    questions: &[Request],
) -> Vec<Value> {
    let command = command(name);
    let mut client = Client::process(Command::new(&command[0]).args(&command[1..]), generation);
    questions.iter().map(|(method, params)| client.request(method, params)).collect()
}

#[test]
fn responses_pass_unchanged_through_two_gateways() {
    let chain = Chain::start_with_servers("says", &SOURCES.map(|(name, ..)| name));
    let mut wrong = Vec::new();
    for (source, generation, questions) in SOURCES {
        let expected_value = direct_responses(source, generation, questions);
        for view in View::all(source, generation) {
            let mut client = Client::http(chain.front.address(), &view.path(), view.generation);
            for ((method, params), expected_value) in questions.iter().zip(&expected_value) {
                let actual_value = client.request(method, &view.params(method, params));
                let (expected_value, actual_value) = (
                    view.expected(method, params, expected_value),
                    view.strip_protocol_members(method, actual_value),
                );
                if expected_value != actual_value {
                    wrong.push(format!(
                        "{view:?} {method} {params:.200}\n{}",
                        describe_differences("", &expected_value, &actual_value)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Lists the paths at which two documents differ.
fn describe_differences(path: &str, expected_value: &Value, actual_value: &Value) -> String {
    let mut lines = String::new();
    match (expected_value, actual_value) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
                let both =
                    (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                lines += &describe_differences(&format!("{path}/{name}"), both.0, both.1);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                lines += &describe_differences(&format!("{path}/{index}"), a, b);
            }
        }
        (a, b) if a == b => {}
        (a, b) => lines = format!("  {path}: expected {a:.600}, found {b:.600}\n"),
    }
    lines
}

#[test]
fn progress_and_cancel_pass_through_two_gateways() {
    let chain = Chain::start_with_servers("cancels", &["fidelity", "modern"]);
    let mut canceled = 0;
    for source in ["fidelity", "modern"] {
        for (name, mut client) in chain.clients(source) {
            let mut received = Vec::new();
            let token = r#""progressToken":"the client's own""#;
            let steps = r#"{"name":"wait","arguments":{"steps":3}}"#;
            let mut exchange = client.send("tools/call", steps, token);
            let response = client.recv_response(&mut exchange, &mut received);
            assert_eq!(response["result"]["content"][0]["text"], "waited", "{name}: {response}");
            let received: Vec<_> = received.iter().map(|received| &received["params"]).collect();
            let step = |step: &str| {
                json!({"progressToken": "the client's own", "progress": format!("#{step}.0"),
                    "total": "#3.0", "message": format!("step {step}")})
            };
            assert_eq!(received, [&step("1"), &step("2"), &step("3")], "{name}");

            let endless = client.send("tools/call", r#"{"name":"wait","arguments":{}}"#, "");
            canceled += 1;
            wait_until(&name, || chain.count_recorded("waits") == canceled);
            client.cancel(endless);
            // The server logs this line only when it receives the cancellation of this call.
            wait_until(&name, || chain.count_recorded("wait canceled") == canceled);
            // The connection is still usable.
            let response = client.request("tools/call", r#"{"name":"empty","arguments":{}}"#);
            assert_eq!(response["result"]["content"], json!([]), "{name}: {response}");
        }
    }
}

#[test]
fn log_and_list_changed_pass_through_two_gateways() {
    for generation in ["legacy", "modern"] {
        let fixtures = Fixtures::start(Some(generation));
        let entry = format!("{{ url = 'http://127.0.0.1:{}/mcp' }}", fixtures.port);
        let sources = [("conf", entry, "test_simple_text")];
        let chain = Chain::start(folders(&format!("notified-{generation}")), &sources);
        for (number, (name, mut client)) in chain.clients("conf").enumerate() {
            let mut received = Vec::new();
            let level = r#""io.modelcontextprotocol/logLevel":"info""#;
            let call = r#"{"name":"test_tool_with_logging","arguments":{}}"#;
            let mut exchange = client.send("tools/call", call, level);
            client.recv_response(&mut exchange, &mut received);
            received.retain(|received| received["method"] == "notifications/message");
            let expected_value: Vec<_> =
                received.iter().map(|received| &received["params"]["data"]).collect();
            assert_eq!(expected_value, ["begun", "at work", "done"], "{name}, {generation}");

            let mut stream = client.listen();
            for (kind, list) in [("tool", "tools"), ("prompt", "prompts")] {
                let mut received = Vec::new();
                let call = format!(r#"{{"name":"test_trigger_{kind}_change","arguments":{{}}}}"#);
                let mut exchange = client.send("tools/call", &call, "");
                client.recv_response(&mut exchange, &mut received);
                let is_news = format!("notifications/{list}/list_changed");
                while !received.iter().any(|received| received["method"] == is_news) {
                    received.push(client.recv_message(&mut stream));
                }
                let listed = client.request(&format!("{list}/list"), "{}");
                let listed = listed["result"][list].as_array().unwrap();
                let new = format!("{kind}_{number}");
                let is_there = listed.iter().any(|item| item["name"] == new);
                assert!(is_there, "{name}, {generation}: no {new} in {listed:?}");
            }
        }
    }
}
