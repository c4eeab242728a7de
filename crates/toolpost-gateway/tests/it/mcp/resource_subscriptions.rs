//! Resource subscriptions with real servers of both protocol generations, over both transports.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use toolpost::mcp::{HttpSettings, McpSettings, McpSource, McpTransport, StdioSettings};
use toolpost::protocol::Secret;
use toolpost::{AccessControl, Identity, Registry, ResultPolicy, RunningSource, SourceHooks};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, GatewaySettings, McpView, builtin};

use super::super::{TestGateway, client};
use super::{LEGACY, McpEvents, message, modern, response_json};

/// Long enough for a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const UPDATED: &str = "notifications/resources/updated";
const ONE: &str = "toolpost:notes:note://one";
const TWO: &str = "toolpost:notes:note://two";

/// Transport and protocol generation of the server behind the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerKind {
    Pipe,
    ModernPipe,
    Http,
    ModernHttp,
}

const KINDS: [ServerKind; 4] =
    [ServerKind::Pipe, ServerKind::ModernPipe, ServerKind::Http, ServerKind::ModernHttp];

/// The server, and the file in which it logs its subscriptions.
struct NotesServer {
    kind: ServerKind,
    log: PathBuf,
    process: Option<Child>,
    port: u16,
}

impl NotesServer {
    fn new(kind: ServerKind, test: &str) -> Self {
        let log =
            std::env::temp_dir().join(format!("toolpost-{}-{test}-{kind:?}", std::process::id()));
        let _ = std::fs::remove_file(&log);
        let mut notes = Self { kind, log, process: None, port: 0 };
        if matches!(kind, ServerKind::Http | ServerKind::ModernHttp) {
            notes.serve();
        }
        notes
    }

