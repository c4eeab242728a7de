//! A process under load and the cost of that load.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::Value;

use super::cpu::cpu_micros;
use super::echo_server::ProtocolGeneration;
use super::gateway::Server;
use super::http_client::HttpConnection;
use super::message::{MessageTemplate, headers, initialize_messages, request};
use super::stats::median;
use super::stdio_client::StdioClient;

/// Number of requests in flight.
pub(crate) const IN_FLIGHT: usize = 32;

/// The request that is repeated.
pub(crate) struct LoadRequest<'a> {
    pub(crate) generation: ProtocolGeneration,
    pub(crate) path: &'a str,
    pub(crate) method: &'a str,
    pub(crate) params: Value,
    /// Minimum length of a response, in bytes.
    pub(crate) min_response_len: usize,
}

/// A process, the requests to it and their cost.
pub(crate) struct Load {
    process: u32,
    transport: LoadTransport,
    min_response_len: usize,
    /// Processor time per request of each round, in microseconds.
    pub(crate) cpu: Vec<f64>,
    pub(crate) rates: Vec<f64>,
    pub(crate) times: Vec<Duration>,
}

enum LoadTransport {
    Http(Vec<HttpConnection>),
    Stdio(Box<(StdioClient, MessageTemplate)>),
}

impl Load {
    /// Opens connections to a server and returns its first response.
    pub(crate) async fn http(
        server: &Server,
        load_request: &LoadRequest<'_>,
        connections: usize,
    ) -> (Self, Value) {
        let session = match load_request.generation {
            ProtocolGeneration::Legacy => initialize(server, load_request.path).await,
            ProtocolGeneration::Modern => String::new(),
        };
        let name = load_request.params["name"].as_str().unwrap_or_default();
        let headers = headers(load_request.generation, &session, load_request.method, name);
        let body =
            request(load_request.generation, load_request.method, load_request.params.clone());
        let message = MessageTemplate::post(load_request.path, &headers, &body);
        let connections = (0..connections).map(|n| {
            // The connections use disjoint ranges of request ids.
            let last_id = u32::try_from(n).unwrap() * 10_000_000;
            HttpConnection::connect(server.address, message.clone(), last_id)
        });
        let mut connections = join_all(connections).await;
        let first = connections[0].request().await;
        let transport = LoadTransport::Http(connections);
        (Self::new(server.process(), transport, load_request.min_response_len), first)
    }

    /// Calls a process over stdio and returns its first response that is not an error: its sources
    /// may not be ready at once.
    pub(crate) async fn stdio(
        mut client: StdioClient,
        load_request: &LoadRequest<'_>,
    ) -> (Self, Value) {
        if load_request.generation == ProtocolGeneration::Legacy {
            let [initialize_message, initialized_message] = initialize_messages();
            client.request(MessageTemplate::line(&initialize_message)).await;
            client.notify(MessageTemplate::line(&initialized_message)).await;
        }
        let body =
            request(load_request.generation, load_request.method, load_request.params.clone());
        let message = MessageTemplate::line(&body);
        let mut first = client.request(message.clone()).await;
        for _ in 0..100 {
            if first["error"].is_null() && first["result"]["isError"] != true {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            first = client.request(message.clone()).await;
        }
        let process = client.process();
        let transport = LoadTransport::Stdio(Box::new((client, message)));
        (Self::new(process, transport, load_request.min_response_len), first)
    }

    fn new(process: u32, transport: LoadTransport, min_response_len: usize) -> Self {
        Self {
            process,
            transport,
            min_response_len,
            cpu: Vec::new(),
            rates: Vec::new(),
            times: Vec::new(),
        }
    }

    /// Runs one round of `count` requests.
    pub(crate) async fn run_round(&mut self, count: usize) {
        let (start, cpu) = (Instant::now(), cpu_micros(self.process));
        match &mut self.transport {
            LoadTransport::Http(connections) => {
                let each = count / connections.len();
                let running = connections.iter_mut().map(async |connection| {
                    let mut times = Vec::with_capacity(each);
                    connection.repeat(each, self.min_response_len, &mut times).await;
                    times
                });
                self.times.extend(join_all(running).await.into_iter().flatten());
            }
            LoadTransport::Stdio(stdio) => {
                let (client, message) = &mut **stdio;
                client
                    .repeat(message, IN_FLIGHT, count, self.min_response_len, &mut self.times)
                    .await;
            }
        }
        self.rates.push(count as f64 / start.elapsed().as_secs_f64());
        // The work after the last response counts too, and the kernel updates the processor time
        // when a thread goes idle.
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.cpu.push((cpu_micros(self.process) - cpu) / count as f64);
    }

    /// Discards the measurements: the first rounds include one-time initialization.
    pub(crate) fn reset(&mut self) {
        self.cpu.clear();
        self.rates.clear();
        self.times.clear();
    }

    /// The median over all rounds of the processor time relative to another process.
    pub(crate) fn cpu_ratio(&self, other: &Self) -> f64 {
        median(self.cpu.iter().zip(&other.cpu).map(|(ours, other)| ours / other).collect())
    }
}

/// Opens a session as a client of 2025-11-25 and returns its id.
async fn initialize(server: &Server, path: &str) -> String {
    let [initialize_message, initialized_message] = initialize_messages();
    let message = MessageTemplate::post(path, "", &initialize_message);
    let mut connection = HttpConnection::connect(server.address, message, 0).await;
    connection.request().await;
    let session = connection.header("mcp-session-id").unwrap_or_default();
    let headers = headers(ProtocolGeneration::Legacy, &session, "", "");
    connection.set_message(MessageTemplate::post(path, &headers, &initialized_message));
    connection.request().await;
    session
}
