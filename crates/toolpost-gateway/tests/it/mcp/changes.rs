//! What clients are told when there are other tools than before.

use reqwest::StatusCode;
use serde_json::{Value, json};
use toolpost::{AccessControl, HandlerError, Operation, OperationId};

use super::super::{Running, client};
use super::{Events, MODERN, modern};

fn operation(id: &str) -> Operation {
    Operation::query(id, async |_: Value| Ok::<_, HandlerError>(1)).build().unwrap()
}

fn secret(id: &str) -> Operation {
    let access: AccessControl =
        serde_json::from_value(json!({"requiredScopes": ["secret"]})).unwrap();
    let builder = Operation::query(id, async |_: Value| Ok::<_, HandlerError>(1));
    builder.access(access).build().unwrap()
}

#[tokio::test]
async fn clients_of_both_eras_hear_of_other_tools_and_of_nothing_else() {
    let gateway = Running::start().await;
    let registry = gateway.gateway.pipeline().registry().clone();
    let session = gateway.begin().await;
    let get = client().get(gateway.url("/mcp")).header("accept", "text/event-stream");
    let mut legacy = Events::of(get.header("mcp-session-id", &session)).await;
    let wanted = |kind: &str| json!({"notifications": {kind: true}});
    let listen = |kind| gateway.ask_modern("", "subscriptions/listen", &wanted(kind));
    let mut tools = Events::of(listen("toolsListChanged")).await;
    let mut prompts = Events::of(listen("promptsListChanged")).await;
    let id =
        |event: &Value| event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    for (stream, kind) in [(&mut tools, "toolsListChanged"), (&mut prompts, "promptsListChanged")] {
        let first = stream.next().await.unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["notifications"], json!({kind: true}));
        assert_eq!(id(&first), 1);
    }
    registry.register(secret("new.hidden")).unwrap();
    registry.register(operation("new.seen")).unwrap();
    let changed = "notifications/tools/list_changed";
    assert_eq!(legacy.next().await.unwrap()["method"], changed);
    let heard = tools.next().await.unwrap();
    assert_eq!((&heard["method"], id(&heard)), (&json!(changed), json!(1)));
    // A change that nobody sees is told to nobody: the next that they hear of is the one after it.
    registry.unregister(&"new.hidden".parse::<OperationId>().unwrap());
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    registry.unregister(&"new.seen".parse::<OperationId>().unwrap());
    assert_eq!(legacy.next().await.unwrap()["method"], changed);
    assert_eq!(tools.next().await.unwrap()["method"], changed);
    // What the gateway ends, it ends with a word.
    let stopping = tokio::spawn(gateway.stop());
    assert_eq!(legacy.next().await, None, "one for each change that is seen");
    for mut stream in [tools, prompts] {
        let last = stream.next().await.unwrap();
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(1), &json!("complete")));
        assert_eq!(stream.next().await, None);
    }
    assert!(stopping.await.unwrap().in_time);
}

#[tokio::test]
async fn a_sign_of_life_swallows_no_change() {
    let mut settings = toolpost_gateway::GatewaySettings::default();
    settings.heartbeat = std::time::Duration::from_millis(20);
    settings.mcp.settle = std::time::Duration::from_millis(100);
    let gateway = Running::with([], settings).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = Events::of(gateway.ask_modern("", "subscriptions/listen", &wanted)).await;
    stream.next().await.unwrap();
    gateway.gateway.pipeline().registry().register(operation("new.one")).unwrap();
    let heard = tokio::time::timeout(std::time::Duration::from_secs(30), stream.next()).await;
    assert_eq!(heard.unwrap().unwrap()["method"], "notifications/tools/list_changed");
    drop(stream);
    gateway.stop().await;
}

#[tokio::test]
async fn only_those_who_can_listen_do() {
    let gateway = Running::start().await;
    let session = gateway.begin().await;
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
    // The stream of a session is one: a second takes its place.
    let listen = || get().header("mcp-session-id", &session).header("accept", "text/event-stream");
    let mut first = Events::of(listen()).await;
    let _second = Events::of(listen()).await;
    assert_eq!(first.next().await, None);
    gateway.stop().await;
}
