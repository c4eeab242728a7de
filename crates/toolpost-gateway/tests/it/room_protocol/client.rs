//! A client of each protocol family with a buffer of unread messages.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The protocol of a client and the way it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `mcpx/v0.1`: the room is in the URL, the token in a header.
    Mcpx,
    /// `mew/v0.4`: the room and the token are in the first frame.
    Mew04,
    /// `mew/v0.3`: joins like `mew/v0.4`.
    Mew03,
    /// `mew/v0.3` with a `system/join` message, as another build of it joins.
    Mew03SystemJoin,
}

impl Family {
    pub(super) const ALL: [Self; 4] = [Self::Mcpx, Self::Mew04, Self::Mew03, Self::Mew03SystemJoin];

    pub(super) fn protocol(self) -> &'static str {
        match self {
            Self::Mcpx => "mcpx/v0.1",
            Self::Mew04 => "mew/v0.4",
            Self::Mew03 | Self::Mew03SystemJoin => "mew/v0.3",
        }
    }

    pub(super) fn is_mew(self) -> bool {
        self != Self::Mcpx
    }

    /// Returns the kind in the form of this family.
    pub(super) fn kind(self, full: &str) -> &str {
        match full.split_once(':') {
            Some((short, _)) if self.is_mew() => short,
            _ => full,
        }
    }

    /// Returns the correlation in the form of this family.
    pub(super) fn correlation(self, id: &str) -> Value {
        if self.is_mew() { json!([id]) } else { json!(id) }
    }
}

/// The identity, the room and the protocol of a join.
#[derive(Debug, Clone)]
pub(super) struct JoinOptions {
    pub(super) family: Family,
    pub(super) room: String,
    pub(super) token: Option<String>,
    /// The claimed participant name, if sent.
    pub(super) participant: Option<String>,
    pub(super) history: Option<usize>,
}

/// How a join was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JoinError {
    /// The upgrade was rejected with this HTTP status.
    Status(u16),
    /// The connection was closed after an error message: the error code and the close code.
    Closed(String, u16),
}

/// A room client on a WebSocket.
pub(super) struct Client {
    pub(super) id: String,
    pub(super) family: Family,
    /// The payload of the first welcome.
    pub(super) welcome: Value,
    socket: WebSocketStream<TcpStream>,
    /// Received messages that were not consumed yet, in order.
    unread: VecDeque<String>,
    close_frame: Option<(u16, String)>,
}

/// Opens a WebSocket, or returns the HTTP status of the rejection.
pub(super) async fn connect(
    address: SocketAddr,
    path: &str,
    bearer: Option<&str>,
) -> Result<WebSocketStream<TcpStream>, u16> {
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    if let Some(token) = bearer {
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", value);
    }
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    handshake(request, stream).await
}

/// Opens a WebSocket with a small receive buffer and without a token.
pub(super) async fn connect_with_small_buffer(
    address: SocketAddr,
    path: &str,
) -> WebSocketStream<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let stream = socket.connect(address).await.unwrap();
    let request = format!("ws://{address}{path}").into_client_request().unwrap();
    handshake(request, stream).await.unwrap()
}

async fn handshake(request: Request, stream: TcpStream) -> Result<WebSocketStream<TcpStream>, u16> {
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("no handshake: {error}"),
    }
}

impl JoinOptions {
    pub(super) fn new(family: Family, name: &str, room: &str) -> Self {
        Self {
            family,
            room: room.to_owned(),
            token: Some(format!("tpt_{name}")),
            participant: family.is_mew().then(|| name.to_owned()),
            history: None,
        }
    }

    pub(super) async fn join(self, address: SocketAddr) -> Result<Client, JoinError> {
        let bearer = self.token.as_deref().filter(|_| !self.family.is_mew());
        let socket = connect(address, &self.path(), bearer).await.map_err(JoinError::Status)?;
        let mut client = Client::new(socket, self.family);
        if let Some(frame) = self.first_frame() {
            client.send_json(&frame).await;
        }
        client.expect_welcome().await?;
        Ok(client)
    }

    fn path(&self) -> String {
        if self.family.is_mew() {
            return "/ws".to_owned();
        }
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("topic", &self.room);
        if let Some(participant) = &self.participant {
            query.append_pair("participant", participant);
        }
        if let Some(history) = self.history {
            query.append_pair("history", &history.to_string());
        }
        format!("/ws?{}", query.finish())
    }

    fn first_frame(&self) -> Option<Value> {
        let mut frame = json!({"space": self.room, "token": self.token, "capabilities": []});
        if let Some(participant) = &self.participant {
            frame["participantId"] = participant.as_str().into();
        }
        if let Some(history) = self.history {
            frame["history"] = history.into();
        }
        match self.family {
            Family::Mcpx => return None,
            Family::Mew04 => frame["type"] = "join".into(),
            Family::Mew03 => {
                frame["type"] = "join".into();
                frame["protocol"] = "mew/v0.3".into();
            }
            Family::Mew03SystemJoin => {
                let envelope = json!({"protocol": "mew/v0.3", "id": "join-1"});
                frame = json!({"kind": "system/join", "payload": frame});
                frame.as_object_mut().unwrap().extend(envelope.as_object().unwrap().clone());
            }
        }
        Some(frame)
    }
}

impl Client {
    pub(super) fn new(socket: WebSocketStream<TcpStream>, family: Family) -> Self {
        Self {
            id: String::new(),
            family,
            welcome: Value::Null,
            socket,
            unread: VecDeque::new(),
            close_frame: None,
        }
    }

