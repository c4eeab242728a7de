//! One identity at full speed, on one resource at a time: another caller gets no error, and the
//! memory of the gateway is bounded. A long run also compares latencies.
//!
//! The baseline is the latency beside a program that keeps as many threads busy as the hostile
//! clients and the gateway together, and does not use the gateway.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use toolpost::CallRequest;
use toolpost::connection::{Client, Connection, ConnectionSettings, IncomingRequests};
use toolpost::protocol::Secret;
use toolpost::transport::{Connector, WsConnector};
use toolpost_gateway::auth::Token;

use super::overload::percentile_99;
use super::{EXCLUSIVE, GatewayProcess, HttpClient, duration_from_env, median};

/// Number of hostile clients.
const CLIENTS: usize = 8;
/// Number of threads of the hostile clients. The gateway has as many on a machine with two cores.
const THREADS: usize = 2;
/// Maximum growth of the resident memory of the gateway, in bytes.
const MAX_GROWTH: f64 = 768e6;
/// Minimum number of measured calls, however busy the machine is.
const MIN_CALLS: u64 = 20;
/// Maximum time of a request of the other caller.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Number of messages in the history of the room, each of 32 KiB.
const HISTORY: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    Connections,
    WebSockets,
    Streams,
    Rooms,
    Registrations,
    Schemas,
    Search,
    History,
    Logs,
}

const ATTACKS: [Attack; 9] = [
    Attack::Connections,
    Attack::WebSockets,
    Attack::Streams,
    Attack::Rooms,
    Attack::Registrations,
    Attack::Search,
    Attack::History,
    Attack::Logs,
    Attack::Schemas,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_load_leaves_other_caller_unaffected() {
    let _alone = EXCLUSIVE.lock().await;
    raise_descriptor_limit();
    let time = duration_from_env("TOOLPOST_HOSTILE_SECONDS", 1);
    let is_long = std::env::var_os("TOOLPOST_HOSTILE_SECONDS").is_some();
    let mut baseline = Target::start("baseline").await;
    let beside_busy_program = {
        let _busy = BusyProgram::start(2 * THREADS);
        baseline.measure(time).await
    };
    let expected = percentile_99(&beside_busy_program.latencies);
    eprintln!("hostile load: beside a busy program {beside_busy_program}");
    drop(baseline);
    let mut slow = Vec::new();
    for attack in ATTACKS {
        let mut target = Target::start(&format!("{attack:?}").to_lowercase()).await;
        target.prepare(attack).await;
        let figures = {
            let _hostile = HostileClients::start(attack, &target.hostile);
            target.measure(time).await
        };
        let p99 = percentile_99(&figures.latencies);
        let ratio = p99.as_secs_f64() / expected.as_secs_f64();
        eprintln!("hostile load: {attack:?}: {figures}, p99 {ratio:.2} times");
        assert!(figures.growth() < MAX_GROWTH, "{attack:?}: {figures}");
        if ratio > 3.0 {
            slow.push((attack, ratio));
        }
    }
    assert!(!is_long || slow.is_empty(), "p99 of more than 3 times the baseline: {slow:?}");
}

/// Every test has its own limit of open files.
fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < 8_192) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(8_192), maximum })
            .expect("8192 open files are allowed: raise `ulimit -Hn`");
    }
}

/// What the other caller measured.
struct Figures {
    latencies: Vec<Duration>,
    checks: usize,
    memory_before: f64,
    memory_max: f64,
}

impl Figures {
    fn growth(&self) -> f64 {
        self.memory_max - self.memory_before
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} calls in {:?}, p99 {:?}, {} rounds of checks, memory {:.0} MB, at most {:.0} MB",
            self.latencies.len(),
            median(self.latencies.clone()),
            percentile_99(&self.latencies),
            self.checks,
            self.memory_before / 1e6,
            self.memory_max / 1e6
        )
    }
}

/// How a caller reaches the gateway.
#[derive(Clone)]
struct Access {
    address: String,
    token: String,
}

/// A gateway with the callers `mallory`, who is hostile, and `ada`.
struct Target {
    _process: GatewayProcess,
    hostile: Access,
    other: Access,
    operator: Access,
    data: PathBuf,
    /// Spokes and rooms that stay connected.
    held: Vec<Client>,
}

