//! One client on a pair of streams.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use toolpost::mcp::METHOD_META;
use toolpost::{
    CallContext, HandlerError, Identity, Kind, Operation, OperationSpec, Output, Pipeline,
    Question, Respondent,
};
use toolpost_gateway::{Drained, Gateway, GatewaySettings, McpView, builtin};

use super::{LEGACY, message, modern, names};

struct Client {
    gateway: Gateway,
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    served: JoinHandle<Drained>,
}

impl Client {
    fn start(settings: GatewaySettings) -> Self {
        let gateway = Gateway::with(Pipeline::new(builtin::registry()), settings);
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
        let line = self.output.next_line().await.unwrap().expect("another message");
        serde_json::from_str(&line).unwrap()
    }

    async fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&message(id, method, params)).await;
        self.next().await
    }
}

#[tokio::test]
async fn both_eras_speak_over_one_pair() {
    let mut client = Client::start(GatewaySettings::default());
    let found = client.ask(1, "server/discover", &modern(&json!({}))).await;
    assert_eq!(found["result"]["resultType"], "complete");
    let hello = json!({"protocolVersion": LEGACY});
    let welcome = client.ask(2, "initialize", &hello).await;
    assert_eq!(welcome["result"]["protocolVersion"], LEGACY);
    let listed = client.ask(3, "tools/list", &json!({})).await;
    assert!(names(&listed).contains(&"demo__add"));
    assert!(listed["result"].get("ttlMs").is_none());
    let listed = client.ask(4, "tools/list", &modern(&json!({}))).await;
    assert!(listed["result"]["ttlMs"].is_u64());
    for (params, code) in [
        (json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "v9"}}), -32_022),
        (json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}), -32_602),
    ] {
        assert_eq!(client.ask(5, "tools/list", &params).await["error"]["code"], code);
    }
    assert_eq!(client.ask(6, "ping", &modern(&json!({}))).await["error"]["code"], -32_601);
    assert_eq!(client.ask(7, "ping", &json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn a_call_is_cancelled_and_then_not_answered() {
    let mut client = Client::start(GatewaySettings::default());
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
async fn a_cancellation_right_behind_its_request_is_heard() {
    let mut client = Client::start(GatewaySettings::default());
    let hanging = Arc::new(tokio::sync::Notify::new());
    let cancelled = Arc::clone(&hanging);
    let read = toolpost::Handler::once_fn(move |context: CallContext, _| {
        let cancelled = Arc::clone(&cancelled);
        async move {
            context.cancelled().await;
            cancelled.notify_one();
            Ok(Output::dynamic(json!({})))
        }
    });
    let mut spec = OperationSpec::new(&"s.resources/read".parse().unwrap(), Kind::Query);
    spec.meta = json!({METHOD_META: "resources/read"}).as_object().cloned();
    let operation = Operation::from_spec(spec).handler(read).build().unwrap();
    client.gateway.pipeline().registry().register(operation).unwrap();
    let slow =
        message(1, "tools/call", &json!({"name": "demo__slow", "arguments": {"ms": 60_000}}));
    let read = message(1, "resources/read", &json!({"uri": "toolpost:s:x"}));
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    for request in [&slow, &read] {
        client.write(format!("{request}\n{cancel}\n").as_bytes()).await;
        assert_eq!(client.ask(2, "ping", &json!({})).await["id"], 2, "nothing else is answered");
    }
    // A request that has reached its source is canceled there.
    client.send(&read).await;
    while client.gateway.pipeline().in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    client.send(&cancel).await;
    hanging.notified().await;
    assert_eq!(client.ask(3, "ping", &json!({})).await["id"], 3);
    assert_eq!(client.gateway.pipeline().in_flight(), 0);
}

#[tokio::test]
async fn two_calls_under_one_id_are_both_answered() {
    let mut client = Client::start(GatewaySettings::default());
    for ms in [150, 50] {
        let slow = json!({"name": "demo__slow", "arguments": {"ms": ms}});
        client.send(&message(1, "tools/call", &slow)).await;
    }
    for ms in [50, 150] {
        let answer = client.next().await;
        assert_eq!(answer["result"]["structuredContent"]["sleptMs"], ms, "{answer}");
    }
}

#[tokio::test]
async fn other_tools_are_told_to_those_who_said_hello_or_listen() {
    let mut client = Client::start(GatewaySettings::default());
    client.ask(1, "initialize", &json!({"protocolVersion": LEGACY})).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let wanted = modern(&json!({"notifications": {"toolsListChanged": true}}));
    let first = client.ask(9, "subscriptions/listen", &wanted).await;
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
    assert_eq!(client.ask(10, "ping", &json!({})).await["id"], 10);
}

#[tokio::test]
async fn bad_lines_are_named_and_disturb_nobody() {
    let mut settings = GatewaySettings::default();
    settings.body_bytes = 100_000;
    settings.mcp.in_flight = 2;
    let mut client = Client::start(settings);
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
        let said = client.next().await;
        assert_eq!(said["error"]["code"], code, "{said}");
        assert_eq!(said["id"], Value::Null);
    }
    let slow = json!({"name": "demo__slow", "arguments": {"ms": 60_000}});
    for id in [1, 2] {
        client.send(&message(id, "tools/call", &slow)).await;
    }
    assert_eq!(client.ask(4, "ping", &json!({})).await["id"], 4, "that costs nothing");
    let refused = client.ask(3, "tools/list", &json!({})).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-32_000)));
}

