//! What the call protocol costs over a loopback WebSocket, beside a bare echo of the same bytes.
//!
//! Ours and the echo take turns, each over one connection, with 1 and with 64 requests in flight.
//! Callers and whoever answers them have a thread each, as two processes would. The operation gives
//! back its input. Then: the same calls inside the process on two threads, the values of a
//! subscription, and the memory of calls that wait.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/latency.rs"]
mod latency;
#[path = "harness/memory.rs"]
mod memory;
#[path = "harness/spread.rs"]
mod spread;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::stream::FuturesUnordered;
use futures::{SinkExt, StreamExt};
use latency::latency;
use memory::resident;
use serde_json::json;
use spread::median;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use toolpost::connection::{CallHandler, Callers, Client, Connection, ConnectionSettings, Serve};
use toolpost::link::{Connector, WsConnector, WsSettings, accept_key, ws};
use toolpost::{
    Authority, CallContext, CallRequest, Handler, HandlerError, Kind, Operation, OperationSpec,
    Output, Payload, Pipeline, Registry,
};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program call in order to measure memory and nothing else, with a clean heap.
const MEMORY_OF_CALLER: &str = "--memory-of-caller";

/// Makes this program answer such calls.
const MEMORY_OF_ANSWERER: &str = "--memory-of-answerer";

/// Holds nothing of its own, so that what is measured is the call.
async fn never(_: CallContext, _: Payload) -> Result<Output, HandlerError> {
    std::future::pending().await
}

fn count(n: u64) -> impl futures::Stream<Item = Result<u64, HandlerError>> {
    futures::stream::iter((0..n).map(Ok))
}

const INPUT: &str = r#"{"a":2,"b":3}"#;

fn pipeline() -> Pipeline {
    let registry = Registry::new();
    let spec = OperationSpec::new(&"bench.echo".parse().unwrap(), Kind::Query);
    let echo = Handler::once_fn(async |_, input| Ok(Output::Data(input)));
    registry.register(Operation::from_spec(spec).handler(echo).build().unwrap()).unwrap();
    let spec = OperationSpec::new(&"bench.never".parse().unwrap(), Kind::Query);
    let never = Operation::from_spec(spec).handler(Handler::once_fn(never));
    registry.register(never.build().unwrap()).unwrap();
    registry.register(Operation::subscription("bench.count", count).build().unwrap()).unwrap();
    let mut settings = toolpost::Settings::default();
    settings.concurrent_calls = 100_000;
    Pipeline::builder(registry).settings(settings).build()
}

fn main() {
    let asking = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let is_asked = |name: &str| std::env::args().any(|argument| argument == name);
    if is_asked(MEMORY_OF_CALLER) {
        return asking.block_on(memory_of_caller());
    }
    if is_asked(MEMORY_OF_ANSWERER) {
        return asking.block_on(memory_of_answerer());
    }
    asking.block_on(bench(&Answering::start()));
    let this = std::env::current_exe().unwrap();
    std::process::Command::new(this)
        .arg(MEMORY_OF_CALLER)
        // Huge pages would round what is measured to two megabytes.
        .env("MIMALLOC_ALLOW_THP", "0")
        .status()
        .unwrap();
}

/// The thread of those who answer.
struct Answering(tokio::runtime::Handle);

impl Answering {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        Self(handle)
    }
}

async fn bench(answering: &Answering) {
    let pipeline = pipeline();
    let ours = connect(answering, &pipeline).await;
    let mut echo = Echo::connect(answering).await;
    let local = Client::in_process(pipeline.clone(), Authority::outside(None));
    println!("Calls over one loopback WebSocket, beside a bare echo of the same bytes:");
    for (in_flight, batch) in [(1, 300), (64, 6_400)] {
        let (mut called, mut echoed, mut inside) = (Vec::new(), Vec::new(), Vec::new());
        let (mut times, mut echo_times) = (Vec::new(), Vec::new());
        for round in 0..60 {
            let took = calls(&ours, in_flight, batch, &mut times).await;
            let echo_took = echo.run(in_flight, batch, &mut echo_times).await;
            let inside_rate = inside_rate(answering, &local, in_flight).await;
            // The first rounds pay for what is made on first use.
            if round >= 5 {
                called.push(per_second(batch, took));
                echoed.push(per_second(batch, echo_took));
                inside.push(inside_rate);
            }
        }
        let ratio = median(called.iter().zip(&echoed).map(|(ours, echo)| ours / echo).collect());
        let times_over = median(inside.iter().zip(&called).map(|(a, b)| a / b).collect());
        println!(
            "  {in_flight:2} in flight: ours {:9.0} calls/s  {}",
            median(called),
            latency(times)
        );
        println!("                echo {:9.0} msgs/s   {}", median(echoed), latency(echo_times));
        println!("          in-process {:9.0} calls/s", median(inside));
        at_least("of the throughput of the echo", ratio, 0.6);
        at_least("times that inside the process", times_over, 20.0);
    }
    subscription(&ours).await;
}

/// Calls per second inside the process: from one caller, or from one on each of the two threads.
async fn inside_rate(answering: &Answering, local: &Client, in_flight: usize) -> f64 {
    const BATCH: u32 = 20_000;
    let began = Instant::now();
    if in_flight == 1 {
        calls_inside(local.clone(), BATCH).await;
        return per_second(BATCH, began.elapsed());
    }
    let other = answering.0.spawn(calls_inside(local.clone(), BATCH));
    calls_inside(local.clone(), BATCH).await;
    other.await.unwrap();
    per_second(2 * BATCH, began.elapsed())
}

