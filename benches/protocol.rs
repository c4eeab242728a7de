//! The cost of the call protocol over a loopback WebSocket, compared with a plain echo of the same
//! bytes.
//!
//! The rounds of ours and of the echo alternate, each over one connection, with 1 and with 64
//! requests in flight. Client and server have a thread each, as two processes would. The operation
//! returns its input. Also measured: the same calls in-process on two threads, the values of a
//! subscription, and the memory of pending calls.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/latency.rs"]
mod latency;
#[path = "harness/memory.rs"]
mod memory;
#[path = "harness/stats.rs"]
mod stats;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::stream::FuturesUnordered;
use futures::{SinkExt, StreamExt};
use latency::latency;
use memory::resident;
use serde_json::json;
use stats::median;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use toolpost::connection::{
    CallHandler, CallerIdentity, Client, Connection, ConnectionSettings, IncomingRequests,
};
use toolpost::transport::{Connector, WsConnector, WsSettings, accept_key, accept_ws};
use toolpost::{
    Authority, CallContext, CallRequest, Handler, HandlerError, HandlerOutput, Operation,
    OperationKind, OperationSpec, Payload, Pipeline, Registry,
};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs this program as the caller of the memory measurement only, with a clean heap.
const MEASURE_CALLER_MEMORY: &str = "--memory-of-caller";

/// Runs this program as the server of the memory measurement.
const MEASURE_SERVER_MEMORY: &str = "--memory-of-server";

/// Owns no memory, so that only the call is measured.
async fn never(_: CallContext, _: Payload) -> Result<HandlerOutput, HandlerError> {
    std::future::pending().await
}

fn count(n: u64) -> impl futures::Stream<Item = Result<u64, HandlerError>> {
    futures::stream::iter((0..n).map(Ok))
}

const INPUT: &str = r#"{"a":2,"b":3}"#;

fn pipeline() -> Pipeline {
    let registry = Registry::new();
    let spec = OperationSpec::new(&"bench.echo".parse().unwrap(), OperationKind::Query);
    let echo = Handler::once_fn(async |_, input| Ok(HandlerOutput::Data(input)));
    registry.register(Operation::from_spec(spec).handler(echo).build().unwrap()).unwrap();
    let spec = OperationSpec::new(&"bench.never".parse().unwrap(), OperationKind::Query);
    let never = Operation::from_spec(spec).handler(Handler::once_fn(never));
    registry.register(never.build().unwrap()).unwrap();
    registry.register(Operation::subscription("bench.count", count).build().unwrap()).unwrap();
    let mut settings = toolpost::PipelineSettings::default();
    settings.max_concurrent_calls = 100_000;
    Pipeline::builder(registry).settings(settings).build()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let has_argument = |name: &str| std::env::args().any(|argument| argument == name);
    if has_argument(MEASURE_CALLER_MEMORY) {
        return runtime.block_on(measure_caller_memory());
    }
    if has_argument(MEASURE_SERVER_MEMORY) {
        return runtime.block_on(measure_server_memory());
    }
    runtime.block_on(bench(&ServerThread::start()));
    let this = std::env::current_exe().unwrap();
    std::process::Command::new(this)
        .arg(MEASURE_CALLER_MEMORY)
        // Huge pages would round the measurement to two megabytes.
        .env("MIMALLOC_ALLOW_THP", "0")
        .status()
        .unwrap();
}

/// The thread that runs the servers.
struct ServerThread(tokio::runtime::Handle);

impl ServerThread {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        Self(handle)
    }
}

