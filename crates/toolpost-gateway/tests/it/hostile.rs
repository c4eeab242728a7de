//! Clients that mean no good: refused by name, and nobody else notices.

mod api;
mod bodies;
mod deaf;
mod mcp;
mod requests;
mod silent;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolpost_gateway::auth::Token;

use super::spokes::in_time;
use super::{Running, client};

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A client that writes its bytes itself.
pub(super) struct Raw(BufReader<TcpStream>);

pub(super) struct Answer {
    pub(super) status: u16,
    /// The head in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

impl Raw {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        Self(BufReader::new(in_time("connecting", TcpStream::connect(address)).await.unwrap()))
    }

    /// With a receive buffer of this size, so that whoever sends soon notices that nobody reads.
    async fn narrow(address: SocketAddr, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Self(BufReader::new(socket.connect(address).await.unwrap()))
    }

    /// Waits, without reading, until the gateway has had enough.
    async fn is_cut(&self) {
        let cut = self.0.get_ref().ready(Interest::ERROR);
        in_time("the end of the connection", cut).await.unwrap();
    }

    pub(super) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        in_time("writing", self.0.write_all(bytes.as_ref())).await.unwrap();
    }

    /// The next answer, or nothing if the gateway hung up.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        let mut head = String::new();
        loop {
            let line = in_time("a line of an answer", self.0.read_line(&mut head)).await;
            match line {
                Ok(0) | Err(_) => return None,
                Ok(2) => break,
                Ok(_) => {}
            }
        }
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        in_time("a body", self.0.read_exact(&mut body)).await.unwrap();
        Some(Answer { status, head, body: String::from_utf8(body).unwrap() })
    }
}

/// Somebody who only wants to work, by both doors, for as long as the others misbehave.
struct Neighbor {
    stop: oneshot::Sender<()>,
    working: JoinHandle<u64>,
}

impl Neighbor {
    fn start(gateway: &Running) -> Self {
        Self::with(gateway, None)
    }

    fn with(gateway: &Running, token: Option<&Token>) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (api, mcp) = (gateway.url("/api/demo/add"), gateway.url("/mcp"));
        let token = token.map(|token| token.reveal().to_owned());
        let working = tokio::spawn(async move {
            let client = client();
            let post = |url: &str, body: Value| {
                let request = client.post(url).json(&body);
                match &token {
                    Some(token) => request.bearer_auth(token),
                    None => request,
                }
            };
            let hello = in_time("a neighbor's hello", post(&mcp, hello()).send()).await.unwrap();
            let session = hello.headers()["mcp-session-id"].clone();
            let mut calls = 0;
            // However short the others misbehave, one round is made beside them or after them.
            loop {
                let input = json!({"a": calls, "b": 1});
                let call = post(&mcp, call("demo__add", &input));
                let sum = format!("{{\"sum\":{}}}", calls + 1);
                for request in [post(&api, input), call.header("mcp-session-id", &session)] {
                    let answer = in_time("a neighbor's call", request.send()).await.unwrap();
                    let answer = answer.text().await.unwrap();
                    assert!(answer.contains(&sum), "{answer}");
                }
                calls += 1;
                if stopped.try_recv() != Err(oneshot::error::TryRecvError::Empty) {
                    return calls * 2;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { stop, working }
    }

    /// How many calls there were; all of them were answered.
    async fn stop(self) -> u64 {
        drop(self.stop);
        self.working.await.unwrap()
    }
}

fn hello() -> Value {
    let info = json!({"name": "neighbor", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn call(tool: &str, input: &Value) -> Value {
    let params = json!({"name": tool, "arguments": input});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

/// A call in bytes.
fn add(headers: &str, body: &str) -> String {
    format!("POST /api/demo/add HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n{body}")
}

/// What this process holds in memory, in KiB, where the system says it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or_default()
}
