//! Minimal MCP clients: no registry, no deadlines, no concurrent callers.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::Semaphore;

use super::echo_server::ProtocolGeneration;
use super::{Call, run_concurrently};

/// A client for one server.
pub(crate) enum MinimalClient {
    Stdio(Box<StdioClient>),
    Http(Box<HttpClient>),
}

impl MinimalClient {
    /// Makes `batch` calls with `in_flight` of them at a time and records the duration of each.
    pub(crate) async fn run(
        &mut self,
        call: &Call,
        in_flight: usize,
        batch: usize,
        times: &mut Vec<Duration>,
    ) {
        match self {
            Self::Stdio(client) => client.run(call, in_flight, batch, times).await,
            Self::Http(client) => {
                let client = &*client;
                run_concurrently(in_flight, batch, times, || client.call(call)).await;
            }
        }
    }
}

/// The JSON of a request, the same as the registry sends.
fn request(generation: ProtocolGeneration, id: u64, call: &Call) -> String {
    let meta = match generation {
        ProtocolGeneration::Legacy => String::new(),
        ProtocolGeneration::Modern => format!(
            r#""io.modelcontextprotocol/protocolVersion":"{}","io.modelcontextprotocol/clientInfo":{{"name":"toolpost","version":"0.1.0"}},"io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/logLevel":"info","#,
            generation.version()
        ),
    };
    let (tool, arguments) = (call.tool, call.arguments.clone());
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{{meta}"progressToken":{id}}}}}}}"#
    )
}

/// The data of a response.
fn parse_data(reply: &[u8], call: &Call) -> Value {
    let mut reply: Value = serde_json::from_slice(reply).unwrap();
    let result = &mut reply["result"];
    let field = if call.tool == "data" { "structuredContent" } else { "content" };
    result[field].take()
}

/// A server process, used by one async task.
pub(crate) struct StdioClient {
    generation: ProtocolGeneration,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
    _child: Child,
}

impl StdioClient {
    pub(crate) async fn start(generation: ProtocolGeneration) -> Self {
        let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args([super::SERVE_STDIO, generation.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let stdout = BufReader::with_capacity(64 * 1024, stdout);
        let mut client = Self { generation, stdin, stdout, id: 0, _child: child };
        if generation == ProtocolGeneration::Legacy {
            let info = json!({"name": "raw", "version": "1"});
            let version = generation.version();
            let params =
                json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info});
            let initialize =
                json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            client.stdin.write_all(format!("{initialize}\n").as_bytes()).await.unwrap();
            client.stdout.read_until(b'\n', &mut Vec::new()).await.unwrap();
        }
        client
    }

    /// Writes and reads concurrently, to avoid a deadlock when both pipes are full.
    async fn run(
        &mut self,
        call: &Call,
        in_flight: usize,
        batch: usize,
        times: &mut Vec<Duration>,
    ) {
        let Self { generation, stdin, stdout, id, .. } = self;
        let (permits, sent) = (Semaphore::new(in_flight), Mutex::new(VecDeque::new()));
        let writing = async {
            for _ in 0..batch {
                permits.acquire().await.unwrap().forget();
                sent.lock().unwrap().push_back(Instant::now());
                *id += 1;
                let mut line = request(*generation, *id, call);
                line.push('\n');
                stdin.write_all(line.as_bytes()).await.unwrap();
            }
        };
        let reading = async {
            let mut line = Vec::new();
            for _ in 0..batch {
                stdout.read_until(b'\n', &mut line).await.unwrap();
                assert!(!parse_data(&line, call).is_null());
                line.clear();
                times.push(sent.lock().unwrap().pop_front().unwrap().elapsed());
                permits.add_permits(1);
            }
        };
        tokio::join!(writing, reading);
    }
}

/// A server behind a URL.
pub(crate) struct HttpClient {
    generation: ProtocolGeneration,
    client: reqwest::Client,
    url: reqwest::Url,
    id: AtomicU64,
}

impl HttpClient {
    pub(crate) fn new(generation: ProtocolGeneration, url: reqwest::Url) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, accept);
        headers.insert("mcp-protocol-version", HeaderValue::from_static(generation.version()));
        if generation == ProtocolGeneration::Legacy {
            headers.insert("mcp-session-id", HeaderValue::from_static("0123456789abcdef"));
        } else {
            headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
            headers.insert("mcp-name", HeaderValue::from_static("data"));
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().tcp_nodelay(true).default_headers(headers);
        let client = client.user_agent("toolpost/0.1.0").build().unwrap();
        Self { generation, client, url, id: AtomicU64::new(0) }
    }

    async fn call(&self, call: &Call) {
        let id = self.id.fetch_add(1, Ordering::Relaxed);
        let body = request(self.generation, id, call);
        let response = self.client.post(self.url.clone()).body(body).send().await.unwrap();
        let reply = response.bytes().await.unwrap();
        assert!(!parse_data(&reply, call).is_null());
    }
}
