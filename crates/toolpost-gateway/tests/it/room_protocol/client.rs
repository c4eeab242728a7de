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

/// How long something may take that is awaited; whoever waits longer waits in vain.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What somebody speaks, and how he comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `mcpx/v0.1`: the room in the address, the token in a header.
    Mcpx,
    /// `mew/v0.4`: all of it in a first frame.
    Mew04,
    /// `mew/v0.3`, in the same way.
    Mew03,
    /// `mew/v0.3` as another build of it comes in, with a message.
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

    /// A kind as this family writes it.
    pub(super) fn kind(self, full: &str) -> &str {
        match full.split_once(':') {
            Some((short, _)) if self.is_mew() => short,
            _ => full,
        }
    }

    /// Correlations as this family writes them.
    pub(super) fn correlation(self, id: &str) -> Value {
        if self.is_mew() { json!([id]) } else { json!(id) }
    }
}

/// Who comes, where, and how.
#[derive(Debug, Clone)]
pub(super) struct JoinOptions {
    pub(super) family: Family,
    pub(super) room: String,
    pub(super) token: Option<String>,
    /// Who he says he is, where he says it.
    pub(super) participant: Option<String>,
    pub(super) history: Option<usize>,
}

/// How somebody was not let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JoinError {
    /// Before there was a WebSocket.
    Status(u16),
    /// By a message, and then a close: the code of each.
    Closed(String, u16),
}

/// Somebody on a WebSocket.
pub(super) struct Client {
    pub(super) id: String,
    pub(super) family: Family,
    /// The payload of the first welcome.
    pub(super) welcome: Value,
    socket: WebSocketStream<TcpStream>,
    /// What was heard and nobody has asked for yet, in its order.
    unread: VecDeque<String>,
    close_frame: Option<(u16, String)>,
}

/// Opens a WebSocket, or gives the status that there is instead.
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

/// As [`dial`], with a small receive buffer.
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

    /// Waits for the first word.
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

    /// Sends, as far as anybody still takes it.
    pub(super) async fn send(&mut self, message: Message) {
        let sent = tokio::time::timeout(TIMEOUT, self.socket.send(message)).await;
        assert!(sent.is_ok(), "{} cannot send", self.id);
    }

    pub(super) async fn chat(&mut self, text: &str) {
        self.send_json(&json!({"kind": "chat", "payload": {"text": text}})).await;
    }

    /// The first message of this kind for which this holds. What came before it stays to be asked for.
    pub(super) async fn expect(&mut self, kind: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        parse_json(&self.expect_text(kind, predicate).await)
    }

    /// As [`Client::expect`], as it came.
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

    /// The refusal of a message of this id.
    pub(super) async fn expect_rejection(&mut self, of: &str) -> Value {
        let about = self.family.correlation(of);
        let predicate = |error: &Value| error["correlation_id"] == about;
        self.expect("system/error", predicate).await["payload"].take()
    }

    /// The next part of a stream.
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
                panic!("{id} heard no such {what}, but {unread:#?} and {close_frame:?}");
            };
            self.unread.push_back(text);
        }
    }

    /// What comes next, whatever it is; nothing at the end.
    pub(super) async fn next(&mut self) -> Option<String> {
        match self.unread.pop_front() {
            Some(text) => Some(text),
            None => self.read_text().await,
        }
    }

    /// Everything that comes before the chat of this text, which is taken too.
    pub(super) async fn read_until_chat(&mut self, text: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let Some(next) = self.next().await else {
                panic!("{} heard no `{text}`, but {before:#?} and {:?}", self.id, self.close_frame);
            };
            if try_parse_json(&next)
                .is_some_and(|it| it["kind"] == "chat" && it["payload"]["text"] == text)
            {
                return before;
            }
            before.push(next);
        }
    }

    /// The code and the words that it ends with, whatever comes before.
    pub(super) async fn wait_closed(&mut self) -> (u16, String) {
        while let Some(text) = self.read_text().await {
            self.unread.push_back(text);
        }
        let unread = &self.unread;
        self.close_frame
            .clone()
            .unwrap_or_else(|| panic!("{} is still there: {unread:#?}", self.id))
    }

    /// The next text on the wire; nothing when it ends, or too much time has passed.
    async fn read_text(&mut self) -> Option<String> {
        // Pings come also where nothing else does.
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

    /// Leaves, and waits until the other side knows.
    pub(super) async fn leave(mut self) {
        let _ = self.socket.close(None).await;
        self.wait_closed().await;
    }
}

pub(super) fn parse_json(text: &str) -> Value {
    try_parse_json(text).unwrap_or_else(|| panic!("no JSON: {text}"))
}

fn try_parse_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// The payload of a message, byte for byte.
pub(super) fn raw_payload(text: &str) -> String {
    #[derive(serde::Deserialize)]
    struct RawPayloadMessage {
        payload: Box<RawValue>,
    }
    serde_json::from_str::<RawPayloadMessage>(text).unwrap().payload.get().to_owned()
}
