//! A server, its source, and a pipeline; and what the server wrote down.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolpost::mcp::{
    Found, HttpSettings, McpSettings, McpSource, McpTransport, SourceHooks, SourceStatus,
    StdioSettings,
};
use toolpost::protocol::Secret;
use toolpost::{CallError, Envelope, Pipeline, Registry};

/// What nothing here may take longer than.
const PATIENCE: Duration = Duration::from_secs(40);

/// The two eras of the protocol, as the odd servers are told about them.
pub(super) const ERAS: [&[&str]; 2] = [&[], &["--modern"]];

/// A folder that is gone with its owner.
pub(super) struct Scratch(PathBuf);

impl Scratch {
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

    /// The lines that an odd server wrote.
    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(super) fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|other| *other == line).count()
    }

    /// Waits until a server has written a line so many times.
    pub(super) async fn saw(&self, line: &str, times: usize) {
        let seen = eventually(|| self.count(line) >= times).await;
        assert!(seen, "{times} times `{line}` in {:?}", self.lines());
    }

    /// Nothing may be left of the processes that wrote down their ids.
    async fn is_deserted(&self) {
        for line in self.lines() {
            let Some(pid) = line.strip_prefix("pid ") else { continue };
            let gone = eventually(|| !Path::new("/proc").join(pid).exists()).await;
            assert!(gone, "process {pid} was left behind");
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether something becomes true while there is patience: servers are processes of their own, and
/// nobody here can be woken by what they write.
pub(super) async fn eventually(mut is_true: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !is_true() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    true
}

/// An odd server over HTTP.
pub(super) struct HttpServer {
    child: Child,
    pub(super) port: u16,
}

impl HttpServer {
    pub(super) fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command.arg(server("odd_http.py")).args(arguments).env("ODD_LOG", scratch.log());
        // It imports its sibling, and the folder is not ours to write into.
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

/// The path of one of our servers.
pub(super) fn server(file: &str) -> String {
    format!("{}/tests/servers/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// A source named `x`, and a pipeline that runs its operations.
pub(super) struct Rig {
    pub(super) pipeline: Pipeline,
    pub(super) source: McpSource,
    pub(super) scratch: Scratch,
    http: Option<HttpServer>,
}

impl Rig {
    /// A source for an odd server on its standard input and output; nothing is waited for.
    pub(super) fn stdio(arguments: &[&str], settle: impl FnOnce(&mut McpSettings)) -> Self {
        let scratch = Scratch::new();
        let odd = server("odd.py");
        let arguments = std::iter::once(&*odd).chain(arguments.iter().copied());
        let mut stdio = StdioSettings::new("python3", arguments);
        let log = scratch.log().to_string_lossy().into_owned();
        stdio.env.insert("ODD_LOG".to_owned(), Secret::new(log));
        Self::over(McpTransport::Stdio(stdio), scratch, None, settle)
    }

    /// A source for an odd server over HTTP; nothing is waited for.
    pub(super) fn http(arguments: &[&str], settle: impl FnOnce(&mut McpSettings)) -> Self {
        let scratch = Scratch::new();
        let server = HttpServer::start(&scratch, arguments);
        let url = format!("http://127.0.0.1:{}/mcp", server.port);
        let http = HttpSettings::new(url.parse().unwrap());
        Self::over(McpTransport::Http(http), scratch, Some(server), settle)
    }

    pub(super) fn over(
        transport: McpTransport,
        scratch: Scratch,
        http: Option<HttpServer>,
        settle: impl FnOnce(&mut McpSettings),
    ) -> Self {
        let mut settings = McpSettings::new(transport);
        settle(&mut settings);
        let registry = Registry::new();
        let source = McpSource::start(&registry, "x", settings, SourceHooks::default());
        Self { pipeline: Pipeline::new(registry), source, scratch, http }
    }

    /// Either of the two, ready to be called.
    pub(super) async fn ready(way: Way, arguments: &[&str]) -> Self {
        let rig = match way {
            Way::Stdio => Self::stdio(arguments, |_| {}),
            Way::Http => Self::http(arguments, |_| {}),
        };
        rig.found().await;
        rig
    }

    pub(super) async fn found(&self) -> std::sync::Arc<Found> {
        self.source.ready(PATIENCE).await.unwrap()
    }

    /// Waits until the source has that status.
    pub(super) async fn becomes(&self, wanted: impl FnMut(&SourceStatus) -> bool) {
        let mut status = self.source.status();
        tokio::time::timeout(PATIENCE, status.wait_for(wanted)).await.unwrap().unwrap();
    }

    /// Waits until the source is there again after a loss that somebody was told about.
    pub(super) async fn comes_back(&self) {
        let pids = |lines: Vec<String>| lines.iter().filter(|line| line.starts_with("pid")).count();
        assert!(eventually(|| pids(self.lines()) > 1).await, "the server is not started again");
        self.becomes(|status| matches!(status, SourceStatus::Ready(_))).await;
    }

    pub(super) async fn call(
        &self,
        tool: &str,
        input: Value,
    ) -> Result<Envelope<Value>, CallError> {
        let operation = id(tool);
        let calling = self.pipeline.execute(&operation, input);
        tokio::time::timeout(PATIENCE, calling).await.expect("the call hangs")
    }

    /// The first value of a subscription.
    pub(super) async fn first(
        &self,
        name: &str,
        input: Value,
    ) -> Result<Envelope<Value>, CallError> {
        let mut values = self.pipeline.subscribe(&id(name), input);
        let first = futures::StreamExt::next(&mut values);
        let first = tokio::time::timeout(PATIENCE, first).await.expect("the subscription hangs");
        first.expect("a value or an error")
    }

    /// The only text of a call that must succeed.
    pub(super) async fn text(&self, tool: &str, input: Value) -> String {
        let envelope = self.call(tool, input).await.unwrap();
        envelope.data[0]["text"].as_str().unwrap().to_owned()
    }

    /// The source answers.
    pub(super) async fn is_well(&self) {
        assert_eq!(self.text("echo", json!({"text": "well"})).await, "well");
    }

    pub(super) fn count(&self, line: &str) -> usize {
        self.scratch.count(line)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.scratch.lines()
    }

    pub(super) fn has(&self, tool: &str) -> bool {
        self.pipeline.registry().catalog().get(&id(tool)).is_some()
    }

    /// The port of a server over HTTP, which is ended by this.
    pub(super) fn end_server(&mut self) -> u16 {
        self.http.take().unwrap().port
    }

    pub(super) fn start_server(&mut self, arguments: &[&str]) {
        self.http = Some(HttpServer::start(&self.scratch, arguments));
    }

    /// Ends everything; no process may be left, and no operation.
    pub(super) async fn close(self) {
        self.close_and_look(|_| {}).await;
    }

    /// As [`Rig::close`], with a look at what the server wrote down about the end.
    pub(super) async fn close_and_look(self, look: impl FnOnce(&Scratch)) {
        let Self { pipeline, source, scratch, http } = self;
        tokio::time::timeout(PATIENCE, source.close()).await.expect("the source does not close");
        assert!(pipeline.registry().catalog().is_empty());
        look(&scratch);
        drop(http);
        scratch.is_deserted().await;
    }
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Stdio,
    Http,
}

/// Each way in each era.
pub(super) fn combinations() -> [(Way, &'static [&'static str]); 4] {
    let [legacy, modern] = ERAS;
    [(Way::Stdio, legacy), (Way::Stdio, modern), (Way::Http, legacy), (Way::Http, modern)]
}

pub(super) fn id(tool: &str) -> String {
    format!("x.{tool}")
}

/// An error has this code, and its message says all of these.
#[track_caller]
pub(super) fn says<T: std::fmt::Debug>(ended: Result<T, CallError>, code: &str, words: &[&str]) {
    let error = ended.unwrap_err();
    assert_eq!(error.code().as_str(), code, "{error}");
    for word in words {
        assert!(error.message().contains(word), "`{word}` in {error}");
    }
}
