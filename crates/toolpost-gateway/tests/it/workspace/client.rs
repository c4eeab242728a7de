//! A participant of each family, who keeps what he hears until somebody asks for it.

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
const PATIENCE: Duration = Duration::from_secs(30);

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
    Variant,
}

impl Family {
    pub(super) const ALL: [Self; 4] = [Self::Mcpx, Self::Mew04, Self::Mew03, Self::Variant];

    pub(super) fn protocol(self) -> &'static str {
        match self {
            Self::Mcpx => "mcpx/v0.1",
            Self::Mew04 => "mew/v0.4",
            Self::Mew03 | Self::Variant => "mew/v0.3",
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
pub(super) struct Joining {
    pub(super) family: Family,
    pub(super) room: String,
    pub(super) token: Option<String>,
    /// Who he says he is, where he says it.
    pub(super) participant: Option<String>,
    pub(super) history: Option<usize>,
}

/// How somebody was not let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Before there was a WebSocket.
    Status(u16),
    /// By a message, and then a close: the code of each.
    Told(String, u16),
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
    goodbye: Option<(u16, String)>,
}

/// Opens a WebSocket, or gives the status that there is instead.
pub(super) async fn dial(
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
    shake_hands(request, stream).await
}

/// As [`dial`], by one who has little room for what he does not read.
pub(super) async fn dial_narrowly(address: SocketAddr, path: &str) -> WebSocketStream<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let stream = socket.connect(address).await.unwrap();
    let request = format!("ws://{address}{path}").into_client_request().unwrap();
    shake_hands(request, stream).await.unwrap()
}

async fn shake_hands(
    request: Request,
    stream: TcpStream,
) -> Result<WebSocketStream<TcpStream>, u16> {
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("no handshake: {error}"),
    }
}

impl Joining {
    pub(super) fn new(family: Family, who: &str, room: &str) -> Self {
        Self {
            family,
            room: room.to_owned(),
            token: Some(format!("tpt_{who}")),
            participant: family.is_mew().then(|| who.to_owned()),
            history: None,
        }
    }

    pub(super) async fn enter(self, address: SocketAddr) -> Result<Client, Refused> {
        let bearer = self.token.as_deref().filter(|_| !self.family.is_mew());
        let socket = dial(address, &self.path(), bearer).await.map_err(Refused::Status)?;
        let mut client = Client::on(socket, self.family);
        if let Some(frame) = self.first_frame() {
            client.say(&frame).await;
        }
        client.be_welcomed().await?;
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
            Family::Variant => {
                let envelope = json!({"protocol": "mew/v0.3", "id": "join-1"});
                frame = json!({"kind": "system/join", "payload": frame});
                frame.as_object_mut().unwrap().extend(envelope.as_object().unwrap().clone());
            }
        }
        Some(frame)
    }
}

impl Client {
    pub(super) fn on(socket: WebSocketStream<TcpStream>, family: Family) -> Self {
        Self {
            id: String::new(),
            family,
            welcome: Value::Null,
            socket,
            unread: VecDeque::new(),
            goodbye: None,
        }
    }

    /// Waits for the first word.
    pub(super) async fn be_welcomed(&mut self) -> Result<(), Refused> {
        let first = self.next().await;
        match first.as_ref().map(|text| parsed(text)) {
            Some(welcome) if welcome["kind"] == "system/welcome" => {
                assert_eq!(welcome["protocol"], self.family.protocol(), "{welcome}");
                self.welcome = welcome["payload"].clone();
                self.id = self.welcome["you"]["id"].as_str().unwrap().to_owned();
                Ok(())
            }
            Some(error) if error["kind"] == "system/error" => {
                let code = error["payload"]["error"].as_str().unwrap().to_owned();
                Err(Refused::Told(code, self.closed().await.0))
            }
            other => panic!("neither welcome nor error: {other:?} {:?}", self.goodbye),
        }
    }

    pub(super) async fn say(&mut self, message: &Value) {
        self.say_text(&message.to_string()).await;
    }

    pub(super) async fn say_text(&mut self, text: &str) {
        self.send(Message::text(text)).await;
    }

