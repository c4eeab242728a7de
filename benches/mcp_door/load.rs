//! Somebody under load, and what the load costs it.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::Value;

use super::gateway::Server;
use super::message::{Message, greetings, headers, request};
use super::pipe::Pipe;
use super::server::Era;
use super::spread::median;
use super::wire::Wire;

/// How many requests are in flight.
pub(crate) const IN_FLIGHT: usize = 32;

/// What is asked again and again.
pub(crate) struct Asked<'a> {
    pub(crate) era: Era,
    pub(crate) path: &'a str,
    pub(crate) method: &'a str,
    pub(crate) params: Value,
    /// The least number of bytes that an answer has.
    pub(crate) least: usize,
}

/// A process, the requests to it, and what they cost.
pub(crate) struct Load {
    process: u32,
    way: Way,
    least: usize,
    /// Processor time per request of each turn, in microseconds.
    pub(crate) cpu: Vec<f64>,
    pub(crate) rates: Vec<f64>,
    pub(crate) times: Vec<Duration>,
}

enum Way {
    Http(Vec<Wire>),
    Pipe(Box<(Pipe, Message)>),
}

impl Load {
    /// So many connections to a server, and its first answer.
    pub(crate) async fn http(server: &Server, asked: &Asked<'_>, wires: usize) -> (Self, Value) {
        let session = match asked.era {
            Era::Legacy => greet(server, asked.path).await,
            Era::Modern => String::new(),
        };
        let name = asked.params["name"].as_str().unwrap_or_default();
        let headers = headers(asked.era, &session, asked.method, name);
        let body = request(asked.era, asked.method, asked.params.clone());
        let message = Message::post(asked.path, &headers, &body);
        let wires = (0..wires).map(|n| {
            // Numbers are not used twice, whoever sends them.
            Wire::connect(server.address, message.clone(), u32::try_from(n).unwrap() * 10_000_000)
        });
        let mut wires = join_all(wires).await;
        let first = wires[0].ask().await;
        (Self::new(server.process(), Way::Http(wires), asked.least), first)
    }

    /// A program on a pipe, and its first answer that is no error: a server behind it may not be
    /// there at once.
    pub(crate) async fn pipe(mut pipe: Pipe, asked: &Asked<'_>) -> (Self, Value) {
        if asked.era == Era::Legacy {
            let [hello, done] = greetings();
            pipe.ask(Message::line(&hello)).await;
            pipe.tell(Message::line(&done)).await;
        }
        let message = Message::line(&request(asked.era, asked.method, asked.params.clone()));
        let mut first = pipe.ask(message.clone()).await;
        for _ in 0..100 {
            if first["error"].is_null() && first["result"]["isError"] != true {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            first = pipe.ask(message.clone()).await;
        }
        (Self::new(pipe.process(), Way::Pipe(Box::new((pipe, message))), asked.least), first)
    }

    fn new(process: u32, way: Way, least: usize) -> Self {
        Self { process, way, least, cpu: Vec::new(), rates: Vec::new(), times: Vec::new() }
    }

    /// One turn of so many requests.
    pub(crate) async fn turn(&mut self, count: usize) {
        let (began, cpu) = (Instant::now(), cpu_micros(self.process));
        match &mut self.way {
            Way::Http(wires) => {
                let each = count / wires.len();
                let running = wires.iter_mut().map(async |wire| {
                    let mut times = Vec::with_capacity(each);
                    wire.repeat(each, self.least, &mut times).await;
                    times
                });
                self.times.extend(join_all(running).await.into_iter().flatten());
            }
            Way::Pipe(pipe) => {
                let (pipe, message) = &mut **pipe;
                pipe.repeat(message, IN_FLIGHT, count, self.least, &mut self.times).await;
            }
        }
        self.rates.push(count as f64 / began.elapsed().as_secs_f64());
        // What is done after the last answer belongs to it, and the system counts when threads rest.
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.cpu.push((cpu_micros(self.process) - cpu) / count as f64);
    }

    /// Forgets what was measured: the first turns pay for what is made on first use.
    pub(crate) fn forget(&mut self) {
        self.cpu.clear();
        self.rates.clear();
        self.times.clear();
    }

    /// How many times as much it costs as another, turn by turn.
    pub(crate) fn beside(&self, other: &Self) -> f64 {
        median(self.cpu.iter().zip(&other.cpu).map(|(ours, other)| ours / other).collect())
    }
}

/// Begins a session as a client of 2025-11-25, and gives its name.
async fn greet(server: &Server, path: &str) -> String {
    let [hello, done] = greetings();
    let mut wire = Wire::connect(server.address, Message::post(path, "", &hello), 0).await;
    wire.ask().await;
    let session = wire.header("mcp-session-id").unwrap_or_default();
    let headers = headers(Era::Legacy, &session, "", "");
    wire.now_send(Message::post(path, &headers, &done));
    wire.ask().await;
    session
}

/// The processor time that all threads of a process have used, in microseconds.
fn cpu_micros(process: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let nanos = threads.map(|thread| {
        // A thread that has just ended is not there any more; those that work stay.
        let path = thread.unwrap().path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
    });
    nanos.sum::<f64>() / 1e3
}
