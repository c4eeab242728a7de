//! A raw MCP client: it sends text as given, and responses are compared in full.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, Command, Stdio};

use serde_json::Value;

use super::exact_json;
use crate::process::{OutputLines, Process, TIMEOUT};

/// Protocol generation of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolGeneration {
    /// 2025-11-25, with an `initialize` handshake and, over HTTP, a session.
    Legacy,
    /// 2026-07-28, stateless: every request is self-contained.
    Modern,
}

impl ProtocolGeneration {
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// An MCP client.
pub(super) struct Client {
    transport: ClientTransport,
    generation: ProtocolGeneration,
    last_id: u32,
}

enum ClientTransport {
    Process { _process: Process, input: ChildStdin, lines: OutputLines },
    Http { address: String, path: String, session: Option<String> },
}

/// A sent request and, over HTTP, the connection that carries its response.
pub(super) struct Exchange {
    id: u32,
    http: Option<Response>,
}

struct Response {
    body: BufReader<TcpStream>,
    head: String,
}

impl Client {
    /// Starts a server process and initializes it.
    pub(super) fn process(command: &mut Command, generation: ProtocolGeneration) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::spawn(command);
        let (input, lines) = (process.stdin.take().unwrap(), process.stdout_lines());
        let transport = ClientTransport::Process { _process: process, input, lines };
        Self::initialized(transport, generation)
    }

    /// Connects to the server at an address and initializes it.
    pub(super) fn http(address: &str, path: &str, generation: ProtocolGeneration) -> Self {
        let (address, path) = (address.to_owned(), path.to_owned());
        Self::initialized(ClientTransport::Http { address, path, session: None }, generation)
    }

    fn initialized(client_transport: ClientTransport, generation: ProtocolGeneration) -> Self {
        let mut client = Self { transport: client_transport, generation, last_id: 0 };
        if generation == ProtocolGeneration::Modern {
            return client;
        }
        let params = format!(
            r#"{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"raw","version":"1"}}}}"#,
            generation.version()
        );
        let mut exchange = client.send("initialize", &params, "");
        let initialize_response = client.recv_response(&mut exchange, &mut Vec::new());
        assert_eq!(
            initialize_response["result"]["protocolVersion"],
            generation.version(),
            "{initialize_response}"
        );
        if let (ClientTransport::Http { session, .. }, Some(response)) =
            (&mut client.transport, &exchange.http)
        {
            *session = response.header("mcp-session-id").map(str::to_owned);
            assert!(session.is_some(), "no session in {}", response.head);
        }
        client.notify("notifications/initialized", "{}");
        client
    }

    /// Sends a request and returns the response, an object with `result` or `error`.
    pub(super) fn request(&mut self, method: &str, params: &str) -> Value {
        let mut exchange = self.send(method, params, "");
        self.recv_response(&mut exchange, &mut Vec::new())
    }

    /// Sends a request. `meta` is the JSON text of additional `_meta` members.
    pub(super) fn send(&mut self, method: &str, params: &str, meta: &str) -> Exchange {
        self.last_id += 1;
        let params = params_with_meta(self.generation, params, meta);
        let id = self.last_id;
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        Exchange { id, http: self.write(method, &params, &body) }
    }

    pub(super) fn notify(&mut self, method: &str, params: &str) {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        if let Some(mut response) = self.write(method, params, &body) {
            let status = response.status();
            assert_eq!(status, 202, "{method}: {}", response.rest());
        }
    }