async fn bench(server: &ServerThread) {
    let pipeline = pipeline();
    let ours = connect(server, &pipeline).await;
    let mut echo = Echo::connect(server).await;
    let local = Client::in_process(pipeline.clone(), Authority::untrusted(None));
    println!("Calls over one loopback WebSocket, compared with a plain echo of the same bytes:");
    for (in_flight, batch) in [(1, 300), (64, 6_400)] {
        let (mut called, mut echoed, mut in_process) = (Vec::new(), Vec::new(), Vec::new());
        let (mut times, mut echo_times) = (Vec::new(), Vec::new());
        for round in 0..60 {
            let elapsed = calls(&ours, in_flight, batch, &mut times).await;
            let echo_elapsed = echo.run(in_flight, batch, &mut echo_times).await;
            let rate = in_process_rate(server, &local, in_flight).await;
            // The first rounds include one-time initialization.
            if round >= 5 {
                called.push(per_second(batch, elapsed));
                echoed.push(per_second(batch, echo_elapsed));
                in_process.push(rate);
            }
        }
        let ratio = median(called.iter().zip(&echoed).map(|(ours, echo)| ours / echo).collect());
        let in_process_ratio = median(in_process.iter().zip(&called).map(|(a, b)| a / b).collect());
        println!(
            "  {in_flight:2} in flight: ours {:9.0} calls/s  {}",
            median(called),
            latency(times)
        );
        println!("                echo {:9.0} msgs/s   {}", median(echoed), latency(echo_times));
        println!("          in-process {:9.0} calls/s", median(in_process));
        at_least("of the throughput of the echo", ratio, 0.6);
        at_least("times slower than in-process", in_process_ratio, 20.0);
    }
    subscription(&ours).await;
}

/// In-process calls per second, from one caller or from one on each of the two threads.
async fn in_process_rate(server: &ServerThread, local: &Client, in_flight: usize) -> f64 {
    const BATCH: u32 = 20_000;
    let start = Instant::now();
    if in_flight == 1 {
        in_process_calls(local.clone(), BATCH).await;
        return per_second(BATCH, start.elapsed());
    }
    let other = server.0.spawn(in_process_calls(local.clone(), BATCH));
    in_process_calls(local.clone(), BATCH).await;
    other.await.unwrap();
    per_second(2 * BATCH, start.elapsed())
}

/// The result of each call is the input of the next.
async fn in_process_calls(client: Client, batch: u32) {
    let mut input = Payload::from_json(INPUT.to_owned()).unwrap();
    for _ in 0..batch {
        let outcome = client.call(CallRequest::new("bench.echo", input)).await.unwrap();
        input = outcome.envelope.data;
    }
}

async fn calls(
    client: &Client,
    in_flight: usize,
    batch: u32,
    times: &mut Vec<Duration>,
) -> Duration {
    let start = Instant::now();
    let call = || {
        let start = Instant::now();
        let input = Payload::from_json(INPUT.to_owned()).unwrap();
        let calling = client.call(CallRequest::new("bench.echo", input));
        async move { calling.await.map(|_| start.elapsed()) }
    };
    let mut running: FuturesUnordered<_> = (0..in_flight).map(|_| call()).collect();
    let mut remaining = batch as usize - in_flight;
    while let Some(took) = running.next().await {
        times.push(took.unwrap());
        if remaining > 0 {
            remaining -= 1;
            running.push(call());
        }
    }
    start.elapsed()
}

async fn connect(server: &ServerThread, pipeline: &Pipeline) -> Client {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    server.0.spawn(serve(listener, pipeline.clone()));
    client(&address.to_string()).await
}

async fn serve(listener: std::net::TcpListener, pipeline: Pipeline) {
    listener.set_nonblocking(true).unwrap();
    let (stream, _) = TcpListener::from_std(listener).unwrap().accept().await.unwrap();
    let channel =
        accept_ws(accept_handshake(stream).await, Vec::new(), WsSettings::default()).await;
    let handler = CallHandler::new(pipeline, CallerIdentity::Authenticated(None));
    let mut settings = ConnectionSettings::default();
    settings.max_inflight = 20_000;
    Connection::new(channel, IncomingRequests::Call(handler), settings).1.run().await;
}

async fn client(address: &str) -> Client {
    let channel =
        WsConnector::new(&format!("ws://{address}"), None).unwrap().connect().await.unwrap();
    let (client, connection) =
        Connection::new(channel, IncomingRequests::Reject, ConnectionSettings::default());
    tokio::spawn(connection.run());
    client
}

