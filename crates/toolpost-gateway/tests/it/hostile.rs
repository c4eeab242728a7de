//! Hostile clients: they are rejected with a reason and do not affect other clients.

mod api;
mod bodies;
mod idle_connections;
mod mcp;
mod request_heads;
mod schemas;
mod shares;
mod slow_reader;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolpost_gateway::auth::Token;

use super::spokes::with_timeout;
use super::{TestGateway, client};

const HEALTH_REQUEST: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A client that sends raw bytes.
pub(super) struct RawClient(BufReader<TcpStream>);

pub(super) struct RawResponse {
    pub(super) status: u16,
    /// The response head in lowercase.
    pub(super) head: String,
    pub(super) body: String,
}

impl RawClient {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        Self(BufReader::new(with_timeout("connecting", TcpStream::connect(address)).await.unwrap()))
    }

    /// Connects with a receive buffer of this size, so that the sender soon notices an unread
    /// connection.
    async fn connect_with_recv_buffer(address: SocketAddr, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Self(BufReader::new(socket.connect(address).await.unwrap()))
    }

    /// Waits without reading until the gateway closes the connection.
    async fn wait_for_disconnect(&self) {
        let cut = self.0.get_ref().ready(Interest::ERROR);
        with_timeout("the end of the connection", cut).await.unwrap();
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        with_timeout("writing", self.0.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Receives the next response; `None` if the gateway closed the connection.
    pub(super) async fn recv_response(&mut self) -> Option<RawResponse> {
        let mut head = String::new();
        loop {
            let line = with_timeout("a line of the response", self.0.read_line(&mut head)).await;
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
        with_timeout("a body", self.0.read_exact(&mut body)).await.unwrap();
        Some(RawResponse { status, head, body: String::from_utf8(body).unwrap() })
    }
}

/// A regular client that calls both endpoints while others misbehave.
struct BackgroundClient {
    stop: oneshot::Sender<()>,
    task: JoinHandle<u64>,
}

impl BackgroundClient {
    fn start(gateway: &TestGateway) -> Self {
        Self::with_token(gateway, None)
    }

    fn with_token(gateway: &TestGateway, token: Option<&Token>) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (api, mcp) = (gateway.url("/api/demo/add"), gateway.url("/mcp"));
        let token = token.map(|token| token.reveal().to_owned());
        let task = tokio::spawn(async move {
            let client = client();
            let post = |url: &str, body: Value| {
                let request = client.post(url).json(&body);
                match &token {
                    Some(token) => request.bearer_auth(token),
                    None => request,
                }
            };
            let hello = with_timeout(
                "the handshake of the healthy client",
                post(&mcp, initialize_message()).send(),
            )
            .await
            .unwrap();
            let session = hello.headers()["mcp-session-id"].clone();
            let mut calls = 0;
            // At least one round runs, however short the hostile phase is.
            loop {
                let input = json!({"a": calls, "b": 1});
                let call = post(&mcp, tool_call_message("demo__add", &input));
                let sum = format!("{{\"sum\":{}}}", calls + 1);
                for request in [post(&api, input), call.header("mcp-session-id", &session)] {
                    let response =
                        with_timeout("a call by the healthy client", request.send()).await.unwrap();
                    let response = response.text().await.unwrap();
                    assert!(response.contains(&sum), "{response}");
                }
                calls += 1;
                if stopped.try_recv() != Err(oneshot::error::TryRecvError::Empty) {
                    return calls * 2;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { stop, task }
    }

    /// Stops the client and returns the number of its calls, all of which succeeded.
    async fn stop(self) -> u64 {
        drop(self.stop);
        self.task.await.unwrap()
    }
}

fn initialize_message() -> Value {
    let info = json!({"name": "neighbor", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn tool_call_message(tool: &str, input: &Value) -> Value {
    let params = json!({"name": tool, "arguments": input});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

/// Returns the bytes of a call request.
fn add_request(headers: &str, body: &str) -> String {
    format!("POST /api/demo/add HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n{body}")
}

/// Returns the resident memory of this process in KiB, or 0 if it is unknown.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or_default()
}
