//! The least that can call such a server: no registry, no deadlines, no second caller.

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

use super::server::Era;
use super::{Call, keep_in_flight};

/// A client for one server.
pub(crate) enum Raw {
    Pipe(Box<Pipe>),
    Post(Box<Post>),
}

impl Raw {
    /// Makes `batch` calls with so many in flight, and notes how long each took.
    pub(crate) async fn run(
        &mut self,
        call: &Call,
        in_flight: usize,
        batch: usize,
        times: &mut Vec<Duration>,
    ) {
        match self {
            Self::Pipe(pipe) => pipe.run(call, in_flight, batch, times).await,
            Self::Post(post) => {
                let post = &*post;
                keep_in_flight(in_flight, batch, times, || post.call(call)).await;
            }
        }
    }
}

/// What one of our requests looks like on the wire.
fn request(era: Era, id: u64, call: &Call) -> String {
    let meta = match era {
        Era::Legacy => String::new(),
        Era::Modern => format!(
            r#""io.modelcontextprotocol/protocolVersion":"{}","io.modelcontextprotocol/clientInfo":{{"name":"toolpost","version":"0.1.0"}},"io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/logLevel":"info","#,
            era.version()
        ),
    };
    let (tool, arguments) = (call.tool, call.arguments.clone());
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{{meta}"progressToken":{id}}}}}}}"#
    )
}

/// The data in an answer.
fn data(answer: &[u8], call: &Call) -> Value {
    let mut answer: Value = serde_json::from_slice(answer).unwrap();
    let result = &mut answer["result"];
    let data = if call.tool == "data" { "structuredContent" } else { "content" };
    result[data].take()
}

/// A process, spoken to by one task.
pub(crate) struct Pipe {
    era: Era,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
    _child: Child,
}

impl Pipe {
    pub(crate) async fn start(era: Era) -> Self {
        let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args([super::SERVE_STDIO, era.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let stdout = BufReader::with_capacity(64 * 1024, stdout);
        let mut pipe = Self { era, stdin, stdout, id: 0, _child: child };
        if era == Era::Legacy {
            let info = json!({"name": "raw", "version": "1"});
            let params =
                json!({"protocolVersion": era.version(), "capabilities": {}, "clientInfo": info});
            let hello =
                json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            pipe.stdin.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
            pipe.stdout.read_until(b'\n', &mut Vec::new()).await.unwrap();
        }
        pipe
    }

    /// Writing and reading go on side by side, since a pipe that is full both ways is stuck.
    async fn run(
        &mut self,
        call: &Call,
        in_flight: usize,
        batch: usize,
        times: &mut Vec<Duration>,
    ) {
        let Self { era, stdin, stdout, id, .. } = self;
        let (room, sent) = (Semaphore::new(in_flight), Mutex::new(VecDeque::new()));
        let writing = async {
            for _ in 0..batch {
                room.acquire().await.unwrap().forget();
                sent.lock().unwrap().push_back(Instant::now());
                *id += 1;
                let mut line = request(*era, *id, call);
                line.push('\n');
                stdin.write_all(line.as_bytes()).await.unwrap();
            }
        };
        let reading = async {
            let mut line = Vec::new();
            for _ in 0..batch {
                stdout.read_until(b'\n', &mut line).await.unwrap();
                assert!(!data(&line, call).is_null());
                line.clear();
                times.push(sent.lock().unwrap().pop_front().unwrap().elapsed());
                room.add_permits(1);
            }
        };
        tokio::join!(writing, reading);
    }
}

/// An address to which bodies are sent.
pub(crate) struct Post {
    era: Era,
    client: reqwest::Client,
    url: reqwest::Url,
    id: AtomicU64,
}

impl Post {
    pub(crate) fn new(era: Era, url: reqwest::Url) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, accept);
        headers.insert("mcp-protocol-version", HeaderValue::from_static(era.version()));
        if era == Era::Legacy {
            headers.insert("mcp-session-id", HeaderValue::from_static("0123456789abcdef"));
        } else {
            headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
            headers.insert("mcp-name", HeaderValue::from_static("data"));
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().tcp_nodelay(true).default_headers(headers);
        let client = client.user_agent("toolpost/0.1.0").build().unwrap();
        Self { era, client, url, id: AtomicU64::new(0) }
    }

    async fn call(&self, call: &Call) {
        let id = self.id.fetch_add(1, Ordering::Relaxed);
        let body = request(self.era, id, call);
        let response = self.client.post(self.url.clone()).body(body).send().await.unwrap();
        let answer = response.bytes().await.unwrap();
        assert!(!data(&answer, call).is_null());
    }
}