/// The server side of the WebSocket handshake.
async fn accept_handshake(mut stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = accept_key(key.as_bytes());
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(response.as_bytes()).await.unwrap();
    stream
}

/// A connection to a server that echoes every message.
struct Echo(tokio_tungstenite::WebSocketStream<TcpStream>);

impl Echo {
    async fn connect(server: &ServerThread) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener.into_std().unwrap();
        server.0.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            while let Some(Ok(message)) = socket.next().await {
                socket.send(message).await.unwrap();
            }
        });
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (socket, _) =
            tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await.unwrap();
        Self(socket)
    }

    async fn run(&mut self, in_flight: usize, batch: u32, times: &mut Vec<Duration>) -> Duration {
        // The same bytes as a request of the call protocol.
        let frame = json!({
            "type": "call.requested", "id": "0123456789abcdef00000001",
            "payload": {
                "requestId": "0123456789abcdef00000001", "operationId": "bench.echo",
                "input": {"a": 2, "b": 3}, "deadline": 1_700_000_000_000_i64, "timeoutMs": 300_000,
            },
        });
        let frame = Message::text(frame.to_string());
        let start = Instant::now();
        let mut sent = VecDeque::new();
        for _ in 0..in_flight {
            sent.push_back(Instant::now());
            self.0.send(frame.clone()).await.unwrap();
        }
        let mut remaining = batch as usize - in_flight;
        while let Some(at) = sent.pop_front() {
            self.0.next().await.unwrap().unwrap();
            times.push(at.elapsed());
            if remaining > 0 {
                remaining -= 1;
                sent.push_back(Instant::now());
                self.0.send(frame.clone()).await.unwrap();
            }
        }
        start.elapsed()
    }
}

async fn subscription(client: &Client) {
    const VALUES: u32 = 100_000;
    let mut rates = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        let values = client.subscribe(CallRequest::new("bench.count", json!(VALUES)));
        assert_eq!(values.count().await, VALUES as usize);
        rates.push(per_second(VALUES, start.elapsed()));
    }
    println!("  a subscription: {:9.0} values/s", median(rates));
}

/// Measures ten thousand pending calls, with caller and server in separate processes.
async fn measure_caller_memory() {
    const CALLS: usize = 10_000;
    let mut server = std::process::Command::new(std::env::current_exe().unwrap())
        .arg(MEASURE_SERVER_MEMORY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let client = client(&lines.next().unwrap()).await;
    let mut server_resident = || -> usize {
        server.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        lines.next().unwrap().parse().unwrap()
    };
    calls(&client, 64, 10_000, &mut Vec::new()).await;
    let before = (resident(std::process::id()), server_resident());
    let mut pending = Vec::new();
    while pending.len() < CALLS {
        // A hundred at a time, so that the calls wait for their responses and not in the send queue.
        for _ in 0..100 {
            pending.push(tokio::spawn(client.call(CallRequest::new("bench.never", json!(null)))));
        }
        while client.pending_count() < pending.len() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // Until the server has received all of them.
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("10,000 pending calls, resident memory including their async tasks:");
    let after = (resident(std::process::id()), server_resident());
    for (side, before, after) in [("caller", before.0, after.0), ("server", before.1, after.1)] {
        let each = (after - before) / CALLS;
        let status = if each < 2_048 { "holds" } else { "FAILS" };
        println!("claim {status}: {each} bytes each at the {side}, under 2048");
    }
    drop(pending);
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Serves on a port that it prints, and prints its memory for every line that it reads.
async fn measure_server_memory() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    std::thread::spawn(|| {
        for _ in std::io::stdin().lines() {
            println!("{}", resident(std::process::id()));
        }
    });
    serve(listener, pipeline()).await;
}

fn per_second(count: u32, took: Duration) -> f64 {
    f64::from(count) / took.as_secs_f64()
}

fn at_least(what: &str, value: f64, min: f64) {
    let status = if value >= min { "holds" } else { "FAILS" };
    println!("claim {status}: {value:.2} {what}, at least {min}");
}
