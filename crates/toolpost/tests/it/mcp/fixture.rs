//! A test server, its source and a pipeline; the server writes a log.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolpost::mcp::{HttpSettings, McpSettings, McpSource, McpTransport, StdioSettings};
use toolpost::protocol::Secret;
use toolpost::{
    CallError, Envelope, Pipeline, Registry, RunningSource, SourceHooks, SourceInfo, SourceStatus,
};

/// Maximum duration of each step.
const TEST_TIMEOUT: Duration = Duration::from_secs(40);

/// Arguments of the misbehaving servers for the two protocol generations.
pub(super) const GENERATIONS: [&[&str]; 2] = [&[], &["--modern"]];

/// A folder that is removed on drop.
pub(super) struct ScratchDir(PathBuf);

impl ScratchDir {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("toolpost-mcp-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder.canonicalize().unwrap())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Returns the lines of the server log.
    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(super) fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|other| *other == line).count()
    }

    /// Waits until the server log contains the line `times` times.
    pub(super) async fn wait_for_line(&self, line: &str, times: usize) {
        let seen = eventually(|| self.count(line) >= times).await;
        assert!(seen, "{times} times `{line}` in {:?}", self.lines());
    }

    /// Asserts that all processes that logged their ids have exited.
    async fn assert_no_processes(&self) {
        for line in self.lines() {
            let Some(pid) = line.strip_prefix("pid ") else { continue };
            let has_exited = eventually(|| !Path::new("/proc").join(pid).exists()).await;
            assert!(has_exited, "process {pid} is still running");
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Polls until the condition is true, up to `TEST_TIMEOUT`. Servers are separate processes, so
/// their logs must be polled.
pub(super) async fn eventually(mut is_true: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !is_true() {
        if start.elapsed() > TEST_TIMEOUT {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    true
}

/// A misbehaving server over HTTP.
pub(super) struct HttpServer {
    child: Child,
    pub(super) port: u16,
}

impl HttpServer {
    pub(super) fn start(scratch: &ScratchDir, arguments: &[&str]) -> Self {
        let mut command = Command::new("python3");
        let script = server_script("misbehaving_http_server.py");
        command.arg(script).args(arguments).env("ODD_LOG", scratch.log());
        // The server imports a module, and Python must not write bytecode into its folder.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of a test server.
pub(super) fn server_script(file: &str) -> String {
    format!("{}/tests/servers/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// A source named `x` and a pipeline with its operations.
pub(super) struct McpFixture {
    pub(super) pipeline: Pipeline,
    pub(super) source: RunningSource,
    pub(super) scratch: ScratchDir,
    http: Option<HttpServer>,
}

impl McpFixture {
    /// Starts a misbehaving server over stdio, without waiting for the source.
    pub(super) fn stdio(arguments: &[&str], configure: impl FnOnce(&mut McpSettings)) -> Self {
        let scratch = ScratchDir::new();
        let odd = server_script("misbehaving_server.py");
        let arguments = std::iter::once(&*odd).chain(arguments.iter().copied());
        let mut stdio = StdioSettings::new("python3", arguments);
        let log = scratch.log().to_string_lossy().into_owned();
        stdio.env.insert("ODD_LOG".to_owned(), Secret::new(log));
        Self::with_transport(McpTransport::Stdio(stdio), scratch, None, configure)
    }

    /// Starts a misbehaving server over HTTP, without waiting for the source.
    pub(super) fn http(arguments: &[&str], configure: impl FnOnce(&mut McpSettings)) -> Self {
        let scratch = ScratchDir::new();
        let server = HttpServer::start(&scratch, arguments);
        let url = format!("http://127.0.0.1:{}/mcp", server.port);
        let http = HttpSettings::new(url.parse().unwrap());
        Self::with_transport(McpTransport::Http(http), scratch, Some(server), configure)
    }

    pub(super) fn with_transport(
        transport: McpTransport,
        scratch: ScratchDir,
        http: Option<HttpServer>,
        configure: impl FnOnce(&mut McpSettings),
    ) -> Self {
        let mut settings = McpSettings::new(transport);
        configure(&mut settings);
        let registry = Registry::new();
        let source =
            RunningSource::start(&registry, McpSource::new("x", settings), SourceHooks::default());
        Self { pipeline: Pipeline::new(registry), source, scratch, http }
    }

    /// Starts a misbehaving server over either transport and waits until its source is ready.
    pub(super) async fn ready(transport_kind: TransportKind, arguments: &[&str]) -> Self {
        let fixture = match transport_kind {
            TransportKind::Stdio => Self::stdio(arguments, |_| {}),
            TransportKind::Http => Self::http(arguments, |_| {}),
        };
        fixture.server_info().await;
        fixture
    }

    pub(super) async fn server_info(&self) -> std::sync::Arc<SourceInfo> {
        self.source.ready(TEST_TIMEOUT).await.unwrap()
    }

    /// Waits until the source has the expected status.
    pub(super) async fn wait_status(&self, expected: impl FnMut(&SourceStatus) -> bool) {
        let mut status = self.source.status();
        tokio::time::timeout(TEST_TIMEOUT, status.wait_for(expected)).await.unwrap().unwrap();
    }

    /// Waits until the server was restarted and the source is ready again.
    pub(super) async fn wait_reconnected(&self) {
        let pids = |lines: Vec<String>| lines.iter().filter(|line| line.starts_with("pid")).count();
        assert!(eventually(|| pids(self.lines()) > 1).await, "the server was not restarted");
        self.wait_status(|status| matches!(status, SourceStatus::Ready(_))).await;
    }

    pub(super) async fn call(
        &self,
        tool: &str,
        input: Value,
    ) -> Result<Envelope<Value>, CallError> {
        let operation = operation_id(tool);
        let calling = self.pipeline.call_trusted(&operation, input);
        tokio::time::timeout(TEST_TIMEOUT, calling).await.expect("the call hangs")
    }

    /// Returns the first value of a subscription.
    pub(super) async fn first_value(
        &self,
        name: &str,
        input: Value,
    ) -> Result<Envelope<Value>, CallError> {
        let mut values = self.pipeline.subscribe(&operation_id(name), input);
        let first = futures::StreamExt::next(&mut values);
        let first =
            tokio::time::timeout(TEST_TIMEOUT, first).await.expect("the subscription hangs");
        first.expect("a value or an error")
    }

    /// Calls a tool and returns the text of its first block.
    pub(super) async fn text(&self, tool: &str, input: Value) -> String {
        let envelope = self.call(tool, input).await.unwrap();
        envelope.data[0]["text"].as_str().unwrap().to_owned()
    }

    /// Asserts that the source responds.
    pub(super) async fn assert_responsive(&self) {
        assert_eq!(self.text("echo", json!({"text": "well"})).await, "well");
    }

    pub(super) fn count(&self, line: &str) -> usize {
        self.scratch.count(line)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.scratch.lines()
    }

    pub(super) fn has_tool(&self, tool: &str) -> bool {
        self.pipeline.registry().catalog().get(&operation_id(tool)).is_some()
    }

    /// Stops the HTTP server and returns its port.
    pub(super) fn stop_server(&mut self) -> u16 {
        self.http.take().unwrap().port
    }

    pub(super) fn start_server(&mut self, arguments: &[&str]) {
        self.http = Some(HttpServer::start(&self.scratch, arguments));
    }

    /// Closes the source; asserts that no process and no operation is left.
    pub(super) async fn close(self) {
        self.close_and_inspect(|_| {}).await;
    }

    /// Like [`McpFixture::close`], but also inspects the server log at the end.
    pub(super) async fn close_and_inspect(self, inspect: impl FnOnce(&ScratchDir)) {
        let Self { pipeline, source, scratch, http } = self;
        tokio::time::timeout(TEST_TIMEOUT, source.close())
            .await
            .expect("the source does not close");
        assert!(pipeline.registry().catalog().is_empty());
        inspect(&scratch);
        drop(http);
        scratch.assert_no_processes().await;
    }
}

/// Transport to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportKind {
    Stdio,
    Http,
}

/// Every transport with every protocol generation.
pub(super) fn transport_matrix() -> [(TransportKind, &'static [&'static str]); 4] {
    let [legacy, modern] = GENERATIONS;
    [
        (TransportKind::Stdio, legacy),
        (TransportKind::Stdio, modern),
        (TransportKind::Http, legacy),
        (TransportKind::Http, modern),
    ]
}

pub(super) fn operation_id(tool: &str) -> String {
    format!("x.{tool}")
}

/// Asserts that the error has this code and that its message contains all fragments.
#[track_caller]
pub(super) fn assert_error<T: std::fmt::Debug>(
    result: Result<T, CallError>,
    code: &str,
    text: &[&str],
) {
    let error = result.unwrap_err();
    assert_eq!(error.code().as_str(), code, "{error}");
    for fragment in text {
        assert!(error.message().contains(fragment), "`{fragment}` in {error}");
    }
}
