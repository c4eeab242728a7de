//! The cost of a call to an HTTP service through the registry, compared with the same request by the
//! HTTP client alone.
//!
//! Both start and end with a JSON value; their rounds alternate. The service echoes the body in a
//! separate process, so the processor time of this process is that of the client. The claims are
//! about the median surplus per call, with one call in flight and with 32.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/latency.rs"]
mod latency;
#[path = "harness/stats.rs"]
mod stats;

use std::convert::Infallible;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use child::ChildProcess;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use latency::latency;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use stats::median;
use tokio::runtime::{Builder, Runtime};
use toolpost::openapi::{DocumentLocation, OpenApiSettings, from_openapi};
use toolpost::{Pipeline, Registry};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program a service on a port that it prints.
const SERVE: &str = "--serve";

/// Maximum processor time that the registry may add to a call, in microseconds.
const MAX_SURPLUS_MICROS: f64 = 40.0;
const BATCH: usize = 320;
const ROUNDS: usize = 28;

fn main() {
    if std::env::args().nth(1).is_some_and(|argument| argument == SERVE) {
        return runtime(1).block_on(serve());
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(SERVE);
    let (_service, address) = ChildProcess::start(command);
    let origin = format!("http://{address}");
    for threads in [1, 2] {
        println!(
            "An HTTP service call, ours compared with reqwest alone, runtime with {threads} thread(s):"
        );
        let origin = origin.clone();
        // Spawned, because `block_on` runs its future outside the worker threads.
        let bench = async move { tokio::spawn(bench(origin)).await };
        runtime(threads).block_on(bench).unwrap();
    }
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().build().unwrap()
}

/// Echoes every request: its body, or a small object if it has none.
async fn serve() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let service = service_fn(echo);
        let http = hyper::server::conn::http1::Builder::new();
        tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
    }
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = match body.is_empty() {
        true => Bytes::from_static(br#"{"id":7,"name":"an item","is_new":true}"#),
        false => body,
    };
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(Full::new(body)).unwrap())
}

fn item() -> Value {
    json!({"type": "object", "properties": {
        "id": {"type": "integer"}, "name": {"type": "string"}, "is_new": {"type": "boolean"},
    }, "required": ["id"]})
}

fn document(origin: &str) -> Value {
    let items =
        json!({"type": "object", "properties": {"items": {"type": "array", "items": item()}}});
    let responses = |schema: &Value| json!({"200": {"description": "ok", "content": {"application/json": {"schema": schema}}}});
    let parameter = |name: &str, location: &str, schema: Value| json!({"name": name, "in": location, "required": location == "path", "schema": schema});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "echo", "version": "1"},
        "servers": [{"url": origin}],
        "paths": {
            "/items/{id}": {"get": {
                "operationId": "read",
                "parameters": [
                    parameter("id", "path", json!({"type": "integer"})),
                    parameter("fields", "query", json!({"type": "array", "items": {"type": "string"}})),
                    parameter("verbose", "query", json!({"type": "boolean"})),
                ],
                "responses": responses(&item()),
            }},
            "/items": {"post": {
                "operationId": "write",
                "requestBody": {"required": true, "content": {"application/json": {"schema": items}}},
                "responses": responses(&items),
            }},
        },
    })
}

/// One call, made by both sides.
struct Call {
    name: &'static str,
    operation: &'static str,
    input: Value,
}

async fn bench(origin: String) {
    let registry = Registry::new();
    let settings = OpenApiSettings::new(DocumentLocation::from_path_or_url("openapi.json"));
    from_openapi(&registry, "echo", &document(&origin).to_string(), settings).unwrap();
    let pipeline = Pipeline::new(registry);
    let baseline = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().unwrap();
    let items = (0..23).map(|n| json!({"id": n, "name": "an item", "is_new": true}));
    let calls = [
        Call {
            name: "GET with parameters",
            operation: "echo.read",
            input: json!({"id": 7, "fields": ["a", "b"], "verbose": true}),
        },
        Call {
            name: "POST of 1 KB",
            operation: "echo.write",
            input: json!({"body": {"items": items.collect::<Value>()}}),
        },
    ];
    for call in &calls {
        for in_flight in [1, 32] {
            row(call, in_flight, &pipeline, &baseline, &origin).await;
        }
    }
}

/// The measurements of one client.
#[derive(Default)]
struct Measured {
    /// Processor time per call of each round, in microseconds.
    cpu: Vec<f64>,
    times: Vec<Duration>,
}

impl Measured {
    /// Measures one round.
    async fn time<F: Future<Output = ()>>(&mut self, in_flight: usize, call: impl Fn() -> F) {
        let cpu = cpu_micros();
        run_concurrently(in_flight, &mut self.times, call).await;
        self.cpu.push((cpu_micros() - cpu) / BATCH as f64);
    }
}

/// Alternates rounds of ours and of the HTTP client alone.
async fn row(
    call: &Call,
    in_flight: usize,
    pipeline: &Pipeline,
    baseline: &reqwest::Client,
    origin: &str,
) {
    let (mut ours, mut others) = (Measured::default(), Measured::default());
    for round in 0..ROUNDS {
        // The first rounds pay for what is made on first use.
        if round == 3 {
            (ours, others) = Default::default();
        }
        let one = async || {
            let envelope = pipeline.call_trusted(call.operation, call.input.clone()).await.unwrap();
            assert!(!envelope.data.is_null());
        };
        ours.time(in_flight, one).await;
        others.time(in_flight, async || send(call, baseline, origin).await).await;
    }
    let surplus = ours.cpu.iter().zip(&others.cpu).map(|(ours, baseline)| ours - baseline);
    let surplus = median(surplus.collect());
    println!(
        "  {}, {in_flight} in flight: CPU {:6.1} vs {:6.1} µs  {} vs {}",
        call.name,
        median(ours.cpu),
        median(others.cpu),
        latency(ours.times),
        latency(others.times)
    );
    let status = if surplus <= MAX_SURPLUS_MICROS { "holds" } else { "FAILS" };
    println!("claim {status}: {surplus:+.1} µs of CPU per call, at most {MAX_SURPLUS_MICROS}");
}

/// Sends the same request with the HTTP client alone.
async fn send(call: &Call, baseline: &reqwest::Client, origin: &str) {
    let request = match call.operation {
        "echo.read" => {
            let id = &call.input["id"];
            baseline.get(format!("{origin}/items/{id}?fields=a&fields=b&verbose=true"))
        }
        _ => baseline.post(format!("{origin}/items")).json(&call.input.clone()["body"]),
    };
    let response = request.send().await.unwrap().error_for_status().unwrap();
    let value: Value = response.json().await.unwrap();
    assert!(!value.is_null());
}

/// Makes a batch of calls, `in_flight` at a time, and records the duration of each.
async fn run_concurrently<F: Future<Output = ()>>(
    in_flight: usize,
    times: &mut Vec<Duration>,
    call: impl Fn() -> F,
) {
    let timed = || {
        let (start, calling) = (Instant::now(), call());
        async move {
            calling.await;
            start.elapsed()
        }
    };
    let mut running: FuturesUnordered<_> = (0..in_flight).map(|_| timed()).collect();
    let mut remaining = BATCH - in_flight;
    while let Some(took) = running.next().await {
        times.push(took);
        if remaining > 0 {
            remaining -= 1;
            running.push(timed());
        }
    }
}

/// The processor time that this process has used, in microseconds.
fn cpu_micros() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
