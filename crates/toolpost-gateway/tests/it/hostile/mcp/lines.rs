//! The same on a pair of streams: lines instead of requests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolpost::{Identity, Pipeline};
use toolpost_gateway::{Drained, Gateway, GatewaySettings, McpView, builtin};

use super::super::super::spokes::in_time;
use super::super::{call, resident};

const PING: &str = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;

/// The client's end of both streams.
struct Parent {
    says: DuplexStream,
    hears: BufReader<DuplexStream>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Drained>,
}

impl Parent {
    fn start(settings: GatewaySettings) -> Self {
        let gateway = Gateway::with(Pipeline::new(builtin::registry()), settings);
        let (says, reader) = tokio::io::duplex(64 * 1024);
        let (writer, hears) = tokio::io::duplex(64 * 1024);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let identity = Arc::new(Identity::new("local"));
            let stopped = async { drop(stopped.await) };
            gateway.serve_mcp(reader, writer, identity, McpView::default(), stopped).await
        });
        Self { says, hears: BufReader::new(hears), stop, served }
    }

    async fn say(&mut self, line: impl AsRef<[u8]>) {
        let line = [line.as_ref(), b"\n"].concat();
        in_time("writing", self.says.write_all(&line)).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        in_time("a line", self.hears.read_line(&mut line)).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

/// Each row: a line, and the refusal; whatever it was, the next line is answered.
#[tokio::test(flavor = "multi_thread")]
async fn every_bad_line_is_refused_by_name_and_the_next_is_answered() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let ids = "`id` must be a text or a number of at most 256 bytes";
    let rows: Vec<(&str, Vec<u8>, i64, &str)> = vec![
        ("garbage", b"hello".to_vec(), -32_700, "cannot be read"),
        ("bytes", vec![0, 255, 254, 1], -32_700, "cannot be read"),
        ("half a message", b"{\"jsonrpc\":\"2.0\"".to_vec(), -32_700, "cannot be read"),
        ("a batch", format!("[{PING}]").into(), -32_600, "a message must be an object"),
        (
            "a list",
            br#"["2.0",1,"ping",{},{},{}]"#.to_vec(),
            -32_600,
            "a message must be an object",
        ),
        ("depth", deep(100_000).into(), -32_600, "a message must be an object"),
        (
            "depth as an id",
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, deep(100_000)).into(),
            -32_600,
            ids,
        ),
        ("null as an id", br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_vec(), -32_600, ids),
        (
            "a line of 100 MB",
            vec![b'x'; 100_000_000],
            -32_600,
            "a message has at most 4194304 bytes",
        ),
        (
            "a line of 100 MB of brackets",
            vec![b'['; 100_000_000],
            -32_600,
            "a message has at most 4194304 bytes",
        ),
    ];
    let mut parent = Parent::start(GatewaySettings::default());
    for (what, line, code, words) in rows {
        let (bytes, before) = (line.len(), resident());
        parent.say(line).await;
        let refusal = parent.hear().await;
        assert_eq!(refusal["error"]["code"], code, "{what}: {refusal}");
        assert!(refusal["error"]["message"].as_str().unwrap().contains(words), "{what}: {refusal}");
        if bytes > 1_000_000 {
            eprintln!("{what}: {before} KiB before, {} KiB after", resident());
        }
        parent.say("").await;
        parent.say(PING).await;
        assert_eq!(parent.hear().await["id"], "ping", "{what}");
    }
    drop(parent.says);
    assert!(in_time("the end", parent.served).await.unwrap().in_time);
}

#[tokio::test]
async fn a_parent_that_says_nothing_more_still_hears_its_answer() {
    let mut parent = Parent::start(GatewaySettings::default());
    parent.say(call("demo__slow", &json!({"ms": 200})).to_string()).await;
    // Half a line is none.
    parent.says.write_all(&PING.as_bytes()[..10]).await.unwrap();
    drop(parent.says);
    let mut text = String::new();
    while in_time("a line", parent.hears.read_line(&mut text)).await.unwrap() > 0 {}
    assert!(text.contains("200") && text.lines().count() == 1, "{text}");
    assert!(in_time("the end", parent.served).await.unwrap().in_time);
}

#[tokio::test]
async fn a_parent_that_is_gone_ends_everything() {
    let mut parent = Parent::start(GatewaySettings::default());
    parent.say(call("demo__slow", &json!({"ms": 600_000})).to_string()).await;
    parent.say(PING).await;
    parent.hear().await;
    drop((parent.says, parent.hears));
    // Nothing is written as long as nothing is answered, so that nobody listens shows only then.
    drop(parent.stop);
    in_time("the end", parent.served).await.unwrap();
}

/// Each row: what a parent says for as long as it can, without ever reading.
#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_never_reads_can_be_left() {
    for (what, line) in [
        ("requests", PING.to_owned()),
        ("garbage", "garbage".to_owned()),
        ("hellos", super::super::hello().to_string()),
        ("calls", call("demo__add", &json!({"a": 1, "b": 1})).to_string()),
    ] {
        let mut settings = GatewaySettings::default();
        settings.drain = Duration::from_millis(200);
        let Parent { mut says, hears, stop, served } = Parent::start(settings);
        let before = resident();
        let line = format!("{line}\n").into_bytes();
        let mut said = 0;
        // It cannot go on, because nobody reads what it says any more.
        while let Ok(written) =
            tokio::time::timeout(Duration::from_millis(500), says.write_all(&line)).await
        {
            written.unwrap();
            said += line.len();
            assert!(said < 8_000_000, "{what}: the flood is taken for ever");
        }
        eprintln!("{what} without reading: {before} KiB before, {} KiB after", resident());
        drop(stop);
        in_time(what, served).await.unwrap();
        drop((says, hears));
    }
}

#[tokio::test]
async fn a_flood_of_subscriptions_is_bounded() {
    let mut settings = GatewaySettings::default();
    settings.mcp.in_flight = 8;
    let mut parent = Parent::start(settings);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let mut refused = 0;
    for id in 0..20 {
        let listen =
            json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params});
        parent.say(listen.to_string()).await;
        let answer = parent.hear().await;
        if answer["error"]["code"] == -32_000 {
            assert_eq!(
                answer["error"]["message"],
                "8 requests are running; wait for one of them to end"
            );
            refused += 1;
        }
    }
    assert_eq!(refused, 12);
    drop(parent.says);
    in_time("the end", parent.served).await.unwrap();
}