    fn arguments(&self) -> Vec<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../toolpost/tests/servers/subscription_server.py");
        let mut arguments = vec![script.to_str().unwrap().to_owned()];
        if matches!(self.kind, ServerKind::ModernPipe | ServerKind::ModernHttp) {
            arguments.push("--modern".to_owned());
        }
        arguments
    }

    /// Starts the server over HTTP, on its previous port if it had one.
    fn serve(&mut self) {
        let mut child = Command::new("python3")
            .args(self.arguments())
            .args(["--http", &self.port.to_string()])
            .env("NOTES_LOG", &self.log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        (self.port, self.process) = (port.trim().parse().unwrap(), Some(child));
    }

    fn settings(&self, more: &[&str]) -> McpSettings {
        let transport = match self.kind {
            ServerKind::Pipe | ServerKind::ModernPipe => {
                let arguments =
                    self.arguments().into_iter().chain(more.iter().map(|&one| one.into()));
                let mut stdio = StdioSettings::new("python3", arguments);
                let log = Secret::new(self.log.to_str().unwrap());
                stdio.env.insert("NOTES_LOG".to_owned(), log);
                McpTransport::Stdio(stdio)
            }
            ServerKind::Http | ServerKind::ModernHttp => {
                let url = format!("http://127.0.0.1:{}/mcp", self.port);
                McpTransport::Http(HttpSettings::new(url.parse().unwrap()))
            }
        };
        let mut settings = McpSettings::new(transport);
        settings.restart = (Duration::from_millis(10), Duration::from_millis(100));
        settings
    }

    async fn start(&self, registry: &Registry) -> RunningSource {
        let source = RunningSource::start(
            registry,
            McpSource::new("notes", self.settings(&[])),
            SourceHooks::default(),
        );
        source.ready(TEST_TIMEOUT).await.unwrap();
        source
    }

    /// Counts a log line: `+` and the URI for a subscription, `-` and the URI for its end.
    fn log_count(&self, line: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|one| *one == line).count()
    }

    async fn wait_for(&self, line: &str, times: usize) {
        let start = std::time::Instant::now();
        while self.log_count(line) < times {
            assert!(start.elapsed() < TEST_TIMEOUT, "{:?}: no {line}", self.kind);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stops the server. An HTTP server is started again.
    async fn restart(&mut self, gateway: &TestGateway) {
        let die = json!({"name": "notes__die", "arguments": {}});
        let _ = gateway.legacy_request("", "tools/call", &die).send().await;
        if let Some(mut process) = self.process.take() {
            process.wait().unwrap();
            self.serve();
        }
    }
}

impl Drop for NotesServer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

impl TestGateway {
    async fn update_resource(&self, uri: &str, times: usize) {
        let touch = json!({"name": "notes__touch", "arguments": {"uri": uri, "times": times}});
        let touched = self.legacy_request("", "tools/call", &touch).send().await.unwrap();
        assert_eq!(touched.status(), StatusCode::OK);
        let touched: Value = touched.json().await.unwrap();
        assert!(touched["result"]["content"].is_array(), "{touched}");
    }

    fn in_session(&self, session: &str, query: &str, method: &str, uri: &str) -> RequestBuilder {
        let request = self.legacy_request(query, method, &json!({"uri": uri}));
        request.header("mcp-session-id", session)
    }

    async fn subscribe(&self, session: &str, query: &str, uri: &str) {
        let response =
            response_json(self.in_session(session, query, "resources/subscribe", uri)).await;
        assert_eq!(response["result"], json!({}), "{response}");
    }

    async fn unsubscribe(&self, session: &str, uri: &str) {
        let response =
            response_json(self.in_session(session, "", "resources/unsubscribe", uri)).await;
        assert_eq!(response["result"], json!({}), "{response}");
    }

    async fn open_stream(&self, session: &str) -> McpEvents {
        let get = client().get(self.url("/mcp")).header("accept", "text/event-stream");
        McpEvents::of(get.header("mcp-session-id", session)).await
    }

    fn listen(&self, query: &str, uris: &[&str]) -> RequestBuilder {
        let expected = json!({"notifications": {"resourceSubscriptions": uris}});
        self.modern_request(query, "subscriptions/listen", &expected)
    }

    /// Opens a stream of 2026-07-28 for `uris` and checks that exactly `honored` are acknowledged.
    async fn open_subscription(&self, query: &str, uris: &[&str], honored: &[&str]) -> McpEvents {
        let mut stream = McpEvents::of(self.listen(query, uris)).await;
        let first = stream.next().await.unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        let expected = match honored {
            [] => json!({}),
            honored => json!({"resourceSubscriptions": honored}),
        };
        assert_eq!(first["params"]["notifications"], expected);
        stream
    }
}

/// Asserts that the next message is an update of `uri`.
async fn expect_update(stream: &mut McpEvents, uri: &str) {
    let received = tokio::time::timeout(TEST_TIMEOUT, stream.next()).await;
    let received = received.unwrap_or_else(|_| panic!("nothing of {uri}")).unwrap();
    assert_eq!((&received["method"], &received["params"]["uri"]), (&json!(UPDATED), &json!(uri)));
}

#[tokio::test]
async fn shared_subscription_ends_with_last_subscriber() {
    for kind in KINDS {
        let notes = NotesServer::new(kind, "many");
        let gateway = TestGateway::start().await;
        let source = notes.start(gateway.gateway.pipeline().registry()).await;
        let (first, second) = (gateway.start_session().await, gateway.start_session().await);
        let mut legacy = gateway.open_stream(&first).await;
        let mut alone = gateway.open_stream(&second).await;
        gateway.subscribe(&first, "", ONE).await;
        gateway.subscribe(&first, "", ONE).await;
        gateway.subscribe(&second, "?source=notes", "note://one").await;
        let mut now = gateway.open_subscription("", &[ONE], &[ONE]).await;
        // There is only one source, so its unqualified URI is accepted.
        let mut unqualified = gateway.open_subscription("", &["note://one"], &["note://one"]).await;
        notes.wait_for("+note://one", 1).await;
        assert_eq!(notes.log_count("+note://one"), 1, "{kind:?}: the server gets one request");

        // An update is sent only to subscribers, with the URI that each of them uses.
        gateway.update_resource("note://two", 1).await;
        gateway.update_resource("note://one", 1).await;
        expect_update(&mut legacy, ONE).await;
        expect_update(&mut alone, "note://one").await;
        expect_update(&mut now, ONE).await;
        expect_update(&mut unqualified, "note://one").await;

        gateway.unsubscribe(&first, ONE).await;
        drop(unqualified);
        gateway.update_resource("note://one", 1).await;
        expect_update(&mut alone, "note://one").await;
        expect_update(&mut now, ONE).await;
        gateway.subscribe(&first, "", TWO).await;
        gateway.update_resource("note://two", 1).await;
        expect_update(&mut legacy, TWO).await;

        // One client ends its session, another closes its stream.
        let end = client().delete(gateway.url("/mcp")).header("mcp-session-id", &second);
        assert_eq!(end.send().await.unwrap().status(), StatusCode::NO_CONTENT);
        gateway.update_resource("note://one", 1).await;
        expect_update(&mut now, ONE).await;
        drop(now);
        gateway.unsubscribe(&first, TWO).await;
        let begun = [notes.log_count("+note://one"), notes.log_count("+note://two")];
        notes.wait_for("-note://one", begun[0]).await;
        notes.wait_for("-note://two", begun[1]).await;
        drop((legacy, alone));
        gateway.stop().await;
        source.close().await;
    }
}

#[tokio::test]
async fn subscription_resumes_after_server_restart() {
    for kind in KINDS {
        let mut notes = NotesServer::new(kind, "restart");
        let gateway = TestGateway::start().await;
        let source = notes.start(gateway.gateway.pipeline().registry()).await;
        let session = gateway.start_session().await;
        let mut legacy = gateway.open_stream(&session).await;
        gateway.subscribe(&session, "", ONE).await;
        let mut now = gateway.open_subscription("", &[ONE], &[ONE]).await;
        let before = notes.log_count("+note://one");
        notes.restart(&gateway).await;
        for stream in [&mut legacy, &mut now] {
            // List changes caused by the restart of the source are skipped.
            loop {
                let received = tokio::time::timeout(TEST_TIMEOUT, stream.next()).await;
                let received = received.unwrap_or_else(|_| panic!("{kind:?}: nothing")).unwrap();
                if received["method"] == UPDATED {
                    break;
                }
            }
        }
        assert!(notes.log_count("+note://one") > before, "{kind:?}");
        gateway.update_resource("note://one", 1).await;
        for stream in [&mut legacy, &mut now] {
            while stream.next().await.unwrap()["method"] != UPDATED {}
        }
        drop((legacy, now));
        gateway.stop().await;
        source.close().await;
    }
}

#[tokio::test]
async fn pending_updates_are_coalesced_for_slow_reader() {
    for kind in KINDS {
        let notes = NotesServer::new(kind, "slow");
        let gateway = TestGateway::start().await;
        let source = notes.start(gateway.gateway.pipeline().registry()).await;
        let session = gateway.start_session().await;
        gateway.subscribe(&session, "", ONE).await;
        gateway.subscribe(&session, "", TWO).await;
        // Another client reads, which shows when all updates have arrived.
        let mut other = gateway.open_subscription("", &[ONE, TWO], &[ONE, TWO]).await;
        gateway.update_resource("note://one", 2_000).await;
        gateway.update_resource("note://two", 1).await;
        while other.next().await.unwrap()["params"]["uri"] != TWO {}
        // A repeated subscription loses no updates.
        gateway.subscribe(&session, "", ONE).await;
        let mut stream = gateway.open_stream(&session).await;
        expect_update(&mut stream, ONE).await;
        expect_update(&mut stream, TWO).await;
        gateway.update_resource("note://two", 1).await;
        expect_update(&mut stream, TWO).await;
        drop((stream, other));
        gateway.stop().await;
        source.close().await;
    }
}

#[tokio::test]
async fn subscribe_requires_read_access() {
    let notes = NotesServer::new(ServerKind::Pipe, "access");
    let tokens = [Token::generate().unwrap(), Token::generate().unwrap()];
    let mut ann = Identity::new("ann");
    ann.scopes = vec!["notes".to_owned()];
    let known = [(tokens[0].hash(), ann), (tokens[1].hash(), Identity::new("bob"))];
    let gateway =
        Gateway::builder(builtin::registry()).authenticator(Authenticator::with_tokens(known));
    let gateway = TestGateway::serve(gateway, "127.0.0.1:0").await;
    let mut hooks = SourceHooks::default();
    let access: AccessControl =
        serde_json::from_value(json!({"requiredScopes": ["notes"]})).unwrap();
    hooks.transform = Some(Arc::new(move |mut spec| {
        spec.access_control = access.clone();
        Some((spec, ResultPolicy::default()))
    }));
    let registry = gateway.gateway.pipeline().registry();
    let source =
        RunningSource::start(registry, McpSource::new("notes", notes.settings(&[])), hooks);
    source.ready(TEST_TIMEOUT).await.unwrap();
    for (token, is_allowed) in tokens.iter().zip([true, false]) {
        let hello = json!({"protocolVersion": LEGACY});
        let hello = gateway.legacy_request("", "initialize", &hello).bearer_auth(token.reveal());
        let session = hello.send().await.unwrap().headers()["mcp-session-id"].clone();
        for uri in [ONE, "note://one"] {
            let subscribe =
                gateway.in_session(session.to_str().unwrap(), "", "resources/subscribe", uri);
            let response = response_json(subscribe.bearer_auth(token.reveal())).await;
            assert_eq!(response.get("result").is_some(), is_allowed, "{response}");
            if !is_allowed {
                let text = format!("unknown resource `{uri}`");
                assert_eq!(response["error"]["message"], text);
            }
        }
        let listen = gateway.listen("", &[ONE]).bearer_auth(token.reveal());
        let first = McpEvents::of(listen).await.next().await.unwrap();
        let honored = first["params"]["notifications"].get("resourceSubscriptions");
        assert_eq!(honored.is_some(), is_allowed, "{first}");
    }
    gateway.stop().await;
    source.close().await;
}

#[tokio::test]
async fn unsupported_subscription_is_rejected_with_reason() {
    for kind in [ServerKind::Pipe, ServerKind::ModernPipe] {
        let notes = NotesServer::new(kind, "refused");
        let mut settings = GatewaySettings::default();
        settings.mcp.max_resource_subscriptions_per_client = 2;
        let gateway = TestGateway::start_with([], settings).await;
        let registry = gateway.gateway.pipeline().registry();
        let source = notes.start(registry).await;
        let silent = notes.settings(&["--silent"]);
        let silent = RunningSource::start(
            registry,
            McpSource::new("silent", silent),
            SourceHooks::default(),
        );
        silent.ready(TEST_TIMEOUT).await.unwrap();
        let session = gateway.start_session().await;
        let long = format!("toolpost:notes:note://{}", "x".repeat(5_000));
        for (uri, code, text) in [
            (
                "toolpost:silent:note://one",
                -32_601,
                "`silent` does not support resource subscriptions",
            ),
            ("toolpost:none:note://one", -32_002, "unknown resource"),
            (&long, -32_602, "limited to 4096 bytes"),
        ] {
            let request = gateway.in_session(&session, "", "resources/subscribe", uri);
            let rejected = response_json(request).await;
            assert_eq!(rejected["error"]["code"], code, "{rejected}");
            assert!(rejected["error"]["message"].as_str().unwrap().contains(text), "{rejected}");
        }
        let secret = "toolpost:notes:note://secret";
        let rejected =
            response_json(gateway.in_session(&session, "", "resources/subscribe", secret)).await;
        if kind == ServerKind::Pipe {
            assert_eq!(rejected["error"]["code"], -32_055, "{rejected}");
        }
        assert!(rejected.get("error").is_some(), "{rejected}");
        let uris = [secret, "toolpost:silent:note://one"];
        drop(gateway.open_subscription("", &uris, &[]).await);

        // Two sources list these resources. The one that supports subscriptions is used.
        gateway.subscribe(&session, "", "note://one").await;
        gateway.subscribe(&session, "", TWO).await;
        let third =
            gateway.in_session(&session, "", "resources/subscribe", "toolpost:notes:note://3");
        let rejected = response_json(third).await;
        assert_eq!(rejected["error"]["code"], -32_000, "{rejected}");
        gateway.unsubscribe(&session, TWO).await;
        gateway.subscribe(&session, "", "toolpost:notes:note://3").await;
        let many = gateway.listen("", &[ONE, TWO, "a:b"]).send().await.unwrap();
        assert_eq!(many.status(), StatusCode::BAD_REQUEST);
        let outside = gateway.legacy_request("", "resources/subscribe", &json!({"uri": ONE}));
        assert_eq!(response_json(outside).await["error"]["code"], -32_600, "there is no session");
        let modern = gateway.modern_request("", "resources/subscribe", &json!({"uri": ONE}));
        assert_eq!(modern.send().await.unwrap().status(), StatusCode::NOT_FOUND);
        gateway.stop().await;
        source.close().await;
        silent.close().await;
    }
}

#[tokio::test]
async fn stdio_client_subscribes_in_both_generations() {
    for kind in [ServerKind::Pipe, ServerKind::ModernHttp] {
        let notes = NotesServer::new(kind, "streams");
        let registry = builtin::registry();
        let source = notes.start(&registry).await;
        let gateway = Gateway::builder(registry).build().unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let serving = gateway.clone();
        let served = tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            let identity = Arc::new(Identity::new("local"));
            let never = std::future::pending();
            serving.serve_mcp(reader, writer, identity, McpView::default(), never).await
        });
        let (output, mut input) = tokio::io::split(ours);
        let mut output = tokio::io::BufReader::new(output).lines();
        let touch = json!({"name": "notes__touch", "arguments": {"uri": "note://one"}});
        let listen = modern(&json!({"notifications": {"resourceSubscriptions": [ONE]}}));
        let canceled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 4}});
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let subscribe = message(2, "resources/subscribe", &json!({"uri": ONE}));
        let unsubscribe = message(6, "resources/unsubscribe", &json!({"uri": ONE}));
        let hello = json!({"protocolVersion": LEGACY});
        // Each row: the messages to send, and the expected messages in any order: a response by its
        // id, an update by the id of its subscription, and an acknowledgment as "ack".
        let rows: [(Vec<Value>, &[Value]); 6] = [
            (vec![message(1, "initialize", &hello)], &[json!(1)]),
            (vec![initialized, subscribe], &[json!(2)]),
            (vec![message(3, "tools/call", &touch)], &[json!(3), Value::Null]),
            (vec![message(4, "subscriptions/listen", &listen)], &[json!("ack")]),
            (vec![message(5, "tools/call", &touch)], &[json!(5), Value::Null, json!([4])]),
            (vec![unsubscribe, canceled], &[json!(6)]),
        ];
        for (messages, expected) in rows {
            for message in messages {
                input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
            let mut expected = expected.to_vec();
            while !expected.is_empty() {
                let line = tokio::time::timeout(TEST_TIMEOUT, output.next_line()).await.unwrap();
                let received: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
                let id = &received["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
                let what = match received["method"].as_str() {
                    None => received["id"].clone(),
                    Some(UPDATED) if id.is_null() => Value::Null,
                    Some(UPDATED) => json!([id]),
                    Some(_) => json!("ack"),
                };
                let index = expected.iter().position(|one| *one == what);
                expected.remove(index.unwrap_or_else(|| panic!("{kind:?}: {received}")));
            }
        }
        notes.wait_for("-note://one", notes.log_count("+note://one")).await;
        input.shutdown().await.unwrap();
        assert!(output.next_line().await.unwrap().is_none());
        assert!(served.await.unwrap().in_time);
        source.close().await;
    }
}