    /// Cancels a request as the transport requires.
    pub(super) fn cancel(&mut self, exchange: Exchange) {
        match (&self.transport, self.generation) {
            // Closing the connection cancels the request.
            (ClientTransport::Http { .. }, ProtocolGeneration::Modern) => drop(exchange),
            _ => {
                let params = format!(r#"{{"requestId":{},"reason":"tired"}}"#, exchange.id);
                self.notify("notifications/cancelled", &params);
            }
        }
    }

    /// Returns the response to a request. Notifications received before it are added to
    /// `notifications`.
    pub(super) fn recv_response(
        &mut self,
        exchange: &mut Exchange,
        notifications: &mut Vec<Value>,
    ) -> Value {
        loop {
            let mut message = self.recv_message(exchange);
            if message.get("method").is_some() {
                notifications.push(message);
            } else if message["id"] == format!("#{}", exchange.id) {
                message
                    .as_object_mut()
                    .unwrap()
                    .retain(|name, _| name == "result" || name == "error");
                return message;
            }
        }
    }

    /// Receives the next message of a request's stream.
    pub(super) fn recv_message(&mut self, exchange: &mut Exchange) -> Value {
        match (&mut self.transport, &mut exchange.http) {
            (ClientTransport::Process { lines, .. }, _) => {
                exact_json::parse_exact(&lines.next().unwrap())
            }
            (_, Some(response)) => response.message(),
            (ClientTransport::Http { .. }, None) => {
                unreachable!("a request over HTTP has its connection")
            }
        }
    }

    /// Starts to listen for server notifications. Over stdio a legacy client receives them without
    /// a request.
    pub(super) fn listen(&mut self) -> Exchange {
        if self.generation == ProtocolGeneration::Modern {
            let expected =
                r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}"#;
            let mut exchange = self.send("subscriptions/listen", expected, "");
            let first = self.recv_message(&mut exchange);
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
            return exchange;
        }
        let ClientTransport::Http { address, path, session } = &self.transport else {
            return Exchange { id: 0, http: None };
        };
        let session = session.as_deref().unwrap();
        let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
        let mut response = request(address, &format!("GET {path}"), &headers, "");
        assert_eq!(response.status(), 200, "{}", response.head);
        Exchange { id: 0, http: Some(response) }
    }

    fn write(&mut self, method: &str, params: &str, body: &str) -> Option<Response> {
        match &mut self.transport {
            ClientTransport::Process { input, .. } => {
                writeln!(input, "{body}").unwrap();
                None
            }
            ClientTransport::Http { address, path, session } => {
                let session = session.as_ref().map(|id| format!("mcp-session-id: {id}\r\n"));
                let headers =
                    headers(self.generation, method, params) + &session.unwrap_or_default();
                Some(request(address, &format!("POST {path}"), &headers, body))
            }
        }
    }
}

/// Sends a request over HTTP/1.0, so that the end of the connection ends the response body.
fn request(address: &str, what: &str, headers: &str, body: &str) -> Response {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = format!(
        "{what} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    Response { body: BufReader::new(stream), head: String::new() }
}

impl Response {
    fn head(&mut self) -> &str {
        while !self.head.ends_with("\r\n\r\n") {
            assert!(self.body.read_line(&mut self.head).unwrap() > 0, "cut: {}", self.head);
        }
        &self.head
    }

    fn header(&self, name: &str) -> Option<&str> {
        let has_name =
            |line: &'_ str| line.get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name));
        let line = self.head.lines().find(|line| has_name(line))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }

    fn status(&mut self) -> u16 {
        self.head().split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.body.read_to_string(&mut rest).unwrap();
        rest
    }

    fn message(&mut self) -> Value {
        self.head();
        if !self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let rest = self.rest();
            assert!(!rest.is_empty(), "nothing in {}", self.head);
            return exact_json::parse_exact(&rest);
        }
        loop {
            let mut line = String::new();
            assert!(self.body.read_line(&mut line).unwrap() > 0, "the stream ended too early");
            match line.strip_prefix("data:").map(str::trim) {
                Some(data) if !data.is_empty() => return exact_json::parse_exact(data),
                _ => {}
            }
        }
    }
}

/// Adds the `_meta` members that every request carries.
fn params_with_meta(generation: ProtocolGeneration, params: &str, meta: &str) -> String {
    let version = generation.version();
    let default_meta = match generation {
        ProtocolGeneration::Legacy => String::new(),
        ProtocolGeneration::Modern => format!(
            r#""io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientInfo":{{"name":"raw","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}"#
        ),
    };
    let members: Vec<_> =
        [default_meta.as_str(), meta].into_iter().filter(|part| !part.is_empty()).collect();
    if members.is_empty() {
        return params.to_owned();
    }
    let own = params.strip_prefix('{').unwrap();
    let comma = if own == "}" { "" } else { "," };
    format!(r#"{{"_meta":{{{}}}{comma}{own}"#, members.join(","))
}

fn headers(generation: ProtocolGeneration, method: &str, params: &str) -> String {
    let mut headers = match method {
        "initialize" => String::new(),
        _ => format!("mcp-protocol-version: {}\r\n", generation.version()),
    };
    if generation == ProtocolGeneration::Modern {
        headers.push_str(&format!("mcp-method: {method}\r\n"));
        let params = exact_json::parse_exact(params);
        let subject = if method == "resources/read" { "uri" } else { "name" };
        if let Some(subject) = params[subject].as_str() {
            headers.push_str(&format!("mcp-name: {subject}\r\n"));
        }
    }
    headers
}
