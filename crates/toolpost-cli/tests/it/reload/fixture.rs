//! A gateway in its own process, with configuration files that tests change.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolpost_gateway::auth::Token;

use crate::process::{Process, TIMEOUT, wait_until};
use crate::{TempFolder, command};

pub(super) const SCRIPT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/process_info_server.py");

/// A gateway process, killed on drop.
pub(super) struct Gateway {
    pub(super) child: Process,
    pub(super) folder: TempFolder,
    pub(super) address: String,
    /// The operator's token.
    pub(super) token: String,
    log: Arc<Mutex<String>>,
}

impl Gateway {
    /// Starts a gateway with this configuration that reloads only on request.
    pub(super) fn start(name: &str, config: &str) -> Self {
        Self::start_with(name, config, &["--listen", "127.0.0.1:0", "--no-watch"])
    }

    /// Starts a gateway that watches its configuration files.
    pub(super) fn start_watching(name: &str, config: &str) -> Self {
        Self::start_with(name, config, &["--listen", "127.0.0.1:0"])
    }

    pub(super) fn start_with(name: &str, config: &str, options: &[&str]) -> Self {
        let folder = TempFolder::new(name);
        folder.write("toolpost.toml", config);
        Self::start_in(folder, options)
    }

    /// Starts a gateway in an existing folder.
    pub(super) fn start_in(folder: TempFolder, options: &[&str]) -> Self {
        let data = folder.path().join("data");
        let mut command = command(&["serve", "--data", data.to_str().unwrap()]);
        command.args(options).current_dir(folder.path());
        command.env("TOOLPOST_LOG", "info,toolpost_gateway=debug").env("SET_VARIABLE", "set");
        let (mut child, address, _) = Process::serve(command.stderr(Stdio::piped()));
        let log = Arc::<Mutex<String>>::default();
        let stderr = child.stderr.take().unwrap();
        let writing = Arc::clone(&log);
        std::thread::spawn(move || collect_log(stderr, &writing));
        let port = address.rsplit_once(':').unwrap().1;
        let token = folder.read("data/operator.token").trim().to_owned();
        Self { child, folder, address: format!("127.0.0.1:{port}"), token, log }
    }

    /// Replaces the configuration as editors do: writes a new file and renames it over the old one.
    pub(super) fn write_config(&self, config: &str) {
        let draft = self.folder.path().join("toolpost.toml.draft");
        std::fs::write(&draft, config).unwrap();
        std::fs::rename(&draft, self.folder.path().join("toolpost.toml")).unwrap();
    }

    /// Calls an operation over HTTP and returns the status and the response.
    pub(super) fn call(&self, id: &str, token: Option<&str>, input: &Value) -> (u16, Value) {
        let (namespace, name) = id.split_once('.').unwrap();
        let path = format!("/api/{namespace}/{name}");
        match self.request(&path, token, input) {
            (200, data) => (200, json!({"data": data})),
            rejected => rejected,
        }
    }

    /// Sends a POST request to a path and returns the response.
    pub(super) fn post(&self, path: &str, body: &Value) -> Value {
        self.request(path, None, body).1
    }

    /// Requests a path as the operator and returns the whole response.
    pub(super) fn get(&self, path: &str) -> String {
        let token = &self.token;
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn request(&self, path: &str, token: Option<&str>, input: &Value) -> (u16, Value) {
        let header = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let header = header.unwrap_or_default();
        let body = input.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\n{header}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        read_response(stream)
    }

    /// Reloads the configuration as the operator.
    pub(super) fn reload(&self) -> (u16, Value) {
        self.call("gateway.reload", Some(&self.token), &json!({}))
    }

    /// Returns the status of a source.
    pub(super) fn source(&self, name: &str) -> Value {
        let (status, message) = self.call("gateway.sources", Some(&self.token), &json!({}));
        assert_eq!(status, 200, "{message}");
        let sources = message["data"]["sources"].as_array().unwrap();
        sources.iter().find(|source| source["name"] == name).cloned().unwrap_or_default()
    }

    pub(super) fn state(&self, name: &str) -> String {
        self.source(name)["state"].as_str().unwrap_or("absent").to_owned()
    }

    pub(super) fn wait_for(&self, name: &str, state: &str) {
        wait_until(&format!("`{name}` is {state}"), || self.state(name) == state);
    }

    pub(super) fn signal(&self, signal: &str) {
        self.child.signal(signal);
    }

    /// Returns the log output so far.
    pub(super) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn collect_log(stderr: ChildStderr, log: &Mutex<String>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        let mut log = log.lock().unwrap();
        log.push_str(&line);
        log.push('\n');
    }
}

fn read_response(mut stream: TcpStream) -> (u16, Value) {
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = body.trim();
    // A chunked body has a line with the length before each chunk.
    let content: String = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => body.lines().skip(1).step_by(2).collect(),
        false => body.to_owned(),
    };
    (status, serde_json::from_str(&content).unwrap_or_default())
}

/// Returns the configuration of an identity, and its token.
pub(super) fn identity(name: &str, more: &str) -> (String, String) {
    let token = Token::generate().unwrap();
    let text = format!("[identity.{name}]\ntoken_hash = \"{}\"\n{more}\n", token.hash());
    (text, token.reveal().to_owned())
}

/// Configuration of a server that reports its process id and label.
pub(super) fn labeled_server(name: &str, label: &str) -> String {
    format!(
        "[source.{name}]\naccess = \"open\"\n\
         mcp = {{ command = \"python3\", args = [\"{SCRIPT}\", \"mcp\"], protocol = \"2025-06-18\", \
         env = {{ STANDING_LABEL = \"{label}\" }} }}\n"
    )
}

/// An HTTP service process, killed on drop.
pub(super) struct Service {
    _process: Process,
    port: String,
}

impl Service {
    pub(super) fn start() -> Self {
        let mut command = Command::new("python3");
        let mut process = Process::spawn(command.args([SCRIPT, "http"]).stdout(Stdio::piped()));
        let port = process.stdout_lines().next().unwrap();
        Self { _process: process, port: port.trim().to_owned() }
    }

    /// Returns the OpenAPI document of the service.
    pub(super) fn document(&self) -> String {
        json!({
            "openapi": "3.1.0",
            "info": {"title": "standing", "version": "1"},
            "servers": [{"url": format!("http://127.0.0.1:{}", self.port)}],
            "paths": {"/who": {"get": {
                "operationId": "who",
                "responses": {"200": {"description": "who", "content": {"application/json": {
                    "schema": {"type": "object", "properties": {"pid": {"type": "integer"}, "authorization": {"type": "string"}}},
                }}}},
            }}},
        })
        .to_string()
    }
}