    /// Sends, as far as anybody still takes it.
    pub(super) async fn send(&mut self, message: Message) {
        let sent = tokio::time::timeout(PATIENCE, self.socket.send(message)).await;
        assert!(sent.is_ok(), "{} cannot send", self.id);
    }

    pub(super) async fn chat(&mut self, text: &str) {
        self.say(&json!({"kind": "chat", "payload": {"text": text}})).await;
    }

    /// The first message of this kind for which this holds. What came before it stays to be asked for.
    pub(super) async fn expect(&mut self, kind: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        parsed(&self.expect_text(kind, is_it).await)
    }

    /// As [`Client::expect`], as it came.
    pub(super) async fn expect_text(
        &mut self,
        kind: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> String {
        let is_meant = |text: &String| {
            let message = read(text);
            message.is_some_and(|message| message["kind"] == kind && is_it(&message))
        };
        self.find(kind, is_meant).await
    }

    /// The refusal of a message of this id.
    pub(super) async fn refusal(&mut self, of: &str) -> Value {
        let about = self.family.correlation(of);
        let is_it = |error: &Value| error["correlation_id"] == about;
        self.expect("system/error", is_it).await["payload"].take()
    }

    /// The next part of a stream.
    pub(super) async fn part(&mut self) -> String {
        self.find("part of a stream", |text| text.starts_with('#')).await
    }

    async fn find(&mut self, what: &str, is_it: impl Fn(&String) -> bool) -> String {
        let mut at = 0;
        loop {
            while let Some(text) = self.unread.get(at) {
                if is_it(text) {
                    return self.unread.remove(at).unwrap();
                }
                at += 1;
            }
            let Some(text) = self.hear().await else {
                let Self { id, unread, goodbye, .. } = self;
                panic!("{id} heard no such {what}, but {unread:#?} and {goodbye:?}");
            };
            self.unread.push_back(text);
        }
    }

    /// What comes next, whatever it is; nothing at the end.
    pub(super) async fn next(&mut self) -> Option<String> {
        match self.unread.pop_front() {
            Some(text) => Some(text),
            None => self.hear().await,
        }
    }

    /// Everything that comes before the chat of this text, which is taken too.
    pub(super) async fn until_chat(&mut self, text: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let Some(next) = self.next().await else {
                panic!("{} heard no `{text}`, but {before:#?} and {:?}", self.id, self.goodbye);
            };
            if read(&next).is_some_and(|it| it["kind"] == "chat" && it["payload"]["text"] == text) {
                return before;
            }
            before.push(next);
        }
    }

    /// The code and the words that it ends with, whatever comes before.
    pub(super) async fn closed(&mut self) -> (u16, String) {
        while let Some(text) = self.hear().await {
            self.unread.push_back(text);
        }
        let unread = &self.unread;
        self.goodbye.clone().unwrap_or_else(|| panic!("{} is still there: {unread:#?}", self.id))
    }

    /// The next text on the wire; nothing when it ends, or too much time has passed.
    async fn hear(&mut self) -> Option<String> {
        // Pings come also where nothing else does.
        let deadline = Instant::now() + PATIENCE;
        while self.goodbye.is_none() {
            let heard = tokio::time::timeout_at(deadline, self.socket.next()).await.ok()?;
            match heard {
                Some(Ok(Message::Text(text))) => return Some(text.to_string()),
                Some(Ok(Message::Close(frame))) => {
                    let said = frame.map(|it| (it.code.into(), it.reason.to_string()));
                    self.goodbye = Some(said.unwrap_or_default());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => self.goodbye = Some((1006, "no goodbye".to_owned())),
            }
        }
        None
    }

    /// Leaves, and waits until the other side knows.
    pub(super) async fn leave(mut self) {
        let _ = self.socket.close(None).await;
        self.closed().await;
    }
}

pub(super) fn parsed(text: &str) -> Value {
    read(text).unwrap_or_else(|| panic!("no JSON: {text}"))
}

fn read(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// The payload of a message, byte for byte.
pub(super) fn payload(text: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Envelope {
        payload: Box<RawValue>,
    }
    serde_json::from_str::<Envelope>(text).unwrap().payload.get().to_owned()
}
