//! Resources that clients follow, of real servers of both eras and over both transports.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use toolpost::mcp::{
    HttpSettings, McpSettings, McpSource, McpTransport, SourceHooks, StdioSettings,
};
use toolpost::protocol::Secret;
use toolpost::{AccessControl, Identity, Pipeline, Registry, ResultPolicy};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, GatewaySettings, McpView, builtin};

use super::super::{Running, client};
use super::{Events, LEGACY, answer, message, modern};

/// Long enough for a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
const UPDATED: &str = "notifications/resources/updated";
const ONE: &str = "toolpost:notes:note://one";
const TWO: &str = "toolpost:notes:note://two";

/// How the server behind the gateway is reached, and what it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    ModernPipe,
    Http,
    ModernHttp,
}

const KINDS: [Kind; 4] = [Kind::Pipe, Kind::ModernPipe, Kind::Http, Kind::ModernHttp];

/// The server, and the file in which it says what it was asked to follow.
struct Notes {
    kind: Kind,
    log: PathBuf,
    process: Option<Child>,
    port: u16,
}

impl Notes {
    fn new(kind: Kind, test: &str) -> Self {
        let log =
            std::env::temp_dir().join(format!("toolpost-{}-{test}-{kind:?}", std::process::id()));
        let _ = std::fs::remove_file(&log);
        let mut notes = Self { kind, log, process: None, port: 0 };
        if matches!(kind, Kind::Http | Kind::ModernHttp) {
            notes.serve();
        }
        notes
    }

    fn arguments(&self) -> Vec<String> {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolpost/tests/servers/notes.py");
        let mut arguments = vec![script.to_str().unwrap().to_owned()];
        if matches!(self.kind, Kind::ModernPipe | Kind::ModernHttp) {
            arguments.push("--modern".to_owned());
        }
        arguments
    }

