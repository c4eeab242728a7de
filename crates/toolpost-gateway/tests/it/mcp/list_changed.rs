//! Notifications about changed tools.

use reqwest::StatusCode;
use serde_json::{Value, json};
use toolpost::{AccessControl, HandlerError, Operation, OperationId};

use super::super::{TestGateway, client};
use super::{MODERN, McpEvents, modern};

fn operation(id: &str) -> Operation {
    Operation::query(id, async |_: Value| Ok::<_, HandlerError>(1)).build().unwrap()
}

fn restricted_operation(id: &str) -> Operation {
    let access: AccessControl =
        serde_json::from_value(json!({"requiredScopes": ["secret"]})).unwrap();
    let builder = Operation::query(id, async |_: Value| Ok::<_, HandlerError>(1));
    builder.access(access).build().unwrap()
}

#[tokio::test]
async fn tools_list_changed_is_sent_in_both_generations() {
    let gateway = TestGateway::start().await;
    let registry = gateway.gateway.pipeline().registry().clone();
    let session = gateway.start_session().await;
    let get = client().get(gateway.url("/mcp")).header("accept", "text/event-stream");
    let mut legacy = McpEvents::of(get.header("mcp-session-id", &session)).await;
    let expected = |kind: &str| json!({"notifications": {kind: true}});
    let listen = |kind| gateway.modern_request("", "subscriptions/listen", &expected(kind));
    let mut tools = McpEvents::of(listen("toolsListChanged")).await;
    let mut prompts = McpEvents::of(listen("promptsListChanged")).await;
    let id =
        |event: &Value| event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    for (stream, kind) in [(&mut tools, "toolsListChanged"), (&mut prompts, "promptsListChanged")] {
        let first = stream.next().await.unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["notifications"], json!({kind: true}));
        assert_eq!(id(&first), 1);
    }
    registry.register(restricted_operation("new.hidden")).unwrap();
    registry.register(operation("new.seen")).unwrap();
    let changed = "notifications/tools/list_changed";
    assert_eq!(legacy.next().await.unwrap()["method"], changed);
    let received = tools.next().await.unwrap();
    assert_eq!((&received["method"], id(&received)), (&json!(changed), json!(1)));
    // A change of an invisible operation is not reported: the next notification is for the change
    // after it.
    registry.unregister(&"new.hidden".parse::<OperationId>().unwrap());
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    registry.unregister(&"new.seen".parse::<OperationId>().unwrap());
    assert_eq!(legacy.next().await.unwrap()["method"], changed);
    assert_eq!(tools.next().await.unwrap()["method"], changed);
    // A subscription that the gateway ends gets a final result.
    let stopping = tokio::spawn(gateway.stop());
    assert_eq!(legacy.next().await, None, "one notification for each visible change");
    for mut stream in [tools, prompts] {
        let last = stream.next().await.unwrap();
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(1), &json!("complete")));
        assert_eq!(stream.next().await, None);
    }
    assert!(stopping.await.unwrap().in_time);
}

#[tokio::test]
async fn keep_alive_does_not_drop_list_changed() {
    let mut settings = toolpost_gateway::GatewaySettings::default();
    settings.heartbeat_interval = std::time::Duration::from_millis(20);
    settings.mcp.list_changed_debounce = std::time::Duration::from_millis(100);
    let gateway = TestGateway::start_with([], settings).await;
    let expected = json!({"notifications": {"toolsListChanged": true}});
    let mut stream =
        McpEvents::of(gateway.modern_request("", "subscriptions/listen", &expected)).await;
    stream.next().await.unwrap();
    gateway.gateway.pipeline().registry().register(operation("new.one")).unwrap();
    let received = tokio::time::timeout(std::time::Duration::from_secs(30), stream.next()).await;
    assert_eq!(received.unwrap().unwrap()["method"], "notifications/tools/list_changed");
    drop(stream);
    gateway.stop().await;
}

#[tokio::test]
async fn listen_requires_event_stream_and_session() {
    let gateway = TestGateway::start().await;
    let session = gateway.start_session().await;
    let get = || client().get(gateway.url("/mcp"));
    for (request, status) in [
        (get().header("accept", "text/event-stream"), StatusCode::METHOD_NOT_ALLOWED),
        (get().header("accept", "text/html"), StatusCode::NOT_ACCEPTABLE),
        (get().header("mcp-session-id", "guessed"), StatusCode::NOT_FOUND),
        (
            get().header("mcp-session-id", &session).header("mcp-protocol-version", MODERN),
            StatusCode::METHOD_NOT_ALLOWED,
        ),
        (client().put(gateway.url("/mcp")), StatusCode::METHOD_NOT_ALLOWED),
        (client().delete(gateway.url("/mcp")), StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers().contains_key("allow"), status == 405);
    }
    let body = super::message(1, "subscriptions/listen", &modern(&json!({"notifications": 3})));
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "subscriptions/listen")];
    let mut request = gateway.post("").json(&body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    assert_eq!(request.send().await.unwrap().status(), StatusCode::BAD_REQUEST);
    // A session has one stream. A second one replaces it.
    let listen = || get().header("mcp-session-id", &session).header("accept", "text/event-stream");
    let mut first = McpEvents::of(listen()).await;
    let _second = McpEvents::of(listen()).await;
    assert_eq!(first.next().await, None);
    gateway.stop().await;
}