#[tokio::test]
async fn what_was_asked_is_answered_before_the_client_has_left() {
    let mut client = Client::start(GatewaySettings::default());
    let slow = json!({"name": "demo__slow", "arguments": {"ms": 100}});
    client.send(&message(1, "tools/call", &slow)).await;
    client.input.shutdown().await.unwrap();
    assert_eq!(client.next().await["result"]["structuredContent"]["sleptMs"], 100);
    assert_eq!(client.output.next_line().await.unwrap(), None);
    let drained = tokio::time::timeout(Duration::from_secs(30), client.served).await;
    assert!(drained.unwrap().unwrap().in_time);
}

/// Asks whoever called, and says what came of it.
async fn ask(context: CallContext) -> Result<Output, HandlerError> {
    let said = match context.respondent() {
        Some(Respondent::Present(client)) => {
            let said = client.ask(Question::new("roots/list", None)).await;
            said.map_or_else(|unanswered| json!(unanswered.to_string()), |said| json!(said))
        }
        _ => json!("nobody"),
    };
    Ok(Output::dynamic(json!({"said": said})))
}

#[tokio::test]
async fn a_question_is_a_line_and_so_is_its_answer() {
    let mut client = Client::start(GatewaySettings::default());
    let spec = OperationSpec::new(&"shop.ask".parse().unwrap(), Kind::Query);
    let handler = toolpost::Handler::once_fn(|context, _| ask(context));
    let operation = Operation::from_spec(spec).handler(handler).build().unwrap();
    client.gateway.pipeline().registry().register(operation).unwrap();
    let call = json!({"name": "shop__ask", "arguments": {}});
    let before = client.ask(1, "tools/call", &call).await;
    assert_eq!(before["result"]["structuredContent"]["said"], "nobody", "no hello, no question");
    let hello = json!({"protocolVersion": LEGACY, "capabilities": {"roots": {}}});
    client.ask(2, "initialize", &hello).await;
    let asked = client.ask(3, "tools/call", &call).await;
    assert_eq!(asked["method"], "roots/list");
    for (id, roots) in [(json!("other"), json!([1])), (asked["id"].clone(), json!([]))] {
        client.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"roots": roots}})).await;
    }
    let answered = client.next().await;
    assert_eq!(answered["id"], 3);
    assert_eq!(answered["result"]["structuredContent"]["said"], json!({"roots": []}));

    // Who has closed its end cannot answer any more, and is not waited for.
    client.ask(4, "tools/call", &call).await;
    client.input.shutdown().await.unwrap();
    let ended = loop {
        let next = client.next().await;
        if next["id"] == 4 {
            break next;
        }
    };
    let said = ended["result"]["structuredContent"]["said"].as_str().unwrap();
    assert!(said.contains("not there any more"), "{said}");
    let _ = client.served.await.unwrap();
}
