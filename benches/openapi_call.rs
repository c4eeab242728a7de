//! What a call of an HTTP service through the registry costs beside the same request by the bare
//! client.
//!
//! Both start with a JSON value and end with one, and take turns. The service gives back what it got
//! and is a process of its own, so that the processor time of this one is that of the client: what is
//! claimed is the median of the surplus per call, with one call in flight and with 32.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/latency.rs"]
mod latency;
#[path = "harness/spread.rs"]
mod spread;

use std::convert::Infallible;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use child::Program;
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
use spread::median;
use tokio::runtime::{Builder, Runtime};
use toolpost::openapi::{Location, OpenApiSettings, from_openapi};
use toolpost::{Pipeline, Registry};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program a service on a port that it prints.
const SERVE: &str = "--serve";

/// The most processor time that the registry may add to a call, in microseconds.
const AT_MOST: f64 = 40.0;
const BATCH: usize = 320;
const ROUNDS: usize = 28;

fn main() {
    if std::env::args().nth(1).is_some_and(|word| word == SERVE) {
        return runtime(1).block_on(serve());
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(SERVE);
    let (_service, address) = Program::start(command);
    let origin = format!("http://{address}");
    for threads in [1, 2] {
        println!(
            "A call of an HTTP service, ours beside the bare client, runtime with {threads} thread(s):"
        );
        let origin = origin.clone();
        // A task of its own, since whoever blocks on a runtime is not one of its threads.
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

/// Gives every request back: a body as it came, else a small object.
async fn serve() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let service = service_fn(answer);
        let http = hyper::server::conn::http1::Builder::new();
        tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
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
    let answer = |schema: &Value| json!({"200": {"description": "ok", "content": {"application/json": {"schema": schema}}}});
    let parameter = |name: &str, place: &str, schema: Value| json!({"name": name, "in": place, "required": place == "path", "schema": schema});
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
                "responses": answer(&item()),
            }},
            "/items": {"post": {
                "operationId": "write",
                "requestBody": {"required": true, "content": {"application/json": {"schema": items}}},
                "responses": answer(&items),
            }},
        },
    })
}

/// One call, in both ways.
struct Call {
    name: &'static str,
    operation: &'static str,
    input: Value,
}

async fn bench(origin: String) {
    let registry = Registry::new();
    let settings = OpenApiSettings::new(Location::of("openapi.json"));
    from_openapi(&registry, "echo", &document(&origin).to_string(), settings).unwrap();
    let pipeline = Pipeline::new(registry);
    let bare = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().unwrap();
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
            row(call, in_flight, &pipeline, &bare, &origin).await;
        }
    }
}

/// What was measured of one client.
#[derive(Default)]
struct Measured {
    /// Processor time per call of each round, in microseconds.
    cpu: Vec<f64>,
    times: Vec<Duration>,
}

impl Measured {
    /// One round.
    async fn time<F: Future<Output = ()>>(&mut self, in_flight: usize, call: impl Fn() -> F) {
        let cpu = cpu_micros();
        keep_in_flight(in_flight, &mut self.times, call).await;
        self.cpu.push((cpu_micros() - cpu) / BATCH as f64);
    }
}

/// Ours and the bare client in turns.
async fn row(
    call: &Call,
    in_flight: usize,
    pipeline: &Pipeline,
    bare: &reqwest::Client,
    origin: &str,
) {
    let (mut ours, mut others) = (Measured::default(), Measured::default());
    for round in 0..ROUNDS {
        // The first rounds pay for what is made on first use.
        if round == 3 {
            (ours, others) = Default::default();
        }
        let one = async || {
            let envelope = pipeline.execute(call.operation, call.input.clone()).await.unwrap();
            assert!(!envelope.data.is_null());
        };
        ours.time(in_flight, one).await;
        others.time(in_flight, async || send(call, bare, origin).await).await;
    }
    let surplus = ours.cpu.iter().zip(&others.cpu).map(|(ours, bare)| ours - bare);
    let surplus = median(surplus.collect());
    println!(
        "  {}, {in_flight} in flight: CPU {:6.1} beside {:6.1} µs  {} beside {}",
        call.name,
        median(ours.cpu),
        median(others.cpu),
        latency(ours.times),
        latency(others.times)
    );
    let verdict = if surplus <= AT_MOST { "holds" } else { "DOES NOT HOLD" };
    println!("claim {verdict}: {surplus:+.1} µs of CPU per call, at most {AT_MOST}");
}

/// The same request as somebody would write it by hand.
async fn send(call: &Call, bare: &reqwest::Client, origin: &str) {
    let request = match call.operation {
        "echo.read" => {
            let id = &call.input["id"];
            bare.get(format!("{origin}/items/{id}?fields=a&fields=b&verbose=true"))
        }
        _ => bare.post(format!("{origin}/items")).json(&call.input.clone()["body"]),
    };
    let response = request.send().await.unwrap().error_for_status().unwrap();
    let value: Value = response.json().await.unwrap();
    assert!(!value.is_null());
}

/// Makes a batch of calls, so many at a time, and notes how long each took.
async fn keep_in_flight<F: Future<Output = ()>>(
    in_flight: usize,
    times: &mut Vec<Duration>,
    call: impl Fn() -> F,
) {
    let timed = || {
        let (began, calling) = (Instant::now(), call());
        async move {
            calling.await;
            began.elapsed()
        }
    };
    let mut running: FuturesUnordered<_> = (0..in_flight).map(|_| timed()).collect();
    let mut left = BATCH - in_flight;
    while let Some(took) = running.next().await {
        times.push(took);
        if left > 0 {
            left -= 1;
            running.push(timed());
        }
    }
}

/// The processor time that this process has used, in microseconds.
fn cpu_micros() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