impl Target {
    async fn start(name: &str) -> Self {
        let (mallory, ada) = (Token::generate().unwrap(), Token::generate().unwrap());
        let identity = |name: &str, token: &Token, more: &str| {
            format!("[identity.{name}]\ntoken_hash = \"{}\"\n{more}\n", token.hash())
        };
        let config = identity("mallory", &mallory, "capabilities = [\"*\"]")
            + &identity("ada", &ada, "scopes = [\"toolpost:read\"]\ncapabilities = [\"*\"]");
        let folder = format!("toolpost-hostile-{name}-{}", std::process::id());
        let data = std::env::temp_dir().join(folder);
        let options = ["--data", data.to_str().unwrap()];
        let process = GatewayProcess::start(&format!("hostile-{name}"), &config, &options, &[]);
        process.ready().await;
        let operator = std::fs::read_to_string(data.join("operator.token")).unwrap();
        let access = |token: &str| Access {
            address: process.address.clone(),
            token: token.trim().to_owned(),
        };
        Self {
            hostile: access(mallory.reveal()),
            other: access(ada.reveal()),
            operator: access(&operator),
            data,
            held: Vec::new(),
            _process: process,
        }
    }

    /// Creates what an attack uses.
    async fn prepare(&mut self, attack: Attack) {
        match attack {
            Attack::Search => {
                for number in 0..5 {
                    let client = self.hostile.hub().await.unwrap();
                    let input = registration(&format!("large{number}"), 1_000, 500);
                    client.call(CallRequest::new("hub.register", input)).await.unwrap();
                    self.held.push(client);
                }
            }
            Attack::Schemas => {
                let client = self.hostile.hub().await.unwrap();
                let input = json!({"name": "tree", "operations": [tree_spec()]});
                client.call(CallRequest::new("hub.register", input)).await.unwrap();
                self.held.push(client);
            }
            Attack::History => {
                let mut room = self.hostile.room("archive").await;
                let text = "x".repeat(32 * 1024);
                for number in 0..HISTORY {
                    let message = json!({"id": format!("m{number}"), "kind": "chat", "payload": {"text": text}});
                    room.send(Message::text(message.to_string())).await.unwrap();
                }
                while room.next().await.is_some_and(|message| {
                    !message.unwrap().to_text().unwrap().contains(&format!("\"m{}\"", HISTORY - 1))
                }) {}
            }
            _ => {}
        }
    }

