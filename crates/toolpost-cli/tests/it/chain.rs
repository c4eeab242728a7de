//! A server behind two gateways, seen by a client that looks at every byte.
//!
//! Each question is first put to the server itself, and then through `toolpost` → `toolpost`, at addresses
//! that show one source under its own names and at those that show everything, to clients of both
//! eras. The answers are equal but for what `differences` and `exceptions` list.

mod client;
mod differences;
mod exact;
mod exceptions;
mod questions;

use std::process::Command;

use serde_json::{Value, json};

use super::Folder;
use super::mcp::{Gateway, everything, wait_until};
use super::mcp_conformance::Fixtures;
use client::{Client, Era};
use differences::View;
use questions::{EVERYTHING, FIDELITY, Question};

/// The servers at the end of the chain, the era they speak, and what they are asked.
const SOURCES: [(&str, Era, &[Question]); 3] = [
    ("everything", Era::Legacy, EVERYTHING),
    ("fidelity", Era::Legacy, FIDELITY),
    ("modern", Era::Modern, FIDELITY),
];

/// The command line of a server.
fn command(name: &str) -> Option<Vec<String>> {
    if name == "everything" {
        let [node, script] = everything()?;
        return Some(vec![node, script, "stdio".to_owned()]);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/fidelity.py");
    let era = if name == "modern" { "modern" } else { "legacy" };
    Some(["python3", script, era].map(str::to_owned).to_vec())
}

/// Two gateways: the far one has the servers, the near one has the far one.
struct Chain {
    near: Gateway,
    _far: Gateway,
    folders: [Folder; 2],
}

impl Chain {
    /// Starts it with the servers of these names, which write down what they are told.
    fn of_processes(name: &str, sources: &[&str]) -> Option<Self> {
        let folders = folders(name);
        let log = folders[0].path().join("log");
        let mut entries = Vec::new();
        for source in sources {
            let command = command(source)?;
            let (program, arguments) = command.split_first().unwrap();
            let env = format!("{{ LOG = {log:?} }}");
            // As the client that speaks to it directly, which cannot be asked anything.
            let rest = "elicitation = \"refuse\"";
            let entry =
                format!("{{ command = {program:?}, args = {arguments:?}, env = {env}, {rest} }}");
            let probe = if *source == "everything" { "get-tiny-image" } else { "empty" };
            entries.push((*source, entry, probe));
        }
        Some(Self::start(folders, &entries))
    }

    /// Starts it with sources: a name, where it is, and a tool that needs nothing.
    fn start(folders: [Folder; 2], sources: &[(&str, String, &str)]) -> Self {
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
        let near = Gateway::start(&folders[1]);
        for (name, _, probe) in sources {
            let probe = format!("{name}.{probe}");
            wait_until(&probe, || near.call(&probe).0 == 200);
        }
        Self { near, _far: far, folders }
    }

    /// How often the innermost servers wrote this.
    fn recorded(&self, line: &str) -> usize {
        let log = std::fs::read_to_string(self.folders[0].path().join("log")).unwrap_or_default();
        log.lines().filter(|said| *said == line).count()
    }

    /// Clients of both eras, over HTTP and as the parents of a gateway, one after the other.
    fn clients(&self, source: &str) -> impl Iterator<Item = (String, Client)> {
        let ways = [Era::Legacy, Era::Modern].map(|era| [(era, "HTTP"), (era, "stdio")]);
        ways.into_iter().flatten().map(move |(era, way)| {
            let client = if way == "HTTP" {
                Client::http(self.near.address(), &format!("/mcp?source={source}"), era)
            } else {
                let mut command = super::command(&["mcp", "--source", source]);
                Client::process(command.current_dir(self.folders[1].path()), era)
            };
            (format!("{era:?} over {way}, {source}"), client)
        })
    }
}

/// A folder for each end.
fn folders(name: &str) -> [Folder; 2] {
    ["far", "near"].map(|end| Folder::new(&format!("chain-{name}-{end}")))
}

/// What a server says itself.
fn direct(name: &str, era: Era, questions: &[Question]) -> Vec<Value> {
    let command = command(name).unwrap();
    let mut client = Client::process(Command::new(&command[0]).args(&command[1..]), era);
    questions.iter().map(|(method, params)| client.ask(method, params)).collect()
}

#[test]
fn what_a_server_says_arrives_behind_two_gateways() {
    let Some(chain) = Chain::of_processes("says", &SOURCES.map(|(name, ..)| name)) else { return };
    let mut wrong = Vec::new();
    for (source, spoken, questions) in SOURCES {
        let said = direct(source, spoken, questions);
        for view in View::all(source, spoken) {
            let mut client = Client::http(chain.near.address(), &view.path(), view.era);
            for ((method, params), said) in questions.iter().zip(&said) {
                let heard = client.ask(method, &view.params(method, params));
                let (said, heard) =
                    (view.expected(method, params, said), view.heard(method, heard));
                if said != heard {
                    wrong.push(format!(
                        "{view:?} {method} {params:.200}\n{}",
                        differ("", &said, &heard)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The places where two documents differ.
fn differ(place: &str, said: &Value, heard: &Value) -> String {
    let mut lines = String::new();
    match (said, heard) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
                let both =
                    (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                lines += &differ(&format!("{place}/{name}"), both.0, both.1);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                lines += &differ(&format!("{place}/{index}"), a, b);
            }
        }
        (a, b) if a == b => {}
        (a, b) => lines = format!("  {place}: said {a:.600}, heard {b:.600}\n"),
    }
    lines
}

#[test]
fn progress_comes_all_the_way_and_a_cancelled_call_ends_at_the_server() {
    let Some(chain) = Chain::of_processes("cancels", &["fidelity", "modern"]) else { return };
    let mut cancelled = 0;
    for source in ["fidelity", "modern"] {
        for (name, mut client) in chain.clients(source) {
            let mut told = Vec::new();
            let token = r#""progressToken":"the client's own""#;
            let steps = r#"{"name":"wait","arguments":{"steps":3}}"#;
            let mut exchange = client.send("tools/call", steps, token);
            let answer = client.answer(&mut exchange, &mut told);
            assert_eq!(answer["result"]["content"][0]["text"], "waited", "{name}: {answer}");
            let told: Vec<_> = told.iter().map(|told| &told["params"]).collect();
            let step = |step: &str| {
                json!({"progressToken": "the client's own", "progress": format!("#{step}.0"),
                    "total": "#3.0", "message": format!("step {step}")})
            };
            assert_eq!(told, [&step("1"), &step("2"), &step("3")], "{name}");

            let endless = client.send("tools/call", r#"{"name":"wait","arguments":{}}"#, "");
            cancelled += 1;
            wait_until(&name, || chain.recorded("waits") == cancelled);
            client.cancel(endless);
            // It says so when it is told about this call, and at nothing else.
            wait_until(&name, || chain.recorded("wait canceled") == cancelled);
            // The connection is as good as before.
            let answer = client.ask("tools/call", r#"{"name":"empty","arguments":{}}"#);
            assert_eq!(answer["result"]["content"], json!([]), "{name}: {answer}");
        }
    }
}

#[test]
fn what_is_logged_and_what_changes_is_told_all_the_way() {
    for spoken in ["legacy", "modern"] {
        let fixtures = Fixtures::start(Some(spoken));
        let entry = format!("{{ url = 'http://127.0.0.1:{}/mcp' }}", fixtures.port);
        let sources = [("conf", entry, "test_simple_text")];
        let chain = Chain::start(folders(&format!("told-{spoken}")), &sources);
        for (number, (name, mut client)) in chain.clients("conf").enumerate() {
            let mut told = Vec::new();
            let level = r#""io.modelcontextprotocol/logLevel":"info""#;
            let call = r#"{"name":"test_tool_with_logging","arguments":{}}"#;
            let mut exchange = client.send("tools/call", call, level);
            client.answer(&mut exchange, &mut told);
            told.retain(|told| told["method"] == "notifications/message");
            let said: Vec<_> = told.iter().map(|told| &told["params"]["data"]).collect();
            assert_eq!(said, ["begun", "at work", "done"], "{name}, {spoken}");

            let mut stream = client.listen();
            for (kind, list) in [("tool", "tools"), ("prompt", "prompts")] {
                let mut told = Vec::new();
                let call = format!(r#"{{"name":"test_trigger_{kind}_change","arguments":{{}}}}"#);
                let mut exchange = client.send("tools/call", &call, "");
                client.answer(&mut exchange, &mut told);
                let is_news = format!("notifications/{list}/list_changed");
                while !told.iter().any(|told| told["method"] == is_news) {
                    told.push(client.next(&mut stream));
                }
                let listed = client.ask(&format!("{list}/list"), "{}");
                let listed = listed["result"][list].as_array().unwrap();
                let new = format!("{kind}_{number}");
                let is_there = listed.iter().any(|item| item["name"] == new);
                assert!(is_there, "{name}, {spoken}: no {new} in {listed:?}");
            }
        }
    }
}
