//! Hostile clients on a pair of streams, with lines instead of HTTP requests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolpost::Identity;
use toolpost_gateway::{DrainReport, Gateway, GatewaySettings, McpView, builtin};

use super::super::super::spokes::with_timeout;
use super::super::{resident_kib, tool_call_message};

const PING: &str = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;

/// The client side of both streams.
struct StdioParent {
    writer: DuplexStream,
    reader: BufReader<DuplexStream>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<DrainReport>,
}

impl StdioParent {
    fn start(settings: GatewaySettings) -> Self {
        let gateway = Gateway::builder(builtin::registry()).settings(settings).build().unwrap();
        let (writer, gateway_reader) = tokio::io::duplex(64 * 1024);
        let (gateway_writer, reader) = tokio::io::duplex(64 * 1024);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let identity = Arc::new(Identity::new("local"));
            let stopped = async { drop(stopped.await) };
            gateway
                .serve_mcp(gateway_reader, gateway_writer, identity, McpView::default(), stopped)
                .await
        });
        Self { writer, reader: BufReader::new(reader), stop, served }
    }

    async fn send_line(&mut self, line: impl AsRef<[u8]>) {
        let line = [line.as_ref(), b"\n"].concat();
        with_timeout("writing", self.writer.write_all(&line)).await.unwrap();
    }

    async fn recv(&mut self) -> Value {
        let mut line = String::new();
        with_timeout("a line", self.reader.read_line(&mut line)).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

/// Each row: a line and the expected error. The next line is always handled.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_line_is_rejected_and_next_is_handled() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let ids = "`id` must be a string or a number of at most 256 bytes";
    let rows: Vec<(&str, Vec<u8>, i64, &str)> = vec![
        ("garbage", b"hello".to_vec(), -32_700, "cannot be read"),
        ("bytes", vec![0, 255, 254, 1], -32_700, "cannot be read"),
        ("truncated message", b"{\"jsonrpc\":\"2.0\"".to_vec(), -32_700, "cannot be read"),
        ("a batch", format!("[{PING}]").into(), -32_600, "a message must be an object"),
        (
            "a list",
            br#"["2.0",1,"ping",{},{},{}]"#.to_vec(),
            -32_600,
            "a message must be an object",
        ),
        ("deep nesting", deep(100_000).into(), -32_600, "a message must be an object"),
        (
            "deeply nested id",
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, deep(100_000)).into(),
            -32_600,
            ids,
        ),
        ("null id", br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_vec(), -32_600, ids),
        (
            "a line of 100 MB",
            vec![b'x'; 100_000_000],
            -32_600,
            "the message exceeds the limit of 4194304 bytes",
        ),
        (
            "a line of 100 MB of brackets",
            vec![b'['; 100_000_000],
            -32_600,
            "the message exceeds the limit of 4194304 bytes",
        ),
    ];
    let mut parent = StdioParent::start(GatewaySettings::default());
    for (what, line, code, text) in rows {
        let (bytes, before) = (line.len(), resident_kib());
        parent.send_line(line).await;
        let rejection = parent.recv().await;
        assert_eq!(rejection["error"]["code"], code, "{what}: {rejection}");
        assert!(
            rejection["error"]["message"].as_str().unwrap().contains(text),
            "{what}: {rejection}"
        );
        if bytes > 1_000_000 {
            eprintln!("{what}: {before} KiB before, {} KiB after", resident_kib());
        }
        parent.send_line("").await;
        parent.send_line(PING).await;
        assert_eq!(parent.recv().await["id"], "ping", "{what}");
    }
    drop(parent.writer);
    assert!(with_timeout("the end", parent.served).await.unwrap().in_time);
}

#[tokio::test]
async fn closed_stdin_still_delivers_pending_response() {
    let mut parent = StdioParent::start(GatewaySettings::default());
    parent.send_line(tool_call_message("demo__slow", &json!({"ms": 200})).to_string()).await;
    // An incomplete line is ignored.
    parent.writer.write_all(&PING.as_bytes()[..10]).await.unwrap();
    drop(parent.writer);
    let mut text = String::new();
    while with_timeout("a line", parent.reader.read_line(&mut text)).await.unwrap() > 0 {}
    assert!(text.contains("200") && text.lines().count() == 1, "{text}");
    assert!(with_timeout("the end", parent.served).await.unwrap().in_time);
}

#[tokio::test]
async fn closed_streams_end_stdio_server() {
    let mut parent = StdioParent::start(GatewaySettings::default());
    parent.send_line(tool_call_message("demo__slow", &json!({"ms": 600_000})).to_string()).await;
    parent.send_line(PING).await;
    parent.recv().await;
    drop((parent.writer, parent.reader));
    // The gateway notices the closed reader only when it writes, and it writes nothing until there
    // is a response.
    drop(parent.stop);
    with_timeout("the end", parent.served).await.unwrap();
}

/// Each row: a line that a parent repeats for as long as it can, without reading.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_succeeds_with_parent_that_never_reads() {
    for (what, line) in [
        ("requests", PING.to_owned()),
        ("garbage", "garbage".to_owned()),
        ("initialize requests", super::super::initialize_message().to_string()),
        ("calls", tool_call_message("demo__add", &json!({"a": 1, "b": 1})).to_string()),
    ] {
        let mut settings = GatewaySettings::default();
        settings.drain_timeout = Duration::from_millis(200);
        let StdioParent { mut writer, reader, stop, served } = StdioParent::start(settings);
        let before = resident_kib();
        let line = format!("{line}\n").into_bytes();
        let mut message = 0;
        // The write blocks when the gateway stops reading.
        while let Ok(written) =
            tokio::time::timeout(Duration::from_millis(500), writer.write_all(&line)).await
        {
            written.unwrap();
            message += line.len();
            assert!(message < 8_000_000, "{what}: the flood is not limited");
        }
        eprintln!("{what} without reading: {before} KiB before, {} KiB after", resident_kib());
        drop(stop);
        with_timeout(what, served).await.unwrap();
        drop((writer, reader));
    }
}

#[tokio::test]
async fn stdio_subscriptions_are_limited() {
    let mut settings = GatewaySettings::default();
    settings.mcp.max_in_flight = 8;
    let mut parent = StdioParent::start(settings);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let mut rejected = 0;
    for id in 0..20 {
        let listen =
            json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params});
        parent.send_line(listen.to_string()).await;
        let response = parent.recv().await;
        if response["error"]["code"] == -32_000 {
            assert_eq!(
                response["error"]["message"],
                "request limit reached: 8 in flight; wait for one to finish"
            );
            rejected += 1;
        }
    }
    assert_eq!(rejected, 12);
    drop(parent.writer);
    with_timeout("the end", parent.served).await.unwrap();
}