    /// Starts it over HTTP, at the port of before if there was one.
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
            Kind::Pipe | Kind::ModernPipe => {
                let arguments =
                    self.arguments().into_iter().chain(more.iter().map(|&one| one.into()));
                let mut stdio = StdioSettings::new("python3", arguments);
                let log = Secret::new(self.log.to_str().unwrap());
                stdio.env.insert("NOTES_LOG".to_owned(), log);
                McpTransport::Stdio(stdio)
            }
            Kind::Http | Kind::ModernHttp => {
                let url = format!("http://127.0.0.1:{}/mcp", self.port);
                McpTransport::Http(HttpSettings::new(url.parse().unwrap()))
            }
        };
        let mut settings = McpSettings::new(transport);
        settings.restart = (Duration::from_millis(10), Duration::from_millis(100));
        settings
    }

    async fn start(&self, registry: &Registry) -> McpSource {
        let source =
            McpSource::start(registry, "notes", self.settings(&[]), SourceHooks::default());
        source.ready(PATIENCE).await.unwrap();
        source
    }

    /// How often the server began to tell of a note (`+`), or ended to (`-`).
    fn times(&self, line: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|one| *one == line).count()
    }

    async fn wait_for(&self, line: &str, times: usize) {
        let start = std::time::Instant::now();
        while self.times(line) < times {
            assert!(start.elapsed() < PATIENCE, "{:?}: no {line}", self.kind);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the server; one over HTTP is started again.
    async fn restart(&mut self, gateway: &Running) {
        let die = json!({"name": "notes__die", "arguments": {}});
        let _ = gateway.ask("", "tools/call", &die).send().await;
        if let Some(mut process) = self.process.take() {
            process.wait().unwrap();
            self.serve();
        }
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

impl Running {
    async fn touch(&self, uri: &str, times: usize) {
        let touch = json!({"name": "notes__touch", "arguments": {"uri": uri, "times": times}});
        let touched = self.ask("", "tools/call", &touch).send().await.unwrap();
        assert_eq!(touched.status(), StatusCode::OK);
        let touched: Value = touched.json().await.unwrap();
        assert!(touched["result"]["content"].is_array(), "{touched}");
    }

    fn in_session(&self, session: &str, query: &str, method: &str, uri: &str) -> RequestBuilder {
        let request = self.ask(query, method, &json!({"uri": uri}));
        request.header("mcp-session-id", session)
    }

    async fn subscribe(&self, session: &str, query: &str, uri: &str) {
        let answer = answer(self.in_session(session, query, "resources/subscribe", uri)).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }

    async fn unsubscribe(&self, session: &str, uri: &str) {
        let answer = answer(self.in_session(session, "", "resources/unsubscribe", uri)).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }

    async fn stream(&self, session: &str) -> Events {
        let get = client().get(self.url("/mcp")).header("accept", "text/event-stream");
        Events::of(get.header("mcp-session-id", session)).await
    }

    fn listen(&self, query: &str, uris: &[&str]) -> RequestBuilder {
        let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
        self.ask_modern(query, "subscriptions/listen", &wanted)
    }

    /// A stream of 2026-07-28 that is told of these, and of no others that it asked for.
    async fn listening(&self, query: &str, uris: &[&str], honored: &[&str]) -> Events {
        let mut stream = Events::of(self.listen(query, uris)).await;
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

/// The next message is that this has changed.
async fn hears(stream: &mut Events, uri: &str) {
    let heard = tokio::time::timeout(PATIENCE, stream.next()).await;
    let heard = heard.unwrap_or_else(|_| panic!("nothing of {uri}")).unwrap();
    assert_eq!((&heard["method"], &heard["params"]["uri"]), (&json!(UPDATED), &json!(uri)));
}

#[tokio::test]
async fn many_follow_one_note_of_any_server_and_the_last_to_leave_ends_it() {
    for kind in KINDS {
        let notes = Notes::new(kind, "many");
        let gateway = Running::start().await;
        let source = notes.start(gateway.gateway.pipeline().registry()).await;
        let (first, second) = (gateway.begin().await, gateway.begin().await);
        let mut legacy = gateway.stream(&first).await;
        let mut alone = gateway.stream(&second).await;
        gateway.subscribe(&first, "", ONE).await;
        gateway.subscribe(&first, "", ONE).await;
        gateway.subscribe(&second, "?source=notes", "note://one").await;
        let mut now = gateway.listening("", &[ONE], &[ONE]).await;
        // The source is named by nobody else, and so an address of its own is understood.
        let mut bare = gateway.listening("", &["note://one"], &["note://one"]).await;
        notes.wait_for("+note://one", 1).await;
        assert_eq!(notes.times("+note://one"), 1, "{kind:?}: it is asked once");

        // What nobody follows is told to nobody, and what all follow to each in its own words.
        gateway.touch("note://two", 1).await;
        gateway.touch("note://one", 1).await;
        hears(&mut legacy, ONE).await;
        hears(&mut alone, "note://one").await;
        hears(&mut now, ONE).await;
        hears(&mut bare, "note://one").await;

        gateway.unsubscribe(&first, ONE).await;
        drop(bare);
        gateway.touch("note://one", 1).await;
        hears(&mut alone, "note://one").await;
        hears(&mut now, ONE).await;
        gateway.subscribe(&first, "", TWO).await;
        gateway.touch("note://two", 1).await;
        hears(&mut legacy, TWO).await;

        // One leaves by ending its session, and one by closing its stream.
        let end = client().delete(gateway.url("/mcp")).header("mcp-session-id", &second);
        assert_eq!(end.send().await.unwrap().status(), StatusCode::NO_CONTENT);
        gateway.touch("note://one", 1).await;
        hears(&mut now, ONE).await;
        drop(now);
        gateway.unsubscribe(&first, TWO).await;
        let begun = [notes.times("+note://one"), notes.times("+note://two")];
        notes.wait_for("-note://one", begun[0]).await;
        notes.wait_for("-note://two", begun[1]).await;
        drop((legacy, alone));
        gateway.stop().await;
        source.close().await;
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_asked_again_and_what_was_missed_is_told() {
    for kind in KINDS {
        let mut notes = Notes::new(kind, "restart");
        let gateway = Running::start().await;
        let source = notes.start(gateway.gateway.pipeline().registry()).await;
        let session = gateway.begin().await;
        let mut legacy = gateway.stream(&session).await;
        gateway.subscribe(&session, "", ONE).await;
        let mut now = gateway.listening("", &[ONE], &[ONE]).await;
        let before = notes.times("+note://one");
        notes.restart(&gateway).await;
        for stream in [&mut legacy, &mut now] {
            // What else has changed is that the source went and came.
            loop {
                let heard = tokio::time::timeout(PATIENCE, stream.next()).await;
                let heard = heard.unwrap_or_else(|_| panic!("{kind:?}: nothing")).unwrap();
                if heard["method"] == UPDATED {
                    break;
                }
            }
        }
        assert!(notes.times("+note://one") > before, "{kind:?}");
        gateway.touch("note://one", 1).await;
        for stream in [&mut legacy, &mut now] {
            while stream.next().await.unwrap()["method"] != UPDATED {}
        }
        drop((legacy, now));
        gateway.stop().await;
        source.close().await;
    }
}

#[tokio::test]
async fn whoever_does_not_read_is_told_once_of_many_changes() {
    for kind in KINDS {
        let notes = Notes::new(kind, "slow");
        let gateway = Running::start().await;
        let source = notes.start(gateway.gateway.pipeline().registry()).await;
        let session = gateway.begin().await;
        gateway.subscribe(&session, "", ONE).await;
        gateway.subscribe(&session, "", TWO).await;
        // Somebody else reads, and so knows when all has arrived.
        let mut other = gateway.listening("", &[ONE, TWO], &[ONE, TWO]).await;
        gateway.touch("note://one", 2_000).await;
        gateway.touch("note://two", 1).await;
        while other.next().await.unwrap()["params"]["uri"] != TWO {}
        // To ask again loses nothing.
        gateway.subscribe(&session, "", ONE).await;
        let mut stream = gateway.stream(&session).await;
        hears(&mut stream, ONE).await;
        hears(&mut stream, TWO).await;
        gateway.touch("note://two", 1).await;
        hears(&mut stream, TWO).await;
        drop((stream, other));
        gateway.stop().await;
        source.close().await;
    }
}

#[tokio::test]
async fn nobody_follows_what_he_may_not_read() {
    let notes = Notes::new(Kind::Pipe, "access");
    let tokens = [Token::generate().unwrap(), Token::generate().unwrap()];
    let mut ann = Identity::new("ann");
    ann.scopes = vec!["notes".to_owned()];
    let known = [(tokens[0].hash(), ann), (tokens[1].hash(), Identity::new("bob"))];
    let gateway = Gateway::new(builtin::registry()).with_authenticator(Authenticator::with(known));
    let gateway = Running::serve(gateway, "127.0.0.1:0").await;
    let mut hooks = SourceHooks::default();
    let access: AccessControl =
        serde_json::from_value(json!({"requiredScopes": ["notes"]})).unwrap();
    hooks.adjust = Some(Arc::new(move |mut spec| {
        spec.access_control = access.clone();
        Some((spec, ResultPolicy::default()))
    }));
    let registry = gateway.gateway.pipeline().registry();
    let source = McpSource::start(registry, "notes", notes.settings(&[]), hooks);
    source.ready(PATIENCE).await.unwrap();
    for (token, is_allowed) in tokens.iter().zip([true, false]) {
        let hello = json!({"protocolVersion": LEGACY});
        let hello = gateway.ask("", "initialize", &hello).bearer_auth(token.reveal());
        let session = hello.send().await.unwrap().headers()["mcp-session-id"].clone();
        for uri in [ONE, "note://one"] {
            let subscribe =
                gateway.in_session(session.to_str().unwrap(), "", "resources/subscribe", uri);
            let answer = answer(subscribe.bearer_auth(token.reveal())).await;
            assert_eq!(answer.get("result").is_some(), is_allowed, "{answer}");
            if !is_allowed {
                let words = format!("there is no resource `{uri}`");
                assert_eq!(answer["error"]["message"], words);
            }
        }
        let listen = gateway.listen("", &[ONE]).bearer_auth(token.reveal());
        let first = Events::of(listen).await.next().await.unwrap();
        let honored = first["params"]["notifications"].get("resourceSubscriptions");
        assert_eq!(honored.is_some(), is_allowed, "{first}");
    }
    gateway.stop().await;
    source.close().await;
}

#[tokio::test]
async fn what_cannot_be_followed_is_said() {
    for kind in [Kind::Pipe, Kind::ModernPipe] {
        let notes = Notes::new(kind, "refused");
        let mut settings = GatewaySettings::default();
        settings.mcp.followed_by_one = 2;
        let gateway = Running::with([], settings).await;
        let registry = gateway.gateway.pipeline().registry();
        let source = notes.start(registry).await;
        let silent = notes.settings(&["--silent"]);
        let silent = McpSource::start(registry, "silent", silent, SourceHooks::default());
        silent.ready(PATIENCE).await.unwrap();
        let session = gateway.begin().await;
        let long = format!("toolpost:notes:note://{}", "x".repeat(5_000));
        for (uri, code, words) in [
            (
                "toolpost:silent:note://one",
                -32_601,
                "`silent` does not tell when its resources change",
            ),
            ("toolpost:none:note://one", -32_002, "there is no resource"),
            (&long, -32_602, "at most 4096 bytes"),
        ] {
            let request = gateway.in_session(&session, "", "resources/subscribe", uri);
            let refused = answer(request).await;
            assert_eq!(refused["error"]["code"], code, "{refused}");
            assert!(refused["error"]["message"].as_str().unwrap().contains(words), "{refused}");
        }
        let secret = "toolpost:notes:note://secret";
        let refused = answer(gateway.in_session(&session, "", "resources/subscribe", secret)).await;
        if kind == Kind::Pipe {
            assert_eq!(refused["error"]["code"], -32_055, "{refused}");
        }
        assert!(refused.get("error").is_some(), "{refused}");
        let uris = [secret, "toolpost:silent:note://one"];
        drop(gateway.listening("", &uris, &[]).await);

        // Both names are listed by two sources; the one that tells is asked.
        gateway.subscribe(&session, "", "note://one").await;
        gateway.subscribe(&session, "", TWO).await;
        let third =
            gateway.in_session(&session, "", "resources/subscribe", "toolpost:notes:note://3");
        let refused = answer(third).await;
        assert_eq!(refused["error"]["code"], -32_000, "{refused}");
        gateway.unsubscribe(&session, TWO).await;
        gateway.subscribe(&session, "", "toolpost:notes:note://3").await;
        let many = gateway.listen("", &[ONE, TWO, "a:b"]).send().await.unwrap();
        assert_eq!(many.status(), StatusCode::BAD_REQUEST);
        let outside = gateway.ask("", "resources/subscribe", &json!({"uri": ONE}));
        assert_eq!(answer(outside).await["error"]["code"], -32_600, "there is no session");
        let modern = gateway.ask_modern("", "resources/subscribe", &json!({"uri": ONE}));
        assert_eq!(modern.send().await.unwrap().status(), StatusCode::NOT_FOUND);
        gateway.stop().await;
        source.close().await;
        silent.close().await;
    }
}

#[tokio::test]
async fn a_client_on_a_pair_of_streams_follows_in_both_ways() {
    for kind in [Kind::Pipe, Kind::ModernHttp] {
        let notes = Notes::new(kind, "streams");
        let registry = builtin::registry();
        let source = notes.start(&registry).await;
        let gateway = Gateway::with(Pipeline::new(registry), GatewaySettings::default());
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
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 4}});
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let subscribe = message(2, "resources/subscribe", &json!({"uri": ONE}));
        let unsubscribe = message(6, "resources/unsubscribe", &json!({"uri": ONE}));
        let hello = json!({"protocolVersion": LEGACY});
        // Each row: what is sent, and what is heard of it in any order: an answer by its id, an update by
        // the id of its subscription, and an acknowledgement as "ack".
        let rows: [(Vec<Value>, &[Value]); 6] = [
            (vec![message(1, "initialize", &hello)], &[json!(1)]),
            (vec![initialized, subscribe], &[json!(2)]),
            (vec![message(3, "tools/call", &touch)], &[json!(3), Value::Null]),
            (vec![message(4, "subscriptions/listen", &listen)], &[json!("ack")]),
            (vec![message(5, "tools/call", &touch)], &[json!(5), Value::Null, json!([4])]),
            (vec![unsubscribe, cancelled], &[json!(6)]),
        ];
        for (messages, expected) in rows {
            for message in messages {
                input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
            let mut expected = expected.to_vec();
            while !expected.is_empty() {
                let line = tokio::time::timeout(PATIENCE, output.next_line()).await.unwrap();
                let heard: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
                let id = &heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
                let what = match heard["method"].as_str() {
                    None => heard["id"].clone(),
                    Some(UPDATED) if id.is_null() => Value::Null,
                    Some(UPDATED) => json!([id]),
                    Some(_) => json!("ack"),
                };
                let place = expected.iter().position(|one| *one == what);
                expected.remove(place.unwrap_or_else(|| panic!("{kind:?}: {heard}")));
            }
        }
        notes.wait_for("-note://one", notes.times("+note://one")).await;
        input.shutdown().await.unwrap();
        assert!(output.next_line().await.unwrap().is_none());
        assert!(served.await.unwrap().in_time);
        source.close().await;
    }
}
