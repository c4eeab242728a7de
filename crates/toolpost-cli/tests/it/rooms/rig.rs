//! Participants of both protocol families, as their programs speak.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};
use toolpost_gateway::auth::Token;

use crate::journal::rig::Gateway;

pub(super) const ROOM: &str = "lobby";

/// How long something that has to come may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Mew,
    Mcpx,
}

pub(super) const FAMILIES: [Family; 2] = [Family::Mew, Family::Mcpx];

/// Somebody whom the gateway knows.
pub(super) struct Known {
    pub(super) name: String,
    token: Token,
    capabilities: String,
}

impl Known {
    pub(super) fn new(name: &str, capabilities: &str) -> Self {
        let token = Token::generate().unwrap();
        Self { name: name.to_owned(), token, capabilities: capabilities.to_owned() }
    }

    pub(super) fn token(&self) -> &str {
        self.token.reveal()
    }

    pub(super) fn configuration(&self) -> String {
        let Self { name, token, capabilities } = self;
        let hash = token.hash();
        format!("[identity.{name}]\ntoken_hash = \"{hash}\"\ncapabilities = {capabilities}\n")
    }
}

/// A connection to the room.
pub(super) struct Member {
    socket: WebSocket<TcpStream>,
    family: Family,
    /// What it was greeted with.
    pub(super) welcome: Value,
}

impl Member {
    /// `None` where nobody is there.
    pub(super) fn join(address: &str, family: Family, known: &Known) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        let query = match family {
            Family::Mew => String::new(),
            Family::Mcpx => format!("?topic={ROOM}"),
        };
        let mut request = format!("ws://{address}/ws{query}").into_client_request().unwrap();
        if family == Family::Mcpx {
            let bearer = format!("Bearer {}", known.token());
            request.headers_mut().insert("authorization", bearer.parse().unwrap());
        }
        let (socket, _) = client(request, stream).ok()?;
        let mut member = Self { socket, family, welcome: Value::Null };
        if family == Family::Mew {
            let join = json!({"type": "join", "space": ROOM, "token": known.token(),
                "participantId": known.name, "capabilities": []});
            member.write(&join)?;
        }
        member.welcome = member.next()?;
        assert_eq!(member.welcome["kind"], "system/welcome", "{}", member.welcome);
        Some(member)
    }

    /// How many capabilities for tools it has.
    pub(super) fn granted(&self) -> usize {
        let capabilities = self.welcome["payload"]["you"]["capabilities"].as_array().unwrap();
        capabilities.iter().filter(|one| one.to_string().contains("tool-")).count()
    }

    pub(super) fn send(&mut self, mut message: Value) -> Option<()> {
        let protocol = match self.family {
            Family::Mew => "mew/v0.4",
            Family::Mcpx => "mcpx/v0.1",
        };
        message["protocol"] = protocol.into();
        self.write(&message)
    }

    fn write(&mut self, frame: &Value) -> Option<()> {
        self.socket.send(Message::text(frame.to_string())).ok()
    }

    /// The next frame; `None` where the connection has ended.
    pub(super) fn next(&mut self) -> Option<Value> {
        loop {
            match self.socket.read().ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }
}

/// Everything that the room remembers, oldest first, page by page.
pub(super) fn history(gateway: &Gateway, known: &Known) -> Vec<Value> {
    let bearer = format!("authorization: Bearer {}", known.token());
    let mut all: Vec<Value> = Vec::new();
    loop {
        let before = all.last().and_then(|oldest| oldest["id"].as_str());
        let before = before.map(|id| format!("&before={id}")).unwrap_or_default();
        let path = format!("/v0.1/topics/{ROOM}/history?limit=500{before}");
        let (status, body) = gateway.get_with(&path, &[&bearer]);
        assert_eq!(status, 200, "{body}");
        let page: Value = serde_json::from_str(&body).unwrap();
        let page = page["messages"].as_array().unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page.iter().cloned());
    }
    all.reverse();
    all
}
