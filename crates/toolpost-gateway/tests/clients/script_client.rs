//! The clients for Node and Python. Each is a process that reads a job per line and writes a result
//! per line.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use toolpost::view::ProtocolGeneration;

use super::check::PreservedMembers;
use super::matrix::Row;
use super::{
    BOTH_GENERATIONS, ClientInfo, ClientRun, ClientTransport, RUN_TIMEOUT, TestEnv, job_json,
};

/// A client that runs as a script, and its command line. `{cache}` is replaced with the package
/// folder.
pub(super) struct ScriptClient {
    info: ClientInfo,
    program: &'static str,
    arguments: &'static [&'static str],
    generations: &'static [ProtocolGeneration],
    /// Program between the client, on its standard input and output, and the gateway over HTTP.
    bridge: Option<&'static str>,
    /// Name of the log file for its other output.
    log: &'static str,
}

const NODE: &str = "{cache}/npm/node_modules/.bin/node";

pub(super) const CLIENTS: [ScriptClient; 5] = [
    ScriptClient {
        info: ClientInfo { name: "npm mcp-remote", preserves: PreservedMembers::Outer },
        program: NODE,
        arguments: &["sdk1.mjs", "{cache}/clients", "{cache}/bridge/node_modules/mcp-remote"],
        generations: &[ProtocolGeneration::Legacy],
        bridge: Some("{cache}/bridge/node_modules/mcp-remote/dist/proxy.js"),
        log: "mcp-remote",
    },
    ScriptClient {
        info: ClientInfo {
            name: "npm @modelcontextprotocol/sdk",
            preserves: PreservedMembers::Outer,
        },
        program: NODE,
        arguments: &["sdk1.mjs", "{cache}/clients"],
        generations: &[ProtocolGeneration::Legacy],
        bridge: None,
        log: "sdk1",
    },
    ScriptClient {
        info: ClientInfo {
            name: "npm @modelcontextprotocol/client",
            preserves: PreservedMembers::Outer,
        },
        program: NODE,
        arguments: &["sdk2.mjs", "{cache}/clients"],
        generations: BOTH_GENERATIONS,
        bridge: None,
        log: "sdk2",
    },
    ScriptClient {
        info: ClientInfo { name: "PyPI mcp", preserves: PreservedMembers::All },
        program: "{cache}/py/bin/python",
        arguments: &["client.py"],
        generations: &[ProtocolGeneration::Legacy],
        bridge: None,
        log: "py1",
    },
    ScriptClient {
        info: ClientInfo { name: "PyPI mcp", preserves: PreservedMembers::None },
        program: "{cache}/py2/bin/python",
        arguments: &["client.py"],
        generations: BOTH_GENERATIONS,
        bridge: None,
        log: "py2",
    },
];

impl ScriptClient {
    pub(super) async fn run(&self, test_env: &TestEnv) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut process = None;
        let has_transport = |session: &ClientRun| {
            self.bridge.is_none() || session.transport == ClientTransport::Http
        };
        for session in ClientRun::all(self.generations).filter(has_transport) {
            let mut running = process.take().unwrap_or_else(|| self.start(test_env));
            let mut job = job_json(test_env, session);
            if let Some(bridge) = self.bridge {
                let [node, bridge] = [NODE, bridge].map(|part| fill_in(test_env, part));
                job["command"] = json!([node, bridge, job["url"].take()]);
            }
            let found = tokio::time::timeout(RUN_TIMEOUT, running.run_job(&job)).await;
            let found = found.unwrap_or_else(|_| json!({"failed": "timed out"}));
            // After a failure, a new process runs the remaining sessions.
            process = found.get("failed").is_none().then_some(running);
            rows.push(test_env.evaluate(self.info, session, &test_env.calls, &found));
        }
        rows
    }

    fn start(&self, test_env: &TestEnv) -> ClientProcess {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        let mut command = Command::new(fill_in(test_env, self.program));
        let arguments = self.arguments.iter().map(|part| fill_in(test_env, part));
        command.args(arguments).current_dir(folder);
        // The bridge stores server data in the home directory.
        command.env("HOME", env!("CARGO_TARGET_TMPDIR"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(TestEnv::log_file(self.log));
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        ClientProcess { _child: child, input, output }
    }
}

fn fill_in(test_env: &TestEnv, text: &str) -> String {
    text.replace("{cache}", &test_env.cache.to_string_lossy())
}

/// A running client process. Dropping it ends the process and the gateways that it started.
struct ClientProcess {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl ClientProcess {
    async fn run_job(&mut self, job: &Value) -> Value {
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