    /// Calls without a pause and checks the other resources, for a time.
    async fn measure(&mut self, time: Duration) -> Figures {
        let mut figures = Figures {
            latencies: Vec::new(),
            checks: 0,
            memory_before: self.other.metric("process_resident_memory_bytes").await,
            memory_max: 0.0,
        };
        let until = Instant::now() + time;
        let calling = self.other.call_until(until);
        let checking = async {
            // At least one round, however busy the machine is.
            loop {
                self.other.check_all(figures.checks).await;
                self.operator.check_operator().await;
                let memory = self.other.metric("process_resident_memory_bytes").await;
                figures.memory_max = figures.memory_max.max(memory);
                figures.checks += 1;
                if Instant::now() >= until {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let (latencies, ()) = tokio::join!(calling, checking);
        figures.latencies = latencies;
        figures
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// Fails if the caller does not get a response in time.
async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {TIMEOUT:?}"),
    }
}

impl Access {
    async fn http(&self) -> std::io::Result<HttpClient> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(HttpClient { stream: BufStream::new(stream) })
    }

    fn authorization(&self) -> String {
        format!("authorization: Bearer {}\r\n", self.token)
    }

    async fn hub(&self) -> Option<Client> {
        let token = Some(Secret::new(self.token.as_str()));
        let connector = WsConnector::new(&format!("ws://{}/hub", self.address), token).unwrap();
        let channel = connector.connect().await.ok()?;
        let (client, connection) =
            Connection::new(channel, IncomingRequests::Reject, ConnectionSettings::default());
        tokio::spawn(connection.run());
        Some(client)
    }

    async fn web_socket(
        &self,
        path: &str,
        token: Option<&str>,
    ) -> Option<WebSocketStream<TcpStream>> {
        let stream = TcpStream::connect(&self.address).await.ok()?;
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        Some(tokio_tungstenite::client_async(request, stream).await.ok()?.0)
    }

    async fn room(&self, room: &str) -> WebSocketStream<TcpStream> {
        self.web_socket(&format!("/ws?topic={room}"), Some(&self.token)).await.unwrap()
    }

    /// Makes a call over HTTP, which must succeed.
    async fn call(&self, http: &mut HttpClient, path: &str, input: &Value) -> Value {
        let (headers, body) = (self.authorization(), input.to_string());
        let response = in_time(path, http.request("POST", path, &headers, &body)).await.unwrap();
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        response.json()
    }

    async fn metric(&self, name: &str) -> f64 {
        let mut http = self.http().await.unwrap();
        let headers = self.authorization();
        let page = http.request("GET", "/metrics", &headers, "");
        let page = in_time("/metrics", page).await.unwrap().body;
        let line = page.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or_default()
    }

    /// Calls over one HTTP connection and one WebSocket, and returns the latencies.
    async fn call_until(&self, until: Instant) -> Vec<Duration> {
        let mut http = self.http().await.unwrap();
        let hub = in_time("the hub", self.hub()).await.expect("the hub accepts the caller");
        let mut latencies = Vec::new();
        for number in 0_u64.. {
            if number >= MIN_CALLS && Instant::now() >= until {
                break;
            }
            let input = json!({"a": number, "b": 1});
            let began = Instant::now();
            match number % 2 {
                0 => drop(self.call(&mut http, "/api/demo/add", &input).await),
                _ => {
                    let call = hub.call(CallRequest::new("demo.add", input));
                    drop(in_time("demo.add", call).await.unwrap());
                }
            }
            latencies.push(began.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        latencies
    }

    /// Uses each resource once. Nothing fails.
    async fn check_all(&self, round: usize) {
        let mut http = in_time("a connection", self.http()).await.unwrap();
        self.call(&mut http, "/api/demo/add", &json!({"a": 1, "b": 2})).await;
        for path in ["/health", "/ready"] {
            let response = in_time(path, http.request("GET", path, "", "")).await.unwrap();
            assert_eq!(response.status, 200, "{path}: {}", response.body);
        }
        let clock = json!({"count": 2, "everyMs": 1});
        let headers = self.authorization();
        let stream = http.request("POST", "/api/demo/clock", &headers, &clock.to_string()).await;
        let stream = stream.unwrap();
        assert!(stream.body.contains("event: complete"), "{}", stream.body);
        let path = "/v0.1/topics/own/history";
        let history = in_time(path, http.request("GET", path, &headers, "")).await.unwrap();
        assert_eq!(history.status, 200, "{}", history.body);
        let hub = in_time("the hub", self.hub()).await.expect("the hub accepts the caller");
        let input = registration("own", 3, 10);
        let registered = hub.call(CallRequest::new("hub.register", input));
        in_time("hub.register", registered).await.unwrap();
        let query = json!({"query": format!("own {round}")});
        in_time("hub.search", hub.call(CallRequest::new("hub.search", query))).await.unwrap();
        hub.close(toolpost::transport::CloseReason::going_away());
        drop(in_time("a room", self.room("own")).await);
    }

    async fn check_operator(&self) {
        let mut http = in_time("a connection", self.http()).await.unwrap();
        self.call(&mut http, "/api/gateway/sources", &json!({})).await;
    }
}

/// Returns the input of a registration with this number of operations.
fn registration(name: &str, operations: usize, description_bytes: usize) -> Value {
    let spec = |number: usize| {
        let mut words = String::new();
        let mut word = number;
        while words.len() < description_bytes {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            words.push_str(&format!("w{:x} ", word >> 44));
        }
        json!({"namespace": "x", "name": format!("op{number}"), "type": "query", "version": "1",
            "description": words, "inputSchema": {"type": "object"}, "outputSchema": {},
            "accessControl": {"requiredScopes": []}})
    };
    let operations: Vec<Value> = (0..operations).map(spec).collect();
    json!({"name": name, "operations": operations})
}

/// An operation whose input is a discriminated tree.
fn tree_spec() -> Value {
    let node = |kind: &str| {
        json!({"type": "object", "required": ["kind", "left"], "properties": {
            "kind": {"const": kind}, "left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}}})
    };
    let nodes: Vec<Value> = ["add", "sub", "mul", "div"].map(node).into();
    let mut any_of = nodes;
    any_of.push(json!({"type": "number"}));
    json!({"namespace": "x", "name": "eval", "type": "query", "version": "1", "description": "",
        "inputSchema": {"$defs": {"tree": {"anyOf": any_of}}, "$ref": "#/$defs/tree"},
        "outputSchema": {}, "accessControl": {"requiredScopes": []}})
}

/// Threads that are busy until dropped and do not use the gateway.
struct BusyProgram(Arc<AtomicBool>);

impl BusyProgram {
    fn start(threads: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(is_over)
    }
}

impl Drop for BusyProgram {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Hostile clients on their own threads, until dropped.
struct HostileClients(Option<Runtime>);

impl HostileClients {
    fn start(attack: Attack, access: &Access) -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().unwrap();
        for number in 0..CLIENTS {
            let access = access.clone();
            runtime.spawn(async move {
                loop {
                    // A rejected client starts again at once.
                    let _ = access.attack(attack, number).await;
                    tokio::task::yield_now().await;
                }
            });
        }
        Self(Some(runtime))
    }
}

impl Drop for HostileClients {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Access {
    /// Runs a hostile client until the gateway rejects it.
    async fn attack(&self, attack: Attack, number: usize) -> Option<()> {
        match attack {
            Attack::Connections => self.flood_connections().await,
            Attack::WebSockets => self.flood_web_sockets().await,
            Attack::Streams => self.flood_streams().await,
            Attack::Rooms => self.flood_rooms(number).await,
            Attack::Registrations => self.flood_registrations(number).await,
            Attack::Schemas => self.flood_calls("tree.x.eval", nested_tree(4)).await,
            Attack::Search => {
                let query = (0..100).map(|word| format!("w{:x}", word * 9_973));
                let query: Vec<String> = query.collect();
                self.flood_calls("hub.search", json!({"query": query.join(" ")})).await
            }
            Attack::History => {
                self.flood_requests("GET", "/v0.1/topics/archive/history?limit=1000").await
            }
            Attack::Logs => self.flood_requests("POST", "/api/no/such").await,
        }
    }

    async fn flood_connections(&self) -> Option<()> {
        let mut held = VecDeque::new();
        for number in 0_usize.. {
            let mut stream = TcpStream::connect(&self.address).await.ok()?;
            let partial = ["", "G", "POST /api/demo/add HTTP/1.1\r\n", "\r\n"][number % 4];
            let _ = stream.write_all(partial.as_bytes()).await;
            held.push_back(stream);
            if held.len() > 200 {
                held.pop_front();
            }
        }
        None
    }

    async fn flood_web_sockets(&self) -> Option<()> {
        let mut held = VecDeque::new();
        for number in 0_usize.. {
            let token = (number % 2 == 0).then_some(self.token.as_str());
            held.push_back(self.web_socket(["/hub", "/ws"][number / 2 % 2], token).await?);
            if held.len() > 100 {
                held.pop_front();
            }
        }
        None
    }

    async fn flood_streams(&self) -> Option<()> {
        let mut streams = tokio::task::JoinSet::new();
        loop {
            let mut stream = TcpStream::connect(&self.address).await.ok()?;
            let body = r#"{"count":1000000,"everyMs":1}"#;
            let head = format!(
                "POST /api/demo/clock HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
                 application/json\r\n{}content-length: {}\r\n\r\n{body}",
                self.authorization(),
                body.len()
            );
            stream.write_all(head.as_bytes()).await.ok()?;
            streams.spawn(async move {
                let mut scratch = [0; 8 * 1024];
                while stream.read(&mut scratch).await.is_ok_and(|read| read > 0) {}
            });
            while streams.len() >= 64 {
                streams.join_next().await;
            }
        }
    }

    async fn flood_rooms(&self, number: usize) -> Option<()> {
        let mut http = self.http().await.ok()?;
        for room in 0_usize.. {
            let path = format!("/v0.1/topics/m{number}-{room}/history");
            http.request("GET", &path, &self.authorization(), "").await.ok()?;
        }
        None
    }

    async fn flood_registrations(&self, number: usize) -> Option<()> {
        let hub = self.hub().await?;
        for round in 0_usize.. {
            let input = registration(&format!("m{number}x{}", round % 20), 50, 1_000);
            let request = CallRequest::new("hub.register", input);
            let rejected = hub.call(request).await.err();
            if rejected.is_some_and(|error| error.code().as_str() == "UNAVAILABLE") {
                return None;
            }
        }
        None
    }

    async fn flood_calls(&self, operation: &str, input: Value) -> Option<()> {
        let hub = self.hub().await?;
        let calls = (0..8).map(|_| async {
            loop {
                let ended = hub.call(CallRequest::new(operation, input.clone())).await;
                if ended.is_err_and(|error| error.code().as_str() == "UNAVAILABLE")
                    && operation.starts_with("hub.")
                {
                    return;
                }
            }
        });
        futures::future::join_all(calls).await;
        None
    }

    async fn flood_requests(&self, method: &str, path: &str) -> Option<()> {
        let mut http = self.http().await.ok()?;
        loop {
            http.request(method, path, &self.authorization(), "").await.ok()?;
        }
    }
}

/// Returns a tree whose leaves are of the wrong type.
fn nested_tree(depth: usize) -> Value {
    match depth {
        0 => json!("wrong"),
        _ => {
            json!({"kind": "add", "left": nested_tree(depth - 1), "right": nested_tree(depth - 1)})
        }
    }
}
