//! One MCP client on a pair of streams.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use toolpost::{
    CallContext, ClientChannel, HandlerError, HandlerOutput, Identity, Operation, OperationKind,
    OperationSpec, ServerRequest,
};
use toolpost_gateway::{DrainReport, Gateway, GatewaySettings, McpView, builtin};

use super::{LEGACY, message, modern, tool_names};
use crate::spokes::with_timeout;

struct StdioClient {
    gateway: Gateway,
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    served: JoinHandle<DrainReport>,
}

impl StdioClient {
    fn start(settings: GatewaySettings) -> Self {
        let gateway = Gateway::builder(builtin::registry()).settings(settings).build().unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let serving = gateway.clone();
        let served = tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            let identity = Arc::new(Identity::new("local"));
            let never = std::future::pending();
            serving.serve_mcp(reader, writer, identity, McpView::default(), never).await
        });
        let (output, input) = tokio::io::split(ours);
        Self { gateway, input, output: BufReader::new(output).lines(), served }
    }

    async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = with_timeout("a message", self.output.next_line()).await;
        let line = line.unwrap().expect("another message");
        serde_json::from_str(&line).unwrap()
    }

    async fn request(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&message(id, method, params)).await;
        self.next().await
    }
}

#[tokio::test]
async fn stdio_serves_both_generations() {
    let mut client = StdioClient::start(GatewaySettings::default());
    let found = client.request(1, "server/discover", &modern(&json!({}))).await;
    assert_eq!(found["result"]["resultType"], "complete");
    let hello = json!({"protocolVersion": LEGACY});
    let welcome = client.request(2, "initialize", &hello).await;
    assert_eq!(welcome["result"]["protocolVersion"], LEGACY);
    let listed = client.request(3, "tools/list", &json!({})).await;
    assert!(tool_names(&listed).contains(&"demo__add"));
    assert!(listed["result"].get("ttlMs").is_none());
    let listed = client.request(4, "tools/list", &modern(&json!({}))).await;
    assert!(listed["result"]["ttlMs"].is_u64());
    for (params, code) in [
        (json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "v9"}}), -32_022),
        (json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}), -32_602),
    ] {
        assert_eq!(client.request(5, "tools/list", &params).await["error"]["code"], code);
    }
    assert_eq!(client.request(6, "ping", &modern(&json!({}))).await["error"]["code"], -32_601);
    assert_eq!(client.request(7, "ping", &json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn canceled_call_gets_no_response() {
    let mut client = StdioClient::start(GatewaySettings::default());
    let slow =
        json!({"name": "demo__slow", "arguments": {"ms": 60_000}, "_meta": {"progressToken": 1}});
    client.send(&message(1, "tools/call", &slow)).await;
    assert_eq!(client.next().await["method"], "notifications/progress");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    client.send(&cancel).await;
    client.send(&message(2, "ping", &json!({}))).await;
    loop {
        let next = client.next().await;
        assert_ne!(next["id"], 1, "it was canceled");
        if next["id"] == 2 {
            break;
        }
    }
    assert_eq!(client.gateway.pipeline().in_flight(), 0);
}

#[tokio::test]
async fn immediate_cancellation_takes_effect() {
    let mut client = StdioClient::start(GatewaySettings::default());
    let hanging = Arc::new(tokio::sync::Notify::new());
    let canceled = Arc::clone(&hanging);
    let read = toolpost::Handler::once_fn(move |context: CallContext, _| {
        let canceled = Arc::clone(&canceled);
        async move {
            context.canceled().await;
            canceled.notify_one();
            Ok(HandlerOutput::dynamic(json!({})))
        }
    });
    let mut spec = OperationSpec::new(&"s.resources/read".parse().unwrap(), OperationKind::Query);
    spec.meta.get_or_insert_default().mcp_method = Some("resources/read".to_owned());
    let operation = Operation::from_spec(spec).handler(read).build().unwrap();
    client.gateway.pipeline().registry().register(operation).unwrap();
    let slow =
        message(1, "tools/call", &json!({"name": "demo__slow", "arguments": {"ms": 60_000}}));
    let read = message(1, "resources/read", &json!({"uri": "toolpost:s:x"}));
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    for request in [&slow, &read] {
        client.write(format!("{request}\n{cancel}\n").as_bytes()).await;
        assert_eq!(
            client.request(2, "ping", &json!({})).await["id"],
            2,
            "there is no other response"
        );
    }
    // A request that has reached its source is canceled at the source.
    client.send(&read).await;
    while client.gateway.pipeline().in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    client.send(&cancel).await;
    hanging.notified().await;
    assert_eq!(client.request(3, "ping", &json!({})).await["id"], 3);
    assert_eq!(client.gateway.pipeline().in_flight(), 0);
}

#[tokio::test]
async fn duplicate_request_ids_both_get_responses() {
    let mut client = StdioClient::start(GatewaySettings::default());
    for ms in [150, 50] {
        let slow = json!({"name": "demo__slow", "arguments": {"ms": ms}});
        client.send(&message(1, "tools/call", &slow)).await;
    }
    for ms in [50, 150] {
        let response = client.next().await;
        assert_eq!(response["result"]["structuredContent"]["sleptMs"], ms, "{response}");
    }
}

#[tokio::test]
async fn list_changed_is_sent_after_initialize_or_listen() {
    let mut client = StdioClient::start(GatewaySettings::default());
    client.request(1, "initialize", &json!({"protocolVersion": LEGACY})).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let expected = modern(&json!({"notifications": {"toolsListChanged": true}}));
    let first = client.request(9, "subscriptions/listen", &expected).await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let echo = async |input: Value| Ok::<_, HandlerError>(input);
    let registry = client.gateway.pipeline().registry().clone();
    registry.register(Operation::query("new.one", echo).build().unwrap()).unwrap();
    let both = [client.next().await, client.next().await];
    let id =
        |event: &Value| event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert!(both.iter().all(|one| one["method"] == "notifications/tools/list_changed"));
    assert!(both.iter().any(|one| id(one) == 9) && both.iter().any(|one| id(one).is_null()));
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    client.send(&cancel).await;
    registry.register(Operation::query("new.two", echo).build().unwrap()).unwrap();
    assert_eq!(id(&client.next().await), Value::Null);
    assert_eq!(client.request(10, "ping", &json!({})).await["id"], 10);
}

#[tokio::test]
async fn invalid_lines_return_errors() {
    let mut settings = GatewaySettings::default();
    settings.max_body_bytes = 100_000;
    settings.mcp.max_in_flight = 2;
    let mut client = StdioClient::start(settings);
    let long = format!("{{\"x\":\"{}\"}}\n", "y".repeat(200_000));
    for (line, code) in [
        (b"hello\n".to_vec(), -32_700),
        (b"[]\n".to_vec(), -32_600),
        (b"\xff\xfe\n".to_vec(), -32_700),
        (long.into_bytes(), -32_600),
        (b"\n  \n{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n".to_vec(), -32_600),
        (vec![b'['; 50_000].into_iter().chain(*b"\n").collect(), -32_700),
    ] {
        client.write(&line).await;
        let text = client.next().await;
        assert_eq!(text["error"]["code"], code, "{text}");
        assert_eq!(text["id"], Value::Null);
    }
    let slow = json!({"name": "demo__slow", "arguments": {"ms": 60_000}});
    for id in [1, 2] {
        client.send(&message(id, "tools/call", &slow)).await;
    }
    assert_eq!(client.request(4, "ping", &json!({})).await["id"], 4, "that costs nothing");
    let rejected = client.request(3, "tools/list", &json!({})).await;
    assert_eq!((&rejected["id"], &rejected["error"]["code"]), (&json!(3), &json!(-32_000)));
}

#[tokio::test]
async fn pending_requests_complete_before_shutdown() {
    let mut client = StdioClient::start(GatewaySettings::default());
    let slow = json!({"name": "demo__slow", "arguments": {"ms": 100}});
    client.send(&message(1, "tools/call", &slow)).await;
    client.input.shutdown().await.unwrap();
    assert_eq!(client.next().await["result"]["structuredContent"]["sleptMs"], 100);
    assert_eq!(client.output.next_line().await.unwrap(), None);
    let drained = tokio::time::timeout(Duration::from_secs(30), client.served).await;
    assert!(drained.unwrap().unwrap().in_time);
}

/// Sends a server request to the caller and returns the result.
async fn send_server_request(context: CallContext) -> Result<HandlerOutput, HandlerError> {
    let message = match context.client_channel() {
        Some(ClientChannel::Live(client)) => {
            let message = client.request(ServerRequest::new("roots/list", None)).await;
            message
                .map_or_else(|unanswered| json!(unanswered.to_string()), |message| json!(message))
        }
        _ => json!("unknown"),
    };
    Ok(HandlerOutput::dynamic(json!({"said": message})))
}

#[tokio::test]
async fn server_request_round_trips_over_stdio() {
    let mut client = StdioClient::start(GatewaySettings::default());
    let spec = OperationSpec::new(&"shop.ask".parse().unwrap(), OperationKind::Query);
    let handler = toolpost::Handler::once_fn(|context, _| send_server_request(context));
    let operation = Operation::from_spec(spec).handler(handler).build().unwrap();
    client.gateway.pipeline().registry().register(operation).unwrap();
    let call = json!({"name": "shop__ask", "arguments": {}});
    let before = client.request(1, "tools/call", &call).await;
    assert_eq!(
        before["result"]["structuredContent"]["said"], "unknown",
        "no handshake, no server request"
    );
    let hello = json!({"protocolVersion": LEGACY, "capabilities": {"roots": {}}});
    client.request(2, "initialize", &hello).await;
    let server_request = client.request(3, "tools/call", &call).await;
    assert_eq!(server_request["method"], "roots/list");
    for (id, roots) in [(json!("other"), json!([1])), (server_request["id"].clone(), json!([]))] {
        client.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"roots": roots}})).await;
    }
    let responded = client.next().await;
    assert_eq!(responded["id"], 3);
    assert_eq!(responded["result"]["structuredContent"]["said"], json!({"roots": []}));

    // A client that has closed its side cannot respond, so its server requests fail immediately.
    client.request(4, "tools/call", &call).await;
    client.input.shutdown().await.unwrap();
    let ended = loop {
        let next = client.next().await;
        if next["id"] == 4 {
            break next;
        }
    };
    let message = ended["result"]["structuredContent"]["said"].as_str().unwrap();
    assert!(message.contains("disconnected"), "{message}");
    let _ = client.served.await.unwrap();
}
