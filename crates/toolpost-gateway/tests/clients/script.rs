//! The clients for Node and Python: a process each, which answers a line with a line.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use toolpost::view::Era;

use super::check::Keeps;
use super::matrix::Row;
use super::{BOTH, PATIENCE, Place, Session, Who, job};

/// A client, and how it is started; `{cache}` is replaced.
pub(super) struct Client {
    who: Who,
    program: &'static str,
    arguments: &'static [&'static str],
    eras: &'static [Era],
    /// The name of the file that it writes its own words to.
    log: &'static str,
}

const NODE: &str = "{cache}/npm/node_modules/.bin/node";

pub(super) const CLIENTS: [Client; 4] = [
    Client {
        who: Who { name: "npm @modelcontextprotocol/sdk", keeps: Keeps::Outer },
        program: NODE,
        arguments: &["sdk1.mjs", "{cache}/clients"],
        eras: &[Era::Legacy],
        log: "sdk1",
    },
    Client {
        who: Who { name: "npm @modelcontextprotocol/client", keeps: Keeps::Outer },
        program: NODE,
        arguments: &["sdk2.mjs", "{cache}/clients"],
        eras: BOTH,
        log: "sdk2",
    },
    Client {
        who: Who { name: "PyPI mcp", keeps: Keeps::All },
        program: "{cache}/py/bin/python",
        arguments: &["client.py"],
        eras: &[Era::Legacy],
        log: "py1",
    },
    Client {
        who: Who { name: "PyPI mcp", keeps: Keeps::None },
        program: "{cache}/py2/bin/python",
        arguments: &["client.py"],
        eras: BOTH,
        log: "py2",
    },
];

impl Client {
    pub(super) async fn try_out(&self, place: &Place) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut process = None;
        for session in Session::all(self.eras) {
            let mut running = process.take().unwrap_or_else(|| self.start(place));
            let job = job(place, session);
            let found = tokio::time::timeout(PATIENCE, running.ask(&job)).await;
            let found = found.unwrap_or_else(|_| json!({"failed": "it takes too long"}));
            // After a failure, another process is given the rest.
            process = found.get("failed").is_none().then_some(running);
            rows.push(place.judge(self.who, session, &place.calls, &found));
        }
        rows
    }

    fn start(&self, place: &Place) -> Process {
        let fill_in = |text: &str| text.replace("{cache}", &place.cache.to_string_lossy());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        let mut command = Command::new(fill_in(self.program));
        command.args(self.arguments.iter().map(|part| fill_in(part))).current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Place::log(self.log));
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Process { _child: child, input, output }
    }
}

/// A client that runs; gone with its owner, and the gateways that it started with it.
struct Process {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    async fn ask(&mut self, job: &Value) -> Value {
        let line = format!("{job}\n");
        if let Err(error) = self.input.write_all(line.as_bytes()).await {
            return json!({"failed": error.to_string()});
        }
        match self.output.next_line().await {
            Ok(Some(line)) => serde_json::from_str(&line)
                .unwrap_or_else(|error| json!({"failed": format!("{error}: {line:.300}")})),
            Ok(None) => json!({"failed": "it ended"}),
            Err(error) => json!({"failed": error.to_string()}),
        }
    }
}
