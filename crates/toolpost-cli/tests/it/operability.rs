//! Operation of a gateway: overload, tracing, shutdown and long runs.

mod hostile_load;
mod overload;
mod shutdown;
mod soak;
mod traces;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::{any, get};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::{Process, wait_until_async};
use super::{TempFolder, command};

/// Held by tests that load the machine or measure latency.
static EXCLUSIVE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A running gateway process with a configuration.
struct GatewayProcess {
    child: Process,
    address: String,
    /// Log output of the process.
    log: Arc<Mutex<String>>,
    _folder: TempFolder,
}

impl GatewayProcess {
    fn start(name: &str, config: &str, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = TempFolder::new(name);
        folder.write("toolpost.toml", config);
        let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(options).envs(variables.iter().copied()).current_dir(folder.path());
        let (mut child, address, _) = Process::serve(command.stderr(Stdio::piped()));
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, log_writer) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                log_writer.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self { child, address, log, _folder: folder }
    }

    fn signal(&self, name: &str) {
        self.child.signal(name);
    }

    async fn caller(&self) -> HttpClient {
        HttpClient::connect(&self.address).await
    }

    /// Waits until `/ready` returns 200.
    async fn ready(&self) {
        wait_until_async("the gateway is ready", async || {
            self.caller().await.get("/ready").await.status == 200
        })
        .await;
    }

    /// Returns the value of a metric from `/metrics`, or 0 if it is absent.
    async fn metric(&self, start: &str) -> f64 {
        let page = self.caller().await.get("/metrics").await.body;
        let line = page.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or_default()
    }
}

/// A client with one persistent connection.
struct HttpClient {
    stream: tokio::io::BufStream<TcpStream>,
}

struct HttpResponse {
    status: u16,
    head: String,
    body: String,
}

impl HttpResponse {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {}", self.head, self.body))
    }
}

impl HttpClient {
    async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: tokio::io::BufStream::new(stream) }
    }

    async fn get(&mut self, path: &str) -> HttpResponse {
        self.request("GET", path, "", "").await.unwrap()
    }

    async fn post(&mut self, path: &str, body: &Value) -> HttpResponse {
        self.request("POST", path, "", &body.to_string()).await.unwrap()
    }

    /// Sends a request; `headers` are complete lines.
    async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> std::io::Result<HttpResponse> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.flush().await?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let response = HttpResponse { status, head, body: String::new() };
        let mut body = Vec::new();
        match response.header("content-length") {
            Some(length) => {
                body.resize(length.parse().unwrap(), 0);
                self.stream.read_exact(&mut body).await?;
            }
            None => self.read_chunks(&mut body).await?,
        }
        Ok(HttpResponse { body: String::from_utf8(body).unwrap(), ..response })
    }

    async fn read_chunks(&mut self, body: &mut Vec<u8>) -> std::io::Result<()> {
        loop {
            let mut size = String::new();
            self.stream.read_line(&mut size).await?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
            let start = body.len();
            body.resize(start + size, 0);
            self.stream.read_exact(&mut body[start..]).await?;
            self.stream.read_line(&mut String::new()).await?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}

/// An HTTP service: `slow.work` takes a fixed time, `slow.look` returns the trace headers it
/// received.
struct SlowService {
    document: String,
}

impl SlowService {
    async fn start(takes: Duration) -> Self {
        let look = |request: Request| async move {
            let of = |name| request.headers().get(name).map(|value| value.to_str().unwrap());
            let (parent, state) = (of("traceparent"), of("tracestate"));
            axum::Json(json!({"traceparent": parent, "tracestate": state}))
        };
        let work = move || async move {
            tokio::time::sleep(takes).await;
            axum::Json(json!({"done": true}))
        };
        let router = Router::new().route("/work", get(work)).route("/look", any(look));
        let address = spawn_server(router).await;
        let response = json!({"200": {"description": "done",
            "content": {"application/json": {"schema": {"type": "object"}}}}});
        let operation = |id| json!({"get": {"operationId": id, "responses": response}});
        let document = json!({
            "openapi": "3.1.0",
            "info": {"title": "slow", "version": "1"},
            "servers": [{"url": format!("http://{address}")}],
            "paths": {"/work": operation("work"), "/look": operation("look")},
        });
        Self { document: document.to_string() }
    }

    /// Writes the document to a file and returns the configuration of the source.
    fn source(&self, name: &str, more: &str) -> String {
        let file =
            std::env::temp_dir().join(format!("toolpost-{name}-{}.json", std::process::id()));
        std::fs::write(&file, &self.document).unwrap();
        format!("[source.slow]\nopenapi = '{}'\n{more}\n", file.display())
    }
}

/// Serves these routes on a free port for as long as the test runs.
async fn spawn_server(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// Returns a test duration in seconds from an environment variable. `short` is the default, used in
/// every test run.
fn duration_from_env(variable: &str, short: u64) -> Duration {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(short))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