/// What a call gives back is the input of the next.
async fn calls_inside(client: Client, batch: u32) {
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
    let began = Instant::now();
    let call = || {
        let began = Instant::now();
        let input = Payload::from_json(INPUT.to_owned()).unwrap();
        let calling = client.call(CallRequest::new("bench.echo", input));
        async move { calling.await.map(|_| began.elapsed()) }
    };
    let mut running: FuturesUnordered<_> = (0..in_flight).map(|_| call()).collect();
    let mut left = batch as usize - in_flight;
    while let Some(took) = running.next().await {
        times.push(took.unwrap());
        if left > 0 {
            left -= 1;
            running.push(call());
        }
    }
    began.elapsed()
}

async fn connect(answering: &Answering, pipeline: &Pipeline) -> Client {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    answering.0.spawn(answer(listener, pipeline.clone()));
    client(&address.to_string()).await
}

async fn answer(listener: std::net::TcpListener, pipeline: Pipeline) {
    listener.set_nonblocking(true).unwrap();
    let (stream, _) = TcpListener::from_std(listener).unwrap().accept().await.unwrap();
    let link = ws(shake_hands(stream).await, Vec::new(), WsSettings::default()).await;
    let handler = CallHandler::new(pipeline, Callers::Authenticated(None));
    let mut settings = ConnectionSettings::default();
    settings.serving = 20_000;
    Connection::new(link, Serve::Operations(handler), settings).1.run().await;
}

async fn client(address: &str) -> Client {
    let link = WsConnector::new(&format!("ws://{address}"), None).unwrap().connect().await.unwrap();
    let (client, connection) = Connection::new(link, Serve::Nothing, ConnectionSettings::default());
    tokio::spawn(connection.run());
    client
}

/// The serving half of the handshake, with nothing behind it.
async fn shake_hands(mut stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream
}

struct Echo(tokio_tungstenite::WebSocketStream<TcpStream>);

impl Echo {
    async fn connect(answering: &Answering) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener.into_std().unwrap();
        answering.0.spawn(async move {
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
        // What one of our requests looks like on the wire.
        let frame = json!({
            "type": "call.requested", "id": "0123456789abcdef00000001",
            "payload": {
                "requestId": "0123456789abcdef00000001", "operationId": "bench.echo",
                "input": {"a": 2, "b": 3}, "deadline": 1_700_000_000_000_i64, "timeoutMs": 300_000,
            },
        });
        let frame = Message::text(frame.to_string());
        let began = Instant::now();
        let mut sent = VecDeque::new();
        for _ in 0..in_flight {
            sent.push_back(Instant::now());
            self.0.send(frame.clone()).await.unwrap();
        }
        let mut left = batch as usize - in_flight;
        while let Some(at) = sent.pop_front() {
            self.0.next().await.unwrap().unwrap();
            times.push(at.elapsed());
            if left > 0 {
                left -= 1;
                sent.push_back(Instant::now());
                self.0.send(frame.clone()).await.unwrap();
            }
        }
        began.elapsed()
    }
}

async fn subscription(client: &Client) {
    const VALUES: u32 = 100_000;
    let mut rates = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let values = client.subscribe(CallRequest::new("bench.count", json!(VALUES)));
        assert_eq!(values.count().await, VALUES as usize);
        rates.push(per_second(VALUES, began.elapsed()));
    }
    println!("  a subscription: {:9.0} values/s", median(rates));
}

/// Ten thousand calls that wait, each end in a process of its own.
async fn memory_of_caller() {
    const CALLS: usize = 10_000;
    let mut answerer = std::process::Command::new(std::env::current_exe().unwrap())
        .arg(MEMORY_OF_ANSWERER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(answerer.stdout.take().unwrap()).lines().map(Result::unwrap);
    let client = client(&lines.next().unwrap()).await;
    let mut resident_there = || -> usize {
        answerer.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        lines.next().unwrap().parse().unwrap()
    };
    calls(&client, 64, 10_000, &mut Vec::new()).await;
    let before = (resident(std::process::id()), resident_there());
    let mut waiting = Vec::new();
    while waiting.len() < CALLS {
        // A hundred at a time, so that what is measured are calls that wait for their answer and
        // not for room to be sent.
        for _ in 0..100 {
            waiting.push(tokio::spawn(client.call(CallRequest::new("bench.never", json!(null)))));
        }
        while client.pending_count() < waiting.len() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // Until the other end has them all too.
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("10,000 pending calls, resident memory with the tasks that wait for them:");
    let after = (resident(std::process::id()), resident_there());
    for (who, before, after) in [("caller", before.0, after.0), ("answerer", before.1, after.1)] {
        let each = (after - before) / CALLS;
        let verdict = if each < 2_048 { "holds" } else { "DOES NOT HOLD" };
        println!("claim {verdict}: {each} bytes each at the {who}, under 2048");
    }
    drop(waiting);
    answerer.kill().unwrap();
    answerer.wait().unwrap();
}

/// Answers on a port that it prints, and prints its memory for every line that it reads.
async fn memory_of_answerer() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    std::thread::spawn(|| {
        for _ in std::io::stdin().lines() {
            println!("{}", resident(std::process::id()));
        }
    });
    answer(listener, pipeline()).await;
}

fn per_second(count: u32, took: Duration) -> f64 {
    f64::from(count) / took.as_secs_f64()
}

fn at_least(what: &str, value: f64, least: f64) {
    let verdict = if value >= least { "holds" } else { "DOES NOT HOLD" };
    println!("claim {verdict}: {value:.2} {what}, at least {least}");
}
