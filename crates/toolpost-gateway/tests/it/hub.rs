//! `/hub` with handwritten frames over a WebSocket.

mod access;
mod frames;
mod handshake;
mod registration;

use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use toolpost::{
    CallContext, Handler, HandlerOutput, Identity, Operation, OperationKind, OperationSpec,
};
use toolpost_gateway::GatewaySettings;
use toolpost_gateway::auth::{Authenticator, TokenHash};

use super::TestGateway;

/// A peer that sends arbitrary frames.
pub(super) struct HubClient(WebSocketStream<TcpStream>);

impl HubClient {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        Self::with_header(address, None).await
    }

    pub(super) async fn with_token(address: SocketAddr, token: &str) -> Self {
        Self::with_header(address, Some(&format!("Bearer {token}"))).await
    }

    pub(super) async fn with_header(address: SocketAddr, authorization: Option<&str>) -> Self {
        let mut request = format!("ws://{address}/hub").into_client_request().unwrap();
        if let Some(value) = authorization {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().insert("authorization", value);
        }
        let stream = TcpStream::connect(address).await.unwrap();
        Self(tokio_tungstenite::client_async(request, stream).await.unwrap().0)
    }

    pub(super) async fn send(&mut self, message: impl Into<Message>) {
        self.0.send(message.into()).await.unwrap();
    }

    pub(super) async fn send_json(&mut self, frame: &Value) {
        self.send(frame.to_string()).await;
    }

    pub(super) async fn recv_message(&mut self) -> Message {
        let wait = Duration::from_secs(30);
        loop {
            let message = tokio::time::timeout(wait, self.0.next()).await;
            let message = message.expect("no frame received").expect("a close frame comes first");
            match message.unwrap() {
                Message::Ping(_) | Message::Pong(_) => {}
                other => return other,
            }
        }
    }

    /// Receives the next event.
    pub(super) async fn recv_event(&mut self) -> Value {
        match self.recv_message().await {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("not an event: {other:?}"),
        }
    }

    /// Receives an error event and returns its id, code and message.
    pub(super) async fn recv_error(&mut self) -> (String, String, String) {
        let event = self.recv_event().await;
        assert_eq!(event["type"], "call.error", "{event}");
        assert_eq!(event["id"], event["payload"]["requestId"], "{event}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let payload = &event["payload"];
        (text(&event["id"]), text(&payload["code"]), text(&payload["message"]))
    }

    /// Receives a close frame and returns its code and reason.
    pub(super) async fn recv_close(&mut self) -> (u16, String) {
        match self.recv_message().await {
            Message::Close(Some(frame)) => (frame.code.into(), frame.reason.to_string()),
            other => panic!("not a close frame: {other:?}"),
        }
    }

    /// Calls an operation and expects the next event to be its response. Returns the data, or the
    /// error code.
    pub(super) async fn call(&mut self, operation: &str, input: Value) -> Result<Value, String> {
        self.send_json(&request_event("the-call", operation, &input)).await;
        let event = self.recv_event().await;
        assert_eq!(event["id"], "the-call", "{event}");
        match event["type"].as_str().unwrap() {
            "call.responded" => Ok(event["payload"]["output"]["data"].clone()),
            "call.error" => Err(event["payload"]["code"].as_str().unwrap().to_owned()),
            _ => panic!("not a response: {event}"),
        }
    }

    /// Asserts that calls still work.
    pub(super) async fn assert_works(&mut self, row: &str) {
        let sum = self.call("demo.add", json!({"a": 2, "b": 3})).await;
        assert_eq!(sum, Ok(json!({"sum": 5})), "{row}");
    }

    /// Registers operations and returns the result.
    pub(super) async fn register(
        &mut self,
        name: &str,
        operations: &Value,
    ) -> Result<Value, String> {
        self.call("hub.register", json!({"name": name, "operations": operations})).await
    }
}

fn event_json(kind: &str, id: &str, more: &Value) -> Value {
    let mut payload = json!({"requestId": id});
    for (name, value) in more.as_object().unwrap() {
        payload[name] = value.clone();
    }
    json!({"type": kind, "id": id, "payload": payload})
}

pub(super) fn request_event(id: &str, operation: &str, input: &Value) -> Value {
    event_json("call.requested", id, &json!({"operationId": operation, "input": input}))
}

fn response_event(id: &str, data: &Value) -> Value {
    let meta = json!({"source": "local", "operationId": "a.b", "timestamp": 1});
    event_json("call.responded", id, &json!({"output": {"data": data, "meta": meta}}))
}

pub(super) fn control_event(kind: &str, payload: &Value) -> Value {
    json!({"type": kind, "id": "", "payload": payload})
}

fn spec(namespace: &str, name: &str, kind: &str) -> Value {
    json!({"namespace": namespace, "name": name, "type": kind})
}

/// `who.am` returns the caller's name. `who.admin` does too, and requires the scope `admin`.
fn caller_operations() -> [Operation; 2] {
    [("who.am", None), ("who.admin", Some("admin"))].map(|(id, scope)| {
        let mut spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
        spec.access_control.required_scopes = scope.into_iter().map(str::to_owned).collect();
        let response = Handler::once_fn(async |context: CallContext, _| {
            let name = context.identity().map(|identity| identity.id.clone());
            Ok(HandlerOutput::dynamic(json!(name)))
        });
        Operation::from_spec(spec).handler(response).build().unwrap()
    })
}

/// Starts a gateway without authentication.
async fn start_open_gateway() -> TestGateway {
    TestGateway::start_with(caller_operations(), GatewaySettings::default()).await
}

/// Starts a gateway with the identities `ci` and `root`, whose tokens are their names. `root` has
/// the scope `admin`.
async fn start_authenticated_gateway(settings: GatewaySettings) -> TestGateway {
    let authenticator = Authenticator::with_tokens([
        (TokenHash::of("ci"), Identity::new("ci")),
        (TokenHash::of("root"), Identity::new("root").with_scopes(["admin"])),
    ]);
    let registry = toolpost_gateway::builtin::registry();
    for operation in caller_operations() {
        registry.register(operation).unwrap();
    }
    let gateway = toolpost_gateway::Gateway::builder(registry).settings(settings);
    TestGateway::serve(gateway.authenticator(authenticator), "127.0.0.1:0").await
}

/// Stops a gateway after its peers are dropped. A peer that stays connected without reading would
/// delay the drain.
async fn stop_gateway<P>(running: TestGateway, peers: P) {
    drop(peers);
    assert!(running.stop().await.in_time);
}
