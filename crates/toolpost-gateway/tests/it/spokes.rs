//! Hub and spokes over real sockets: processes that reconnect, that are slow, and that interfere
//! with others.

mod cancellation;
mod frame_limits;
mod hub_doc;
mod isolation;
mod process;
mod shutdown;
mod slow_reader;
mod sources;

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use toolpost::connection::{
    Client, Connection, ConnectionSettings, IncomingRequests, ReconnectSettings,
};
use toolpost::hub::{Spoke, SpokeHandle};
use toolpost::protocol::Secret;
use toolpost::transport::{Connector, WsConnector};
use toolpost::{CallError, CallRequest, Identity, Operation, Outcome};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, builtin};

use super::TestGateway;

/// Timeout longer than any step takes on a slow machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

impl TestGateway {
    pub(super) fn hub_url(&self) -> String {
        format!("ws://{}/hub", self.address)
    }
}

pub(super) fn connector(running: &TestGateway, token: Option<&Token>) -> WsConnector {
    let token = token.map(|token| Secret::new(token.reveal()));
    WsConnector::new(&running.hub_url(), token).unwrap()
}

/// Connects a peer that only makes calls.
pub(super) async fn caller(running: &TestGateway, token: Option<&Token>) -> Client {
    let link = connector(running, token).connect().await.unwrap();
    let (client, connection) =
        Connection::new(link, IncomingRequests::Reject, ConnectionSettings::default());
    tokio::spawn(connection.run());
    client
}

/// Connects an in-process spoke. Returns once the hub has accepted its operations.
pub(super) async fn spoke(
    running: &TestGateway,
    token: Option<&Token>,
    name: &str,
    operations: impl IntoIterator<Item = Operation>,
) -> SpokeHandle {
    let mut settings = ReconnectSettings::default();
    settings.min_backoff = Duration::from_millis(5);
    let spoke = Spoke::new(name).settings(settings);
    let spoke = operations.into_iter().fold(spoke, |spoke, made| spoke.operation(made).unwrap());
    let session = spoke.connect(connector(running, token));
    with_timeout("registering", session.ready()).await.unwrap();
    session
}

/// Starts a gateway with these identities and returns their tokens.
pub(super) async fn gateway_with_tokens<const N: usize>(
    names: [&str; N],
) -> (TestGateway, [Token; N]) {
    let tokens = names.map(|_| Token::generate().unwrap());
    let known = names.iter().zip(&tokens).map(|(name, token)| (token.hash(), Identity::new(*name)));
    let gateway =
        Gateway::builder(builtin::registry()).authenticator(Authenticator::with_tokens(known));
    (TestGateway::serve(gateway, "127.0.0.1:0").await, tokens)
}

pub(super) async fn with_timeout<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: timed out after {TIMEOUT:?}"),
    }
}

/// Polls until the condition holds.
pub(super) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let until = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    with_timeout(what, until).await;
}

pub(super) async fn call_data(
    client: &Client,
    operation: &str,
    input: Value,
) -> Result<Value, String> {
    let response = with_timeout(operation, client.call_json(operation, input)).await;
    response.map(|envelope| envelope.data).map_err(|error| error.code().to_string())
}

/// Collects the values of a finite subscription.
pub(super) async fn collect_values(client: &Client, operation: &str, input: Value) -> Vec<Value> {
    let values = client.subscribe(CallRequest::new(operation, input));
    let values = values.map(|value| value.unwrap().envelope.into_value().unwrap().data);
    with_timeout(operation, values.collect()).await
}

/// Returns the error code that ends a stream.
pub(super) async fn final_error_code(
    mut values: BoxStream<'static, Result<Outcome, CallError>>,
) -> Option<String> {
    while let Some(value) = with_timeout("the end of a stream", values.next()).await {
        if let Err(error) = value {
            return Some(error.code().to_string());
        }
    }
    None
}

/// Returns the status of an operation in `hub.list`.
pub(super) async fn operation_status(client: &Client, id: &str) -> String {
    let namespace = id.split('.').next().unwrap();
    let page = call_data(client, "hub.list", json!({"namespace": namespace})).await.unwrap();
    let listed = page["operations"].as_array().unwrap().iter().find(|found| found["id"] == id);
    listed.map_or("not listed", |found| found["status"].as_str().unwrap()).to_owned()
}

/// A peer on a plain WebSocket that can send any event.
pub(super) struct RawPeer(WebSocketStream<TcpStream>);

impl RawPeer {
    pub(super) async fn connect(running: &TestGateway, token: Option<&Token>) -> Self {
        Self::handshake(running, token, TcpStream::connect(running.address).await.unwrap()).await
    }

    /// Connects with a small receive buffer, so that the sender soon notices a stalled reader.
    pub(super) async fn connect_with_small_buffer(running: &TestGateway) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 * 1024).unwrap();
        Self::handshake(running, None, socket.connect(running.address).await.unwrap()).await
    }

    async fn handshake(running: &TestGateway, token: Option<&Token>, stream: TcpStream) -> Self {
        let mut request = running.hub_url().into_client_request().unwrap();
        if let Some(token) = token {
            let bearer = format!("Bearer {}", token.reveal()).parse().unwrap();
            request.headers_mut().insert("authorization", bearer);
        }
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        Self(socket)
    }

    pub(super) async fn send_event(&mut self, kind: &str, id: &str, mut payload: Value) {
        if !id.is_empty() {
            payload["requestId"] = id.into();
        }
        self.send_frame(&json!({"type": kind, "id": id, "payload": payload})).await;
    }

    pub(super) async fn send_frame(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    pub(super) async fn call(&mut self, id: &str, operation: &str, input: Value) {
        let payload = json!({"operationId": operation, "input": input});
        self.send_event("call.requested", id, payload).await;
    }

    pub(super) async fn respond(&mut self, id: &str, data: &str) {
        let meta = json!({"source": "local", "operationId": "raw.answer", "timestamp": 1});
        self.send_event("call.responded", id, json!({"output": {"data": data, "meta": meta}}))
            .await;
    }

    /// Registers one query, `wire.ask`, under a spoke name.
    pub(super) async fn register(&mut self, id: &str, name: &str) -> Value {
        let operations = json!([{"namespace": "wire", "name": "ask", "type": "query"}]);
        self.call(id, "hub.register", json!({"name": name, "operations": operations})).await;
        self.next_event().await
    }

    /// Returns the next event.
    pub(super) async fn next_event(&mut self) -> Value {
        loop {
            match with_timeout("an event", self.0.next()).await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(frame) => panic!("closed: {frame:?}"),
                _ => {}
            }
        }
    }

    /// Sends a close frame. The connection can still be read.
    pub(super) async fn close(&mut self) {
        let close_reason = CloseFrame { code: CloseCode::Normal, reason: "done".into() };
        self.0.send(Message::Close(Some(close_reason))).await.unwrap();
    }

    /// Reads until the gateway closes the connection, as browsers do, and returns the close code.
    pub(super) async fn close_code(&mut self) -> u16 {
        let mut code = None;
        while let Some(Ok(message)) = with_timeout("a close frame", self.0.next()).await {
            if let Message::Close(frame) = message {
                code = frame.map(|frame| frame.code.into());
            }
        }
        code.unwrap()
    }
}
