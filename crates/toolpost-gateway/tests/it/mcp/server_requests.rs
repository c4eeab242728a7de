//! Server requests to a client while its call runs, and the possible responses.

use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::{
    CallContext, ClientChannel, Handler, HandlerError, HandlerOutput, Operation, OperationKind,
    OperationSpec, PipelineSettings, ServerRequest,
};
use toolpost_gateway::{Gateway, GatewayBuilder, builtin};

use super::super::{TestGateway, client};
use super::{LEGACY, MODERN, McpEvents, message, modern, response_json};

/// The input that a client must send with its retry. The unknown member must reach the client.
const INPUT_REQUIRED: &str =
    r#"{"resultType":"input_required","inputRequests":{},"newer":  [1e2]}"#;

/// Sends a server request to the caller and returns the result.
async fn send_server_request(context: CallContext) -> Result<HandlerOutput, HandlerError> {
    let body = RawValue::from_string(r#"{"message":"which?"}"#.to_owned()).unwrap();
    let text = match context.client_channel() {
        None => json!("unknown"),
        Some(ClientChannel::MultiRoundTrip(client)) => {
            match (&client.input_responses, &client.request_state) {
                (None, None) => {
                    return Err(client
                        .require_input(RawValue::from_string(INPUT_REQUIRED.to_owned()).unwrap())
                        .into());
                }
                (responses, state) => json!({"responses": responses, "state": state}),
            }
        }
        Some(ClientChannel::Live(client)) => {
            let reply_future = client.request(ServerRequest::new("elicitation/create", Some(body)));
            tokio::select! {
                text = reply_future => match text {
                    Ok(text) => serde_json::from_str(text.get()).unwrap(),
                    Err(unanswered) => json!(unanswered.to_string()),
                },
                () = context.canceled() => json!("canceled"),
            }
        }
        _ => json!("another"),
    };
    Ok(HandlerOutput::dynamic(json!({"said": text})))
}

fn gateway_builder(call_timeout: Duration) -> GatewayBuilder {
    let registry = builtin::registry();
    let spec = OperationSpec::new(&"shop.ask".parse().unwrap(), OperationKind::Query);
    let handler = Handler::once_fn(|context, _| send_server_request(context));
    let operation = Operation::from_spec(spec).handler(handler).build().unwrap();
    registry.register(operation).unwrap();
    let mut settings = PipelineSettings::default();
    settings.call_timeout = call_timeout;
    Gateway::builder(registry).pipeline(|pipeline| pipeline.settings(settings))
}

async fn start(call_timeout: Duration) -> TestGateway {
    let gateway = gateway_builder(call_timeout);
    TestGateway::serve(gateway, "127.0.0.1:0").await
}

const LONG_TIMEOUT: Duration = Duration::from_secs(60);

impl TestGateway {
    async fn start_session_with(&self, capabilities: &Value) -> String {
        let hello = json!({"protocolVersion": LEGACY, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        let response = self.legacy_request("", "initialize", &hello).send().await.unwrap();
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    fn call_in_session(&self, session: &str) -> RequestBuilder {
        let call = message(7, "tools/call", &json!({"name": "shop__ask", "arguments": {}}));
        self.post("").header("mcp-session-id", session).json(&call)
    }

    /// Sends a message that has no response.
    async fn send_message(&self, session: Option<&str>, message: &Value) {
        let request = self.post("").json(message);
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        assert_eq!(request.send().await.unwrap().status(), StatusCode::ACCEPTED);
    }
}

fn reply_message(id: &Value, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"action": message}})
}

fn reply_text(message: &Value) -> &Value {
    &message["result"]["structuredContent"]["said"]
}

#[tokio::test]
async fn server_request_accepts_one_reply_from_its_client() {
    let gateway = start(LONG_TIMEOUT).await;
    let session = gateway.start_session_with(&json!({"elicitation": {}})).await;
    let other = gateway.start_session_with(&json!({"elicitation": {}})).await;
    let mut events = McpEvents::of(gateway.call_in_session(&session)).await;
    let server_request = events.next().await.unwrap();
    assert_eq!(server_request["method"], "elicitation/create");
    assert_eq!(server_request["params"], json!({"message": "which?"}));
    let id = &server_request["id"];
    for forged in [json!(1), json!("toolpost-2"), json!("x"), json!(7)] {
        gateway.send_message(Some(&session), &reply_message(&forged, "forged")).await;
    }
    gateway.send_message(Some(&other), &reply_message(id, "of another session")).await;
    gateway.send_message(None, &reply_message(id, "of no session")).await;
    gateway.send_message(Some(&session), &reply_message(id, "accept")).await;
    let responded = events.next().await.unwrap();
    assert_eq!(
        (&responded["id"], reply_text(&responded)),
        (&json!(7), &json!({"action": "accept"}))
    );
    assert!(events.next().await.is_none());
    gateway.send_message(Some(&session), &reply_message(id, "again")).await;

    let mut events = McpEvents::of(gateway.call_in_session(&session)).await;
    let server_request = events.next().await.unwrap();
    assert_ne!(server_request["id"], *id);
    let rejection = json!({"jsonrpc": "2.0", "id": server_request["id"], "error": {"code": -1, "message": "no"}});
    gateway.send_message(Some(&session), &rejection).await;
    assert_eq!(reply_text(&events.next().await.unwrap()), "the client rejected the request");
    gateway.stop().await;
}

#[tokio::test]
async fn client_without_capability_gets_no_server_request() {
    let gateway = start(LONG_TIMEOUT).await;
    let session = gateway.start_session_with(&json!({"experimental": {}})).await;
    assert_eq!(reply_text(&response_json(gateway.call_in_session(&session)).await), "unknown");
    let session = gateway.start_session_with(&json!({"elicitation": {}})).await;
    // A client that does not accept events cannot receive server requests.
    let call = message(7, "tools/call", &json!({"name": "shop__ask"}));
    let deaf = client().post(gateway.url("/mcp")).header("accept", "application/json");
    let deaf = response_json(deaf.header("mcp-session-id", &session).json(&call)).await;
    assert_eq!(reply_text(&deaf), "unknown");
    let without = gateway.legacy_request("", "tools/call", &json!({"name": "shop__ask"}));
    assert_eq!(reply_text(&response_json(without).await), "unknown");
    let called = client().post(gateway.url("/api/shop/ask")).json(&json!({})).send().await.unwrap();
    let called: Value = called.json().await.unwrap();
    assert_eq!(called["said"], "unknown", "{called}");
    gateway.stop().await;
}

#[tokio::test]
async fn server_request_is_canceled_with_its_call() {
    let gateway = start(LONG_TIMEOUT).await;
    let session = gateway.start_session_with(&json!({"elicitation": {}})).await;
    let mut events = McpEvents::of(gateway.call_in_session(&session)).await;
    let server_request = events.next().await.unwrap();
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    gateway.send_message(Some(&session), &cancel).await;
    let received = events.all().await;
    let taken_back =
        received.iter().find(|received| received["method"] == "notifications/cancelled");
    assert_eq!(taken_back.unwrap()["params"]["requestId"], server_request["id"], "{received:?}");
    gateway.send_message(Some(&session), &reply_message(&server_request["id"], "late")).await;
    assert_eq!(gateway.gateway.pipeline().in_flight(), 0);

    // Ending the session ends its pending server requests.
    let mut events = McpEvents::of(gateway.call_in_session(&session)).await;
    events.next().await.unwrap();
    let end = client().delete(gateway.url("/mcp")).header("mcp-session-id", &session);
    assert_eq!(end.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    let ended = events.next().await.unwrap();
    assert_eq!(reply_text(&ended), "the calling client disconnected");
    gateway.stop().await;
}

#[tokio::test]
async fn unanswered_server_request_times_out() {
    let gateway = start(Duration::from_millis(300)).await;
    let session = gateway.start_session_with(&json!({"elicitation": {}})).await;
    let mut events = McpEvents::of(gateway.call_in_session(&session)).await;
    let server_request = events.next().await.unwrap();
    let received = events.all().await;
    let responded = received.iter().find(|received| received["id"] == 7).unwrap();
    assert_eq!(responded["result"]["_meta"]["toolpost/error"]["code"], "TIMEOUT", "{responded}");
    gateway.send_message(Some(&session), &reply_message(&server_request["id"], "late")).await;
    gateway.stop().await;
}

#[tokio::test]
async fn modern_client_gets_input_required_and_retries() {
    let gateway = start(LONG_TIMEOUT).await;
    let ask = |query: &str, params: &Value| {
        let mut params = modern(params);
        let able = json!({"elicitation": {}});
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = able;
        let name = params["name"].as_str().unwrap().to_owned();
        let request = gateway.post(query).json(&message(1, "tools/call", &params));
        let request = request.header("mcp-protocol-version", MODERN);
        request.header("mcp-method", "tools/call").header("mcp-name", name)
    };
    // The result is the same in every dialect and through `hub.call`.
    let direct = json!({"name": "shop__ask", "arguments": {}});
    let through = json!({"name": "hub__call", "arguments": {"id": "shop.ask", "input": {}}});
    for (query, params) in [("", &direct), ("?dialect=ok", &direct), ("", &through)] {
        let expected = ask(query, params).send().await.unwrap().text().await.unwrap();
        assert_eq!(expected, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{INPUT_REQUIRED}}}"#));
    }
    let brings = json!({"name": "shop__ask", "arguments": {}, "inputResponses": {"a": {"n": 1}},
        "requestState": "opaque"});
    let done = response_json(ask("", &brings)).await;
    assert_eq!(reply_text(&done), &json!({"responses": {"a": {"n": 1}}, "state": "opaque"}));
    assert_eq!(done["result"]["resultType"], "complete");
    // A client that declares no capabilities and sends no input receives no server requests.
    let plain = gateway.modern_request("", "tools/call", &json!({"name": "shop__ask"}));
    assert_eq!(reply_text(&response_json(plain).await), "unknown");
    gateway.stop().await;
}