    /// Waits for the welcome, or returns the join error.
    pub(super) async fn expect_welcome(&mut self) -> Result<(), JoinError> {
        let first = self.next().await;
        match first.as_ref().map(|text| parse_json(text)) {
            Some(welcome) if welcome["kind"] == "system/welcome" => {
                assert_eq!(welcome["protocol"], self.family.protocol(), "{welcome}");
                self.welcome = welcome["payload"].clone();
                self.id = self.welcome["you"]["id"].as_str().unwrap().to_owned();
                Ok(())
            }
            Some(error) if error["kind"] == "system/error" => {
                let code = error["payload"]["error"].as_str().unwrap().to_owned();
                Err(JoinError::Closed(code, self.wait_closed().await.0))
            }
            other => panic!("neither welcome nor error: {other:?} {:?}", self.close_frame),
        }
    }

    pub(super) async fn send_json(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub(super) async fn send_text(&mut self, text: &str) {
        self.send(Message::text(text)).await;
    }

    /// Sends a message; ignores a closed connection.
    pub(super) async fn send(&mut self, message: Message) {
        let sent = tokio::time::timeout(TIMEOUT, self.socket.send(message)).await;
        assert!(sent.is_ok(), "{} cannot send", self.id);
    }

    pub(super) async fn chat(&mut self, text: &str) {
        self.send_json(&chat_message(text)).await;
    }

    /// Sends a chat together with the messages after it.
    pub(super) async fn feed_chat(&mut self, text: &str) {
        self.socket.feed(Message::text(chat_message(text).to_string())).await.unwrap();
    }

    /// Waits for the first message of this kind that matches the predicate. Earlier messages stay
    /// unread.
    pub(super) async fn expect(&mut self, kind: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        parse_json(&self.expect_text(kind, predicate).await)
    }

    /// Like [`Client::expect`], but returns the text as received.
    pub(super) async fn expect_text(
        &mut self,
        kind: &str,
        predicate: impl Fn(&Value) -> bool,
    ) -> String {
        let is_match = |text: &String| {
            let message = try_parse_json(text);
            message.is_some_and(|message| message["kind"] == kind && predicate(&message))
        };
        self.find(kind, is_match).await
    }

    /// Waits for the rejection of the message with this id.
    pub(super) async fn expect_rejection(&mut self, of: &str) -> Value {
        let about = self.family.correlation(of);
        let predicate = |error: &Value| error["correlation_id"] == about;
        self.expect("system/error", predicate).await["payload"].take()
    }

    /// Returns the next stream frame.
    pub(super) async fn expect_stream_frame(&mut self) -> String {
        self.find("part of a stream", |text| text.starts_with('#')).await
    }

    async fn find(&mut self, what: &str, predicate: impl Fn(&String) -> bool) -> String {
        let mut at = 0;
        loop {
            while let Some(text) = self.unread.get(at) {
                if predicate(text) {
                    return self.unread.remove(at).unwrap();
                }
                at += 1;
            }
            let Some(text) = self.read_text().await else {
                let Self { id, unread, close_frame, .. } = self;
                panic!("{id} received no such {what}, but {unread:#?} and {close_frame:?}");
            };
            self.unread.push_back(text);
        }
    }

    /// Returns the next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<String> {
        match self.unread.pop_front() {
            Some(text) => Some(text),
            None => self.read_text().await,
        }
    }

    /// Reads up to and including the chat with this text; returns the messages before it.
    pub(super) async fn read_until_chat(&mut self, text: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let Some(next) = self.next().await else {
                panic!(
                    "{} received no `{text}`, but {before:#?} and {:?}",
                    self.id, self.close_frame
                );
            };
            if try_parse_json(&next)
                .is_some_and(|it| it["kind"] == "chat" && it["payload"]["text"] == text)
            {
                return before;
            }
            before.push(next);
        }
    }

    /// Waits for the close frame and returns its code and reason.
    pub(super) async fn wait_closed(&mut self) -> (u16, String) {
        while let Some(text) = self.read_text().await {
            self.unread.push_back(text);
        }
        let unread = &self.unread;
        self.close_frame
            .clone()
            .unwrap_or_else(|| panic!("{} is still there: {unread:#?}", self.id))
    }

    /// Reads the next text frame; `None` when the connection closes or after a timeout.
    async fn read_text(&mut self) -> Option<String> {
        // One deadline for all frames, because pings arrive even if no message does.
        let deadline = Instant::now() + TIMEOUT;
        while self.close_frame.is_none() {
            let received = tokio::time::timeout_at(deadline, self.socket.next()).await.ok()?;
            match received {
                Some(Ok(Message::Text(text))) => return Some(text.to_string()),
                Some(Ok(Message::Close(frame))) => {
                    let message = frame.map(|it| (it.code.into(), it.reason.to_string()));
                    self.close_frame = Some(message.unwrap_or_default());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => self.close_frame = Some((1006, "no goodbye".to_owned())),
            }
        }
        None
    }

    /// Closes the connection and waits for the server to close it.
    pub(super) async fn leave(mut self) {
        let _ = self.socket.close(None).await;
        self.wait_closed().await;
    }
}

fn chat_message(text: &str) -> Value {
    json!({"kind": "chat", "payload": {"text": text}})
}

pub(super) fn parse_json(text: &str) -> Value {
    try_parse_json(text).unwrap_or_else(|| panic!("no JSON: {text}"))
}

fn try_parse_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// Returns the payload of a message, byte for byte.
pub(super) fn raw_payload(text: &str) -> String {
    #[derive(serde::Deserialize)]
    struct RawPayloadMessage {
        payload: Box<RawValue>,
    }
    serde_json::from_str::<RawPayloadMessage>(text).unwrap().payload.get().to_owned()
}
